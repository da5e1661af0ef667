"""Size of an installation: a distribution and its dependencies.

Read from the installed files; nothing is downloaded. Compiled bytecode is not counted,
because it is written on first use.
"""

from __future__ import annotations

import json
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MIB = 1024 * 1024
COMPILED = ".pyc"


def needed(name: str, folder: Path) -> dict[str, Distribution]:
    """Return a distribution in a folder and its dependencies there, by name."""
    known = {
        canonicalize_name(each.metadata["Name"]): each
        for each in distributions(path=[str(folder)])
    }
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while waiting:
        name, extras = waiting.pop()
        key = canonicalize_name(name)
        if (key, extras) in seen or key not in known:
            continue
        seen.add((key, extras))
        found[key] = known[key]
        for text in known[key].requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            wanted = [{"extra": extra} for extra in extras or {""}]
            if marker is None or any(marker.evaluate(each) for each in wanted):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def size(distribution: Distribution) -> int:
    """Return the size in bytes of a distribution's files."""
    paths = [Path(str(each.locate())) for each in distribution.files or ()]
    return sum(
        path.stat().st_size
        for path in paths
        if path.suffix != COMPILED and path.is_file()
    )


def tree_size(folder: Path) -> int:
    """Return the size in bytes of a package's source tree."""
    files = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files if path.is_file())


def python_install(name: str, site_packages: Path, package: Path) -> dict[str, float]:
    """Return the size in MiB and the number of distributions of an installation.

    With an editable installation the package itself is outside of `site_packages`.
    """
    everything = needed(name, site_packages)
    total = sum(map(size, everything.values()))
    if not (site_packages / package.name).exists():
        total += tree_size(package)
    return {"install_mib": total / MIB, "distributions": len(everything)}


def version(name: str, site_packages: Path) -> str:
    """Return the version of a distribution in a folder."""
    return needed(name, site_packages)[canonicalize_name(name)].version


def node_version(name: str, modules: Path) -> str:
    """Return the version of a Node package."""
    text = (modules / name / "package.json").read_text(encoding="utf-8")
    found: str = json.loads(text)["version"]
    return found


def node_install(name: str, modules: Path) -> dict[str, float]:
    """Return size in MiB and number of a Node package and its dependencies."""
    found: set[Path] = set()
    waiting = [(name, modules)]
    while waiting:
        name, near = waiting.pop()
        places = [near / name, modules / name]
        place = next((each for each in places if each.is_dir()), None)
        if place is None or place in found:
            continue
        found.add(place)
        manifest = json.loads((place / "package.json").read_text(encoding="utf-8"))
        inner = place / "node_modules"
        waiting += [(each, inner) for each in manifest.get("dependencies", {})]
    inside = {path for path in found if not path.is_relative_to(modules / ".bin")}
    total = sum(
        path.stat().st_size
        for place in inside
        for path in place.rglob("*")
        if path.is_file() and "node_modules" not in path.relative_to(place).parts
    )
    return {"install_mib": total / MIB, "distributions": len(found)}
