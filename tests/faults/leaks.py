#!/usr/bin/env python3
"""Ten jobs in a row on the same four workers: memory, descriptors, threads and shared-memory segments before and after.

    leaks.py BINARIES [--jobs N]

The first two jobs warm up (pools grow to their size); afterwards nothing may grow but by what an allocator keeps (4 MiB) and by the
threads of gRPC's pool, which come and go with the load (4).
"""

import argparse
import sys

import cluster

ALLOWED_GROWTH = {"anonymous_kib": 4096, "threads": 4, "descriptors": 0}


def measure(running):
    processes = running.pids() | {"coordinator": running.coordinator.pid}
    return {name: cluster.resources(pid) for name, pid in processes.items()}, cluster.shared_memory_segments()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--jobs", type=int, default=10)
    arguments = parser.parse_args()
    failures = []
    with cluster.Cluster(arguments.binaries, 4) as running:
        def run(name):
            job = running.wait_for_end(running.submit(name, 20, 4))
            assert job["state"] == "SUCCEEDED", job
            running.wait_for_workers(4)
            return job["digest"], job["state_digest"]

        digests = {run("warm-up-0"), run("warm-up-1")}
        before, segments_before = measure(running)
        digests |= {run(f"job-{number}") for number in range(arguments.jobs)}
        after, segments_after = measure(running)
    print(f"{'process':<12} {'what':<14} {'before':>9} {'after':>9}")
    for name, old in before.items():
        for what, value in old.items():
            print(f"{name:<12} {what:<14} {value:>9} {after[name][what]:>9}")
            if after[name][what] > value + ALLOWED_GROWTH[what]:
                failures.append(f"{name}: {what} grew from {value} to {after[name][what]}")
    print(f"shared-memory segments: {segments_before} before, {segments_after} after")
    if segments_after > segments_before:
        failures.append("shared-memory segments are left over")
    if len(digests) != 1:
        failures.append(f"digests differ: {digests}")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
