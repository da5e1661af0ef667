"""The ids that tests carry as markers, read from their source without importing it.

A marker names the statement of a list that its test proves: `rule` (the requirement
manifest in `conformance/`), `fault`, `attack` and `pain` (the catalogues of known
problems), `case` (groups of conformance cases), `system` (capabilities of
covered systems; `L-` for a limit removed).
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from sources import uncollected

TESTS = Path(__file__).parent

RANGES: Final[dict[str, dict[str, int]]] = {
    "fault": {"F": 50},
    "attack": {"S": 33, "X": 13},
    "pain": {"P": 40},
    "case": {"A": 18, "B": 15, "C": 11, "D": 19, "E": 14, "F": 18, "G": 13, "H": 7},
    "system": {"A": 74, "V": 41, "O": 95, "R": 16, "U": 58}
    | {"L-A": 17, "L-V": 14, "L-O": 16, "L-R": 14, "L-U": 16},
}
"""Marker -> prefix -> the highest number of that list."""

NAMES: Final = frozenset({*RANGES, "rule"})

SPELLED: Final = re.compile(rf"\.({'|'.join(sorted(NAMES))})\b")
"""Occurs in each file that has a marker; a file without it need not be parsed."""


class Marked(NamedTuple):
    """One id on one test (or on a whole file, outside any test)."""

    marker: str
    id: str
    test: str


class Misuse(NamedTuple):
    """A misused marker, and its location."""

    where: str
    what: str


def _marker_name(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Attribute) or node.attr not in NAMES:
        return None
    owner = node.value
    is_mark = isinstance(owner, ast.Attribute) and owner.attr == "mark"
    return node.attr if is_mark else None


def _tests_with_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each marker expression's owner: `test_x`, `TestY.test_x`, `TestY` or ""."""
    rest: list[tuple[str, ast.AST]] = [("", tree)]
    while rest:
        owner, node = rest.pop()
        for child in ast.iter_child_nodes(node):
            inner = owner
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{owner}.{child.name}".lstrip(".")
            yield inner, child
            rest.append((inner, child))


def read(source: str, path: str) -> tuple[list[Marked], list[Misuse]]:
    """Return the ids in one test file, and the misuses of its markers."""
    marked: list[Marked] = []
    misused: list[Misuse] = []
    called: set[ast.AST] = set()
    for owner, node in _tests_with_nodes(ast.parse(source)):
        if isinstance(node, ast.Call) and (marker := _marker_name(node.func)):
            called.add(node.func)
            test = f"{path}::{owner}" if owner else path
            marked += _ids_of(marker, node, test, misused)
        elif (marker := _marker_name(node)) and node not in called:
            misused.append(Misuse(path, f"{marker} without an id"))
    return marked, misused


def _ids_of(
    marker: str, call: ast.Call, test: str, misused: list[Misuse]
) -> Iterator[Marked]:
    if not call.args or call.keywords:
        misused.append(Misuse(test, f"{marker} takes one or more ids"))
    for argument in call.args:
        if not isinstance(argument, ast.Constant) or type(argument.value) is not str:
            misused.append(Misuse(test, f"{marker}: an id is a literal string"))
        else:
            yield Marked(marker, argument.value, test)


def is_well_formed(marker: str, name: str) -> bool:
    """Return whether an id exists on its list (rules: see the manifest)."""
    found = re.fullmatch(r"((?:L-)?[A-Z])([0-9]+)", name)
    if found is None:
        return False
    prefix, digits = found.groups()
    highest = RANGES[marker].get(prefix, 0)
    width = 1 if prefix.startswith("L-") else 2
    return digits == f"{int(digits):0{width}}" and 1 <= int(digits) <= highest


def is_test_file(path: Path) -> bool:
    """Return whether pytest collects that file."""
    return path.name.startswith("test_") or path.name.endswith("_test.py")


@cache
def read_all(folder: Path = TESTS) -> tuple[list[Marked], list[Misuse]]:
    marked: list[Marked] = []
    misused: list[Misuse] = []
    with uncollected():
        for path in sorted(filter(is_test_file, folder.rglob("*.py"))):
            source = path.read_text(encoding="utf-8")
            if not SPELLED.search(source):
                continue
            found, wrong = read(source, path.relative_to(folder.parent).as_posix())
            marked += found
            misused += wrong
    return marked, misused


def missing(
    required: Iterable[str], marker: str, marked: Iterable[Marked]
) -> list[str]:
    shown = {item.id for item in marked if item.marker == marker}
    return sorted(set(required) - shown)
