#!/usr/bin/env python3
"""Jobs whose order follows from no schedule's name, under a coordinator that is killed: the one that is started again goes on with
the order of the journal and the same workers, and the bits are those of 1f1b."""

import sys

import cluster

STEPS = 200
WORKERS = 3


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_success(job):
    expect(job["state"] == "SUCCEEDED" and job["step"] == STEPS, f"{job['state']} after step {job['step']}: {job['message']}")


def kill_coordinator_under(running, name, *settings):
    """Returns the job at its end."""
    pids = running.pids()
    running.submit(name, STEPS, WORKERS, *settings)
    running.ask("wait", name, "--for=step=3", "--timeout", "60s")
    before = running.job(name)
    running.kill_coordinator()
    running.start_coordinator()
    job = running.wait_for_end(name)
    expect_success(job)
    expect(before["step"] < STEPS, "it had ended before the coordinator was killed")
    expect((job["epoch"], job["recoveries"]) == (before["epoch"] + 1, 1), f"epoch {job['epoch']}, {job['recoveries']} recoveries")
    for what in ("schedule", "stages", "step_seconds", "num_micro_batches"):
        expect(job["plan"][what] == before["plan"][what], f"{what}: {before['plan'][what]} -> {job['plan'][what]}")
    expect(pids == running.pids() and not running.dead_workers(), "a worker was started again or died")
    running.wait_for_workers(WORKERS)
    return job


def main():
    with cluster.Cluster(sys.argv[1], WORKERS) as running:
        running.submit("named", STEPS, WORKERS, "parallelism.schedule=1f1b")
        named = running.wait_for_end("named")
        expect_success(named)
        # By FLOPs, so that the order is the same each time.
        searched = kill_coordinator_under(running, "searched", "parallelism.schedule=auto", "parallelism.costs=analytic")
        expect(searched["plan"]["schedule"] == "auto", f"schedule {searched['plan']['schedule']} was chosen")
        for what in ("digest", "state_digest"):
            expect(searched[what] == named[what], f"the {what} is not that of 1f1b")
    return 0


if __name__ == "__main__":
    sys.exit(main())
