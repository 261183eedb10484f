#!/usr/bin/env python3
"""`stagecoach checkpoint`."""

import json
import unittest

from command_line import CommandLineCase


class CheckpointTest(CommandLineCase):
    def test_checkpoints_that_are_wrong(self):
        self.run_stagecoach("train", self.spec, "--workers", 2)
        shard = next(self.checkpoints.glob("step-*/stage-00001.safetensors"))
        contents = bytearray(shard.read_bytes())
        contents[len(contents) // 2] ^= 1
        shard.write_bytes(contents)
        result = self.run_stagecoach("checkpoint", "digest", self.checkpoints, code=2)
        self.assertIn("stage-00001.safetensors", result.stderr)
        shard.write_bytes(contents[:-1])
        self.run_stagecoach("checkpoint", "digest", self.checkpoints, code=2)
        shard.unlink()
        self.run_stagecoach("checkpoint", "digest", self.checkpoints, code=2)

    def test_a_directory_without_any(self):
        for verb in ("digest", "ls", "verify"):
            self.run_stagecoach("checkpoint", verb, self.directory / "none", code=2)
        self.run_stagecoach("checkpoint", "prune", self.directory / "none", "--keep-last", 1, code=2)

    def train(self, *arguments, workers=2, code=0):
        return self.run_stagecoach("train", self.spec, "--workers", workers, *arguments, code=code)

    def names(self):
        return [path.name for path in sorted(self.checkpoints.glob("step-*"))]

    def test_list_verify_and_prune(self):
        self.train("--set", "checkpoint.interval_steps=1", "--set", "training.steps=4", "--set", "checkpoint.async=false")
        listed = json.loads(self.run_stagecoach("checkpoint", "ls", self.checkpoints, "-o", "json").stdout)["checkpoints"]
        self.assertEqual([one["step"] for one in listed], [4, 3, 2, 1])
        self.assertEqual({one["state"] for one in listed}, {"COMPLETE"})
        self.assertEqual({one["shards"] for one in listed}, {2})
        (self.checkpoints / "step-0000000009").mkdir()
        verified = json.loads(self.run_stagecoach("checkpoint", "verify", self.checkpoints, "-o", "json").stdout)
        self.assertEqual([one["state"] for one in verified["checkpoints"]], ["INCOMPLETE"] + ["VERIFIED"] * 4)

        manifest = self.checkpoints / "step-0000000003" / "manifest.json"
        manifest.write_text(manifest.read_text()[:-5])
        damaged = self.run_stagecoach("checkpoint", "verify", self.checkpoints, code=2)
        self.assertIn("DAMAGED", damaged.stdout)
        self.assertIn("step-0000000003/manifest.json", damaged.stderr)
        self.run_stagecoach("checkpoint", "ls", self.checkpoints)

        removed = self.run_stagecoach("checkpoint", "prune", self.checkpoints, "--keep-last", 2, "--incomplete").stdout
        self.assertEqual([line.rsplit("/", 1)[1] for line in removed.splitlines()], ["step-0000000001", "step-0000000009"])
        self.assertEqual(self.names(), ["step-0000000002", "step-0000000003", "step-0000000004"])

    def test_keep_last_removes_while_training(self):
        self.train("--set", "checkpoint.interval_steps=1", "--set", "training.steps=5", "--set", "checkpoint.async=false",
                   "--set", "checkpoint.keep_last=2")
        # The last one may be pruned after the job's end; what it kept before is at most one more.
        self.assertIn("step-0000000005", self.names())
        self.assertLessEqual(len(self.names()), 3)

    def digests(self, *arguments, workers=2):
        lines = self.train("-o", "jsonl", *arguments, workers=workers).stdout.splitlines()
        last = json.loads(lines[-1])
        return [json.loads(line)["step"] for line in lines[:-1]], last["digest"], last["state_digest"]

    def test_resume_at_another_cut_has_the_bits_of_one_run(self):
        whole = self.digests("--set", "training.steps=6", "--set", f"checkpoint.dir={self.directory}/whole")
        for asynchronous in ("true", "false"):
            directory = self.directory / f"parts-{asynchronous}"
            options = ["--set", f"checkpoint.dir={directory}",
                       "--set", f"checkpoint.async={asynchronous}", "--set", "checkpoint.interval_steps=1"]
            self.digests("--set", "training.steps=2", *options)
            self.digests("--set", "training.steps=4", "--resume", "auto", *options, workers=3)
            steps, *digests = self.digests("--set", "training.steps=6", "--resume", "auto", *options, workers=1)
            self.assertEqual(steps, [5, 6])
            self.assertEqual(digests, list(whole[1:]))
        # A named one, however old.
        steps, *digests = self.digests("--set", "training.steps=6", "--resume", "step-0000000002", *options)
        self.assertEqual(steps, [3, 4, 5, 6])
        self.assertEqual(digests, list(whole[1:]))

    def test_a_complete_run_ends_at_once(self):
        first = self.digests("--set", "training.steps=2")
        again = self.digests("--set", "training.steps=2", "--resume", "auto")
        self.assertEqual(again[0], [])
        self.assertEqual(again[1:], first[1:])

    def test_what_cannot_be_resumed_from(self):
        self.train("--set", "training.steps=2")
        other = self.train("--set", "data.seed=7", "--resume", "auto", code=2)
        self.assertIn("data.seed: 42 -> 7", other.stderr)
        missing = self.train("--resume", "step-0000000099", code=2)
        self.assertIn("there is no checkpoint", missing.stderr)
        self.train("--resume", "nonsense", code=2)
        shard = next(self.checkpoints.glob("step-*/stage-00001.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1])
        damaged = self.train("--resume", "auto", code=2)
        self.assertIn("verifies", damaged.stderr)


if __name__ == "__main__":
    unittest.main()
