#!/usr/bin/env python3
"""`stagecoach trace` of real jobs: what it writes is a strict trace, and agrees with what the job reported."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import statistics
import struct
import subprocess
import termios
import unittest

from chrome_trace import ChromeTrace
from command_line import BINARY, FOREVER, PATIENCE, CommandLineCase, children_of, name_of, wait_until

NUM_STAGES = 3
MICRO_BATCHES = 4
# A step of a few tens of milliseconds, so that a point of utilization is more than what messages take.
LARGER = ["model.config.hidden_size=128", "model.config.num_hidden_layers=6", "model.config.max_position_embeddings=128",
          "training.seq_len=128"]


class TraceCase(CommandLineCase):
    def setUp(self):
        super().setUp()
        (self.directory / "text").write_bytes(b"the stage coach rolls over the hills\n" * 600)
        self.run_stagecoach("up", "--workers", NUM_STAGES, "--threads", 1, "--state-dir", self.directory / "state", "-d")
        self.addCleanup(self.run_stagecoach, "down", "--force")

    def submit(self, *arguments, larger=False):
        sets = [word for value in (LARGER if larger else []) for word in ("--set", value)]
        return self.run_stagecoach("submit", self.spec, *sets, *arguments).stdout.strip()

    def pause_at(self, job, step):
        """A job that stands still after this step or a later one, which is returned."""
        self.run_stagecoach("wait", job, f"--for=step={step}")
        self.run_stagecoach("pause", job)
        wait_until(lambda: self.get_json("get", "job", job)["state"] == "PAUSED", "the pause")
        return self.get_json("get", "job", job)["step"]

    def trace(self, *arguments):
        result = self.run_stagecoach("trace", *arguments)
        return ChromeTrace(result.stdout), result.stderr

    def reported(self, job):
        events = self.run_stagecoach("events", job, "--steps", "-o", "jsonl").stdout.splitlines()
        return {event["step"]["step"]: event["step"] for event in map(json.loads, events) if "step" in event}


class TraceTest(TraceCase):
    def test_a_running_job(self):
        job = self.submit("--set", FOREVER)
        self.run_stagecoach("wait", job, "--for=step=10")
        trace, stderr = self.trace(job, "--steps", 4)
        self.assertEqual(stderr, "")
        self.check_processes(trace, job)
        self.check_steps(trace, 4)
        self.check_transfers(trace, 4)
        self.check_flows(trace, 4)

    def check_processes(self, trace, job):
        names = [trace.process_names[pid] for pid in sorted(trace.process_names)]
        for stage, name in enumerate(names[:-1]):
            self.assertRegex(name, rf"^stage {stage} \(worker-\d\)$")
        self.assertEqual(len(names), NUM_STAGES + 1)
        self.assertEqual(names[-1], job)

    def check_steps(self, trace, count):
        """Each stage computes each micro-batch of each step once, and what it computes is the step's own."""
        steps = [step["step"] for step in trace.other["steps"]]
        self.assertEqual(len(steps), count)
        self.assertEqual(steps, list(range(steps[0], steps[0] + count)))
        for stage in range(NUM_STAGES):
            names = [(s["args"]["step"], s["name"]) for s in trace.slices[stage + 1, 1] if s["cat"] in ("forward", "backward", "weight_grad")]
            self.assertEqual(sorted(names), sorted((step, f"{stage}{kind}{m}") for step in steps for kind in "FIW"
                                                   for m in range(MICRO_BATCHES)))
        self.assertEqual([s["name"] for s in trace.slices[NUM_STAGES + 1, 1]], [f"step {step}" for step in steps])

    def check_transfers(self, trace, count):
        """Both ends of every hop, on tracks of their own, and no tensor that is there before it was sent."""
        ends = {}
        for (pid, tid), slices in trace.slices.items():
            for s in slices:
                if s["cat"] == "transfer":
                    self.assertGreater(tid, 1)
                    self.assertGreater(s["args"]["bytes"], 0)
                    self.assertNotIn("complete", s["args"])
                    ends[s["args"]["step"], s["name"]] = s
        hops = [name for _, name in ends if not name.endswith("TIE")]
        self.assertEqual(len(hops), count * 4 * MICRO_BATCHES * (NUM_STAGES - 1))
        self.assertEqual(len(ends) - len(hops), count * 4)  # the tied gradient of either end goes to the other
        errors = {stage + 1: described["clock_error_seconds"] * 1e6 for stage, described in enumerate(trace.other["stages"])}
        for (step, name), sent in ends.items():
            match = re.fullmatch(r"(\d)SEND_([FB])(\d+)", name)
            if not match:
                continue
            stage, kind, micro_batch = match.groups()
            received = ends[step, f"{int(stage) + (1 if kind == 'F' else -1)}RECV_{kind}{micro_batch}"]
            self.assertEqual(received["args"]["bytes"], sent["args"]["bytes"])
            self.assertGreaterEqual(received["ts"] + received["dur"] + errors[received["pid"]] + errors[sent["pid"]], sent["ts"])

    def check_flows(self, trace, count):
        self.assertEqual(len(trace.flows), count * MICRO_BATCHES)
        for (_, _, identity), slices in trace.flows.items():
            micro_batch = slices[0]["args"]["micro_batch"]
            self.assertIn(f"micro-batch {micro_batch}", identity)
            up = [f"{stage}F{micro_batch}" for stage in range(NUM_STAGES)]
            down = [f"{stage}I{micro_batch}" for stage in reversed(range(NUM_STAGES))]
            self.assertEqual([s["name"] for s in slices], up + down)
            self.assertEqual(len({s["args"]["step"] for s in slices}), 1)

    def test_it_agrees_with_what_the_job_reported(self):
        """In the middle of eight steps: whoever waits for a processor between two looks at the clock is off in one of them."""
        job = self.submit("--set", FOREVER, larger=True)
        self.pause_at(job, 12)
        trace, _ = self.trace(job, "--steps", 8)
        reported = self.reported(job)
        steps = trace.other["steps"]
        self.assertEqual([step["step"] for step in steps], list(range(steps[0]["step"], steps[0]["step"] + 8)))
        bubbles, utilizations = [], []
        for step in steps:
            told = reported[step["step"]]
            self.assertAlmostEqual(step["step_seconds"], told["step_seconds"], delta=1e-6)
            bubbles.append(abs(step["bubble_ratio"] - told["bubble_ratio"]))
            pairs = zip(step["stage_utilization"], told["stage_utilization"], strict=True)
            utilizations.append(max(abs(mine - theirs) for mine, theirs in pairs))
        self.assertLess(statistics.median(bubbles), 0.01)
        self.assertLess(statistics.median(utilizations), 0.01)

    def test_training_is_within_the_step_that_the_coordinator_measured(self):
        """The clocks of coordinator and workers are aligned to within what the trace says."""
        job = self.submit("--set", FOREVER, larger=True)
        self.pause_at(job, 6)
        trace, _ = self.trace(job, "--steps", 3)
        steps = {s["args"]["step"]: s for s in trace.slices[NUM_STAGES + 1, 1]}
        for stage, described in enumerate(trace.other["stages"]):
            error = described["clock_error_seconds"] * 1e6
            self.assertLess(error, 50_000)
            for s in trace.slices[stage + 1, 1]:
                step = steps[s["args"]["step"]]
                self.assertGreaterEqual(s["ts"] + error, step["ts"], s)
                self.assertLessEqual(s["ts"] + s["dur"] - error, step["ts"] + step["dur"], s)

    def test_more_steps_than_there_are(self):
        job = self.submit("--set", FOREVER)
        last = self.pause_at(job, 40)
        trace, stderr = self.trace(job, "--steps", 1000)
        fewer = "stagecoach: warning: of {} steps there are 32: a worker keeps the last 32 at most\n"
        self.assertEqual(stderr, f"stagecoach: warning: asked for 1000 steps; the job has completed {last}\n" + fewer.format(last))
        self.assertEqual([step["step"] for step in trace.other["steps"]], list(range(last - 31, last + 1)))
        trace, stderr = self.trace(job, "--steps", 40)
        self.assertEqual(stderr, fewer.format(40))
        self.run_stagecoach("trace", job, "--steps", 0, code=2)

    def test_a_job_that_has_ended_until_its_workers_take_another(self):
        job = self.submit("--wait")
        trace, stderr = self.trace(job, "--steps", 2)
        self.assertEqual(stderr, "")
        self.check_steps(trace, 2)
        other = self.submit("--set", "name=other", "--wait")
        result = self.run_stagecoach("trace", job, code=9)
        self.assertEqual(result.stdout, "")
        self.assertIn(f"it has taken job {other} since", result.stderr)
        self.run_stagecoach("trace", "none", code=5)

    def test_a_worker_that_does_not_answer_is_named(self):
        job = self.submit("--set", FOREVER)
        self.pause_at(job, 3)
        pid = int((self.directory / "state" / "supervisor.pid").read_text())
        stopped = next(child for child in children_of(pid) if name_of(child) == "stagecoach-worker worker-1")
        self.addCleanup(os.kill, stopped, signal.SIGCONT)
        os.kill(stopped, signal.SIGSTOP)
        trace, stderr = self.trace(job, "--steps", 1)
        self.assertRegex(stderr, r"^stagecoach: warning: no trace of worker worker-1 \(stage \d\): it (has not answered in time|is not connected)\n$")
        missing = [stage for stage in trace.other["stages"] if "missing" in stage]
        self.assertEqual([stage["worker"] for stage in missing], ["worker-1"])
        self.assertEqual(len(trace.process_names), NUM_STAGES + 1)
        os.kill(stopped, signal.SIGCONT)

    def test_a_file(self):
        job = self.submit("--wait")
        path = self.directory / "trace.json"
        result = self.run_stagecoach("trace", job, "--output", path)
        self.assertEqual(result.stdout, "")
        self.assertIn(f"{path}: steps 4 to 6 of job cli", result.stderr)
        self.check_steps(ChromeTrace(path.read_text()), 3)


