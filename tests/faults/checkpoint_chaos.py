#!/usr/bin/env python3
"""Kills workers and coordinators at random instants of jobs that write a checkpoint after every step or two. After each kill every
checkpoint that is there must verify and be that of its step in a run that nobody disturbed, and a job that resumes must end as that
run did.

    checkpoint_chaos.py BINARIES [--rounds N] [--seed S]

Prints one line per round, and what was found. Exit 0: every round was as it must be.
"""

import argparse
import json
import random
import sys
import time

import cluster
from chaos import expect

STEPS = 24


class CheckpointChaos:
    def __init__(self, cluster_, rng, num_workers):
        self.cluster = cluster_
        self.rng = rng
        self.num_workers = num_workers
        self.num_checkpoints = 0
        start = time.monotonic()
        self.run_to_success("calm", "calm", "checkpoint.interval_steps=1", "checkpoint.async=false")
        self.duration = time.monotonic() - start
        self.reference = {one["step"]: one["state_digest"] for one in self.checkpoints("calm")}
        expect(sorted(self.reference) == list(range(1, STEPS + 1)), f"checkpoints of steps {sorted(self.reference)}")

    def directory(self, name):
        return self.cluster.directory / "checkpoints" / name

    def submit(self, name, directory, *settings):
        spec = self.cluster.spec(name, STEPS, self.num_workers)
        options = [word for setting in (f"checkpoint.dir={self.directory(directory)}", *settings) for word in ("--set", setting)]
        self.cluster.ask("submit", spec, *options)

    def run_to_success(self, name, directory, *settings):
        self.submit(name, directory, *settings)
        self.expect_success(self.cluster.wait_for_end(name))

    def expect_success(self, job):
        expect(job["state"] == "SUCCEEDED", f"{job['state']} {job['reason']}: {job['message']}")
        if hasattr(self, "reference"):
            expect(job["state_digest"] == self.reference[STEPS], f"other bits at the end: {job['state_digest']}")

    def checkpoints(self, directory):
        """Those that are complete; all of them verified."""
        if not self.directory(directory).is_dir() or not any(self.directory(directory).glob("step-*")):
            return []
        result = self.cluster.run("checkpoint", "verify", self.directory(directory), "-o", "json")
        if "no checkpoint in" in result.stderr and not any(self.directory(directory).glob("step-*/manifest.json")):
            return []  # what was in the making has been removed meanwhile
        expect(result.returncode == 0, f"a checkpoint is damaged: {result.stdout}{result.stderr}")
        return [one for one in json.loads(result.stdout)["checkpoints"] if one["state"] == "VERIFIED"]

    def check(self, directory):
        found = self.checkpoints(directory)
        for one in found:
            expect(one["state_digest"] == self.reference[one["step"]], f"{one['path']} has other bits")
        self.num_checkpoints += len(found)
        return [one["step"] for one in found]

    def round(self, number):
        name = f"job-{number}"
        settings = [f"checkpoint.interval_steps={self.rng.choice([1, 1, 2])}",
                    f"checkpoint.async={self.rng.choice(['true', 'true', 'false'])}",
                    f"checkpoint.keep_last={self.rng.choice([0, 1, 2])}"]
        self.submit(name, name, *settings)
        time.sleep(self.rng.uniform(0, self.duration))
        victim = self.rng.choice(["coordinator", *self.cluster.workers])
        if victim == "coordinator":
            self.cluster.kill_coordinator()
            steps = self.check(name)
            self.cluster.start_coordinator()
            self.expect_success(self.cluster.wait_for_end(name))
            self.check(name)
            return f"coordinator, with checkpoints of steps {steps}"
        self.cluster.kill_worker(victim)
        steps = self.check(name)
        self.cluster.start_worker(victim)
        job = self.cluster.wait_for_end(name)
        self.cluster.wait_for_workers(self.num_workers)
        self.check(name)
        if job["state"] != "SUCCEEDED":
            expect(job["reason"] == "WorkerLost", f"{job['reason']}: {job['message']}")
            self.run_to_success(f"{name}-again", name, "checkpoint.resume=auto", *settings)
            self.check(name)
        return f"{victim}, with checkpoints of steps {steps}; {job['state']} after step {job['step']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    print(f"{arguments.rounds} rounds, --seed {arguments.seed}", flush=True)
    with cluster.Cluster(arguments.binaries, arguments.workers) as running:
        chaos = CheckpointChaos(running, random.Random(arguments.seed), arguments.workers)
        print(f"undisturbed: {chaos.duration:.2f} s", flush=True)
        for number in range(arguments.rounds):
            print(f"round {number}: {chaos.round(number)}", flush=True)
        print(f"checkpoints verified and compared: {chaos.num_checkpoints}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
