#!/usr/bin/env python3
"""`train` with 1 to 4 worker processes, of one or two stages each, against the run in one process: the same digests, one shard per worker, one manifest.

    train_test.py BINARIES EMBEDDED

EMBEDDED runs a specification in one process (tests/testing/embedded) and prints digest and state digest.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cluster

BINARIES, EMBEDDED = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
del sys.argv[1:3]
STEPS = 12


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="stagecoach-train-")
        cls.directory = pathlib.Path(cls.temporary.name)
        (cls.directory / "text").write_bytes(b"the stage coach rolls over the hills, and the horses are changed\n" * 400)
        (cls.directory / "held-out").write_bytes(b"the coach stops where the road ends, and nobody gets off\n" * 20)
        cls.expected = cls.run_command(EMBEDDED, cls.spec("embedded", 2)).split()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def spec(cls, name, degree):
        path = cls.directory / f"{name}.yaml"
        path.write_text(cluster.SPEC.format(name=name, steps=STEPS, degree=degree, directory=cls.directory))
        return path

    @classmethod
    def run_command(cls, *command):
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def test_worker_processes_give_the_digests_of_one_process(self):
        layouts = [("1f1b", 1), ("1f1b", 2), ("zb_h1", 3), ("1f1b", 4), ("interleaved", 2), ("zb_v", 2)]
        for schedule, workers in layouts:
            with self.subTest(schedule=schedule, workers=workers):
                name = f"train-{schedule}-{workers}".replace("_", "-")
                output = self.run_command(BINARIES / "stagecoach", "train", self.spec(name, workers), "--workers", str(workers),
                                          "--set", f"parallelism.schedule={schedule}", "-o", "jsonl")
                objects = [json.loads(line) for line in output.splitlines()]
                self.assertEqual([each["step"] for each in objects[:-1]], list(range(1, STEPS + 1)))
                self.assertEqual([objects[-1]["digest"], objects[-1]["state_digest"]], self.expected)
                (checkpoint,) = [path for path in (self.directory / "checkpoints" / name).iterdir() if path.is_dir()]
                self.assertEqual(len(list(checkpoint.glob("*.safetensors"))), workers)
                self.assertEqual(
                    self.run_command(BINARIES / "stagecoach", "checkpoint", "digest", checkpoint).strip(), self.expected[0])


if __name__ == "__main__":
    unittest.main()
