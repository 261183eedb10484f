#!/usr/bin/env python3
"""`stagecoach schedule` and what it prints: researchers' scripts read it."""

import csv
import io
import json
import pathlib
import unittest
import xml.etree.ElementTree

from command_line import CommandLineCase

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "golden/programs"
SIZES = ("--stages", 4, "--micro-batches", 8)
COSTS = ("--forward", 1, "--backward-input", 1, "--backward-weight", 1)


class ScheduleCase(CommandLineCase):
    def schedule(self, *arguments, **more):
        return self.run_stagecoach("schedule", *arguments, **more)

    def simulate(self, name, *more):
        return self.get_json("schedule", "simulate", "--schedule", name, *SIZES, *COSTS, *more)

    def refused(self, *arguments):
        result = self.schedule(*arguments, code=2)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def all_names(self):
        return [entry["name"] for entry in self.get_json("schedule", "list")["schedules"]]


class ListTest(ScheduleCase):
    def test_every_name_can_be_simulated(self):
        names = self.all_names()
        self.assertTrue({"gpipe", "1f1b", "zb_h1", "forward_only"} <= set(names), names)
        for name in names:
            result = self.simulate(name)
            self.assertTrue(result["verified"], name)
            self.assertGreaterEqual(result["makespan"], result["lower_bound"] - 1e-9)


class ShowTest(ScheduleCase):
    def show(self, *more, name="1f1b"):
        return self.schedule("show", "--schedule", name, *SIZES, *more).stdout

    def test_csv_is_pytorchs(self):
        rows = list(csv.reader(io.StringIO(self.show("-o", "csv"))))
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[3][:4], ["3F0", "3B0", "3F1", "3B1"])
        self.assertEqual([len(row) for row in rows], [16] * 4)

    def test_json_has_the_same_table(self):
        rows = list(csv.reader(io.StringIO(self.show("-o", "csv"))))
        self.assertEqual(json.loads(self.show("-o", "json"))["workers"], rows)

    def test_svg_is_xml(self):
        for name in self.all_names():
            root = xml.etree.ElementTree.fromstring(self.show("-o", "svg", name=name))
            bars = root.findall("{http://www.w3.org/2000/svg}g")
            self.assertGreaterEqual(len(bars), 4 * 8, name)

    def test_text_has_a_row_for_each_worker(self):
        lines = self.show().splitlines()
        self.assertEqual([line.split()[1] for line in lines if line.startswith("worker ")], ["0", "1", "2", "3"])


class SimulateTest(ScheduleCase):
    def test_has_the_published_fields(self):
        result = self.simulate("1f1b")
        self.assertEqual({key: result[key] for key in ("schedule", "stages", "chunks", "micro_batches")},
                         {"schedule": "1f1b", "stages": 4, "chunks": 1, "micro_batches": 8})
        self.assertEqual((result["makespan"], result["lower_bound"]), (33, 33))
        self.assertAlmostEqual(result["bubble_ratio_span"], 3 / 11)
        self.assertAlmostEqual(result["bubble_ratio_device"], 3 / 11)
        self.assertEqual(result["peak_activations"], [4, 3, 2, 1])
        self.assertEqual(result["peak_pending_weight"], [1, 1, 1, 1])
        self.assertIsInstance(result["receive_slots"], int)
        self.assertRegex(result["program_hash"], "^[0-9a-f]{32}$")

    def test_auto_says_how_far_it_is_from_its_bound(self):
        options = ("--chunks", 1, "--memory-limit", 3)
        result = self.simulate("auto", *options)
        gap = 100 * (result["makespan"] / result["lower_bound"] - 1)
        for verb in ("simulate", "show"):
            text = self.schedule(verb, "--schedule", "auto", *SIZES, *COSTS, *options).stdout
            self.assertIn(f"; lower bound {result['lower_bound']:g}, gap {gap:.1f}%", text)

    def test_the_same_question_has_the_same_hash(self):
        self.assertEqual(self.simulate("1f1b"), self.simulate("1f1b"))
        self.assertNotEqual(self.simulate("1f1b")["program_hash"], self.simulate("gpipe")["program_hash"])

    def test_a_trace_has_an_event_for_each_action(self):
        trace = json.loads(self.schedule("simulate", "--schedule", "1f1b", *SIZES, *COSTS, "-o", "trace").stdout)
        self.assertEqual(len([event for event in trace["traceEvents"] if event["ph"] == "X"]), 4 * 8 * 2)

    def test_what_is_wrong_is_two_and_named(self):
        good = ("simulate", "--schedule", "1f1b", *SIZES)
        self.assertIn("did you mean gpipe?", self.refused("simulate", "--schedule", "gpip", *SIZES))
        self.assertIn("\"nan\"", self.refused(*good, "--forward", "nan"))
        self.assertIn("\"-1\"", self.refused(*good, "--forward", "-1"))
        self.assertIn("3 times", self.refused(*good, "--forward", "1,2,3"))
        self.assertIn("--memory-limit is 2", self.refused(*good, "--memory-limit", 2))
        self.assertIn("--micro-batches is 0",
                      self.refused("simulate", "--schedule", "1f1b", "--stages", 4, "--micro-batches", 0))
        self.assertIn("--stages", self.refused("simulate", "--schedule", "1f1b", "--micro-batches", 4))
        self.assertIn("objective", self.refused(*good, "--objective", "speed"))


