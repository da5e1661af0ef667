"""The ceilings: reading, comparing and rewriting `ceilings.toml`.

    python tests/budgets/ceilings.py

lowers each ceiling to the measured value if that is less. It raises no ceiling.
"""

import sys
import tomllib
from pathlib import Path

TABLE = Path(__file__).with_name("ceilings.toml")
MEASURED_ON = (3, 11)

SLACK = {"python": 3, "own": 3, "c": 3, "modules": 3}
"""By how much a measured value may be below its ceiling; all others are exact."""

VARYING = {"python", "c", "soon", "turns"}
"""Figures that depend on asyncio, and so on the version of Python."""

LEFT = {"objects_left": 0, "blocks_left": 100}
"""What 1,000 calls may leave behind: no object; the counting itself leaves a tenth of
a block of memory per call."""

HEAD = """\
# What one `tools/call` may cost on each path, counted in CPython 3.11 on Linux.
#
#   python    Python functions entered, asyncio's own included; own: those of mcpwire
#   c         C functions called from Python
#   encodes, decodes    calls of orjson's dumps and loads
#   tasks, futures      made for the call; soon, timers: call_soon and call_at
#   turns     turns of the loop
#   reads, writes, polls, other    system calls
#   modules   modules of mcpwire loaded by connecting and the first call
#
# These only go down: `.venv/bin/python tests/budgets/ceilings.py` writes what is
# measured where that is less, and a test fails where a ceiling has become too high.
"""


def load():
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def above(measured, ceilings):
    """Return messages about values over their ceilings."""
    return [
        f"{name}: {measured[name]} is over the ceiling of {ceiling}"
        for name, ceiling in {**ceilings, **LEFT}.items()
        if measured[name] > ceiling
    ]


def below(measured, ceilings):
    """Return messages about ceilings that have become too high."""
    return [
        f"{name}: lower the ceiling of {ceiling}, {measured[name]} is measured"
        for name, ceiling in ceilings.items()
        if measured[name] < ceiling - SLACK.get(name, 0)
    ]


def render(table):
    """Return the text of the file: one row per path and era, with aligned columns."""
    rows = [
        {"": f'"{cell}" =', **{k: f"{k} = {v}" for k, v in row.items()}}
        for cell, row in table.items()
    ]
    widths = {key: max(len(row[key]) for row in rows) for key in rows[0]}
    lines = []
    for row in rows:
        cell, *figures = (row[key].ljust(widths[key]) for key in row)
        lines.append(f"{cell} {{ {', '.join(figures)} }}")
    return HEAD + "\n" + "\n".join(lines) + "\n"


def lowered(table, measured):
    """Return the table with lowered ceilings; a new path gets its measured values."""
    new = {}
    for cell, figures in measured.items():
        old = table.get(cell, {})
        kept = {name: value for name, value in figures.items() if name not in LEFT}
        new[cell] = {n: min(v, old.get(n, v)) for n, v in kept.items()}
    return new


def main():
    here = Path(__file__).parent
    sys.path[:0] = [str(here.parent), str(here.parent / "over_http")]
    import paths

    table = load() if TABLE.exists() else {}
    measured = {cell: paths.counted(cell)["figures"] for cell in paths.CELLS}
    for cell, figures in measured.items():
        for line in above(figures, table.get(cell, {})):
            sys.stderr.write(f"{cell}: {line}\n")
    TABLE.write_text(render(lowered(table, measured)), encoding="utf-8")


if __name__ == "__main__":
    main()
