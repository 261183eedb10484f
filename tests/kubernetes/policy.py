"""What may be found wrong with manifests, each rule by the name that kube-linter has for it, or one of our own where a restricted
cluster or our daemons ask for more. A rule takes the objects of an installation and returns what it objects to, as sentences."""

import re

from manifests import (all_containers, containers, is_selected, name_of, of_kind, pod_labels, pod_spec, pod_template, workloads)

RULES = {}


def rule(name):
    def register(check):
        RULES[name] = check
        return check
    return register


def findings(objects):
    """{rule: [what it objects to]}, of those that object."""
    found = {name: list(check(objects)) for name, check in RULES.items()}
    return {name: what for name, what in found.items() if what}


def each_container(name, is_bad):
    """Registers a rule about one container: is_bad(container, pod's spec)."""
    def check(objects):
        return [f"{name_of(workload)}, container {container['name']}" for workload, container in all_containers(objects)
                if is_bad(container, pod_spec(workload))]
    RULES[name] = check


def each_pod(name, is_bad):
    """Registers a rule about one pod: is_bad(pod's spec)."""
    RULES[name] = lambda objects: [name_of(workload) for workload in workloads(objects) if is_bad(pod_spec(workload))]


def security(container):
    return container.get("securityContext", {})


def dropped(container):
    return security(container).get("capabilities", {}).get("drop", [])


def setting(container, pod, key):
    """Of the security context, where a container's goes before its pod's."""
    return security(container).get(key, pod.get("securityContext", {}).get(key))


# --- containers

each_container("drop-net-raw-capability", lambda c, _: not {"ALL", "NET_RAW"} & set(dropped(c)))
each_container("no-read-only-root-fs", lambda c, _: security(c).get("readOnlyRootFilesystem") is not True)
each_container("privilege-escalation-container",
               lambda c, _: security(c).get("allowPrivilegeEscalation") is not False or "SYS_ADMIN" in
               security(c).get("capabilities", {}).get("add", []))
each_container("privileged-container", lambda c, _: bool(security(c).get("privileged")))
each_container("run-as-non-root",
               lambda c, pod: setting(c, pod, "runAsNonRoot") is not True or setting(c, pod, "runAsUser") == 0)
each_container("latest-tag", lambda c, _: not re.fullmatch(r"[^@]+:(?!latest$)[\w][\w.-]*(@sha256:[0-9a-f]{64})?", c["image"]))
each_container("env-var-secret",
               lambda c, _: any("value" in e and re.search("secret|password|token|credential", e["name"], re.I)
                                for e in c.get("env", [])))
each_container("duplicate-env-var", lambda c, _: len({e["name"] for e in c.get("env", [])}) != len(c.get("env", [])))


def lacks_resource(resource):
    return lambda c, _: any(resource not in c.get("resources", {}).get(kind, {}) for kind in ("requests", "limits"))


each_container("unset-cpu-requirements", lacks_resource("cpu"))
each_container("unset-memory-requirements", lacks_resource("memory"))


def probes_undeclared_port(probe):
    def is_bad(container, _):
        ports = container.get("ports", [])
        known = {port["containerPort"] for port in ports} | {port.get("name") for port in ports}
        actions = [container.get(probe, {}).get(action, {}) for action in ("grpc", "httpGet", "tcpSocket")]
        return any("port" in action and action["port"] not in known for action in actions)
    return is_bad


for kind in ("liveness", "readiness", "startup"):
    each_container(f"{kind}-port", probes_undeclared_port(f"{kind}Probe"))


def lacks_probe(probe):
    """Of what runs until it is told to end: a Job's pod needs none."""
    return lambda objects: [f"{name_of(workload)}, container {container['name']}"
                            for workload, container in all_containers(objects)
                            if workload["kind"] != "Job" and probe not in container]


RULES["no-liveness-probe"] = lacks_probe("livenessProbe")
RULES["no-readiness-probe"] = lacks_probe("readinessProbe")

# Ours, beyond kube-linter: the restricted profile of pod security, and what a numeric user is for.
each_container("drop-all-capabilities", lambda c, _: "ALL" not in dropped(c) or security(c).get("capabilities", {}).get("add"))
each_container("numeric-user", lambda c, pod: not all(isinstance(setting(c, pod, key), int) and setting(c, pod, key) > 0
                                                      for key in ("runAsUser", "runAsGroup")))
each_container("seccomp-runtime-default",
               lambda c, pod: (setting(c, pod, "seccompProfile") or {}).get("type") != "RuntimeDefault")
each_container("named-ports", lambda c, _: any("name" not in port or "hostPort" in port for port in c.get("ports", [])))

# --- pods

