#!/usr/bin/env python3
"""Verbs that ask a coordinator, against a real one with two workers."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import termios
import unittest

from command_line import BINARY, FOREVER, PATIENCE, CommandLineCase, wait_until


class ServiceTest(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.run_stagecoach("up", "--workers", 2, "--threads", 1, "--state-dir", self.directory / "state", "-d")
        self.addCleanup(self.run_stagecoach, "down", "--force")

    def submit(self, *arguments):
        return self.run_stagecoach("submit", self.spec, *arguments).stdout.strip()

    def test_a_job_from_submission_to_its_end(self):
        self.assertEqual(self.submit("--wait"), "cli")
        job = self.get_json("get", "job", "cli")
        self.assertEqual((job["state"], job["reason"], job["step"], job["epoch"], job["recoveries"]),
                         ("SUCCEEDED", "Completed", 6, 1, 0))
        self.assertIsInstance(job["loss"], float)
        self.assertEqual(sorted(stage["worker"] for stage in job["stages"]), ["worker-0", "worker-1"])
        digest = self.run_stagecoach("checkpoint", "digest", self.checkpoints).stdout.strip()
        self.assertEqual(digest, job["digest"])
        self.assertIn(digest, self.run_stagecoach("describe", "job", "cli").stdout)
        self.assertIn("SUCCEEDED", self.run_stagecoach("get", "events", "cli").stdout)
        self.run_stagecoach("wait", "cli")
        # The specification it ran with is one that runs again.
        yaml = self.run_stagecoach("get", "job", "cli", "-o", "yaml").stdout
        again = self.run_stagecoach("submit", "-", "--wait", stdin=yaml).stdout.strip()
        self.assertEqual(self.get_json("get", "job", again)["digest"], digest)
        self.assertEqual(self.run_stagecoach("get", "jobs", "-q").stdout, f"cli\n{again}\n")

    def test_following_shows_what_train_shows(self):
        follow = self.run_stagecoach("submit", self.spec, "--follow", "-o", "jsonl")
        objects = [json.loads(line) for line in follow.stdout.splitlines()]
        self.assertEqual([o["step"] for o in objects], [1, 2, 3, 4, 5, 6, 6])
        self.assertEqual(objects[-1]["state"], "SUCCEEDED")
        train = self.run_stagecoach("train", self.spec, "--workers", 2, "-o", "jsonl")
        self.assertEqual(json.loads(train.stdout.splitlines()[-1])["digest"], objects[-1]["digest"])

    def test_ctrl_c_detaches_and_cancel_cancels(self):
        with self.started("submit", self.spec, "--set", FOREVER, "--follow", "-o", "jsonl") as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, stderr = self.end_of(process, 130)
        self.assertIn("detached: job cli goes on", stderr)
        self.run_stagecoach("wait", "cli", "--for=step=20", "--timeout", "50s")
        self.run_stagecoach("wait", "cli", "--for=terminal", "--timeout", "100ms", code=7)
        self.run_stagecoach("cancel", "cli")
        self.run_stagecoach("wait", "cli", code=8)
        self.run_stagecoach("wait", "cli", "--for=checkpoint")
        self.run_stagecoach("cancel", "cli", code=9)

    def test_a_paused_job_keeps_its_workers_and_goes_on(self):
        self.submit("--set", FOREVER)
        self.run_stagecoach("wait", "cli", "--for=step=3")
        self.run_stagecoach("pause", "cli")
        wait_until(lambda: self.get_json("get", "job", "cli")["state"] == "PAUSED", "the pause")
        step = self.get_json("get", "job", "cli")["step"]
        self.assertEqual({w["job"] for w in self.get_json("get", "workers")["workers"]}, {"cli"})
        self.run_stagecoach("resume", "cli")
        self.run_stagecoach("wait", "cli", f"--for=step={step + 2}")
        self.run_stagecoach("cancel", "cli", "--yes")
        self.run_stagecoach("wait", "cli", code=8)

    def test_a_checkpoint_of_a_running_and_of_a_paused_job(self):
        self.submit("--set", FOREVER)
        self.run_stagecoach("wait", "cli", "--for=step=3")
        for state in ("RUNNING", "PAUSED"):
            if state == "PAUSED":
                self.run_stagecoach("pause", "cli")
                wait_until(lambda: self.get_json("get", "job", "cli")["state"] == "PAUSED", "the pause")
            directory = self.run_stagecoach("checkpoint", "create", "cli").stdout.strip()
            self.run_stagecoach("checkpoint", "verify", directory)
            self.assertEqual(self.get_json("get", "job", "cli")["checkpoint"], directory)
        events = self.run_stagecoach("get", "events", "cli").stdout
        self.assertEqual(events.count("CheckpointCompleted"), 2)
        listed = self.get_json("get", "checkpoints", "cli")["checkpoints"]
        self.assertEqual([(one["job"], one["state"]) for one in listed], [("cli", "COMPLETE")] * 2)
        self.assertEqual(listed[0]["path"], directory)
        self.run_stagecoach("cancel", "cli")
        self.run_stagecoach("wait", "cli", code=8)
        self.run_stagecoach("checkpoint", "create", "cli", code=9)
        self.run_stagecoach("checkpoint", "create", "none", code=5)
        # It was as many steps as it is told to have.
        step = self.get_json("get", "job", "cli")["step"]
        again = self.submit("--set", f"training.steps={step}", "--set", "checkpoint.resume=auto", "--wait")
        self.assertEqual(self.get_json("get", "job", again)["state"], "SUCCEEDED")
        self.assertIn("JobResumed", self.run_stagecoach("get", "events", again).stdout)

    def test_a_job_that_cannot_be_resumed_fails(self):
        self.submit("--wait")
        shard = next(self.checkpoints.glob("step-*/stage-00000.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1])
        self.run_stagecoach("submit", self.spec, "--set", "checkpoint.resume=auto", "--wait", code=3)
        self.assertEqual(self.get_json("get", "job", "cli-2")["reason"], "CorruptCheckpoint")
        self.run_stagecoach("submit", self.spec, "--set", "checkpoint.resume=step-0000000099", "--wait", code=3)
        self.assertEqual(self.get_json("get", "job", "cli-3")["reason"], "CheckpointNotFound")

    def test_at_a_terminal_cancel_and_down_ask(self):
        self.submit("--set", FOREVER)
        self.run_stagecoach("wait", "cli", "--for=step=1")
        self.assertEqual(self.answer("n", "cancel", "cli"), (1, "Cancel job cli? [y/N] nothing was done"))
        code, shown = self.answer("n", "down")
        self.assertEqual(code, 1)
        self.assertIn("Cancel cli, and end the cluster in ", shown)
        self.assertEqual(self.get_json("get", "job", "cli")["state"], "RUNNING")
        self.assertEqual(self.answer("y", "cancel", "cli")[0], 0)
        self.run_stagecoach("wait", "cli", code=8)

    def answer(self, text, *arguments):
        """Exit code and what was shown to a person at a terminal, but for the answer itself."""
        ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        process = subprocess.Popen([BINARY, *arguments], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True,
                                   env=self.environment)
        os.close(theirs)
        os.write(ours, f"{text}\n".encode())
        process.communicate(timeout=PATIENCE)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        return process.returncode, shown.decode().replace("\r\n", "\n").strip()

    def test_names_and_submissions_conflict(self):
        first = self.submit("--set", FOREVER, "--submission-id", "a")
        self.assertEqual(self.submit("--set", FOREVER, "--submission-id", "a"), first)
        self.run_stagecoach("submit", self.spec, "--submission-id", "a", code=9)
        self.run_stagecoach("submit", self.spec, "--set", FOREVER, code=9)
        self.run_stagecoach("cancel", first)
        self.run_stagecoach("wait", first, code=8)

    def test_data_that_is_wrong_fails_the_job(self):
        (self.directory / "text").unlink()
        result = self.run_stagecoach("submit", self.spec, "--wait", code=3)
        self.assertIn("text", result.stderr)
        self.assertEqual(self.get_json("get", "job", "cli")["reason"], "InvalidData")


class NoServiceTest(CommandLineCase):
    def test_a_coordinator_that_is_not_there_is_6(self):
        address = f"unix:{self.directory}/none"
        result = self.run_stagecoach("get", "jobs", "--address", address, "--reconnect-timeout", "100ms", code=6)
        self.assertIn(address, result.stderr)
        self.run_stagecoach("wait", "job", "--address", address, "--reconnect-timeout", "100ms", code=6)
        self.run_stagecoach("submit", self.spec, "--address", address, "--reconnect-timeout", "100ms", code=6)


if __name__ == "__main__":
    unittest.main()
