#!/usr/bin/env python3
"""`stagecoach checkpoint`."""

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
        self.run_stagecoach("checkpoint", "digest", self.directory / "none", code=2)


if __name__ == "__main__":
    unittest.main()
