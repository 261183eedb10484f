"""The packages that the images have (deploy/container/runtime-packages.txt) are those that the binaries are linked with: one too
few, and a pod does not start. Argument 1: the folder with the three binaries."""

import pathlib
import re
import subprocess
import sys
import unittest

BINARIES = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 else pathlib.Path()
PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "deploy/container/runtime-packages.txt"
IMAGES = {"coordinator": ("stagecoach-coordinator", "stagecoach"), "worker": ("stagecoach-worker",)}
EVERYWHERE = {"libc6"}  # of every Debian


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def listed(section):
    text = PACKAGES.read_text().split(f"# [{section}]\n")[1].split("# [")[0]
    return [line for line in text.splitlines() if line]


def packages_of(binary):
    """The packages with the libraries that a binary names itself. What those need, Debian knows."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", BINARIES / binary))
    paths = dict(re.findall(r"(\S+) => (\S+)", output_of("ldd", BINARIES / binary)))
    files = [pathlib.Path(paths[name]).resolve() for name in needed if name in paths]
    assert len(files) > 5, needed
    # dpkg knows some by /lib and some by /usr/lib, which is one folder.
    patterns = [f"*{str(file).removeprefix('/usr')}" for file in files]
    return {line.split(":")[0] for line in output_of("dpkg", "-S", *patterns).splitlines()} - EVERYWHERE


class ImageTest(unittest.TestCase):
    def test_an_image_has_what_its_binaries_are_linked_with_and_no_more(self):
        for image, binaries in IMAGES.items():
            with self.subTest(image):
                self.assertEqual(listed(image), sorted(set().union(*map(packages_of, binaries))))


if __name__ == "__main__":
    unittest.main()
