"""What the daemons export, what Prometheus keeps of it, and what the dashboard, the alerts and the documentation read: all of
it together, with a coordinator, workers and a job that trains. A name that nobody exports any more shows nothing and reports
no error, so that nothing but this finds it.

    live_test.py DIRECTORY_OF_THE_BINARIES
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/faults")]
from cluster import Cluster
from dashboard import Dashboard, fill_in, metrics_of
from prometheus import Prometheus, scrape

SKIPPED = 77
PROMETHEUS_YML = ROOT / "deploy/prometheus/prometheus.yml"

# Alerts have no data while nothing is wrong; alerts_test.yml has a case in which each fires.
CONDITIONAL = {}
# Metrics that this run does not bring about, and why.
NOT_EXPORTED = {}


def documented():
    return set(re.findall(r"^\| `(stagecoach_\w+)`", (ROOT / "docs/metrics.md").read_text(), re.M))


def types_of(text):
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))


def values_of(text):
    """Series -> value."""
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listen = ["--metrics-listen", "127.0.0.1:0"]
        cls.cluster = cls.enterClassContextOf(Cluster(cls.binaries, 3, listen, listen))
        cls.coordinator = cls.metrics_address("coordinator")
        cls.workers = [cls.metrics_address(f"worker-{index}") for index in range(3)]
        cls.prometheus = cls.enterClassContextOf(
            Prometheus(cls.cluster.directory, PROMETHEUS_YML,
                       {"stagecoach-coordinator": [cls.coordinator], "stagecoach-worker": cls.workers}))
        cls.dashboard = Dashboard(ROOT / "deploy/grafana/stagecoach.json")
        spec = cls.cluster.spec("tiny", steps=1_000_000, degree=2)
        cls.cluster.ask("submit", spec, "--set", "checkpoint.interval_steps=20", "--set", "training.validation_interval=10")
        cls.prometheus.wait_until_it_serves()

    @classmethod
    def enterClassContextOf(cls, context):
        cls.addClassCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    @classmethod
    def metrics_address(cls, log):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = re.search(r"metrics at (\S+:\d+)", (cls.cluster.directory / f"{log}.log").read_text())
            if found:
                return found.group(1)
            time.sleep(0.02)
        raise AssertionError(f"{log} does not say where its metrics are")

    def expressions(self):
        intervals = {"__rate_interval": "5s"}
        return [(title, fill_in(expression, **intervals)) for title, expression in self.dashboard.expressions()]

    def until(self, ask, timeout=30):
        """What `ask` returns when it is empty, or at last."""
        deadline = time.monotonic() + timeout
        while (missing := ask()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return missing

    def exported(self):
        types = {}
        for target in [self.coordinator, *self.workers]:
            types |= types_of(scrape(target))
        return {name: kind for name, kind in types.items() if name.startswith("stagecoach_")}

    def test_every_panel_has_data(self):
        def without_data():
            return [(title, expression) for title, expression in self.expressions()
                    if title not in CONDITIONAL and not self.prometheus.query(expression)]

        self.assertEqual(self.until(without_data), [])

    def test_every_variable_has_values(self):
        def without_values():
            return [name for name, selector in self.dashboard.queries() if not self.prometheus.series(fill_in(selector))]

        self.assertEqual(self.until(without_values), [])

    def test_every_metric_that_is_exported_is_documented_and_the_other_way_round(self):
        def difference():
            return (documented() ^ set(self.exported())) - set(NOT_EXPORTED)

        self.assertEqual(self.until(difference), set())

    def test_every_metric_that_is_read_exists(self):
        read = set()
        for _, expression in self.dashboard.expressions():
            read |= metrics_of(expression)
        for rule in re.findall(r"expr: (\|\n(?:          .*\n)+|.*\n)", (ROOT / "deploy/prometheus/alerts.yml").read_text()):
            read |= metrics_of(rule)
        self.assertEqual(read - documented() - {"up"}, set())
        self.assertGreater(len(read), 20)

    def test_every_alert_is_evaluated_and_silent(self):
        def wrong():
            rules = self.prometheus.rules()
            return [(rule["name"], rule["health"], rule.get("lastError"), rule["state"]) for rule in rules
                    if (rule["health"], rule["state"]) != ("ok", "inactive")] or len(rules) != 5

        self.assertFalse(self.until(wrong))

    def test_promtool_finds_nothing_to_say(self):
        for target in [self.coordinator, self.workers[0]]:
            result = subprocess.run(["promtool", "check", "metrics"], input=scrape(target), text=True, capture_output=True)
            self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_what_stages_do_sums_to_the_time_that_passes(self):
        def look():
            values = values_of(scrape(self.coordinator))
            sums = {}
            for name, value in values.items():
                found = re.match(r'stagecoach_stage_busy_seconds_total\{.*stage="(\d+)"', name)
                if found:
                    sums[found.group(1)] = sums.get(found.group(1), 0) + value
            return values.get('stagecoach_last_step_timestamp_seconds{run="tiny"}'), sums

        self.assertFalse(self.until(lambda: not look()[0]), "there was no step")
        first_time, first = look()
        self.until(lambda: look()[0] < first_time + 5)
        last_time, last = look()
        stages = json.loads(self.cluster.ask("get", "job", "tiny", "-o", "json"))["stages"]
        self.assertEqual(set(last), {str(stage) for stage in range(len(stages))})
        passed = last_time - first_time
        for stage in last:
            # An evaluation or a checkpoint may have followed the newest step at either end.
            self.assertAlmostEqual(last[stage] - first[stage], passed, delta=0.01 * passed + 0.1)

    def test_workers_tell_what_they_send(self):
        def bytes_of(direction):
            return self.prometheus.query(f'sum(stagecoach_p2p_bytes_total{{run="tiny", direction="{direction}"}})')

        self.assertFalse(self.until(lambda: not bytes_of("send") or not bytes_of("receive")))
        sent, received = (
            sum(value for worker in self.workers for name, value in values_of(scrape(worker)).items()
                if name.startswith("stagecoach_p2p_bytes_total") and f'direction="{direction}"' in name)
            for direction in ("send", "receive"))
        self.assertGreater(sent, 0)
        self.assertLess(abs(sent - received) / sent, 0.1)  # the two workers are scraped one after the other


if __name__ == "__main__":
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("SKIPPED: prometheus is not installed (deploy/packages.txt, [test])")
        sys.exit(SKIPPED)
    LiveTest.binaries = pathlib.Path(sys.argv.pop(1))
    unittest.main()
