"""The rules of policy.py find nothing in our manifests, and each finds what is planted for it."""

import copy
import unittest

import policy
from manifests import all_containers, name_of, of_kind, one, pod_spec, pod_template, render_all

WORKER = ("StatefulSet", "stagecoach-worker")
COORDINATOR = ("StatefulSet", "stagecoach-coordinator")


def in_worker(change):
    """Plants in the worker's container."""
    return lambda objects: change(pod_spec(one(objects, *WORKER))["containers"][0])


def in_pod(change):
    return lambda objects: change(pod_spec(one(objects, *WORKER)))


def in_object(kind, name, change):
    return lambda objects: change(one(objects, kind, name))


def security(**values):
    return in_worker(lambda container: container["securityContext"].update(values))


def probe_port(probe):
    return in_worker(lambda container: container[probe]["grpc"].update(port=7079))


def without(*path):
    """Removes what is at the path in the worker's container."""
    def change(container):
        for key in path[:-1]:
            container = container[key]
        del container[path[-1]]
    return in_worker(change)


def remove_default_deny(objects):
    objects.remove(one(objects, "NetworkPolicy", "stagecoach-default-deny"))


def remove_budget(objects):
    objects.remove(one(objects, "PodDisruptionBudget", "stagecoach-worker"))


def budget(**values):
    def change(object_):
        object_["spec"].pop("maxUnavailable", None)
        object_["spec"].update(values)
    return in_object("PodDisruptionBudget", "stagecoach-worker", change)


def worker_environment(*entries):
    return in_worker(lambda container: container["env"].extend(entries))


def add(object_):
    return lambda objects: objects.append(object_)


ROLE = {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}],
        "metadata": {"name": "r", "labels": {f"app.kubernetes.io/{key}": "stagecoach" for key in policy.WANTED_LABELS}}}
MONITOR = {"kind": "ServiceMonitor", "spec": {"selector": {"matchLabels": {"app.kubernetes.io/component": "scheduler"}}},
           "metadata": dict(ROLE["metadata"])}

