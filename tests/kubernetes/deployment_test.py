"""What the manifests say of our daemons is so: flags, ports, times, versions, the job that is shipped. Argument 1: the folder with
the three binaries."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

from manifests import (INSTALLATIONS, JOBS, KUBERNETES, SOURCE, all_containers, is_selected, name_of, of_kind, one, pod_labels,
                       pod_spec, render_all, workloads)

BINARIES = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 else pathlib.Path()
DAEMONS = {"coordinator": "stagecoach-coordinator", "worker": "stagecoach-worker"}
# What kustomize of kubectl 1.20 knows, and does right.
KUSTOMIZE_FIELDS = {"apiVersion", "kind", "bases", "resources", "patchesStrategicMerge", "configMapGenerator",
                    "generatorOptions", "images"}


def output_of(binary, *arguments):
    return subprocess.run([BINARIES / binary, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def seconds(duration):
    amount, unit = re.fullmatch(r"(\d+)(s|m)", duration).groups()
    return int(amount) * {"s": 1, "m": 60}[unit]


def mebibytes(quantity):
    amount, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()
    return int(amount) * {"Mi": 1, "Gi": 1024}[unit]


def flags(container):
    """{--name: value} of a container's arguments."""
    return dict(argument.partition("=")[::2] for argument in container["args"])


def configured(objects, container):
    """{name: value} of its ConfigMaps."""
    return {key: value for source in container.get("envFrom", [])
            for key, value in one(objects, "ConfigMap", source["configMapRef"]["name"])["data"].items()}


def daemon(objects, component):
    workload = one(objects, "StatefulSet", DAEMONS[component])
    return workload, pod_spec(workload)["containers"][0]


class DeploymentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = render_all()

    def each(self, component):
        """(objects, workload, container) of a daemon in each installation."""
        return [(self.rendered[name], *daemon(self.rendered[name], component)) for name in INSTALLATIONS]

    def test_flags_exist(self):
        for component, binary in DAEMONS.items():
            known = set(re.findall(r"^\s+(--[a-z-]+)", output_of(binary, "--help"), re.M))
            for _, _, container in self.each(component):
                self.assertEqual(set(flags(container)) - known, set(), f"flags that {binary} does not know")

    def test_every_variable_in_an_argument_is_set(self):
        for objects in self.rendered.values():
            for workload, container in all_containers(objects):
                with self.subTest(name_of(workload)):
                    used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
                    known = {entry["name"] for entry in container.get("env", [])} | set(configured(objects, container))
                    self.assertEqual(used - known, set())

    def test_listens_at_the_ports_that_are_declared(self):
        for component in DAEMONS:
            for _, _, container in self.each(component):
                listens = {"grpc": "--listen", "metrics": "--metrics-listen", "health": "--health-listen"}
                wanted = {name: flags(container)[flag] for name, flag in listens.items() if flag in flags(container)}
                declared = {port["name"]: f"0.0.0.0:{port['containerPort']}" for port in container["ports"]}
                self.assertEqual(wanted, declared)

    def test_probes_ask_the_health_port_for_life_and_readiness(self):
        for component in DAEMONS:
            for _, _, container in self.each(component):
                port = int(flags(container)["--health-listen"].rsplit(":", 1)[1])
                for probe, service in {"startupProbe": "live", "livenessProbe": "live", "readinessProbe": ""}.items():
                    asked = container[probe]["grpc"]
                    self.assertEqual((asked["port"], asked.get("service", "")), (port, service), probe)

    def test_workers_and_clients_dial_the_coordinators_service(self):
        for name, objects in self.rendered.items():
            with self.subTest(name):
                service = one(objects, "Service", "stagecoach-coordinator")
                address = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
                self.assertEqual(flags(daemon(objects, "worker")[1])["--coordinator"], address)
                for job in of_kind(objects, "Job"):
                    environment = {entry["name"]: entry.get("value") for entry in pod_spec(job)["containers"][0]["env"]}
                    self.assertEqual(environment["STAGECOACH_ADDRESS"], address)

    def test_a_worker_has_time_to_leave(self):
        for objects, workload, container in self.each("worker"):
            leave = seconds(configured(objects, container)["LEAVE_TIMEOUT"])
            self.assertEqual(flags(container)["--leave-timeout"], "$(LEAVE_TIMEOUT)")
            grace = pod_spec(workload)["terminationGracePeriodSeconds"]
            self.assertGreaterEqual(leave, 120)
            self.assertLessEqual(leave + 20, grace, "the end of the process needs time as well")

    def test_a_worker_has_memory_beside_what_jobs_may_use(self):
        for _, _, container in self.each("worker"):
            resources = container["resources"]
            requested, limit = (mebibytes(resources[kind]["memory"]) for kind in ("requests", "limits"))
            self.assertGreaterEqual(limit - requested, max(512, requested // 5))

    def test_there_is_a_spare_worker(self):
        job = yaml.safe_load((KUBERNETES / "jobs/tiny/tiny.yaml").read_text())
        for _, workload, _ in self.each("worker"):
            self.assertGreater(workload["spec"]["replicas"], job["parallelism"]["pipeline_parallel_degree"])

    def test_workers_start_together_and_are_replaced_by_hand(self):
        for objects, workload, _ in self.each("worker"):
            self.assertEqual(workload["spec"]["podManagementPolicy"], "Parallel")
            self.assertEqual(workload["spec"]["updateStrategy"], {"type": "OnDelete"})
            service = one(objects, "Service", workload["spec"]["serviceName"])
            self.assertEqual((service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]), ("None", True))

    def test_one_coordinator_with_a_volume_of_its_own(self):
        for _, workload, container in self.each("coordinator"):
            self.assertEqual(workload["spec"]["replicas"], 1)
            claim = workload["spec"]["volumeClaimTemplates"][0]
            mount = next(m for m in container["volumeMounts"] if m["name"] == claim["metadata"]["name"])
            self.assertEqual(pathlib.PurePath(flags(container)["--state-dir"]).parent, pathlib.PurePath(mount["mountPath"]))

    def test_everybody_sees_the_same_checkpoints_and_only_reads_data(self):
        for component in DAEMONS:
            for objects, workload, container in self.each(component):
                volumes = {v["name"]: v for v in pod_spec(workload)["volumes"]}
                mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
                for path, claim, read_only in (("/checkpoints", "stagecoach-checkpoints", False), ("/data", "stagecoach-data", True)):
                    mount = mounts[path]
                    self.assertEqual(volumes[mount["name"]]["persistentVolumeClaim"]["claimName"], claim)
                    self.assertEqual(mount.get("readOnly", False), read_only)
                    self.assertTrue(one(objects, "PersistentVolumeClaim", claim))

    def test_versions_are_those_of_the_binaries(self):
        version = output_of("stagecoach-worker", "--version").split()[1]
        for objects in self.rendered.values():
            for workload, container in all_containers(objects):
                self.assertEqual(container["image"].rsplit(":", 1)[1], version)
                if workload["kind"] == "StatefulSet":
                    for labels in (workload["metadata"]["labels"], pod_labels(workload)):
                        self.assertEqual(labels["app.kubernetes.io/version"], version)

    def test_a_changed_configuration_has_another_name(self):
        maps = [m["metadata"]["name"] for m in of_kind(self.rendered["base with jobs"], "ConfigMap")]
        self.assertEqual(len(maps), 3)
        for name in maps:
            self.assertRegex(name, r"-[a-z0-9]{10}$")

    def test_kustomizations_stay_within_what_the_oldest_kubectl_knows(self):
        for folder in (*INSTALLATIONS, *JOBS):
            with self.subTest(folder):
                kustomization = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
                self.assertEqual(set(kustomization) - KUSTOMIZE_FIELDS, set())
                for resource in kustomization.get("resources", []):
                    self.assertTrue((KUBERNETES / folder / resource).is_file(), "a folder belongs under bases")

    def test_every_file_is_used(self):
        for folder in (*INSTALLATIONS, *JOBS):
            kustomization = (KUBERNETES / folder / "kustomization.yaml").read_text()
            for path in (KUBERNETES / folder).glob("*.yaml"):
                if path.name != "kustomization.yaml":
                    self.assertIn(f"- {path.name}\n", kustomization)

    def test_the_shipped_job_is_valid(self):
        with tempfile.TemporaryDirectory() as directory:
            output_of("stagecoach", "validate", KUBERNETES / "jobs/tiny/tiny.yaml", "--set", f"checkpoint.dir={directory}")

    def test_the_shipped_job_writes_where_the_volume_is(self):
        job = yaml.safe_load((KUBERNETES / "jobs/tiny/tiny.yaml").read_text())
        self.assertTrue(job["checkpoint"]["dir"].startswith("/checkpoints/"))
        self.assertEqual(job["checkpoint"]["resume"], "auto")
        example = yaml.safe_load((SOURCE / "examples/tiny.yaml").read_text())
        self.assertEqual((job["model"], job["data"]["train"]), (example["model"], example["data"]["train"]))


def allowed(objects, direction, pod, peer):
    """Ports (None: all of TCP) that a pod with these labels may be reached at by, or reach at, a peer with these."""
    key, side = {"ingress": ("ingress", "from"), "egress": ("egress", "to")}[direction]
    ports = set()
    for policy in of_kind(objects, "NetworkPolicy"):
        if is_selected(policy["spec"]["podSelector"], pod):
            for entry in policy["spec"].get(key, []):
                if any("podSelector" in other and is_selected(other["podSelector"], peer) for other in entry.get(side, [])):
                    ports |= {port.get("port") for port in entry["ports"]}
    return ports


class NetworkPolicyTest(unittest.TestCase):
    """Who may speak to whom, by evaluating the policies: a connection needs the sender's egress and the receiver's ingress."""

    def setUp(self):
        self.objects = render_all()["base with jobs"]
        self.labels = {pod_labels(w)["app.kubernetes.io/component"]: pod_labels(w) for w in workloads(self.objects)}

    def connections(self, sender, receiver):
        sender, receiver = self.labels[sender], self.labels[receiver]
        return allowed(self.objects, "egress", sender, receiver) & allowed(self.objects, "ingress", receiver, sender)

    def test_who_speaks_to_whom(self):
        grpc, all_of_tcp, nothing = {7070}, {None}, set()
        wanted = {("worker", "coordinator"): grpc, ("client", "coordinator"): grpc, ("worker", "worker"): all_of_tcp,
                  ("coordinator", "worker"): nothing, ("coordinator", "client"): nothing, ("client", "worker"): nothing,
                  ("worker", "client"): nothing, ("client", "client"): nothing, ("coordinator", "coordinator"): nothing}
        self.assertEqual({pair: self.connections(*pair) for pair in wanted}, wanted)

    def test_a_stranger_reaches_nobody(self):
        for labels in self.labels.values():
            self.assertEqual(allowed(self.objects, "ingress", labels, {"app": "stranger"}), set())

    def test_who_dials_may_ask_for_names(self):
        for component, dials in {"worker": True, "client": True, "coordinator": False}.items():
            open_ports = [(port["protocol"], port["port"]) for policy in of_kind(self.objects, "NetworkPolicy")
                          if is_selected(policy["spec"]["podSelector"], self.labels[component])
                          for entry in policy["spec"].get("egress", []) if "to" not in entry for port in entry["ports"]]
            self.assertEqual(open_ports, [("UDP", 53), ("TCP", 53)] if dials else [], component)

    def test_monitoring_reaches_metrics_alone(self):
        for component in ("coordinator", "worker"):
            ports = [port["port"] for policy in of_kind(self.objects, "NetworkPolicy")
                     if is_selected(policy["spec"]["podSelector"], self.labels[component])
                     for entry in policy["spec"].get("ingress", []) for port in entry["ports"]
                     if any("namespaceSelector" in peer for peer in entry["from"])]
            self.assertEqual(ports, [7071])


if __name__ == "__main__":
    unittest.main()
