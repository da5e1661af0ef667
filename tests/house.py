"""Measures size, fragmentation and style of the tree against ceilings that only fall.

    python tests/house.py            # the figures beside their ceilings (`make lint`)
    python tests/house.py --write    # lower the ceilings to the measured figures

`house.toml` holds the ceilings: figures of the whole, remaining breaches of a gate by
module, and uses of our private attributes by folder of the tests. `--write`
never raises one.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import gates
import internals
from sources import PACKAGE, Module, read, uncollected

Table = dict[str, dict[str, int]]

ROOT: Final = Path(__file__).parents[1]
CEILINGS: Final = Path(__file__).with_name("house.toml")

GATES: Final[tuple[Callable[[list[Module]], Iterator[gates.Finding]], ...]] = (
    gates.check_class_in_one_file,
    gates.check_private_parts,
    gates.check_error_texts,
)
"""Gates with breaches that are older than the gate."""

APART: Final = ("check", "bench")
"""Tools built on the library: they and their tests are not counted."""

FRAGMENT_LINES: Final = 60
"""A module with less code than this is a fragment of another."""

ROOM: Final = {"lines": 500, "code lines": 300, "test lines": 1_000}
"""How far a ceiling is above the measured figure, so that small fixes fit."""

RELATIVE: Final = re.compile(r"\b[Ww]ho(?:ever|m|se)?\b")
"""Clauses used in place of a noun."""

HEAD: Final = """\
# What the tree may have at most. `make lint` measures it, and fails where a figure is
# over its ceiling or a ceiling has become too high. Ceilings only fall:
# `.venv/bin/python tests/house.py --write` lowers them.
"""

NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the line numbers of docstrings, including those of constants."""
    found: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.update(range(value.lineno, (value.end_lineno or 0) + 1))
    return found


def figures(package: Iterable[Module]) -> dict[str, int]:
    found: Counter[str] = Counter()
    folders = set()
    for module in package:
        lines = module.source.splitlines()
        prose = docstring_lines(module.tree)
        code: set[int] = set()
        prose_lines = [lines[number - 1] for number in prose]
        for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
            if token.type == tokenize.COMMENT:
                prose_lines.append(token.string)
            if token.type not in NO_CODE:
                code.update(range(token.start[0], token.end[0] + 1))
        code -= prose
        folders.add(module.path.rpartition("/")[0])
        found["lines"] += module.source.count("\n")
        found["code lines"] += len(code)
        found["modules"] += 1
        is_fragment = len(code) < FRAGMENT_LINES and not module.is_package
        found["fragments"] += is_fragment
        found["relative clauses"] += sum(
            bool(RELATIVE.search(line)) for line in prose_lines
        )
    found["folders"] = len(folders)
    return dict(found)


def measured() -> Table:
    """Measure the tree, in the form of `house.toml`."""
    with uncollected():
        package = list(read(ROOT, PACKAGE))
        own = [m for m in package if m.path.split("/")[1] not in APART]
        tests = [m for m in read(ROOT, "tests") if m.path.split("/")[1] not in APART]
        private, _ = internals.looks(own, tests)
        whole = figures(own)
        whole["test lines"] = sum(test.source.count("\n") for test in tests)
        table: Table = {"whole": whole}
        for gate in GATES:
            for finding in gate(package):
                places = table.setdefault(finding.gate, {})
                places[finding.where] = places.get(finding.where, 0) + 1
        folders = internals.by_folder(private)
        table["private attributes in tests"] = dict(sorted(folders.items()))
    return table


def load() -> Table:
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8"))


def above(table: Table, ceilings: Table) -> list[str]:
    """Return the figures over their ceiling; a figure without a ceiling must be 0."""
    return [
        f"[{part}] {name}: {value} is over the ceiling of {ceiling}"
        for part, row in table.items()
        for name, value in row.items()
        if value > (ceiling := ceilings.get(part, {}).get(name, 0))
    ]


def below(table: Table, ceilings: Table) -> list[str]:
    """Return the ceilings that are too high: by more than twice their room."""
    found = []
    for part, row in ceilings.items():
        for name, ceiling in row.items():
            value = table.get(part, {}).get(name, 0)
            room = ROOM.get(name, 0)
            if value + 2 * room < ceiling:
                found.append(f"[{part}] {name}: lower {ceiling} to {value + room}")
    return found


def lowered(table: Table, ceilings: Table) -> Table:
    """Return the ceilings, lowered to figure plus room; ceilings of 0 are dropped."""
    return {
        part: {
            name: value
            for name, ceiling in row.items()
            if (
                value := min(
                    ceiling, table.get(part, {}).get(name, 0) + ROOM.get(name, 0)
                )
            )
        }
        for part, row in ceilings.items()
    }


def render(table: Table) -> str:
    parts = [
        f'["{part}"]\n' + "".join(f'"{name}" = {n}\n' for name, n in row.items())
        for part, row in table.items()
    ]
    return "\n".join([HEAD, *parts])


def main(words: list[str]) -> int:
    table, ceilings = measured(), load()
    if words == ["--write"]:
        ceilings = lowered(table, ceilings)
        CEILINGS.write_text(render(ceilings), encoding="utf-8")
    for name, value in table["whole"].items():
        sys.stdout.write(
            f"{name:18}{value:9,}  of {ceilings['whole'].get(name, 0):9,}\n"
        )
    for part in list(table)[1:]:
        total, ceiling = sum(table[part].values()), sum(ceilings.get(part, {}).values())
        sys.stdout.write(f"{part:30}{total:5}  of {ceiling:5}\n")
    wrong = above(table, ceilings) + below(table, ceilings)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