# For every rule, ways of breaking it.
PLANTS = {
    "drop-net-raw-capability": [security(capabilities={"drop": ["CHOWN"]}), without("securityContext", "capabilities")],
    "no-read-only-root-fs": [security(readOnlyRootFilesystem=False), without("securityContext", "readOnlyRootFilesystem")],
    "privilege-escalation-container": [security(allowPrivilegeEscalation=True),
                                       without("securityContext", "allowPrivilegeEscalation")],
    "privileged-container": [security(privileged=True)],
    "run-as-non-root": [security(runAsNonRoot=False), security(runAsUser=0),
                        in_pod(lambda pod: pod["securityContext"].pop("runAsNonRoot"))],
    "latest-tag": [in_worker(lambda c, image=image: c.update(image=image))
                   for image in ("stagecoach-worker:latest", "stagecoach-worker", "registry.example:5000/stagecoach-worker")],
    "env-var-secret": [worker_environment({"name": "API_TOKEN", "value": "abc"})],
    "duplicate-env-var": [worker_environment({"name": "POD_NAME", "value": "worker"})],
    "unset-cpu-requirements": [without("resources", "limits", "cpu"), without("resources", "requests", "cpu")],
    "unset-memory-requirements": [without("resources", "limits", "memory"), without("resources", "requests", "memory")],
    "liveness-port": [probe_port("livenessProbe")],
    "readiness-port": [probe_port("readinessProbe")],
    "startup-port": [probe_port("startupProbe")],
    "no-liveness-probe": [without("livenessProbe")],
    "no-readiness-probe": [without("readinessProbe")],
    "drop-all-capabilities": [security(capabilities={"drop": ["NET_RAW"]}),
                              security(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]})],
    "numeric-user": [in_pod(lambda pod: pod["securityContext"].pop("runAsUser")), security(runAsGroup=0)],
    "seccomp-runtime-default": [security(seccompProfile={"type": "Unconfined"}),
                                in_pod(lambda pod: pod["securityContext"].pop("seccompProfile"))],
    "named-ports": [without("ports", 0, "name"), in_worker(lambda c: c["ports"][0].update(hostPort=7071))],
    "host-ipc": [in_pod(lambda pod: pod.update(hostIPC=True))],
    "host-network": [in_pod(lambda pod: pod.update(hostNetwork=True))],
    "host-pid": [in_pod(lambda pod: pod.update(hostPID=True))],
    "sensitive-host-mounts": [in_pod(lambda pod: pod["volumes"].append({"name": "host", "hostPath": {"path": "/etc"}}))],
    "unsafe-sysctls": [in_pod(lambda pod: pod["securityContext"].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}]))],
    "service-account-token": [in_pod(lambda pod: pod.pop("automountServiceAccountToken"))],
    "service-links": [in_pod(lambda pod: pod.pop("enableServiceLinks"))],
    "non-existent-service-account": [in_pod(lambda pod: pod.update(serviceAccountName="stagecoach-admin"))],
    "missing-volume-source": [
        in_pod(lambda pod: pod["volumes"].append({"name": "more", "persistentVolumeClaim": {"claimName": "stagecoach-more"}})),
        in_pod(lambda pod: pod["volumes"].append({"name": "more", "configMap": {"name": "stagecoach-more"}})),
        in_worker(lambda c: c["volumeMounts"].append({"name": "more", "mountPath": "/more"})),
        in_worker(lambda c: c["envFrom"].append({"configMapRef": {"name": "stagecoach-more"}}))],
    "job-ttl-seconds-after-finished": [in_object("Job", "stagecoach-submit", lambda job: job["spec"].pop("ttlSecondsAfterFinished"))],
    "mismatching-selector": [in_object(*WORKER, lambda w: pod_template(w)["metadata"]["labels"].update(
        {"app.kubernetes.io/component": "stage"}))],
    "no-anti-affinity": [in_pod(lambda pod: pod.pop("affinity")),
                         in_object(*COORDINATOR, lambda coordinator: coordinator["spec"].update(replicas=2))],
    "dangling-service": [in_object("Service", "stagecoach-worker", lambda s: s["spec"]["selector"].update(app="worker")),
                         in_object("Service", "stagecoach-worker", lambda s: s["spec"].pop("selector"))],
    "invalid-target-ports": [in_object("Service", "stagecoach-coordinator",
                                       lambda s: s["spec"]["ports"][0].update(targetPort="http")),
                             in_object("Service", "stagecoach-coordinator", lambda s: s["spec"]["ports"][0].pop("targetPort")
                                       and s["spec"]["ports"][0].update(port=443))],
    "dangling-servicemonitor": [add(MONITOR)],
    "dangling-networkpolicy": [in_object("NetworkPolicy", "stagecoach-worker", lambda p: p["spec"]["podSelector"]["matchLabels"]
                                         .update(app="worker"))],
    "network-policy-port": [
        in_object("NetworkPolicy", "stagecoach-coordinator", lambda p: p["spec"]["ingress"][0]["ports"][0].update(port=7170)),
        in_object("NetworkPolicy", "stagecoach-worker", lambda p: p["spec"]["egress"][1]["ports"][0].update(port=7170))],
    "network-policy-default-deny": [
        remove_default_deny,
        in_object("NetworkPolicy", "stagecoach-default-deny", lambda p: p["spec"].update(policyTypes=["Ingress"]))],
    "network-policy-open-ingress": [in_object("NetworkPolicy", "stagecoach-worker",
                                              lambda p: p["spec"]["ingress"].append({"ports": [{"port": 7071}]}))],
    "pdb-max-unavailable": [budget(maxUnavailable=0), budget(maxUnavailable="0%")],
    "pdb-min-available": [budget(minAvailable="81%"),
                          in_object("PodDisruptionBudget", "stagecoach-coordinator", lambda b: b["spec"].update(minAvailable=1))],
    "pdb-unhealthy-pod-eviction-policy": [in_object("PodDisruptionBudget", "stagecoach-worker",
                                                    lambda b: b["spec"].pop("unhealthyPodEvictionPolicy"))],
    "no-pod-disruption-budget": [remove_budget],
    "wildcard-in-rules": [add(ROLE)],
    "hard-coded-namespace": [in_object(*WORKER, lambda w: w["metadata"].update(namespace="training"))],
    "recommended-labels": [in_object("ServiceAccount", "stagecoach", lambda a: a["metadata"].pop("labels")),
                           in_object(*WORKER, lambda w: pod_template(w)["metadata"]["labels"].pop("app.kubernetes.io/instance"))],
    "selector-of-version": [in_object(*WORKER, lambda w: w["spec"]["selector"]["matchLabels"].update(
        {"app.kubernetes.io/version": "0.1.0"}))],
}


class PolicyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = render_all()

    def test_nothing_is_found_in_what_we_ship(self):
        for name, objects in self.rendered.items():
            with self.subTest(name):
                self.assertEqual(policy.findings(objects), {})

    def test_what_is_checked_is_there(self):
        for name, objects in self.rendered.items():
            with self.subTest(name):
                names = [name_of(workload) for workload, _ in all_containers(objects)]
                self.assertEqual(names[:2], ["StatefulSet stagecoach-coordinator", "StatefulSet stagecoach-worker"])
                self.assertEqual("Job stagecoach-submit-tiny" in names, name.endswith("with jobs"))
                self.assertGreaterEqual(len(of_kind(objects, "NetworkPolicy")), 3)

    def test_every_rule_has_a_plant(self):
        self.assertEqual(set(PLANTS), set(policy.RULES))

    def test_every_rule_finds_what_is_planted_for_it(self):
        shipped = self.rendered["base with jobs"]
        for rule, plants in PLANTS.items():
            for index, plant in enumerate(plants):
                with self.subTest(rule, plant=index):
                    objects = copy.deepcopy(shipped)
                    plant(objects)
                    self.assertNotEqual(objects, shipped)
                    self.assertIn(rule, policy.findings(objects))


if __name__ == "__main__":
    unittest.main()
