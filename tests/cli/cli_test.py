#!/usr/bin/env python3
"""What users meet: exit codes, messages and output of the command line. Run by ctest; argument 1 is the binary."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BINARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""

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
checkpoint: {{dir: {directory}/checkpoints}}
"""


class CliTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="stagecoach-cli-"))
        (self.directory / "text").write_bytes(b"the stage coach rolls over the hills\n" * 60)
        self.spec = self.directory / "spec.yaml"
        self.spec.write_text(SPEC.format(directory=self.directory))

    def tearDown(self):
        shutil.rmtree(self.directory)

    def run_stagecoach(self, *arguments, code=0, stdin=None):
        result = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120, input=stdin)
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result

    def refuse(self, *arguments, says, verb="train"):
        """Exit 2 and the message, before anything starts: no checkpoint directory, nothing on standard output."""
        result = self.run_stagecoach(verb, *arguments, code=2)
        self.assertIn(says, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.directory / "checkpoints").exists())

    def refuse_spec(self, text, says):
        self.spec.write_text(text)
        self.refuse(self.spec, says=says)
        self.refuse(self.spec, says=says, verb="validate")
        self.refuse(self.spec, says=says, verb="plan")

    # Verbs

    def test_version_and_usage(self):
        self.assertRegex(self.run_stagecoach("version").stdout, r"^stagecoach \d+\.\d+\.\d+\n$")
        self.run_stagecoach("--help")
        self.run_stagecoach(code=2)
        self.run_stagecoach("no-such-verb", code=2)
        self.run_stagecoach("train", self.spec, "--no-such-flag", code=2)
        self.run_stagecoach("train", self.spec, "--workers", "0", code=2)

    def test_train_prints_one_object_a_step_and_the_digests(self):
        result = self.run_stagecoach("train", self.spec, "--workers", "3", "-o", "jsonl")
        events = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([e["step"] for e in events], [1, 2, 3, 4, 5, 6, 6])
        for event in events[:-1]:
            for field in ("loss", "grad_norm", "learning_rate", "loss_scale", "tokens", "step_seconds", "tokens_per_second",
                          "bubble_ratio"):
                self.assertIsInstance(event[field], (int, float), field)
            self.assertEqual(len(event["stage_utilization"]), 3)
            self.assertNotIn("validation_loss", event)
        last = events[-1]
        self.assertEqual(last["state"], "SUCCEEDED")
        checkpoints = self.directory / "checkpoints"
        self.assertEqual(self.run_stagecoach("checkpoint", "digest", checkpoints).stdout.strip(), last["digest"])
        self.assertEqual(self.run_stagecoach("checkpoint", "digest", checkpoints, "--state").stdout.strip(), last["state_digest"])
        self.assertEqual(len(list(checkpoints.glob("step-*/stage-*.safetensors"))), 3)

    def test_digests_do_not_depend_on_the_workers(self):
        digests = set()
        for workers in (1, 2, 4):
            result = self.run_stagecoach("train", self.spec, "--workers", workers, "--threads-per-worker", 1, "-o", "jsonl")
            last = json.loads(result.stdout.splitlines()[-1])
            digests.add((last["digest"], last["state_digest"]))
        self.assertEqual(len(digests), 1)

    def test_specification_from_standard_input_and_overrides(self):
        result = self.run_stagecoach("train", "-", "--set", "training.steps=2", "-o", "jsonl", stdin=self.spec.read_text())
        self.assertEqual(json.loads(result.stdout.splitlines()[-1])["step"], 2)

    def test_validate_prints_the_resolved_specification(self):
        self.assertIn("cli is valid", self.run_stagecoach("validate", self.spec).stdout)
        resolved = self.run_stagecoach("validate", self.spec, "-o", "yaml").stdout
        again = self.run_stagecoach("validate", "-", "-o", "yaml", stdin=resolved).stdout
        self.assertEqual(resolved, again)
        self.assertEqual(json.loads(self.run_stagecoach("validate", self.spec, "-o", "json").stdout)["name"], "cli")

    def test_plan_has_the_published_fields(self):
        plan = json.loads(self.run_stagecoach("plan", self.spec, "--workers", "2", "-o", "json").stdout)
        for field in ("schedule", "num_micro_batches", "step_seconds", "bubble_ratio", "lower_bound_seconds",
                      "partition_imbalance_ratio"):
            self.assertIn(field, plan)
        self.assertEqual(len(plan["stages"]), 2)
        for stage in plan["stages"]:
            for field in ("first_layer", "last_layer", "parameters", "forward_seconds", "backward_input_seconds",
                          "backward_weight_seconds"):
                self.assertIn(field, stage)
            memory = stage["memory_bytes"]
            parts = ("parameters", "gradients", "optimizer", "activations", "pending_weight", "receive", "scratch")
            self.assertEqual(sum(memory[p] for p in parts), memory["total"])
        trace = json.loads(self.run_stagecoach("plan", self.spec, "--workers", "2", "-o", "trace").stdout)
        self.assertEqual(len([e for e in trace["traceEvents"] if e["ph"] == "X"]), 2 * 2 * 4)
        self.assertIn("worker 1", self.run_stagecoach("plan", self.spec, "--workers", "2").stdout)

    def test_interrupt_writes_a_checkpoint_and_exits_8(self):
        process = subprocess.Popen([BINARY, "train", self.spec, "--workers", "2", "--set", "training.steps=1000000", "-o", "jsonl"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()  # a step is done
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 8, stderr)
        last = json.loads(stdout.splitlines()[-1])
        self.assertEqual(last["state"], "CANCELLED")
        digest = self.run_stagecoach("checkpoint", "digest", self.directory / "checkpoints").stdout.strip()
        self.assertEqual(digest, last["digest"])

    def test_a_file_that_shrinks_under_training_fails_the_job(self):
        process = subprocess.Popen([BINARY, "train", self.spec, "--workers", "2", "--set", "training.steps=1000000", "-o", "jsonl"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        os.truncate(self.directory / "text", 100)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, stderr)
        last = json.loads(stdout.splitlines()[-1])
        self.assertEqual(last["state"], "FAILED")
        self.assertIn("text", last["message"])

    # Bad input

    def test_specifications_that_are_wrong(self):
        good = self.spec.read_text()
        self.refuse_spec(good.replace("steps: 6", "steps: 6, stepz: 7"), "stepz")
        self.refuse_spec(good.replace("steps: 6", "steps: six"), "training.steps")
        self.refuse_spec(good.replace("steps: 6", "steps: 6, steps: 7"), "steps")
        self.refuse_spec(good.replace("global_batch_size: 8", "global_batch_size: 9"), "global_batch_size 9 is not a multiple")
        self.refuse_spec(good.replace("lr: 1.0e-3", "lr: .nan"), "optimizer.lr")
        self.refuse_spec(good.replace("lr: 1.0e-3", "lr: .inf"), "optimizer.lr")
        self.refuse_spec("a: " + "[" * 10000 + "]" * 10000, "nest")
        self.refuse_spec("# " + "x" * (10 << 20) + good, "at most 1048576")
        bomb = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8))
        self.refuse_spec(bomb, "alias")
        self.refuse_spec("", "")
        self.refuse_spec(good.replace("schedule", "x") + "fault_tolerance: {}\n", "not supported yet")

    def test_error_says_where(self):
        self.spec.write_text(self.spec.read_text().replace("seq_len: 16", "seq_length: 16"))
        result = self.run_stagecoach("validate", self.spec, code=2)
        self.assertRegex(result.stderr, r"spec\.yaml:\d+:\d+: training\.seq_length: .*seq_len")

    def test_missing_specification(self):
        self.refuse(self.directory / "none.yaml", says="none.yaml")
        self.refuse(self.directory, says=str(self.directory))

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

    def test_checkpoints_that_are_wrong(self):
        self.run_stagecoach("train", self.spec, "--workers", "2")
        checkpoints = self.directory / "checkpoints"
        shard = next(checkpoints.glob("step-*/stage-00001.safetensors"))
        contents = bytearray(shard.read_bytes())
        contents[len(contents) // 2] ^= 1
        shard.write_bytes(contents)
        result = self.run_stagecoach("checkpoint", "digest", checkpoints, code=2)
        self.assertIn("stage-00001.safetensors", result.stderr)
        shard.write_bytes(contents[:-1])
        self.run_stagecoach("checkpoint", "digest", checkpoints, code=2)
        shard.unlink()
        self.run_stagecoach("checkpoint", "digest", checkpoints, code=2)
        self.run_stagecoach("checkpoint", "digest", self.directory / "none", code=2)


if __name__ == "__main__":
    unittest.main()
