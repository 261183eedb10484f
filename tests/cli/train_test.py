#!/usr/bin/env python3
"""`stagecoach train`: a coordinator and workers as child processes, for one job."""

import json
import os
import signal
import subprocess
import unittest

from command_line import BINARY, FOREVER, PATIENCE, CommandLineCase, children_of, name_of, parent_of, wait_until


def steps_of(stdout):
    return [json.loads(line) for line in stdout.splitlines()]


class TrainTest(CommandLineCase):
    def train(self, *arguments, code=0, **more):
        return self.run_stagecoach("train", self.spec, *arguments, "-o", "jsonl", code=code, **more)

    def test_prints_one_object_a_step_and_the_digests(self):
        objects = steps_of(self.train("--workers", 3).stdout)
        self.assertEqual([o["step"] for o in objects], [1, 2, 3, 4, 5, 6, 6])
        for step in objects[:-1]:
            for field in ("loss", "grad_norm", "learning_rate", "loss_scale", "tokens", "step_seconds", "tokens_per_second",
                          "bubble_ratio"):
                self.assertIsInstance(step[field], (int, float), field)
            self.assertEqual(len(step["stage_utilization"]), 3)
            self.assertNotIn("validation_loss", step)
        last = objects[-1]
        self.assertEqual(last["state"], "SUCCEEDED")
        digest = self.run_stagecoach("checkpoint", "digest", self.checkpoints).stdout.strip()
        self.assertEqual(digest, last["digest"])
        state_digest = self.run_stagecoach("checkpoint", "digest", self.checkpoints, "--state").stdout.strip()
        self.assertEqual(state_digest, last["state_digest"])
        self.assertEqual(len(list(self.checkpoints.glob("step-*/stage-*.safetensors"))), 3)
        self.assert_nothing_left()

    def test_the_validation_loss_is_in_its_steps_object(self):
        (self.directory / "validation").write_bytes(b"another text over the hills\n" * 20)
        objects = steps_of(self.train("--workers", 2, "--set", f"data.validation=[{{path: {self.directory}/validation}}]",
                                      "--set", "training.validation_interval=3").stdout)
        self.assertEqual([o["step"] for o in objects if "validation_loss" in o], [3, 6])

    def test_digests_do_not_depend_on_the_workers(self):
        digests = set()
        for workers in (1, 2, 4):
            last = steps_of(self.train("--workers", workers).stdout)[-1]
            digests.add((last["digest"], last["state_digest"]))
        self.assertEqual(len(digests), 1)

    def test_needs_no_privileges(self):
        """Workers close their ports when they are connected, which on some kernels not everybody may do in every way."""
        drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else ["env"]
        self.run_stagecoach(*drop[1:], BINARY, "train", self.spec, "--workers", 2, binary=drop[0])

    def test_many_run_side_by_side(self):
        runs = [subprocess.Popen([BINARY, "train", self.spec, "--workers", "2", "--set",
                                  f"checkpoint.dir={self.directory}/checkpoints-{i}", "-o", "jsonl"],
                                 stdout=subprocess.PIPE, text=True, env=self.environment) for i in range(3)]
        digests = {steps_of(run.communicate(timeout=PATIENCE)[0])[-1]["digest"] for run in runs}
        self.assertEqual([run.returncode for run in runs], [0, 0, 0])
        self.assertEqual(len(digests), 1)

    def test_text_is_for_people(self):
        result = self.run_stagecoach("train", self.spec, "--workers", 1)
        self.assertRegex(result.stdout, r"^state:        SUCCEEDED Completed\nstep:         6\ncheckpoint:   .*\ndigest: ")
        self.assertIn("step: 6/6  loss: ", result.stderr)

    def test_specification_from_standard_input_and_overrides(self):
        result = self.run_stagecoach("train", "-", "--workers", 1, "--set", "training.steps=2", "-o", "jsonl",
                                     stdin=self.spec.read_text())
        self.assertEqual(steps_of(result.stdout)[-1]["step"], 2)

    def test_a_standard_output_that_is_full_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BINARY, "train", self.spec, "--workers", "1", "-o", "jsonl"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=PATIENCE, env=self.environment)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output could not be written", result.stderr)
        self.assertTrue(self.checkpoints.exists())


