#!/usr/bin/env python3
"""Jobs whose order follows from no schedule's name, under a coordinator that is killed: the one that is started again goes on with
the order of the journal and the same workers, and the bits are those of 1f1b."""

import sys

import cluster

STEPS = 200
WORKERS = 3
# Of SPEC's eight micro-batches.
ORDER = ("0F0,0F1,0F2,0B0,0F3,0B1,0F4,0B2,0F5,0I3,0F6,0I4,0F7,0W3,0I5,0W4,0W5,0B6,0B7\n"
         "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,1F5,1I4,1F6,1I5,1W4,1F7,1W5,1B6,1B7\n"
         "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2I4,2F5,2I5,2W4,2W5,2F6,2B6,2F7,2B7\n")


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
        path = running.directory / "order.csv"
        path.write_text(ORDER)
        own = kill_coordinator_under(running, "own", f"parallelism.schedule={path}")
        expect(own["plan"]["schedule"] == "csv", f"schedule {own['plan']['schedule']}")
        for job in (searched, own):
            for what in ("digest", "state_digest"):
                expect(job[what] == named[what], f"the {what} of {job['name']} is not that of 1f1b")
    return 0


if __name__ == "__main__":
    sys.exit(main())
