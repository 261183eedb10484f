#!/usr/bin/env python3
"""Checks that the tree's include edges are the ones that docs/architecture.md allows, and that CMake states them.

A folder with a CMakeLists.txt that calls stagecoach_library is a unit. Its sources may include
- their own unit's headers, and
- headers of units that its library DEPENDS on, stated there and not only reached through others,
when the edge is also allowed by the rules below. Prints every offence; exits 1 if there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP_LEVEL_ORDER = ["common", "formats"]  # each may use those before it; everything may use both
PIPELINE = ["coordinator/spec", "coordinator/resume", "coordinator/schedule", "coordinator/program", "coordinator/plan"]


def units():
    """Folder -> set of folders that its library or binaries state as dependencies."""
    found = {}
    for cmake in ROOT.rglob("CMakeLists.txt"):
        folder = cmake.parent.relative_to(ROOT).as_posix()
        if folder.startswith("build"):
            continue
        text = re.sub(r"#.*", "", cmake.read_text())
        for call in re.finditer(r"stagecoach_(library|binary)\(\s*(\S+)([^)]*)\)", text):
            kind, name, body = call.groups()
            unit = name if kind == "library" else folder
            depends = re.search(r"DEPENDS(.*)", body, re.S)
            words = depends.group(1).split() if depends else []
            found.setdefault(unit, set()).update(w for w in words if (ROOT / w).is_dir())
    return found


def unit_of(path, known):
    while path not in known and "/" in path:
        path = path.rsplit("/", 1)[0]
    return path if path in known else None


def forbidden(source, target):
    """Why `source` may never include `target`, or None."""
    if source == target:
        return None
    if source in TOP_LEVEL_ORDER:
        if target not in TOP_LEVEL_ORDER[: TOP_LEVEL_ORDER.index(source)]:
            return "common and formats use only what comes before them"
    sides = {side for side in ("coordinator", "worker") for unit in (source, target) if unit.split("/")[0] == side}
    if len(sides) == 2:
        return "coordinator and worker never include each other"
    if source in PIPELINE:
        earlier = PIPELINE[: PIPELINE.index(source)]
        if target.startswith("coordinator") and target not in earlier:
            return "spec, resume, schedule, program and plan use only those before them"
    if source.startswith("client") and (target.startswith("worker") or target.startswith("coordinator") and target not in PIPELINE):
        return "the client links nothing of the daemons but what it plans with"
    return None


def main():
    known = units()
    offences = []
    for source in sorted(p for p in ROOT.rglob("*") if p.suffix in (".cc", ".h")):
        relative = source.relative_to(ROOT).as_posix()
        if relative.startswith(("build", "tests")) or "_test." in relative or "testing/" in relative:
            continue
        unit = unit_of(source.parent.relative_to(ROOT).as_posix(), known)
        if unit is None:
            offences.append(f"{relative}: no CMake target owns its folder")
            continue
        for line, text in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'#include "([^"]+)"', text)
            if not match or not (ROOT / match.group(1)).exists():
                continue
            target = unit_of(match.group(1).rsplit("/", 1)[0], known)
            if target is None or target == unit:
                continue
            reason = forbidden(unit, target)
            if reason is None and target not in known[unit]:
                reason = f"CMake does not state that {unit} depends on {target}"
            if reason:
                offences.append(f'{relative}:{line}: includes "{match.group(1)}": {reason}')
    print("\n".join(offences) if offences else f"include edges: {len(known)} units, none wrong")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
