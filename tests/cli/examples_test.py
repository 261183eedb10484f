#!/usr/bin/env python3
"""The commands of examples/README.md."""

import re
import shlex
import unittest

from command_line import CommandLineCase, pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class ExamplesTest(CommandLineCase):
    def commands_below(self, heading):
        """Of the code under a heading, with the directory of this test in the place of the reader's."""
        section = (ROOT / "examples/README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
        commands = re.findall(r"^    stagecoach (.*)$", section, re.MULTILINE)
        return [shlex.split(command.replace("/tmp/stagecoach", str(self.directory))) for command in commands]

    def test_train_a_part_of_the_model(self):
        plan, train = self.commands_below("Train a part of the model")
        self.assertRegex(self.run_stagecoach(*plan, cwd=ROOT).stdout, r"stage 0: layers 0 to \d are frozen: no backward")
        self.run_stagecoach(*train, cwd=ROOT)

    def test_connections_past_layers(self):
        plan, train = self.commands_below("Connections past layers")
        text = self.run_stagecoach(*plan, cwd=ROOT).stdout
        self.assertEqual(sum(map(int, re.findall(r"(\d) skip connections?, ", text))), 7)
        self.assertRegex(text, r"stage 0 to stage [3-7]: \d skip connections?, \d\.\d\d MiB a micro-batch, and \d gradients? back\b")
        self.run_stagecoach(*train, cwd=ROOT)

    def test_resume_at_another_layout(self):
        train, listing, resume, whole, *digests = self.commands_below("Resume at another layout")
        self.run_stagecoach(*train, cwd=ROOT)
        listed = self.get_json(*listing)["checkpoints"]
        self.assertEqual([(one["step"], one["shards"]) for one in listed], [(5, 4), (4, 4), (2, 4)])
        self.run_stagecoach(*resume, cwd=ROOT)
        self.assertEqual(self.get_json(*listing)["checkpoints"][0]["shards"], 2)
        self.run_stagecoach(*whole, cwd=ROOT)
        first, second = (self.run_stagecoach(*digest).stdout for digest in digests)
        self.assertRegex(first, r"^[0-9a-f]{32}\n$")
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
