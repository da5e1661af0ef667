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


def required_distributions(name: str, folder: Path) -> dict[str, Distribution]:
    """Return a distribution in a folder and its dependencies there, by name."""
    installed = {
        canonicalize_name(each.metadata["Name"]): each
        for each in distributions(path=[str(folder)])
    }
    required_distributions: dict[str, Distribution] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while waiting:
        name, extras = waiting.pop()
        key = canonicalize_name(name)
        if (key, extras) in visited or key not in installed:
            continue
        visited.add((key, extras))
        required_distributions[key] = installed[key]
        for text in installed[key].requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            environments = [{"extra": extra} for extra in extras or {""}]
            if marker is None or any(
                marker.evaluate(environment) for environment in environments
            ):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return required_distributions


def size(distribution: Distribution) -> int:
    """Return the size in bytes of a distribution's files."""
    paths = [Path(str(file.locate())) for file in distribution.files or ()]
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
    installed = required_distributions(name, site_packages)
    total = sum(map(size, installed.values()))
    if not (site_packages / package.name).exists():
        total += tree_size(package)
    return {"install_mib": total / MIB, "distributions": len(installed)}


def version(name: str, site_packages: Path) -> str:
    """Return the version of a distribution in a folder."""
    return required_distributions(name, site_packages)[canonicalize_name(name)].version


def node_version(name: str, modules: Path) -> str:
    """Return the version of a Node package."""
    text = (modules / name / "package.json").read_text(encoding="utf-8")
    version: str = json.loads(text)["version"]
    return version


def node_install(name: str, modules: Path) -> dict[str, float]:
    """Return size in MiB and number of a Node package and its dependencies."""
    folders: set[Path] = set()
    waiting = [(name, modules)]
    while waiting:
        name, nearest = waiting.pop()
        candidates = [nearest / name, modules / name]
        folder = next((path for path in candidates if path.is_dir()), None)
        if folder is None or folder in folders:
            continue
        folders.add(folder)
        manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        inner = folder / "node_modules"
        waiting += [
            (dependency, inner) for dependency in manifest.get("dependencies", {})
        ]
    packages = {path for path in folders if not path.is_relative_to(modules / ".bin")}
    total = sum(
        path.stat().st_size
        for folder in packages
        for path in folder.rglob("*")
        if path.is_file() and "node_modules" not in path.relative_to(folder).parts
    )
    return {"install_mib": total / MIB, "distributions": len(folders)}
