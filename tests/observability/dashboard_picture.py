#!/usr/bin/env python3
"""A picture of the dashboard from real data: a coordinator and workers train, Prometheus watches, and the time series of the run's
and of the pipeline's row are drawn where Grafana puts them. What the panels ask is read from the dashboard that is shipped.

    dashboard_picture.py DIRECTORY_OF_THE_BINARIES SPECIFICATION OUTPUT.svg [--workers N] [--seconds S] [--set KEY=VALUE]...
"""

import argparse
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/faults")]
from cluster import Cluster
from dashboard import Dashboard, fill_in
from prometheus import Prometheus
from svg_chart import Panel, picture

ROWS = ("Run: $run", "Pipeline of $run")
COLUMN, LINE = 50, 30  # pixels of a unit of Grafana's grid


def metrics_address(log, timeout=20):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found = re.search(r"metrics at (\S+:\d+)", log.read_text())
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError(f"{log} does not say where the metrics are")


def panels_of(dashboard):
    """Time series of the rows that are drawn, in the dashboard's order."""
    row = None
    for panel in dashboard.panels:
        row = panel["title"] if panel["type"] == "row" else row
        if panel["type"] == "timeseries" and row in ROWS:
            yield panel


def named(target, labels):
    return re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match.group(1), ""), target.get("legendFormat", "")) or str(labels)


def series_of(prometheus, panel, times, values):
    found = []
    for target in panel["targets"]:
        for result in prometheus.query_range(fill_in(target["expr"], **values), *times, step=1):
            found.append((named(target, result["metric"]), [(float(t), float(v)) for t, v in result["values"]]))
    return sorted(found)


def is_stacked(panel):
    return panel.get("fieldConfig", {}).get("defaults", {}).get("custom", {}).get("stacking", {}).get("mode", "none") != "none"


def with_stages(panel, stages):
    """(title, variables, grid) of a panel, once for each stage when the dashboard repeats it."""
    grid = panel["gridPos"]
    if panel.get("repeat") != "stage":
        return [(panel["title"], {}, grid)]
    width = grid["w"] // len(stages)
    return [(panel["title"].replace("$stage", stage), {"stage": stage}, grid | {"w": width, "x": width * index})
            for index, stage in enumerate(stages)]


def draw(dashboard, prometheus, times):
    values = {"__rate_interval": "10s"}
    stages = sorted({labels["stage"] for labels in prometheus.series("stagecoach_utilization_ratio")}, key=int)
    drawn, top, line, height = [], 0, None, 0
    for panel in panels_of(dashboard):
        if panel["gridPos"]["y"] != line:
            line, top, height = panel["gridPos"]["y"], top + height, LINE * panel["gridPos"]["h"]
        for title, extra, grid in with_stages(panel, stages):
            unit = panel["fieldConfig"]["defaults"].get("unit", "none")
            chart = Panel(title, unit, series_of(prometheus, panel, times, values | extra), is_stacked(panel))
            drawn.append(chart.draw(COLUMN * grid["x"] + 4, top + 4, COLUMN * grid["w"] - 8, height - 8, times))
    return picture(24 * COLUMN, top + height, drawn)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("specification", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    listen = ["--metrics-listen", "127.0.0.1:0"]
    with Cluster(arguments.binaries.resolve(), arguments.workers, listen, listen) as cluster:
        logs = [cluster.directory / "coordinator.log", *(cluster.directory / f"{name}.log" for name in cluster.workers)]
        coordinator, *workers = map(metrics_address, logs)
        targets = {"stagecoach-coordinator": [coordinator], "stagecoach-worker": workers}
        with Prometheus(cluster.directory, ROOT / "deploy/prometheus/prometheus.yml", targets) as prometheus:
            prometheus.wait_until_it_serves()
            options = [part for each in arguments.set for part in ("--set", each)]
            checkpoints = f"checkpoint.dir={cluster.directory}/checkpoints"
            job = cluster.ask("submit", arguments.specification, *options, "--set", checkpoints).strip()
            cluster.ask("wait", job, "--for=step=1", "--timeout", "60s")
            start = time.time()
            time.sleep(arguments.seconds)
            arguments.output.write_text(draw(Dashboard(ROOT / "deploy/grafana/stagecoach.json"), prometheus, (start, time.time())))


if __name__ == "__main__":
    sys.exit(main())
