"""`docs/contributing/systems.md` lists every line of the systems with its tests."""

import re
from collections import defaultdict
from functools import cache
from itertools import pairwise

import markers
from markers import RANGES
from rows import PAGE, ROOT, TEST, named_in, table

ROWS = 126
"""The number of common capabilities, in the first table."""

LINES = {
    "A": [(1, 7), (10, 18), (20, 35), (40, 47), (50, 54), (60, 63), (70, 74)],
    "V": [(1, 5), (10, 25), (30, 32), (40, 41)],
    "O": [
        *[(1, 10), (20, 35), (40, 48), (50, 58), (60, 62), (70, 73), (80, 90)],
        (95, 95),
    ],
    "R": [(1, 16)],
    "U": [(1, 16), (20, 38), (40, 58)],
}
"""System -> the ranges of its capability numbers."""

LIMITS = {"A": 17, "V": 14, "O": 16, "R": 14, "U": 16}
"""System -> the number of its removed limits."""

REFUSED = {
    *("V22", "V23", "V31", "V32", "O25", "O28", "O43", "O54", "O56", "O81", "O82"),
    *("U10", "U13", "U36"),
}
"""Lines that specification or design decide otherwise; all others work."""


def every_id():
    """Return the ids in the order of the page: a system's lines, then its limits."""
    ids = []
    for system, ranges in LINES.items():
        ids += [
            f"{system}{number:02}"
            for first, last in ranges
            for number in range(first, last + 1)
        ]
        ids += [f"L-{system}{number}" for number in range(1, LIMITS[system] + 1)]
    return ids


@cache
def carried_in(path):
    """Return the ids that each test of a file carries; empty if the file is missing."""
    found = defaultdict(set)
    if (ROOT / path).is_file():
        source = (ROOT / path).read_text(encoding="utf-8")
        for marker, name, test in markers.read(source, path)[0]:
            if marker == "system":
                found[test].add(name)
    return dict(found)


def carried(test):
    """Return the ids that a test carries by its own marker or its file's."""
    path = test.partition("::")[0]
    return carried_in(path).get(test, set()) | carried_in(path).get(path, set())


def test_every_row_and_line_is_listed_once_and_in_order():
    expected = [*(str(number) for number in range(1, ROWS + 1)), *every_id()]
    assert list(table()) == expected
    assert [name for name, rows in table().items() if len(rows) != 1] == []


def wrong_row(capability, what, lines, proof):
    """Return the problem of a row of the first table, or an empty text."""
    ids, named = set(lines.split()), named_in(proof)
    if not capability or not what:
        return "says nothing"
    if not ids or not ids <= set(every_id()):
        return f"stands for no line: {lines!r}"
    if len(named) != 1:
        return f"names {len(named)} tests: {proof!r}"
    return "" if carried(named[0]) & ids else f"{named[0]} carries none of {lines}"


def wrong_line(name, what, proof):
    """Return the problem of a line: missing tests or a missing reason."""
    named, rest = named_in(proof), TEST.sub("", proof)
    if not what:
        return "says nothing"
    if others := [test for test in named if name not in carried(test)]:
        return f"not carried by {others}"
    if name in REFUSED:
        given = rest.startswith("refused: ") and len(rest.split()) > 8
        return "" if given else f"refused without a reason: {proof!r}"
    return "" if named and not rest.strip(", ") else f"no proof: {proof!r}"


def test_each_row_names_a_test_that_carries_one_of_its_lines():
    rows = {number: table()[str(number)][0] for number in range(1, ROWS + 1)}
    wrong = {number: wrong_row(*row) for number, row in rows.items()}
    assert [f"{number}: {why}" for number, why in wrong.items() if why] == []


def test_each_line_has_tests_or_is_refused_with_a_reason():
    wrong = {name: wrong_line(name, *table()[name][0]) for name in every_id()}
    assert [f"{name}: {why}" for name, why in wrong.items() if why] == []


def test_wrong_rows_and_lines_are_reported():
    good = (
        "`client/test_links.py::test_a_link_to_a_listed_resource_becomes_its_contents`"
    )
    assert wrong_row("a", "b", "O87", good) == ""
    assert "carries none" in wrong_row("a", "b", "O86", good)
    assert "no line" in wrong_row("a", "b", "O99", good)
    assert "names 0 tests" in wrong_row("a", "b", "O87", "pending")
    assert "says nothing" in wrong_row("", "b", "O87", good)
    assert wrong_line("O87", "a", good) == ""
    assert "not carried" in wrong_line("O86", "a", good)
    for proof in (
        "",
        "pending: X",
        "refused: no",
        good + ", soon",
        "`x.py::y`",
        "`x/y.py::z`",
    ):
        assert "no proof" in wrong_line("O87", "a", proof)
    assert "without a reason" in wrong_line("O25", "a", "refused: no")
    assert "says nothing" in wrong_line("O87", "", good)


def test_page_has_no_pending_entries():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"(?i)\b(?:pending|todo)\b.*", text) == []


def test_numbers_match_the_ranges_of_the_markers():
    highest = {system: ranges[-1][1] for system, ranges in LINES.items()}
    limits = {f"L-{system}": count for system, count in LIMITS.items()}
    assert highest | limits == RANGES["system"]
    for ranges in LINES.values():
        assert all(end < start for (_, end), (start, _) in pairwise(ranges))
