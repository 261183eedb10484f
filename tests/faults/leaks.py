#!/usr/bin/env python3
"""Ten jobs in a row on the same four workers: memory, descriptors, threads and shared-memory segments before and after.

    leaks.py BINARIES [--jobs N] [--lots N]

The first two jobs warm up (pools grow to their size); afterwards nothing may grow but by what an allocator keeps (1 MiB) and by the
threads of gRPC's pool, which come and go with the load (4). An allocator also takes a piece of several MiB at a moment of its own
choosing, once; what leaks grows again with the next ten jobs, and the next. So there is another lot of jobs, four at most, until
one has come in which nothing grew.
"""

import argparse
import sys

import cluster

ALLOWED_GROWTH = {"anonymous_kib": 1024, "threads": 4, "descriptors": 0}


def measure(running):
    processes = running.pids() | {"coordinator": running.coordinator.pid}
    return {name: cluster.resources(pid) for name, pid in processes.items()}, cluster.shared_memory_segments()


def growth(before, after):
    """What grew by more than it may, in words."""
    (processes, segments), (processes_after, segments_after) = before, after
    found = []
    print(f"{'process':<12} {'what':<14} {'before':>9} {'after':>9}")
    for name, old in processes.items():
        for what, value in old.items():
            new = processes_after[name][what]
            print(f"{name:<12} {what:<14} {value:>9} {new:>9}")
            if new > value + ALLOWED_GROWTH[what]:
                found.append(f"{name}: {what} grew from {value} to {new}")
    print(f"shared-memory segments: {segments} before, {segments_after} after")
    if segments_after > segments:
        found.append("shared-memory segments are left over")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--lots", type=int, default=4)
    arguments = parser.parse_args()
    digests = set()
    with cluster.Cluster(arguments.binaries, 4) as running:
        def run(name):
            job = running.wait_for_end(running.submit(name, 20, 4))
            assert job["state"] == "SUCCEEDED", job
            running.wait_for_workers(4)
            digests.add((job["digest"], job["state_digest"]))

        for number in range(2):
            run(f"warm-up-{number}")
        after = measure(running)
        for lot in range(arguments.lots):
            before = after
            for number in range(arguments.jobs):
                run(f"job-{lot}-{number}")
            after = measure(running)
            grown = growth(before, after)
            print("\n".join(grown))
            if not grown:
                break
    if len(digests) != 1:
        print(f"digests differ: {digests}")
    return 1 if grown or len(digests) != 1 else 0


if __name__ == "__main__":
    sys.exit(main())