class TraceTextTest(TraceCase):
    def test_a_picture_as_wide_as_the_terminal(self):
        job = self.submit("--set", FOREVER, larger=True)
        self.pause_at(job, 3)
        plain = self.run_stagecoach("trace", job, "-o", "text").stdout
        self.assertTrue(plain.isascii())
        self.assertNotIn("\x1b", plain)
        rows = [line for line in plain.splitlines() if line.startswith("stage ")]
        self.assertEqual(len(rows), NUM_STAGES)
        for row in rows:
            self.assertEqual(len(row), 100)
            self.assertRegex(row, r"\|[^|]*F[^|]*I[^|]*\| +\d+\.\d%$")
        self.assertIn("F forward", plain)
        shown = self.at_terminal(70, "trace", job, "-o", "text")
        self.assertIn("\x1b[30;44mF", shown)
        for row in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines():
            if row.startswith("stage "):
                self.assertEqual(len(row), 70)
        self.environment["NO_COLOR"] = "1"
        self.assertNotIn("\x1b", self.at_terminal(70, "trace", job, "-o", "text"))

    def at_terminal(self, columns, *arguments):
        """What a terminal that is so wide shows."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([BINARY, *arguments], stdout=theirs, env=self.environment | {"TERM": "xterm"})
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        self.assertEqual(process.wait(PATIENCE), 0)
        return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    unittest.main()
