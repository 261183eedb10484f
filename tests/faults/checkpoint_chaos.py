#!/usr/bin/env python3
"""Kills workers and coordinators at random instants of jobs that write a checkpoint after every step or two. After each kill every
checkpoint that is there must verify and be that of its step in a run that nobody disturbed, and a job that resumes must end as that
run did. A job whose worker was killed is resumed in the next of the layouts, each a schedule and a number of workers; that in the last
one is left alone. With --victims workers it is a worker of the job that is killed, in the middle of its steps.

    checkpoint_chaos.py BINARIES [--rounds N] [--seed S] [--layouts 1f1b:2,zb_v:2,...] [--victims all|workers]

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
    def __init__(self, cluster_, rng, layouts, victims):
        self.cluster = cluster_
        self.rng = rng
        self.layouts = layouts
        self.victims = victims
        self.num_checkpoints = 0
        start = time.monotonic()
        self.submit("calm", "calm", ("1f1b", 1), "checkpoint.interval_steps=1", "checkpoint.async=false")
        self.expect_success(self.cluster.wait_for_end("calm"))
        self.duration = time.monotonic() - start
        self.reference = {one["step"]: one["state_digest"] for one in self.checkpoints("calm")}
        expect(sorted(self.reference) == list(range(1, STEPS + 1)), f"checkpoints of steps {sorted(self.reference)}")

    def directory(self, name):
        return self.cluster.directory / "checkpoints" / name

    def submit(self, name, directory, layout, *settings):
        schedule, degree = layout
        self.cluster.submit(name, STEPS, degree, f"checkpoint.dir={self.directory(directory)}", f"parallelism.schedule={schedule}",
                            *settings)

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
        directory = f"job-{number}"
        settings = [f"checkpoint.interval_steps={self.rng.choice([1, 1, 2])}",
                    f"checkpoint.async={self.rng.choice(['true', 'true', 'false'])}",
                    f"checkpoint.keep_last={self.rng.choice([0, 1, 2])}"]
        outcomes = []
        for attempt, layout in enumerate(self.layouts[:-1]):
            name = f"{directory}-{attempt}"
            self.submit(name, directory, layout, f"checkpoint.resume={'auto' if attempt else 'never'}", *settings)
            outcome, job = self.disturb(name, directory)
            outcomes.append(outcome)
            if job["state"] == "SUCCEEDED":
                return "; ".join(outcomes)
            expect(job["reason"] == "WorkerLost", f"{job['reason']}: {job['message']}")
        name = f"{directory}-last"
        self.submit(name, directory, self.layouts[-1], "checkpoint.resume=auto", *settings)
        self.expect_success(self.cluster.wait_for_end(name))
        self.check(directory)
        return "; ".join(outcomes)

    def choose_victim(self, name):
        """When its time has come."""
        if self.victims == "all":
            time.sleep(self.rng.uniform(0, self.duration))
            return self.rng.choice(["coordinator", *self.cluster.workers])
        self.cluster.run("wait", name, "--for=step=1", "--timeout=60s")
        victims = sorted({stage["worker"] for stage in self.cluster.job(name)["stages"]})
        time.sleep(self.rng.uniform(0, self.duration / 4))
        return self.rng.choice(victims)

    def disturb(self, name, directory):
        """What was killed, and how the job ended."""
        victim = self.choose_victim(name)
        if victim == "coordinator":
            self.cluster.kill_coordinator()
            steps = self.check(directory)
            self.cluster.start_coordinator()
            job = self.cluster.wait_for_end(name)
            self.expect_success(job)
            self.check(directory)
            return f"coordinator, with checkpoints of steps {steps}", job
        self.cluster.kill_worker(victim)
        steps = self.check(directory)
        self.cluster.start_worker(victim)
        job = self.cluster.wait_for_end(name)
        self.cluster.wait_for_workers(len(self.cluster.workers))
        self.check(directory)
        return f"{victim}, with checkpoints of steps {steps}, {job['state']} after step {job['step']}", job


def layouts_of(text):
    return [(schedule, int(degree)) for schedule, degree in (layout.split(":") for layout in text.split(","))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--layouts", type=layouts_of, default=layouts_of("auto:3,auto:3"), help="schedule:workers,...")
    parser.add_argument("--victims", choices=["all", "workers"], default="all")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    print(f"{arguments.rounds} rounds, --seed {arguments.seed}", flush=True)
    with cluster.Cluster(arguments.binaries, arguments.workers, settings=arguments.settings) as running:
        chaos = CheckpointChaos(running, random.Random(arguments.seed), arguments.layouts, arguments.victims)
        print(f"undisturbed: {chaos.duration:.2f} s", flush=True)
        for number in range(arguments.rounds):
            print(f"round {number}: {chaos.round(number)}", flush=True)
        print(f"checkpoints verified and compared: {chaos.num_checkpoints}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
