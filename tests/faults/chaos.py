#!/usr/bin/env python3
"""Kills and stops real processes at random instants, and checks that nothing else breaks. Each round ends with a job that
succeeds with the digest of a run that nobody disturbed, which is one of 1f1b whatever the jobs are told with --set.

    chaos.py BINARIES {worker-kill,worker-stop,worker-term,coordinator-kill} [--rounds N] [--seed S] [--set KEY=VALUE ...]

Prints one line per round and the times at the end. Exit 0: every round was as it must be.
"""

import argparse
import random
import signal
import statistics
import sys
import time

import cluster

LONG, SHORT = 150, 5  # steps
LEASE = 3.0


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Chaos:
    def __init__(self, cluster_, rng, num_workers):
        self.cluster = cluster_
        self.rng = rng
        self.num_workers = num_workers
        self.seconds = []  # from the fault, or the lease's end, to the job's end
        self.digest = {}
        self.duration = 0.0
        for steps in (LONG, SHORT):
            start = time.monotonic()
            job = self.run_to_end(f"calm-{steps}", steps, "parallelism.schedule=1f1b", "parallelism.virtual_stages=1")
            self.digest[steps] = self.expect_success(job)
            self.duration = max(self.duration, time.monotonic() - start)

    def run_to_end(self, name, steps, *settings):
        return self.cluster.wait_for_end(self.cluster.submit(name, steps, self.num_workers, *settings))

    def expect_success(self, job, steps=None):
        expect(job["state"] == "SUCCEEDED", f"{job['state']} {job['reason']}: {job['message']}")
        digests = (job["digest"], job["state_digest"])
        expect(steps is None or digests == self.digest[steps], f"other digests: {digests}, not {self.digest.get(steps)}")
        return digests

    def wait_until_ended(self, name, timeout):
        """By polling, since the time counts."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            job = self.cluster.job(name)
            if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
                return job
            time.sleep(0.01)
        raise AssertionError(f"job {name} is {job['state']} ({job['reason']}: {job['message']}) {timeout} s after the fault")

    def expect_loss_of(self, victim, job, reason="WorkerLost"):
        expect(job["state"] == "FAILED" and job["reason"] == reason, f"{job['state']} {job['reason']}: {job['message']}")
        cause = job["root_cause"]
        expect(cause["worker"] == victim, f"{cause['worker']} is blamed, not {victim}: {job['message']}")

    def next_job_succeeds(self, name):
        self.cluster.wait_for_workers(self.num_workers)
        self.expect_success(self.run_to_end(name, SHORT), SHORT)

    # One round each. Return what happened, in a word.

    def worker_kill(self, number):
        name, victim = f"kill-{number}", f"worker-{self.rng.randrange(self.num_workers)}"
        pids = self.cluster.pids()
        self.cluster.submit(name, LONG, self.num_workers)
        time.sleep(self.rng.uniform(0, self.duration))
        self.cluster.kill_worker(victim)
        killed = time.monotonic()
        started = self.cluster.job(name)
        waits = started["state"] == "QUEUED"
        if not waits:
            job = self.wait_until_ended(name, 5)
            waits = job["state"] == "QUEUED"
        self.cluster.start_worker(victim)
        if waits:  # the job had no workers yet: it takes the new one
            self.expect_success(self.cluster.wait_for_end(name), LONG)
            outcome = "queued"
        elif job["state"] == "SUCCEEDED":
            self.expect_success(job, LONG)
            outcome = "ended before"
        else:
            self.seconds.append(time.monotonic() - killed)
            self.expect_loss_of(victim, job)
            outcome = f"failed after step {job['step']}"
        del pids[victim]
        expect(pids.items() <= self.cluster.pids().items() and not self.cluster.dead_workers(), "a survivor died")
        self.next_job_succeeds(f"after-{name}")
        return outcome

    def worker_stop(self, number):
        name, victim = f"stop-{number}", f"worker-{self.rng.randrange(self.num_workers)}"
        self.cluster.submit(name, LONG, self.num_workers)
        time.sleep(self.rng.uniform(0, self.duration))
        self.cluster.signal_worker(victim, signal.SIGSTOP)
        stopped = time.monotonic()
        outcome = "ended before"
        job = self.cluster.job(name)
        if job["state"] not in ("SUCCEEDED", "QUEUED"):
            job = self.wait_until_ended(name, LEASE + 5)
            after = time.monotonic() - stopped - LEASE
            if job["state"] == "FAILED":
                self.seconds.append(max(after, 0))
                self.expect_loss_of(victim, job, job["reason"] if job["reason"] == "WorkerHung" else "WorkerLost")
                outcome = f"failed after step {job['step']}"
        time.sleep(max(0, stopped + LEASE + 0.5 - time.monotonic()))
        self.cluster.signal_worker(victim, signal.SIGCONT)
        if job["state"] == "QUEUED":
            self.expect_success(self.cluster.wait_for_end(name), LONG)
            outcome = "queued"
        self.next_job_succeeds(f"after-{name}")
        expect(not self.cluster.dead_workers(), "a worker died")
        final = self.cluster.job(name)
        expect(final["state"] == job["state"] or outcome == "queued", "the zombie changed a job that had ended")
        expect(final["step"] == job["step"] or outcome == "queued", "the zombie's step was counted")
        return outcome

    def worker_term(self, number):
        name, victim = f"term-{number}", f"worker-{self.rng.randrange(self.num_workers)}"
        self.cluster.submit(name, LONG, self.num_workers)
        time.sleep(self.rng.uniform(0, self.duration))
        left = self.cluster.workers[victim]
        left.send_signal(signal.SIGTERM)
        start = time.monotonic()
        code = cluster.exited_with(left, 40)
        self.seconds.append(time.monotonic() - start)
        expect(code == 0, f"the worker that was asked to leave exited with {code}")
        job = self.cluster.job(name)
        self.cluster.start_worker(victim)
        job = self.cluster.wait_for_end(name) if job["state"] == "QUEUED" else self.wait_until_ended(name, 5)
        if job["state"] == "FAILED":
            self.expect_loss_of(victim, job)
            expect(job["checkpoint_step"] == job["step"], f"step {job['step']} is in no checkpoint: {job['message']}")
        else:
            self.expect_success(job, LONG)
        expect(not self.cluster.dead_workers(), "a survivor died")
        self.next_job_succeeds(f"after-{name}")
        return f"{job['state']} after step {job['step']}"

    def coordinator_kill(self, number):
        name = f"restart-{number}"
        pids = self.cluster.pids()
        self.cluster.spec(name, LONG, self.num_workers)
        follower = self.cluster.follow(name)
        while not (self.cluster.run("get", "job", name).returncode == 0 or follower.poll() is not None):
            time.sleep(0.01)  # a submission that nobody has heard of is not lost: it is asked again
        time.sleep(self.rng.uniform(0, self.duration))
        before = self.cluster.job(name)
        self.cluster.kill_coordinator()
        time.sleep(self.rng.uniform(0, 0.5))
        start = time.monotonic()
        self.cluster.start_coordinator()
        _, errors = follower.communicate(timeout=120)
        expect(follower.returncode == 0, f"the follower exited with {follower.returncode}: {errors}")
        job = self.cluster.job(name)
        self.expect_success(job, LONG)
        steps, last = self.cluster.steps_followed(name)
        expect(steps == list(range(1, LONG + 1)), f"the follower saw these steps: {steps}")
        expect((last["digest"], last["state_digest"]) == self.digest[LONG], f"the follower's last object: {last}")
        expect(pids == self.cluster.pids() and not self.cluster.dead_workers(), "a worker was started again or died")
        self.cluster.wait_for_workers(self.num_workers)
        self.seconds.append(time.monotonic() - start)
        return f"killed when {before['state']} after step {before['step']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("kind", choices=["worker-kill", "worker-stop", "worker-term", "coordinator-kill"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    print(f"{arguments.kind}: {arguments.rounds} rounds, --seed {arguments.seed}", flush=True)
    with cluster.Cluster(arguments.binaries, arguments.workers, settings=arguments.settings) as running:
        chaos = Chaos(running, random.Random(arguments.seed), arguments.workers)
        print(f"undisturbed: {chaos.duration:.2f} s", flush=True)
        for number in range(arguments.rounds):
            outcome = getattr(chaos, arguments.kind.replace("-", "_"))(number)
            print(f"round {number}: {outcome}", flush=True)
        if chaos.seconds:
            print(f"seconds: median {statistics.median(chaos.seconds):.3f}, longest {max(chaos.seconds):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