class TrainInterruptedTest(CommandLineCase):
    """Runs that would not end by themselves."""

    def started_job(self, workers=2):
        return self.started("train", self.spec, "--workers", workers, "--set", FOREVER, "-o", "jsonl")

    def processes_of(self, process):
        """Children by name, once a step has been done."""
        process.stdout.readline()
        children = {name_of(pid): pid for pid in children_of(process.pid)}
        self.assertEqual(sorted(children), ["stagecoach-coordinator", "stagecoach-worker worker-0",
                                            "stagecoach-worker worker-1"])
        return children

    def test_an_interrupt_writes_a_checkpoint_and_exits_8(self):
        with self.started_job() as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            stdout, _ = self.end_of(process, 8)
        last = steps_of(stdout)[-1]
        self.assertEqual(last["state"], "CANCELLED")
        self.assertEqual(self.run_stagecoach("checkpoint", "digest", self.checkpoints).stdout.strip(), last["digest"])
        self.assert_nothing_left()

    def test_a_second_interrupt_ends_it_at_once(self):
        with self.started_job() as process:
            children = self.processes_of(process)
            # The coordinator does not answer, so the job does not end in order.
            os.kill(children["stagecoach-coordinator"], signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: "once more to end at once" in process.stderr.readline(), "the notice")
            process.send_signal(signal.SIGINT)
            _, stderr = self.end_of(process, 8)
        self.assertIn("ended at once", stderr)
        for name, pid in children.items():
            self.assertEqual(parent_of(pid), 0, name)
        self.assert_nothing_left()

    def test_an_interrupt_before_the_job_begins_is_8_too(self):
        with self.started_job() as process:
            wait_until(lambda: children_of(process.pid) or process.poll() is not None, "a child")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 8)
        self.assert_nothing_left()

    def test_children_die_with_a_client_that_is_killed(self):
        with self.started_job() as process:
            children = self.processes_of(process)
            process.kill()
            process.wait()
            for name, pid in children.items():
                wait_until(lambda: parent_of(pid) == 0, f"the end of {name}")

    def test_what_a_killed_client_leaves_is_removed_by_the_next(self):
        with self.started_job() as process:
            children = self.processes_of(process)
            (left,) = self.temporary.iterdir()
            process.kill()
            process.wait()
            for name, pid in children.items():
                wait_until(lambda: parent_of(pid) == 0, f"the end of {name}")
        self.assertTrue((left / "journal.sqlite").exists())
        with self.started_job() as process:  # beside which another one begins
            process.stdout.readline()
            self.assertFalse(left.exists())
            (in_use,) = self.temporary.iterdir()
            self.run_stagecoach("train", self.spec, "--workers", 1, "--set", f"checkpoint.dir={self.directory}/other")
            self.assertEqual(list(self.temporary.iterdir()), [in_use])
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.end_of(process, 8)
        self.assert_nothing_left()

    def test_a_worker_that_is_killed_fails_the_job_with_its_name(self):
        with self.started_job() as process:
            children = self.processes_of(process)
            os.kill(children["stagecoach-worker worker-1"], signal.SIGKILL)
            stdout, stderr = self.end_of(process, 3)
        last = steps_of(stdout)[-1]
        self.assertEqual((last["state"], last["reason"]), ("FAILED", "WorkerLost"))
        self.assertRegex(stderr, r"worker-1 \(pid \d+\) was killed by signal 9 \(Killed\)")
        self.assertRegex(stderr, r"root cause: worker-1 \(stages? ")
        logs = next(self.temporary.iterdir()) / "logs"
        self.assertIn(f"logs are kept in {logs}", stderr)
        self.run_stagecoach("train", self.spec, "--workers", 1)
        self.assertTrue((logs / "worker-1.log").exists())

    def test_a_coordinator_that_is_killed_is_started_again(self):
        undisturbed = steps_of(self.run_stagecoach("train", self.spec, "--workers", 2, "--set", "training.steps=100", "-o",
                                                   "jsonl").stdout)[-1]
        with self.started("train", self.spec, "--workers", 2, "--set", "training.steps=100", "-o", "jsonl") as process:
            children = self.processes_of(process)
            os.kill(children["stagecoach-coordinator"], signal.SIGKILL)
            stdout, _ = self.end_of(process, 0)
        objects = steps_of(stdout)
        self.assertEqual([o["step"] for o in objects], [*range(2, 101), 100])
        self.assertEqual(objects[-1]["digest"], undisturbed["digest"])
        self.assertEqual(objects[-1]["state_digest"], undisturbed["state_digest"])

    def test_a_file_that_shrinks_under_training_fails_the_job(self):
        with self.started_job() as process:
            process.stdout.readline()
            os.truncate(self.directory / "text", 100)
            stdout, _ = self.end_of(process, 3)
        last = steps_of(stdout)[-1]
        self.assertEqual(last["state"], "FAILED")
        self.assertIn("text", last["message"])


class TrainRefusedTest(CommandLineCase):
    """What is wrong before anything starts."""

    def test_more_stages_than_blocks(self):
        self.refuse(self.spec, "--workers", "5", says="5 stages for 4 transformer blocks")

    def test_data_that_is_wrong(self):
        text = self.directory / "text"
        text.unlink()
        self.refuse(self.spec, says="text")
        text.write_bytes(b"")
        self.refuse(self.spec, says="empty")
        text.write_bytes(b"too short")
        self.refuse(self.spec, says="seq_len")
        text.unlink()
        text.mkdir()
        self.refuse(self.spec, says="text")
        if os.geteuid() != 0:  # root reads everything
            text.rmdir()
            text.write_bytes(b"x" * 1000)
            text.chmod(0)
            self.refuse(self.spec, says="text")

    def test_a_checkpoint_directory_that_cannot_be_one(self):
        in_the_way = self.directory / "file"
        in_the_way.write_text("")
        for directory in (in_the_way, in_the_way / "below", "/proc/nowhere"):
            self.refuse(self.spec, "--set", f"checkpoint.dir={directory}", says="checkpoint.dir: ")
        if os.geteuid() != 0:  # root writes everywhere
            self.temporary.chmod(0o500)
            self.refuse(self.spec, "--set", f"checkpoint.dir={self.temporary}", says="checkpoint.dir: ")
            self.temporary.chmod(0o700)


if __name__ == "__main__":
    unittest.main()
