"""Lists the tests that use internals of a module and would break with them.

    python tests/internals.py mcpwire.client.calls     # of one module or package
    python tests/internals.py                          # how many places, by folder

A test uses internals where it imports a module that is not public, or reads or
replaces a private attribute of ours. Public is what `mcpwire` and the packages in
`PUBLIC` export.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gates import defined_names
from sources import PACKAGE, Module, imports_of, known_names, read, uncollected

ROOT: Final = Path(__file__).parents[1]
PUBLIC: Final = frozenset(
    {PACKAGE, *(f"{PACKAGE}.{name}" for name in ("sync", "testing", "types"))}
)


class Look(NamedTuple):
    """One place in a test that depends on the internals of `module`."""

    path: str
    line: int
    module: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} of {self.module}"


def private_names(package: Iterable[Module]) -> dict[str, list[str]]:
    """Return the modules that define each private name of ours."""
    homes: dict[str, list[str]] = {}
    for module in package:
        for name in sorted(set(defined_names(module.tree))):
            if name.startswith("_") and not name.startswith("__") and len(name) > 1:
                homes.setdefault(name, []).append(module.name)
    return homes


def used_names(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield each used name with its line, and whether it is an attribute of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr, getattr(node.value, "id", "") == "self"
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.Call) and "attr" in ast.unparse(node.func):
            for argument in node.args:  # of getattr, monkeypatch.setattr and others
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value), False


def private_looks(test: Module, homes: Mapping[str, list[str]]) -> Iterator[Look]:
    """Yield where a test uses a private attribute of ours, its own left out."""
    own = set(defined_names(test.tree))
    for line, name, is_own in used_names(test.tree):
        if not (is_own and name in own):
            for home in homes.get(name, ()):
                yield Look(test.path, line, home, name)


def imported_looks(test: Module, known: frozenset[str]) -> Iterator[Look]:
    """Yield where a test imports a module of ours that is not public."""
    for target, line, _ in imports_of(test, known):
        if target in known and target not in PUBLIC:
            yield Look(test.path, line, target, "import")


def looks(
    package: list[Module], tests: Iterable[Module]
) -> tuple[list[Look], list[Look]]:
    homes, known = private_names(package), known_names(package)
    private, imported = [], []
    for test in tests:
        private += private_looks(test, homes)
        imported += imported_looks(test, known)
    return private, imported


def by_folder(private: Iterable[Look]) -> Counter[str]:
    """Count the places where private attributes are used, by folder of the tests."""
    places = {(look.path, look.line, look.what) for look in private}
    return Counter(path.split("/")[1].removesuffix(".py") for path, _, _ in places)


def main(words: list[str]) -> None:
    with uncollected():
        private, imported = looks(list(read(ROOT, PACKAGE)), read(ROOT, "tests"))
    if not words:
        lines = [f"{n:5} {name}" for name, n in by_folder(private).most_common()]
    else:
        (name,) = words
        lines = [
            str(look)
            for look in sorted({*private, *imported})
            if f"{look.module}.".startswith(f"{name}.")
        ]
        files = len({line.partition(":")[0] for line in lines})
        lines.append(f"{len(lines)} places in {files} files")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
