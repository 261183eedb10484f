"""The images and manifests at work on this machine, without a cluster (pods.py). Arguments: the coordinator's image, the worker's.
Run by deploy/container/build.sh when it has built them; needs root and podman."""

import json
import subprocess
import sys
import tempfile
import unittest

import yaml

from manifests import one, pod_spec, render
from pods import Cluster, wait_until

IMAGES = dict(zip(("stagecoach-coordinator", "stagecoach-worker"), sys.argv[1:3]))
del sys.argv[1:3]


class PodsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="stagecoach-pods-")
        self.addCleanup(directory.cleanup)
        self.objects = render("overlays/kind") + render("jobs/tiny")
        self.cluster = Cluster(self.objects, directory.name, IMAGES)
        self.addCleanup(self.cluster.close)
        self.addCleanup(self.show_logs_of_a_failure)
        # A machine that is busy with other things may not let a process run for seconds.
        one(self.objects, "ConfigMap", "stagecoach-coordinator")["data"]["LEASE"] = "30s"
        self.shipped_job = one(self.objects, "ConfigMap", "stagecoach-job-tiny")["data"]["tiny.yaml"]
        self.coordinator, self.worker = (one(self.objects, "StatefulSet", name) for name in IMAGES)
        self.start_coordinator()
        for number in range(2):
            self.start_worker(number)
        self.wait_for_workers(2)

    def show_logs_of_a_failure(self):
        if any(error for _, error in self._outcome.result.errors + self._outcome.result.failures):
            for pod in self.cluster.pods:
                print(f"--- {pod}\n{self.cluster.logs(pod)}", file=sys.stderr)

    def start_coordinator(self):
        self.cluster.start(self.coordinator, "stagecoach-coordinator-0")

    def start_worker(self, number):
        self.cluster.start(self.worker, f"stagecoach-worker-{number}")

    def workers(self):
        try:
            return json.loads(self.cluster.client("get", "workers", "-o", "json", stderr=subprocess.DEVNULL))["workers"]
        except subprocess.CalledProcessError:
            return []  # the coordinator does not serve yet

    def wait_for_workers(self, count):
        wait_until(lambda: sum(worker["state"] == "IDLE" for worker in self.workers()) == count, f"{count} idle workers")

    def job(self, name):
        return json.loads(self.cluster.client("get", "job", name, "-o", "json"))

    def checkpoints(self):
        return sorted(path.parent.name for path in self.cluster.directory.glob("stagecoach-checkpoints/tiny/*/manifest.json"))

    def small_job(self, steps):
        """The shipped specification, of a model that takes little time. As text; JSON is YAML."""
        spec = yaml.safe_load(self.shipped_job)
        spec["model"]["config"].update(num_hidden_layers=4, hidden_size=32, num_attention_heads=2)
        spec["training"].update(steps=steps, validation_interval=0)
        spec["lr_scheduler"].update(decay_steps=600)
        spec["checkpoint"].update(interval_steps=0)
        return json.dumps(spec)

    def submit_and_follow(self, pod, steps):
        """Runs the pod that submits, to the job's end."""
        one(self.objects, "ConfigMap", "stagecoach-job-tiny")["data"]["tiny.yaml"] = self.small_job(steps)
        return self.cluster.start(one(self.objects, "Job", "stagecoach-submit-tiny"), pod, attached=True)

    def submit_endless(self):
        """Submits from the coordinator's pod; returns when some steps are done."""
        (self.cluster.directory / "stagecoach-data/endless.yaml").write_text(self.small_job(1_000_000))
        name = self.cluster.client("submit", "/data/endless.yaml").strip()
        self.cluster.client("wait", name, "--for=step=3")
        return name

    def test_the_shipped_job_trains_from_pod_to_pod(self):
        self.submit_and_follow("submit", steps=12)
        job = self.job("tiny")
        self.assertEqual((job["state"], job["step"], len(job["stages"])), ("SUCCEEDED", 12, 2))
        self.assertEqual(self.checkpoints(), ["step-0000000012"])

    def test_a_worker_that_is_told_to_end_leaves_a_checkpoint_that_a_spare_goes_on_from(self):
        name = self.submit_endless()
        grace = pod_spec(self.worker)["terminationGracePeriodSeconds"]
        self.assertEqual(self.cluster.stop("stagecoach-worker-1", grace), 0)
        job = wait_until(lambda: (lambda j: j if j["state"] == "FAILED" else None)(self.job(name)), "the job's end")
        self.assertEqual(job["reason"], "WorkerLost")
        self.assertEqual(self.checkpoints(), [f"step-{job['step']:010}"])
        self.start_worker(2)
        self.wait_for_workers(2)
        self.submit_and_follow("submit-again", steps=job["step"] + 4)
        again = self.job("tiny-2")
        self.assertEqual((again["state"], again["step"]), ("SUCCEEDED", job["step"] + 4))
        self.assertRegex(self.cluster.client("events", "tiny-2"), f"JobResumed.*step-{job['step']:010}")

    def test_a_coordinator_that_is_replaced_goes_on_with_its_job(self):
        name = self.submit_endless()
        grace = pod_spec(self.coordinator)["terminationGracePeriodSeconds"]
        self.assertEqual(self.cluster.stop("stagecoach-coordinator-0", grace), 0)
        self.start_coordinator()
        step = wait_until(lambda: self.workers() and self.job(name)["step"], "the coordinator's return")
        self.cluster.client("wait", name, f"--for=step={step + 5}")
        self.cluster.client("cancel", name)
        wait_until(lambda: self.job(name)["state"] == "CANCELLED", "the end of a cancelled job")


if __name__ == "__main__":
    unittest.main()
