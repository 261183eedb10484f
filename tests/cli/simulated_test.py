#!/usr/bin/env python3
"""Workers whose stages compute nothing: what they are called, who gets them, and that all else is real."""

import os
import signal
import unittest

from command_line import CommandLineCase, json

SIMULATED = ("--device", "simulated", "--simulated-block-seconds", "0.001,0.001,0.001")
WARNING = "simulated: what this job makes is no trained model"


class TrainTest(CommandLineCase):
    def test_a_job_takes_modelled_time_and_commits_for_real(self):
        result = self.run_stagecoach("train", self.spec, "--workers", 4, *SIMULATED, "--set", "training.steps=3", "-o", "jsonl")
        *steps, end = map(json.loads, result.stdout.splitlines())
        self.assertEqual([step["step"] for step in steps], [1, 2, 3])
        for step in steps:
            self.assertEqual((step["loss"], step["grad_norm"]), (0, 0))
            # 4 micro-batches through 4 stages: the last stage is reached after 3 F, is busy for 4 x 3 ms, and 3 I are behind it.
            self.assertGreater(step["step_seconds"], 0.018)
        self.assertEqual((end["state"], end["step"]), ("SUCCEEDED", 3))
        self.assertIn(WARNING, result.stderr)
        self.run_stagecoach("checkpoint", "verify", self.checkpoints)
        # What has trained nothing is nothing to go on from.
        self.assertIn("resources.device: simulated -> cpu", self.run_stagecoach(
            "train", self.spec, "--workers", 4, "--resume", "auto", "--set", "training.steps=4", code=2).stderr)

    def test_times_are_needed_and_checked(self):
        self.refuse(self.spec, "--device", "simulated", says="device simulated needs --simulated-block-seconds")
        self.refuse(self.spec, "--set", "resources.device=simulated", says="device simulated needs --simulated-block-seconds")
        self.refuse(self.spec, *SIMULATED[:3], "1,-1,1", says='"-1" is no time from 0 to 3600 seconds')
        self.refuse(self.spec, *SIMULATED[2:], says="is for device simulated, and the device is cpu")


class ClusterTest(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.state = self.directory / "state"
        self.addCleanup(self.end_cluster)
        up = self.run_stagecoach("up", "--workers", 4, "--threads", 1, "--state-dir", self.state, "-d", *SIMULATED)
        self.assertIn("local cluster of 4 simulated workers", up.stderr)

    def end_cluster(self):
        try:
            os.kill(int((self.state / "supervisor.pid").read_text()), signal.SIGKILL)
        except (OSError, ValueError):
            pass

    def test_only_jobs_that_ask_for_simulated_workers_get_them(self):
        for worker in self.get_json("get", "workers")["workers"]:
            self.assertEqual(worker["device"], "simulated")
            self.assertRegex(worker["numerics_class"], "^simulated/cpu/")
        four = ("--set", "parallelism.pipeline_parallel_degree=4", "--set", "training.steps=3")
        self.run_stagecoach("submit", self.spec, *four, "--set", "name=real")
        self.run_stagecoach("submit", self.spec, *four, "--set", "limits.priority=1", "--set", "resources.device=simulated",
                            "--wait")
        self.assertEqual(self.get_json("get", "job", "cli")["state"], "SUCCEEDED")
        self.assertIn("which are " + WARNING, self.run_stagecoach("events", "cli").stdout)
        self.assertIn("simulated and compute nothing: what this job makes is no trained model",
                      self.run_stagecoach("logs", "cli", "--all").stdout)
        waits = self.get_json("get", "job", "real")
        self.assertEqual(waits["state"], "QUEUED")
        self.assertIn("0 of 4 connected one(s) would do", waits["message"])


if __name__ == "__main__":
    unittest.main()
