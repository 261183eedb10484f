#!/usr/bin/env python3
"""The reader of traces itself: what it takes and what it refuses."""

import json
import unittest

from chrome_trace import ChromeTrace, TraceError


def metadata(pid, tid=1):
    return [{"name": "process_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": "p"}},
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": "t"}}]


def piece(ts, dur, pid=1, tid=1, **more):
    return {"name": "1F0", "cat": "forward", "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": tid} | more


def flow(phase, ts, pid=1, **more):
    end = {"bp": "e"} if phase == "f" else {}
    return {"name": "flow", "cat": "flow", "ph": phase, "id": "1", "ts": ts, "pid": pid, "tid": 1} | end | more


def text(*events, **more):
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": list(events)} | more)


class ChromeTraceTest(unittest.TestCase):
    def refuse(self, document, says):
        with self.assertRaisesRegex(TraceError, says):
            ChromeTrace(document)

    def test_it_takes_a_trace(self):
        trace = ChromeTrace(text(*metadata(1), *metadata(2), piece(0, 10), piece(1, 4, pid=2), flow("s", 5), flow("t", 5, pid=2),
                                 piece(10, 2.5), flow("f", 11), otherData={"a": 1}))
        self.assertEqual(trace.process_names, {1: "p", 2: "p"})
        self.assertEqual([s["pid"] for s in trace.flows["flow", "flow", "1"]], [1, 2, 1])
        self.assertEqual(trace.other, {"a": 1})

    def test_slices_may_nest_and_touch(self):
        ChromeTrace(text(*metadata(1), piece(0, 10), piece(0, 4), piece(4, 6), piece(10, 0), piece(10, 1)))

    def test_slices_that_overlap_are_refused(self):
        self.refuse(text(*metadata(1), piece(0, 10), piece(9.999, 1)), "overlaps")

    def test_what_is_no_strict_json_is_refused(self):
        self.refuse("{", "no JSON")
        self.refuse(text(*metadata(1), piece(0, 1)).replace('"dur": 1', '"dur": NaN'), "NaN")
        self.refuse(text(*metadata(1), piece(0, 1)).replace('"dur": 1', '"dur": 1e999'), "bad dur")
        self.refuse('{"traceEvents": [], "traceEvents": []}', "twice")
        self.refuse("[]", "no object")
        self.refuse(text(more=1), "unknown keys")
        self.refuse('{"traceEvents": []}', "displayTimeUnit")

    def test_an_event_needs_its_keys(self):
        for key in ("name", "cat", "ts", "dur", "pid", "tid"):
            event = piece(0, 1)
            del event[key]
            self.refuse(text(*metadata(1), event), "needed")
        self.refuse(text(*metadata(1), piece(0, 1, ph="Q")), "unknown phase")
        self.refuse(text(*metadata(1), piece(0, 1, colour="red")), "unknown keys")
        for key, value in (("ts", -1), ("ts", "0"), ("ts", True), ("dur", -1), ("pid", 0), ("tid", 1.5), ("name", ""), ("args", [])):
            self.refuse(text(*metadata(1), piece(0, 1, **{key: value})) if key not in ("ts", "dur")
                        else text(*metadata(1), piece(0, 1) | {key: value}), "bad|no name|args")

    def test_processes_and_tracks_have_names(self):
        self.refuse(text(piece(0, 1)), "process 1 has no name")
        self.refuse(text(*metadata(1, tid=2), piece(0, 1)), "track .* has no name")
        self.refuse(text(*metadata(1), *metadata(1)), "named twice")
        self.refuse(text({"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {}}), "args")
        self.refuse(text({"name": "other", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "x"}}), "unknown metadata")

    def test_events_are_in_order(self):
        self.refuse(text(*metadata(1), piece(5, 1), piece(0, 1)), "order")

    def test_a_flow_has_a_start_and_an_end_within_slices(self):
        self.refuse(text(*metadata(1), piece(0, 10), flow("s", 1)), "flow .* is s")
        self.refuse(text(*metadata(1), piece(0, 10), flow("t", 1), flow("f", 2)), "is tf")
        self.refuse(text(*metadata(1), piece(0, 10), flow("s", 1), flow("f", 11)), "touches no slice")
        self.refuse(text(*metadata(1), piece(0, 10), flow("s", 1), flow("f", 2, pid=2)), "touches no slice")
        end = flow("f", 2)
        del end["bp"]
        self.refuse(text(*metadata(1), piece(0, 10), flow("s", 1), end), "bp")


if __name__ == "__main__":
    unittest.main()
