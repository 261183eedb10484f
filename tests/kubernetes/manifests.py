"""Renders the manifests of deploy/kubernetes as `kubectl apply -k` would, and finds its way in them."""

import os
import pathlib
import subprocess

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = SOURCE / "deploy/kubernetes"
INSTALLATIONS = ("base", "overlays/cpu", "overlays/kind")
JOBS = ("jobs/tiny",)
KUBECTL = os.environ.get("KUBECTL", "kubectl")


def render(folder):
    """The objects of a folder of deploy/kubernetes."""
    text = subprocess.run([KUBECTL, "kustomize", str(KUBERNETES / folder)], check=True, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL).stdout
    return [object_ for object_ in yaml.safe_load_all(text) if object_]


def render_all():
    """{name: objects}: each installation, and each with the jobs that run beside it."""
    jobs = [object_ for job in JOBS for object_ in render(job)]
    installations = {folder: render(folder) for folder in INSTALLATIONS}
    return {**installations, **{f"{folder} with jobs": objects + jobs for folder, objects in installations.items()}}


def name_of(object_):
    return f"{object_['kind']} {object_['metadata'].get('name', '?')}"


def of_kind(objects, *kinds):
    return [object_ for object_ in objects if object_["kind"] in kinds]


def one(objects, kind, name):
    """The object of that name; a generated name has a hash behind it, which does not count."""
    found = [object_ for object_ in of_kind(objects, kind) if object_["metadata"]["name"].startswith(name)]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def pod_template(workload):
    """None for what has no pods."""
    if workload["kind"] == "Pod":
        return workload
    if workload["kind"] in ("StatefulSet", "Deployment", "DaemonSet", "Job"):
        return workload["spec"]["template"]
    return None


def workloads(objects):
    return [object_ for object_ in objects if pod_template(object_)]


def pod_spec(workload):
    return pod_template(workload)["spec"]


def pod_labels(workload):
    return pod_template(workload)["metadata"].get("labels", {})


def containers(workload):
    spec = pod_spec(workload)
    return spec.get("initContainers", []) + spec["containers"]


def all_containers(objects):
    """(workload, container) of all of them."""
    return [(workload, container) for workload in workloads(objects) for container in containers(workload)]


def is_selected(selector, labels):
    """Whether a label selector, or a service's plain mapping, chooses what has these labels."""
    wanted = selector.get("matchLabels", {}) if "matchLabels" in selector or "matchExpressions" in selector else selector
    assert "matchExpressions" not in selector, "not needed so far"
    return all(labels.get(key) == value for key, value in wanted.items())