each_pod("host-ipc", lambda pod: bool(pod.get("hostIPC")))
each_pod("host-network", lambda pod: bool(pod.get("hostNetwork")))
each_pod("host-pid", lambda pod: bool(pod.get("hostPID")))
# kube-linter has a list of sensitive paths; ours need none at all.
each_pod("sensitive-host-mounts", lambda pod: any("hostPath" in volume for volume in pod.get("volumes", [])))
SAFE_SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
                "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"}
each_pod("unsafe-sysctls",
         lambda pod: any(s["name"] not in SAFE_SYSCTLS for s in pod.get("securityContext", {}).get("sysctls", [])))
each_pod("service-account-token", lambda pod: pod.get("automountServiceAccountToken") is not False)
# Variables such as STAGECOACH_COORDINATOR_PORT would be taken for ours.
each_pod("service-links", lambda pod: pod.get("enableServiceLinks") is not False)


@rule("non-existent-service-account")
def non_existent_service_account(objects):
    known = {account["metadata"]["name"] for account in of_kind(objects, "ServiceAccount")} | {"default"}
    return [name_of(w) for w in workloads(objects) if pod_spec(w).get("serviceAccountName", "default") not in known]


@rule("missing-volume-source")
def missing_volume_source(objects):
    """A mount without a volume, a claim or ConfigMap that nobody makes: such a pod waits for ever."""
    claims = {claim["metadata"]["name"] for claim in of_kind(objects, "PersistentVolumeClaim")}
    maps = {config["metadata"]["name"] for config in of_kind(objects, "ConfigMap")}
    for workload in workloads(objects):
        volumes = pod_spec(workload).get("volumes", [])
        names = {v["name"] for v in volumes}
        names |= {t["metadata"]["name"] for t in workload["spec"].get("volumeClaimTemplates", [])}
        for volume in volumes:
            if volume.get("persistentVolumeClaim", {}).get("claimName", next(iter(claims), None)) not in claims | {None}:
                yield f"{name_of(workload)}: no claim for volume {volume['name']}"
            if "configMap" in volume and volume["configMap"]["name"] not in maps:
                yield f"{name_of(workload)}: no ConfigMap for volume {volume['name']}"
        for container in containers(workload):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in names:
                    yield f"{name_of(workload)}: no volume {mount['name']}"
            for source in container.get("envFrom", []):
                if source["configMapRef"]["name"] not in maps:
                    yield f"{name_of(workload)}: no ConfigMap {source['configMapRef']['name']}"


@rule("job-ttl-seconds-after-finished")
def job_ttl(objects):
    return [name_of(job) for job in of_kind(objects, "Job") if "ttlSecondsAfterFinished" not in job["spec"]]


@rule("mismatching-selector")
def mismatching_selector(objects):
    return [name_of(w) for w in of_kind(objects, "StatefulSet", "Deployment", "DaemonSet")
            if not w["spec"]["selector"] or not is_selected(w["spec"]["selector"], pod_labels(w))]