class BadInputTest(ScheduleCase):
    """Each is refused with exit 2, nothing on standard output, and what is wrong by name."""

    def sized(self, verb, *more, name="1f1b", stages=4, micro_batches=8):
        return self.refused(verb, "--schedule", name, "--stages", stages, "--micro-batches", micro_batches, *more)

    def refuse_file(self, text, says):
        path = self.directory / "sheet.csv"
        path.write_text(text)
        for more in ((), ("--sends", "buffered"), ("-o", "json")):
            result = self.schedule("verify", path, *more, code=2)
            self.assertIn(says, result.stderr)
            if "json" in more:
                self.assertEqual(json.loads(result.stdout)["error"]["code"], "INVALID_ARGUMENT")
            else:
                self.assertEqual(result.stdout, "")

    def test_a_sheet_with_a_cell_twice(self):
        self.refuse_file("0F0,0B0,0F0\n1F0,1B0\n", "sheet.csv: line 1, column 9 (cell 3, 0F0): is there a second time")
        self.refuse_file("0F0,0I0,0W0,0W0\n", "(cell 4, 0W0): is there a second time")

    def test_a_sheet_without_a_cell(self):
        self.refuse_file("0F0,0B0\n1F0\n", "sheet.csv: line 2: 1B0 is missing")
        self.refuse_file("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", "line 2: 1B1 is missing")
        self.refuse_file("0F0,0I0\n1F0,1I0,1W0\n", "line 1: 0W0 is missing")
        self.refuse_file("0F0,0B0\n2F0,2B0\n", "stage 1 is missing")

    def test_a_sheet_with_an_action_that_is_none(self):
        self.refuse_file("0F0,0B0\n1F0,1G0\n", "sheet.csv: line 2, column 5 (cell 2)")
        self.refuse_file("0F0,0B0,F0\n", "line 1, column 9 (cell 3)")

    def test_actions_that_wait_for_each_other(self):
        # The backward of worker 1 is behind its second forward, for which worker 0 has not run its own: that is behind its backward.
        self.refuse_file("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "sheet.csv: these never begin, since each waits for another or for what nothing makes: ")
        message = self.refused("verify", self.directory / "sheet.csv")
        self.assertIn("0I0 on worker 0, 1F1 on worker 1", message)

    def test_transfers_that_wait_for_each_other(self):
        path = self.directory / "lowered.csv"
        path.write_text("0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                        "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n")
        for sends in ("rendezvous", "buffered"):
            message = self.refused("verify", path, "--sends", sends)
            self.assertIn("lowered.csv: ", message)
            self.assertIn("worker 0 at 0I0 waits for 1SEND_B0 of worker 1, worker 1 at 1F1 waits for 0SEND_F1 of worker 0", message)

    def test_too_much_memory(self):
        for verb in ("simulate", "show"):
            self.assertIn("1f1b holds the activations of 4 micro-batches on worker 0; --memory-limit is 3",
                          self.sized(verb, "--memory-limit", 3))
            self.assertIn("every schedule holds at least 1", self.sized(verb, "--memory-limit", 0.5, name="auto"))

    def test_sizes_that_are_none(self):
        for verb in ("simulate", "show"):
            for name in self.all_names():
                self.assertIn("--micro-batches is 0", self.sized(verb, name=name, micro_batches=0))
                self.assertIn("--stages is 0", self.sized(verb, name=name, stages=0))
                self.assertIn("--chunks is 0", self.sized(verb, "--chunks", 0, name=name))
            self.assertIn("--stages", self.sized(verb, stages=-1))
            self.assertIn("--micro-batches", self.sized(verb, micro_batches=1.5))

    def test_costs_that_are_none(self):
        for verb in ("simulate", "show"):
            for option in ("--forward", "--backward-input", "--backward-weight", "--communication", "--memory-limit"):
                for value in ("nan", "-1", "inf", "-inf", "two", "-0.001"):
                    message = self.sized(verb, f"{option}={value}")
                    self.assertIn(option, message)
                    self.assertIn(f'"{value}"', message)
            self.assertIn("number 3 is \"nan\"", self.sized(verb, "--forward", "1,1,nan,1"))

    def test_numbers_of_chunks_that_a_schedule_is_not_made_for(self):
        for verb in ("simulate", "show"):
            for name in ("zb_v", "v_half", "dualpipe_v"):
                for chunks in (1, 3, 4):
                    self.assertIn(f"{name}: {chunks} chunks per worker asked for; it runs with 2",
                                  self.sized(verb, "--chunks", chunks, name=name))
            self.assertIn("1f1b: 2 chunks per worker asked for; it runs with 1", self.sized(verb, "--chunks", 2))


class VerifyTest(ScheduleCase):
    def test_accepts_what_show_prints(self):
        for name in self.all_names():
            table = self.schedule("show", "--schedule", name, *SIZES, "-o", "csv").stdout
            self.assertIn("proven", self.schedule("verify", "-", "--stages", 4, stdin=table).stdout)

    def test_programs_that_hang_are_shown_to(self):
        for program in ("both_send_first.csv", "ring_of_sends.csv"):
            message = self.refused("verify", PROGRAMS / program)
            self.assertIn("deadlock under blocking rendezvous sends: worker", message)
            self.schedule("verify", PROGRAMS / program, "--sends", "buffered")

    def test_our_lowering_of_the_same_actions_does_not_hang(self):
        for program in ("both_send_first.csv", "ring_of_sends.csv"):
            rows = csv.reader(io.StringIO((PROGRAMS / program).read_text()))
            compute = [[cell for cell in row if "SEND" not in cell and "RECV" not in cell] for row in rows]
            table = "\n".join(map(",".join, compute))
            verdict = json.loads(self.schedule("verify", "-", "-o", "json", stdin=table).stdout)
            self.assertEqual((verdict["verified"], verdict["level"]), (True, "compute"))

    def test_files_that_are_none(self):
        (self.directory / "bad.csv").write_text("0F0,0B0\n1F0,1G0\n")
        self.assertIn("bad.csv: line 2, column 5 (cell 2)", self.refused("verify", self.directory / "bad.csv"))
        self.assertIn("none.csv", self.refused("verify", self.directory / "none.csv"))
        (self.directory / "binary").write_bytes(bytes(range(256)))
        self.refused("verify", self.directory / "binary")
        (self.directory / "empty").write_text("")
        self.assertIn("there are no actions", self.refused("verify", self.directory / "empty"))


if __name__ == "__main__":
    unittest.main()
