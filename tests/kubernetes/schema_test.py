"""Validates the rendered manifests strictly against the schemas of the oldest Kubernetes that we support and of the newest that
kubernetes-validate (PyPI) knows. Argument 1: a folder for its virtual environment. Skipped, with exit code 77, when PyPI cannot
be reached."""

import copy
import os
import pathlib
import subprocess
import sys
import unittest

REQUIREMENT = "kubernetes-validate>=1.31"
OLDEST = "1.27"  # the first with the built-in gRPC probe for everybody, and with unhealthyPodEvictionPolicy
SKIPPED = 77


def make_environment(folder):
    """Returns its interpreter, or None when the package cannot be had."""
    python = folder / "bin/python"
    if python.exists() and subprocess.run([python, "-c", "import kubernetes_validate"], stderr=subprocess.DEVNULL).returncode == 0:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1",
                              REQUIREMENT])
    return python if install.returncode == 0 else None


def run_in_environment(folder):
    python = make_environment(folder)
    if python is None:
        print(f"SKIPPED: {REQUIREMENT} cannot be installed: the manifests are not validated against Kubernetes's schemas")
        sys.exit(SKIPPED)
    os.execv(python, [str(python), __file__])


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = manifests.render_all()
        cls.versions = (OLDEST, kubernetes_validate.latest_version())

    def validate(self, object_, version):
        kubernetes_validate.validate(object_, version, strict=True)

    def test_every_object_is_valid(self):
        for name, objects in self.rendered.items():
            for object_ in objects:
                for version in self.versions:
                    with self.subTest(name, object=manifests.name_of(object_), version=version):
                        self.validate(object_, version)

    def assert_refused(self, kind, change):
        object_ = copy.deepcopy(manifests.of_kind(self.rendered["base with jobs"], kind)[0])
        change(object_)
        for version in self.versions:
            with self.subTest(kind, version=version):
                self.assertRaises(kubernetes_validate.ValidationError, self.validate, object_, version)

    def test_what_is_misspelt_or_of_another_type_is_refused(self):
        def container(object_):
            return manifests.pod_spec(object_)["containers"][0]
        self.assert_refused("StatefulSet", lambda o: o["spec"].update(podManagmentPolicy="Parallel"))
        self.assert_refused("StatefulSet", lambda o: container(o)["livenessProbe"]["grpc"].update(port="health"))
        self.assert_refused("StatefulSet", lambda o: container(o)["securityContext"].update(readOnlyRootFileSystem=True))
        self.assert_refused("PodDisruptionBudget", lambda o: o["spec"].update(unhealthyEvictionPolicy="AlwaysAllow"))
        self.assert_refused("NetworkPolicy", lambda o: o["spec"]["podSelector"].update(matchLabels="worker"))
        self.assert_refused("Job", lambda o: o["spec"].update(backoffLimit="two"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_in_environment(pathlib.Path(sys.argv[1]).absolute())
    import kubernetes_validate
    import manifests
    unittest.main()