@rule("no-anti-affinity")
def no_anti_affinity(objects):
    def keeps_apart(workload):
        affinity = pod_spec(workload).get("affinity", {}).get("podAntiAffinity", {})
        terms = [term["podAffinityTerm"] for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
        terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        return any(term["topologyKey"] == "kubernetes.io/hostname" and is_selected(term["labelSelector"], pod_labels(workload))
                   for term in terms)
    return [name_of(w) for w in of_kind(objects, "StatefulSet", "Deployment")
            if w["spec"].get("replicas", 1) > 1 and not keeps_apart(w)]


# --- services, budgets, network policies

def selected_workloads(objects, selector):
    return [workload for workload in workloads(objects) if is_selected(selector, pod_labels(workload))]


@rule("dangling-service")
def dangling_service(objects):
    return [name_of(s) for s in of_kind(objects, "Service") if not selected_workloads(objects, s["spec"].get("selector", {}))
            or not s["spec"].get("selector")]


@rule("invalid-target-ports")
def invalid_target_ports(objects):
    for service in of_kind(objects, "Service"):
        for workload in selected_workloads(objects, service["spec"].get("selector", {})):
            ports = [port for container in containers(workload) for port in container.get("ports", [])]
            known = {port["containerPort"] for port in ports} | {port.get("name") for port in ports}
            for port in service["spec"]["ports"]:
                if port.get("targetPort", port["port"]) not in known:
                    yield f"{name_of(service)}, port {port['port']}: {name_of(workload)} has no such"


@rule("dangling-servicemonitor")
def dangling_service_monitor(objects):
    services = [service["metadata"].get("labels", {}) for service in of_kind(objects, "Service")]
    return [name_of(m) for m in of_kind(objects, "ServiceMonitor")
            if not any(is_selected(m["spec"]["selector"], labels) for labels in services)]


@rule("dangling-networkpolicy")
def dangling_network_policy(objects):
    return [name_of(p) for p in of_kind(objects, "NetworkPolicy") if not selected_workloads(objects, p["spec"]["podSelector"])]


def rules_of(policy):
    return policy["spec"].get("ingress", []) + policy["spec"].get("egress", [])


@rule("network-policy-port")
def network_policy_port(objects):
    """A port that a policy opens in front of pods of ours must be one that they listen at."""
    for policy in of_kind(objects, "NetworkPolicy"):
        receivers = [(policy["spec"]["podSelector"], entry) for entry in policy["spec"].get("ingress", [])]
        receivers += [(peer["podSelector"], entry) for entry in policy["spec"].get("egress", []) for peer in entry.get("to", [])]
        for selector, entry in receivers:
            known = {port["containerPort"] for workload in selected_workloads(objects, selector)
                     for container in containers(workload) for port in container.get("ports", [])}
            for port in entry.get("ports", []):
                if "port" in port and port["port"] not in known:
                    yield f"{name_of(policy)}: port {port['port']}"


@rule("network-policy-default-deny")
def network_policy_default_deny(objects):
    """Every pod is in a policy that allows nothing, so that what the others do not name is forbidden."""
    denials = [p for p in of_kind(objects, "NetworkPolicy")
               if not rules_of(p) and set(p["spec"].get("policyTypes", [])) == {"Ingress", "Egress"}]
    return [name_of(w) for w in workloads(objects) if not any(is_selected(p["spec"]["podSelector"], pod_labels(w)) for p in denials)]


@rule("network-policy-open-ingress")
def network_policy_open_ingress(objects):
    """Ingress from everybody, which is what a rule without `from` means."""
    return [name_of(p) for p in of_kind(objects, "NetworkPolicy") if any(not entry.get("from") for entry in
                                                                         p["spec"].get("ingress", []))]


def budgets(objects):
    """(budget, a workload that it is about)."""
    return [(budget, workload) for budget in of_kind(objects, "PodDisruptionBudget")
            for workload in selected_workloads(objects, budget["spec"]["selector"])]


def number(value, replicas):
    """Of pods; a percentage is rounded up, as Kubernetes does for budgets."""
    return -(-int(value[:-1]) * replicas // 100) if isinstance(value, str) else value


@rule("pdb-max-unavailable")
def pdb_max_unavailable(objects):
    return [name_of(budget) for budget, workload in budgets(objects)
            if number(budget["spec"].get("maxUnavailable", 1), workload["spec"].get("replicas", 1)) == 0]


@rule("pdb-min-available")
def pdb_min_available(objects):
    return [name_of(budget) for budget, workload in budgets(objects)
            if number(budget["spec"].get("minAvailable", 0), workload["spec"].get("replicas", 1)) >= workload["spec"].get("replicas", 1)]


@rule("pdb-unhealthy-pod-eviction-policy")
def pdb_unhealthy_pod_eviction_policy(objects):
    return [name_of(budget) for budget in of_kind(objects, "PodDisruptionBudget")
            if budget["spec"].get("unhealthyPodEvictionPolicy") != "AlwaysAllow"]


@rule("no-pod-disruption-budget")
def no_pod_disruption_budget(objects):
    protected = [name_of(workload) for _, workload in budgets(objects)]
    return [name_of(w) for w in of_kind(objects, "StatefulSet", "Deployment") if name_of(w) not in protected]


# --- all objects

@rule("wildcard-in-rules")
def wildcard_in_rules(objects):
    return [name_of(role) for role in of_kind(objects, "Role", "ClusterRole") for entry in role.get("rules", [])
            if any("*" in entry.get(key, []) for key in ("apiGroups", "resources", "verbs"))]


@rule("hard-coded-namespace")
def hard_coded_namespace(objects):
    """Where an installation goes is said when it is applied."""
    return [name_of(object_) for object_ in objects if "namespace" in object_["metadata"] or object_["kind"] == "Namespace"]


WANTED_LABELS = ("name", "instance", "part-of")


@rule("recommended-labels")
def recommended_labels(objects):
    for object_ in objects:
        wanted = WANTED_LABELS + (("component",) if pod_template(object_) else ())
        missing = [key for key in wanted if f"app.kubernetes.io/{key}" not in object_["metadata"].get("labels", {})]
        if pod_template(object_):
            missing += [f"{key} of its pods" for key in wanted if f"app.kubernetes.io/{key}" not in pod_labels(object_)]
        if missing:
            yield f"{name_of(object_)}: {', '.join(missing)}"


@rule("selector-of-version")
def selector_of_version(objects):
    """A selector can never change; a version does."""
    return [name_of(w) for w in of_kind(objects, "StatefulSet", "Deployment")
            if "app.kubernetes.io/version" in w["spec"]["selector"].get("matchLabels", {})]
