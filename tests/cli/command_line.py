"""What the tests of the command line share. Each file of tests is a program: argument 1 is the stagecoach binary, which has the
coordinator's and the worker's beside it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
PATIENCE = 120  # seconds, for what takes a fraction of one on a machine that has time

SPEC = """
version: 1
name: cli
model:
  architecture: gpt2
  config: {{num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 2, vocab_size: 256, max_position_embeddings: 16}}
data:
  train: [{{path: {directory}/text}}]
training: {{seq_len: 16, global_batch_size: 8, micro_batch_size: 2, steps: 6}}
optimizer: {{name: adamw, lr: 1.0e-3}}
parallelism: {{schedule: 1f1b}}
checkpoint: {{dir: {directory}/checkpoints}}
resources: {{threads_per_worker: 1}}
"""
FOREVER = "training.steps=1000000"


def process_ids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent_of(pid):
    """0 when there is no such process, or it only waits to be reaped."""
    try:
        state, parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def children_of(pid):
    return [child for child in process_ids() if parent_of(child) == pid]


def name_of(pid):
    """Of the program and, of a worker, its own: stagecoach-worker worker-1."""
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    name = words[words.index("--name") + 1] if "--name" in words else ""
    return f"{os.path.basename(words[0])} {name}".strip()


def wait_until(condition, what):
    """Waits for a true value, and returns it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"in vain: {what}")


class CommandLineCase(unittest.TestCase):
    """A directory with a text and a specification, and an environment in which nothing else is known."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="stagecoach-cli-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        (self.directory / "text").write_bytes(b"the stage coach rolls over the hills\n" * 60)
        self.spec = self.directory / "spec.yaml"
        self.spec.write_text(SPEC.format(directory=self.directory))
        self.checkpoints = self.directory / "checkpoints"
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("STAGECOACH_")}
        self.environment["STAGECOACH_CONFIG"] = str(self.directory / "config.yaml")
        self.environment["TMPDIR"] = str(self.temporary)

    def run_stagecoach(self, *arguments, code=0, stdin=None, binary=None, **more):
        result = subprocess.run([binary or BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                                input=stdin, env=self.environment, **more)
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result

    def get_json(self, *arguments):
        return json.loads(self.run_stagecoach(*arguments, "-o", "json").stdout)

    @contextlib.contextmanager
    def started(self, *arguments):
        """A process that the test talks to; it is killed at the end if it still runs."""
        process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def end_of(self, process, code):
        """What it still prints."""
        stdout, stderr = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, code, f"{stdout}\n{stderr}")
        return stdout, stderr

    def refuse(self, *arguments, says, verb="train"):
        """Exit 2 and the message, before anything starts: no checkpoint directory, nothing on standard output."""
        result = self.run_stagecoach(verb, *arguments, code=2)
        self.assertIn(says, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.checkpoints.exists())

    def assert_nothing_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [])


__all__ = ["BINARY", "PATIENCE", "SPEC", "FOREVER", "CommandLineCase", "children_of", "name_of", "parent_of", "process_ids",
           "wait_until", "json", "os", "pathlib", "shutil", "signal", "subprocess", "sys", "tempfile", "time", "unittest"]
