"""Runs the pods of rendered manifests on this machine: a container each, with podman, as restricted as the manifests say, and a
network namespace each with an interface eth0, so that pods see of each other what pods of a cluster do. Needs root."""

import os
import pathlib
import re
import shutil
import subprocess
import time

from manifests import one, pod_spec

# Ways to run containers. The second is for machines with control groups of both versions, or with limits that root cannot raise.
PODMAN = (["podman"], ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"])
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
UNITS = {"": 1, "m": 1e-3, "Mi": 2**20, "Gi": 2**30}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def find_podman(image):
    for podman in PODMAN:
        tried = subprocess.run([*podman, "run", "--rm", *LIMITS, "--network", "none", image, "--version"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        if tried.returncode == 0:
            return podman
    raise RuntimeError(f"podman cannot run {image} here: {tried.stderr}")


def amount(quantity):
    digits, unit = re.fullmatch(r"(\d+)(\w*)", str(quantity)).groups()
    return int(digits) * UNITS[unit]


class Network:
    """A bridge in a namespace of its own, and a namespace for each pod, with addresses that nobody else sees."""

    def __init__(self):
        self.prefix = f"stagecoach-{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.addresses = {}
        run("ip", "netns", "add", self.switch)
        self.ip(self.switch, "link", "add", "bridge", "type", "bridge")
        self.ip(self.switch, "link", "set", "bridge", "up")

    @staticmethod
    def ip(namespace, *arguments):
        run("ip", "-n", namespace, *arguments)

    def namespace_of(self, pod):
        return f"{self.prefix}-{pod}"

    def join(self, pod):
        """Makes the namespace of a pod, and returns its address."""
        namespace = self.namespace_of(pod)
        number = len(self.addresses) + 1
        self.addresses[pod] = f"10.244.0.{number}"
        run("ip", "netns", "add", namespace)
        self.ip(self.switch, "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self.ip(self.switch, "link", "set", f"port{number}", "up", "master", "bridge")
        self.ip(namespace, "address", "add", f"{self.addresses[pod]}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            self.ip(namespace, "link", "set", interface, "up")
        return self.addresses[pod]

    def close(self):
        for namespace in [*map(self.namespace_of, self.addresses), self.switch]:
            run("ip", "netns", "delete", namespace)


class Cluster:
    """The pods of some rendered objects, by name. Volumes are folders of `directory`, claims by their names."""

    def __init__(self, objects, directory, images):
        self.objects = objects
        self.directory = pathlib.Path(directory)
        self.images = images
        self.podman = find_podman(images["stagecoach-worker"])
        self.network = Network()
        self.pods = []

    def close(self):
        for pod in self.pods:
            self.run_podman("rm", "--force", "--time", "0", self.container(pod))
        self.network.close()

    def run_podman(self, *arguments, **options):
        return run(*self.podman, *arguments, **options)

    def container(self, pod):
        return f"{self.network.prefix}-{pod}"

    def folder(self, name, group):
        """As a volume is given to a group by fsGroup."""
        path = self.directory / name
        if not path.exists():
            path.mkdir()
            shutil.chown(path, group=group)
            path.chmod(0o2775)
        return path

    def environment(self, pod, container):
        values = {}
        for source in container.get("envFrom", []):
            values |= one(self.objects, "ConfigMap", source["configMapRef"]["name"])["data"]
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "resourceFieldRef" in source:
                kind, resource = source["resourceFieldRef"]["resource"].split(".")
                value = amount(container["resources"][kind][resource]) / amount(source["resourceFieldRef"]["divisor"])
                values[entry["name"]] = str(int(-(-value // 1)))
            elif "fieldRef" in source:
                values[entry["name"]] = {"metadata.name": pod}.get(source["fieldRef"]["fieldPath"], pod)
            else:
                values[entry["name"]] = entry["value"]
        return values

    def volume_source(self, workload, volume, group):
        if "persistentVolumeClaim" in volume:
            return self.folder(volume["persistentVolumeClaim"]["claimName"], group)
        source = self.folder(f"{workload['metadata']['name']}-{volume['name']}", group)
        for name, text in one(self.objects, "ConfigMap", volume["configMap"]["name"])["data"].items():
            (source / name).write_text(text)
        return source

    def mounts(self, workload, pod):
        spec = pod_spec(workload)
        group = spec["securityContext"].get("fsGroup", 0)
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for mount in spec["containers"][0]["volumeMounts"]:
            volume = volumes.get(mount["name"])
            if volume is None:  # of a claim template
                yield f"--volume={self.folder(f'{pod}-state', group)}:{mount['mountPath']}"
            elif "emptyDir" in volume:
                size = int(amount(volume["emptyDir"]["sizeLimit"]))
                yield f"--mount=type=tmpfs,destination={mount['mountPath']},tmpfs-size={size},tmpfs-mode=1777"
            else:
                mode = ":ro" if mount.get("readOnly") else ""
                yield f"--volume={self.volume_source(workload, volume, group)}:{mount['mountPath']}{mode}"

    def options(self, workload, pod):
        spec = pod_spec(workload)
        security, container = spec["securityContext"], spec["containers"][0]
        assert container["securityContext"]["readOnlyRootFilesystem"] and security["runAsNonRoot"]
        limits = container["resources"]["limits"]
        coordinator = self.network.addresses["stagecoach-coordinator-0"]
        return [*LIMITS, "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges",
                f"--user={security['runAsUser']}:{security['runAsGroup']}", f"--hostname={pod}",
                f"--network=ns:/run/netns/{self.network.namespace_of(pod)}", f"--add-host=stagecoach-coordinator:{coordinator}",
                f"--memory={int(amount(limits['memory']))}", f"--cpus={amount(limits['cpu'])}"]

    def start(self, workload, pod, attached=False):
        """Starts a pod of that workload; an attached one is waited for, and its output returned."""
        container = pod_spec(workload)["containers"][0]
        if pod not in self.network.addresses:
            self.network.join(pod)
        values = self.environment(pod, container)
        arguments = [re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], argument) for argument in container["args"]]
        command = [f"--entrypoint={container['command'][0]}"] if "command" in container else []
        if not attached:
            self.pods.append(pod)
        image = self.images[container["image"].rsplit("/")[-1].split(":")[0]]
        return self.run_podman("run", *(["--rm"] if attached else ["--detach"]), "--name", self.container(pod), *command,
                               *self.options(workload, pod), *self.mounts(workload, pod),
                               *[f"--env={name}={value}" for name, value in values.items()], image, *arguments)

    def stop(self, pod, grace):
        """SIGTERM, and SIGKILL after the grace: as Kubernetes ends a pod. Returns its exit code."""
        self.run_podman("stop", "--time", grace, self.container(pod), stderr=subprocess.DEVNULL)
        code = int(self.run_podman("inspect", "--format", "{{.State.ExitCode}}", self.container(pod)))
        self.run_podman("rm", self.container(pod))
        self.pods.remove(pod)
        return code

    def logs(self, pod):
        return self.run_podman("logs", self.container(pod), stderr=subprocess.STDOUT)

    def client(self, *arguments, **options):
        """`stagecoach` in the coordinator's pod, as by kubectl exec."""
        return self.run_podman("exec", "--env", "STAGECOACH_ADDRESS=127.0.0.1:7070", self.container("stagecoach-coordinator-0"),
                               "stagecoach", *arguments, **options)


def wait_until(condition, what, patience=120):
    """Waits for a true value, and returns it."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"in vain: {what}")
