"""A strict reader of the Trace Event Format (JSON object form), for what Stagecoach writes of it.

What viewers forgive is an error here: a key that a phase needs and an event lacks, a number that is not finite, slices of one
track that overlap without nesting, a flow that touches no slice, a process or track without a name.
"""

import bisect
import collections
import json
import math

# What an event of each phase has, besides name, ph, pid and tid; then what it may have.
PHASES = {
    "X": ({"cat", "ts", "dur"}, {"args"}),
    "M": ({"args"}, set()),
    "s": ({"cat", "ts", "id"}, {"args", "bp"}),
    "t": ({"cat", "ts", "id"}, {"args", "bp"}),
    "f": ({"cat", "ts", "id"}, {"args", "bp"}),
}
COMMON = {"name", "ph", "pid", "tid"}
METADATA = {"process_name": ("name", str), "thread_name": ("name", str),
            "process_sort_index": ("sort_index", int), "thread_sort_index": ("sort_index", int)}
TOP_LEVEL = {"traceEvents", "displayTimeUnit", "otherData"}


class TraceError(Exception):
    pass


def require(condition, what, event=None):
    if not condition:
        raise TraceError(f"{what}: {json.dumps(event)}" if event is not None else what)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def reject_constant(text):
    raise TraceError(f"{text} is no JSON number")


def unique_keys(pairs):
    keys = [key for key, _ in pairs]
    require(len(keys) == len(set(keys)), f"a key occurs twice in {keys}")
    return dict(pairs)


class ChromeTrace:
    """Checks the text, and offers what is in it. TraceError: why it is no such trace."""

    def __init__(self, text):
        try:
            document = json.loads(text, parse_constant=reject_constant, object_pairs_hook=unique_keys)
        except json.JSONDecodeError as error:
            raise TraceError(f"no JSON: {error}") from error
        require(isinstance(document, dict), "the document is no object")
        require(set(document) <= TOP_LEVEL, f"unknown keys {set(document) - TOP_LEVEL}")
        require(document.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit is neither ms nor ns")
        require(isinstance(document.get("traceEvents"), list), "traceEvents is no list")
        self.other = document.get("otherData", {})
        self.events = document["traceEvents"]
        for event in self.events:
            self._check_event(event)
        self.process_names = self._names("process_name", lambda event: event["pid"])
        self.thread_names = self._names("thread_name", lambda event: (event["pid"], event["tid"]))
        self.slices = collections.defaultdict(list)  # by (pid, tid), in the order of time
        for event in self.events:
            if event["ph"] == "X":
                self.slices[event["pid"], event["tid"]].append(event)
        for track, slices in self.slices.items():
            require(track[0] in self.process_names, f"process {track[0]} has no name")
            require(track in self.thread_names, f"track {track} has no name")
            self._check_nesting(slices)
        self._check_order()
        self.flows = self._check_flows()

    @staticmethod
    def _check_event(event):
        require(isinstance(event, dict), "an event is no object", event)
        phase = event.get("ph")
        require(phase in PHASES, "unknown phase", event)
        needed, allowed = PHASES[phase]
        require(COMMON | needed <= set(event), f"{COMMON | needed - set(event)} are needed", event)
        require(set(event) <= COMMON | needed | allowed, "unknown keys", event)
        require(isinstance(event["name"], str) and event["name"], "no name", event)
        for key in ("pid", "tid"):  # 0 is the kernel's idle process
            require(isinstance(event[key], int) and not isinstance(event[key], bool) and event[key] > 0, f"bad {key}", event)
        for key in ("ts", "dur"):
            if key in event:
                require(is_number(event[key]) and event[key] >= 0, f"bad {key}", event)
        if "cat" in event:
            require(isinstance(event["cat"], str) and event["cat"], "no category", event)
        if "args" in event:
            require(isinstance(event["args"], dict), "args is no object", event)
        if "id" in event:
            require(isinstance(event["id"], (int, str)) and not isinstance(event["id"], bool), "bad id", event)
        if "bp" in event:
            require(event["bp"] == "e", "bp is not e", event)
        if phase == "M":
            require(event["name"] in METADATA, "unknown metadata", event)
            key, kind = METADATA[event["name"]]
            require(set(event["args"]) == {key} and isinstance(event["args"][key], kind), f"args are not {{{key}}}", event)

    def _names(self, metadata, key):
        names = {}
        for event in self.events:
            if event["name"] == metadata and event["ph"] == "M":
                require(key(event) not in names, "named twice", event)
                names[key(event)] = event["args"]["name"]
        return names

    @staticmethod
    def _check_nesting(slices):
        """Each slice lies within the one that is open when it begins, or begins when that has ended."""
        slices.sort(key=lambda event: (nanoseconds(event["ts"]), -nanoseconds(event["dur"])))
        open_ends = []
        for event in slices:
            begin = nanoseconds(event["ts"])
            end = begin + nanoseconds(event["dur"])
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            require(not open_ends or end <= open_ends[-1], "overlaps the slice before it", event)
            open_ends.append(end)

    def _check_order(self):
        times = [event["ts"] for event in self.events if event["ph"] != "M"]
        require(times == sorted(times), "events are not in the order of time")

    def _enclosing(self, event):
        """Of the slices that a flow event may bind to: those of its track that are open at its time."""
        slices = self.slices.get((event["pid"], event["tid"]), [])
        time = nanoseconds(event["ts"])
        last = bisect.bisect_right(slices, time, key=lambda s: nanoseconds(s["ts"]))
        return [s for s in slices[:last] if time <= nanoseconds(s["ts"]) + nanoseconds(s["dur"])]

    def _check_flows(self):
        """The innermost slices that each flow passes, by (cat, name, id)."""
        flows = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] in "stf":
                flows[event["cat"], event["name"], event["id"]].append(event)
        passed = {}
        for key, events in flows.items():
            phases = "".join(event["ph"] for event in events)
            require(phases == "s" + "t" * (len(phases) - 2) + "f", f"flow {key} is {phases}")
            require(events[-1].get("bp") == "e", "an end without bp binds to the next slice", events[-1])
            slices = []
            for event in events:
                enclosing = self._enclosing(event)
                require(enclosing, "a flow touches no slice", event)
                slices.append(enclosing[-1])
            passed[key] = slices
        return passed
