"""A coordinator and workers as processes, for tests that hurt them: who is where, starting, killing, and asking through the client."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SPEC = """
version: 1
name: {name}
model:
  architecture: gpt2
  config: {{num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 2, vocab_size: 256, max_position_embeddings: 32}}
data:
  train: [{{path: {directory}/text}}]
  validation: [{{path: {directory}/held-out}}]
training: {{seq_len: 32, global_batch_size: 16, micro_batch_size: 2, steps: {steps}, validation_interval: 7}}
optimizer: {{name: adamw, lr: 1.0e-3}}
parallelism: {{pipeline_parallel_degree: {degree}}}
resources: {{threads_per_worker: 1}}
checkpoint: {{dir: {directory}/checkpoints/{name}}}
"""


class Cluster:
    """Everything is below a directory of its own; the address is a Unix socket there, so that a coordinator that is started
    again has the same one. `settings` (parallelism.schedule=zb_v) are of all jobs."""

    def __init__(self, binaries, num_workers, coordinator_options=(), worker_options=(), settings=()):
        self.binaries = pathlib.Path(binaries)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="stagecoach-faults-"))
        (self.directory / "text").write_bytes(b"the stage coach rolls over the hills, and the horses are changed\n" * 400)
        (self.directory / "held-out").write_bytes(b"the coach stops where the road ends, and nobody gets off\n" * 20)
        self.address = f"unix:{self.directory}/coordinator.sock"
        self.environment = os.environ | {
            "STAGECOACH_ADDRESS": self.address,
            "STAGECOACH_CONFIG": str(self.directory / "config.yaml"),
        }
        self.coordinator_options = list(coordinator_options)
        self.worker_options = list(worker_options)
        self.settings = list(settings)
        self.coordinator = None
        self.workers = {}
        self.start_coordinator()
        for index in range(num_workers):
            self.start_worker(f"worker-{index}")
        self.wait_for_workers(num_workers)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        processes = [*self.workers.values(), self.coordinator]
        for process in processes:
            if process.poll() is None:
                process.kill()
        for process in processes:
            process.wait()
        if kind is None and not os.environ.get("STAGECOACH_KEEP"):
            shutil.rmtree(self.directory)
        else:
            print(f"logs are in {self.directory}", flush=True)

    def start(self, log, *command):
        with open(self.directory / f"{log}.log", "ab") as output:
            return subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def start_coordinator(self):
        self.coordinator = self.start(
            "coordinator", self.binaries / "stagecoach-coordinator", "--state-dir", self.directory / "state",
            "--listen", self.address, "--log-level", "debug", *self.coordinator_options)

    def start_worker(self, name):
        self.workers[name] = self.start(
            name, self.binaries / "stagecoach-worker", "--name", name, "--threads", "1", "--coordinator", self.address,
            *self.worker_options)

    def kill_coordinator(self):
        self.coordinator.kill()
        self.coordinator.wait()

    def kill_worker(self, name):
        self.workers[name].kill()
        self.workers[name].wait()

    def signal_worker(self, name, number):
        os.kill(self.workers[name].pid, number)

    def pids(self):
        return {name: worker.pid for name, worker in self.workers.items()}

    def dead_workers(self):
        return [name for name, worker in self.workers.items() if worker.poll() is not None]

    # Through the client

    def run(self, *arguments, timeout=120, stdin=None):
        return subprocess.run([self.binaries / "stagecoach", *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, timeout=timeout, input=stdin)

    def ask(self, *arguments, **options):
        result = self.run(*arguments, **options)
        if result.returncode != 0:
            raise AssertionError(f"{arguments}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def spec(self, name, steps, degree):
        path = self.directory / f"{name}.yaml"
        path.write_text(SPEC.format(name=name, steps=steps, degree=degree, directory=self.directory))
        return path

    def submit(self, name, steps, degree, *settings):
        """Later settings win over those of all jobs."""
        return self.ask("submit", self.spec(name, steps, degree), *set_options([*self.settings, *settings])).strip()

    def job(self, name):
        return json.loads(self.ask("get", "job", name, "-o", "json"))

    def wait_for_end(self, name, timeout=60):
        """The job's description at its end. The exit code of `wait` says which end it is, which the state says too."""
        self.run("wait", name, "--for=terminal", "--timeout", f"{timeout}s", timeout=timeout + 30)
        return self.job(name)

    def idle_workers(self):
        workers = json.loads(self.ask("get", "workers", "-o", "json"))["workers"]
        return {worker["name"]: worker for worker in workers if worker["state"] == "IDLE"}

    def wait_for_workers(self, count, timeout=30):
        """Until so many are idle and none of them is a process that has ended."""
        deadline = time.monotonic() + timeout
        seen = "the client never answered"
        while time.monotonic() < deadline:
            result = self.run("get", "workers", "-o", "json")
            if result.returncode == 0:
                pids = set(self.pids().values())
                workers = json.loads(result.stdout)["workers"]
                if sum(w["state"] == "IDLE" and w["pid"] in pids for w in workers) >= count:
                    return
                seen = [(w["name"], w["state"], w["message"] if "message" in w else "") for w in workers]
            time.sleep(0.02)
        raise AssertionError(f"{count} idle workers did not come: {seen}")

    def follow(self, name):
        """`submit --follow` as another terminal runs it: what it shows, line by line, ends up in the file it returns."""
        output = open(self.directory / f"{name}.events", "wb")
        process = subprocess.Popen(
            [self.binaries / "stagecoach", "submit", self.directory / f"{name}.yaml", "--follow", "-o", "jsonl",
             *set_options(self.settings)],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True)
        output.close()
        return process

    def steps_followed(self, name):
        """The numbers of the steps shown, and the last object."""
        objects = [json.loads(line) for line in (self.directory / f"{name}.events").read_text().splitlines()
                   if line.startswith("{")]
        return [each["step"] for each in objects if "loss" in each], objects[-1] if objects else {}


def set_options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def resources(pid):
    """What a process holds: resident KiB without shared pages, descriptors, threads."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {
        "anonymous_kib": int(fields["RssAnon"].split()[0]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(fields["Threads"]),
    }


def shared_memory_segments():
    posix = len(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else 0
    sysv = pathlib.Path("/proc/sysvipc/shm").read_text().count("\n") - 1
    return posix + sysv


def exited_with(process, timeout):
    """How a process that was asked to end did: its exit code, or the signal as a negative number."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise AssertionError(f"it did not end within {timeout} s")
