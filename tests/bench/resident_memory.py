#!/usr/bin/env python3
"""What workers hold of a job, against its plan: the peak of each worker's resident memory above what it had while it was idle, by the
planned bytes of its stages.

    resident_memory.py DIRECTORY_OF_THE_BINARIES SPECIFICATION [--workers 2] [--steps 2] [--set KEY=VALUE]...

The plan counts tensors: what oneDNN, gRPC and UCX allocate beside them is what is more than 1.
"""

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from cluster import Cluster, resources, set_options

MIB = 1 << 20


def resident_bytes(cluster):
    return {name: 1024 * resources(pid)["anonymous_kib"] for name, pid in cluster.pids().items()}


def peaks_until(cluster, job, step):
    """Of each worker, until the job has completed the step; and which stages they have then."""
    peaks = resident_bytes(cluster)
    while True:
        state = cluster.job(job)
        if state["state"] in ("FAILED", "CANCELLED", "SUCCEEDED"):
            raise AssertionError(state)
        peaks = {name: max(peaks[name], value) for name, value in resident_bytes(cluster).items()}
        if state["step"] >= step:
            break
        time.sleep(0.2)
    workers = json.loads(cluster.ask("get", "workers", "-o", "json"))["workers"]
    return peaks, {worker["name"]: worker["stages"] for worker in workers}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("spec")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    with Cluster(arguments.binaries, arguments.workers) as cluster:
        settings = set_options([f"checkpoint.dir={cluster.directory}/checkpoints", "checkpoint.resume=never", *arguments.settings])
        plan = json.loads(cluster.ask("plan", arguments.spec, "--workers", arguments.workers, *settings, "-o", "json"))
        idle = resident_bytes(cluster)
        job = cluster.ask("submit", arguments.spec, *settings).strip()
        peaks, stages_of = peaks_until(cluster, job, arguments.steps)
    print(f"{plan['schedule']}, {plan['num_micro_batches']} micro-batches")
    print(f"{'worker':<10} {'stages':<8} {'planned MiB':>12} {'idle MiB':>9} {'peak MiB':>9} {'above idle / planned':>21}")
    for name, stages in sorted(stages_of.items()):
        planned = sum(plan["stages"][stage]["memory_bytes"]["total"] for stage in stages)
        print(f"{name:<10} {','.join(map(str, stages)):<8} {planned / MIB:>12.0f} {idle[name] / MIB:>9.0f} {peaks[name] / MIB:>9.0f}"
              f" {(peaks[name] - idle[name]) / planned:>21.3f}")


if __name__ == "__main__":
    main()
