"""Runs each row of a test table on some of its grounds instead of on all.

Where a pure layer decides the result of a row, two shells and two engines pass the
same bytes to the same code. Such a test is marked `grounds(count, *names)`: each row
runs on so many of the grounds that these parameters make, drawn by its name, and the
test as a whole on all of them.

A test that runs with the asyncio client and the blocking one needs no mark: one row
of four, and at least one of each test, runs with the blocking client too.

`--all-grounds` runs every cell.
"""

import re
import zlib
from collections.abc import Collection
from typing import Final

import pytest

Seen = dict[tuple[str, str], dict[int, int]]

BLOCKING_ONE_IN: Final = 4
"""One of so many rows also runs with the blocking client."""


def row_of(item: pytest.Item, test: str, names: Collection[str], seen: Seen) -> str:
    """Return the parameter values of a test that are not grounds, as numbers.

    The indices of pytest count the calls, with all parameters.
    """
    values = getattr(getattr(item, "callspec", None), "params", {})
    row = []
    for name in sorted(set(values).difference(names)):
        numbers = seen.setdefault((test, name), {})
        row.append(numbers.setdefault(id(values[name]), len(numbers)))
    return str(row)


def draw(name: str) -> int:
    """Return a number that is the same in every process."""
    return zlib.crc32(name.encode())


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cells that do not run."""
    undrawn = _undrawn_cells(items)
    chosen = {item.nodeid for item in items} - {item.nodeid for item in undrawn}
    twins = _undrawn_twins(chosen)
    return undrawn + [item for item in items if item.nodeid in twins]


def _undrawn_twins(names: Collection[str]) -> set[str]:
    """Return the tests of the blocking client that run on asyncio only."""
    twins: dict[str, set[str]] = {}
    for name in names:
        test, bracket, cell = name.partition("[")
        twin = test + bracket + re.sub(r"\bblocking\b", "asyncio", cell)
        if twin != name and twin in names:
            twins.setdefault(test, set()).add(name)
    undrawn = set()
    for cells in twins.values():
        drawn = {name for name in cells if draw(name) % BLOCKING_ONE_IN == 0}
        undrawn |= cells - (drawn or {min(cells, key=draw)})
    return undrawn


def _undrawn_cells(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cells that `grounds` marks leave out."""
    seen: Seen = {}
    rows: dict[tuple[str, str], tuple[int, list[pytest.Item]]] = {}
    for item in items:
        mark = item.get_closest_marker("grounds")
        if mark is not None:
            count, *names = mark.args
            test = item.nodeid.partition("[")[0]
            row = (test, row_of(item, test, names, seen))
            rows.setdefault(row, (count, []))[1].append(item)
    return [
        item
        for count, cells in rows.values()
        for item in sorted(cells, key=lambda each: draw(each.nodeid))[count:]
    ]
