"""Results of a run: one per case and cell; scores; comparison of two runs.

A report is stored as JSON; `reports` and `pages` convert it to all other formats.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping  # noqa: TC003 - attrs resolves them
from typing import Any, Final, TypeAlias

import attrs

from mcpwire.check.case import Level, Verdict
from mcpwire.wire.json import encode, loads

FORMAT: Final = 1

_MUST_WEIGHT: Final = 95
_SHOULD_WEIGHT: Final = 5
_FAILED_CAP: Final = 94
_UNRESPONSIVE_CAP: Final = 79

_UNRESPONSIVE: Final = frozenset({Verdict.CRASH, Verdict.HANG})
_PASSED: Final = frozenset({Verdict.PASS, Verdict.LENIENT})
_RANK: Final = {
    Verdict.PASS: 0,
    Verdict.ABSENT: 0,
    Verdict.LENIENT: 1,
    Verdict.WARN: 2,
    Verdict.UNRUN: 3,
    Verdict.FAIL: 4,
    Verdict.HANG: 5,
    Verdict.CRASH: 6,
}


@attrs.frozen(order=True)
class Cell:
    """Role, transport and revision of a result; scores are never summed over cells."""

    role: str
    transport: str
    revision: str

    def __str__(self) -> str:
        return f"{self.role} {self.transport} {self.revision}"


Octets: TypeAlias = "tuple[tuple[float, str, int, bytes], ...]"


def _pack(octets: Octets | bytes) -> bytes:
    """Compress a result's octets; octets that are already compressed stay unchanged."""
    if isinstance(octets, bytes):
        return octets
    rows = [[*place, data.decode("latin-1")] for *place, data in octets]
    return zlib.compress(encode(rows))


def _unpack(packed: bytes) -> Octets:
    rows = loads(zlib.decompress(packed))
    return tuple((*place, data.encode("latin-1")) for *place, data in rows)


@attrs.frozen(kw_only=True)
class Result:
    """Result of one case in one cell."""

    case: str
    cell: Cell
    level: Level
    verdict: Verdict
    title: str
    source: str
    family: str = ""
    expected: str = ""
    actual: str = ""
    sent: str = ""
    """The last data sent before the finding."""
    seconds: float = 0.0
    again: str = ""
    """The command that reproduces this result."""
    _octets: bytes = attrs.field(
        default=_pack(()), converter=_pack, eq=_unpack, repr=False
    )
    """Compressed: thousands of results stay in memory until the end of a run."""

    @property
    def octets(self) -> Octets:
        """Tuples of seconds since the case began, direction, HTTP exchange, octets."""
        return _unpack(self._octets)


@attrs.frozen
class Score:
    """Score of one cell, from 0 to 100.

    The passed share of MUST cases counts 95 points, that of SHOULD cases 5. A failed
    MUST limits the score to 94, a crash or a hang to 79.
    """

    points: int
    must_passed: int
    must: int
    should_passed: int
    should: int
    applied: int = 0
    """The number of counted cases; with 0 the points have no meaning."""


@attrs.frozen(kw_only=True)
class Report:
    """Report of one run against one server."""

    subject: str
    """The target as typed on a command line, without secrets."""
    server: Mapping[str, str]
    """Name and version that the server reports."""
    profile: str
    seed: int
    started: str
    """Start time, in UTC."""
    machine: Mapping[str, str]
    tool: str
    """Name and version of the program that made the report."""
    results: tuple[Result, ...]
    seconds: float = 0.0
    out_of_budget: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return the report as JSON text; its schema is `report.schema.json`."""
        scores = [
            {
                **attrs.asdict(cell),
                "points": score.points,
                "must": [score.must_passed, score.must],
                "should": [score.should_passed, score.should],
                "applied": score.applied,
            }
            for cell, score in self.scores().items()
        ]
        plain = {name: getattr(self, name) for name in _REPORT_FIELDS}
        results = [_encode_result(result) for result in self.results]
        return encode({"format": FORMAT, **plain, "scores": scores, "results": results})

    @classmethod
    def from_json(cls, text: bytes) -> Report:
        """Parse a report that `to_json` has written.

        Raises:
            ValueError: The text is not such a report.
        """
        try:
            value = loads(text)
            format_ = value["format"]
            plain = {name: value[name] for name in _REPORT_FIELDS}
            results = tuple(_decode_result(item) for item in value["results"])
            plain["notes"] = tuple(plain["notes"])
            report = cls(**plain, results=results)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a report of mcpwire check: {error}") from error
        if format_ != FORMAT:
            raise ValueError(
                f"report format {format_!r} is not supported, expected {FORMAT}"
            )
        return report

    def cells(self) -> list[Cell]:
        """Return the cells that have results, sorted."""
        return sorted({result.cell for result in self.results})

    def scores(self) -> dict[Cell, Score]:
        """Return the score of each cell."""
        return {
            cell: score(r for r in self.results if r.cell == cell)
            for cell in self.cells()
        }

    def lowest(self) -> int | None:
        """Return the lowest points of a cell; ``None``: no case counted in any cell."""
        points = (s.points for s in self.scores().values() if s.applied)
        return min(points, default=None)

    def failures(self) -> list[Result]:
        """Return the results of rank `warn` or worse, the worst first."""
        bad = [r for r in self.results if _RANK[r.verdict] >= _RANK[Verdict.WARN]]
        return sorted(bad, key=lambda r: (-_RANK[r.verdict], r.cell, r.case))


_REPORT_FIELDS: Final = (
    *("subject", "server", "profile", "seed", "started", "machine", "tool"),
    *("seconds", "out_of_budget", "notes"),
)
_RESULT_TEXTS: Final = (
    "case",
    "title",
    "source",
    "family",
    "expected",
    "actual",
    "sent",
)


def _encode_result(result: Result) -> dict[str, Any]:
    return {
        **{name: getattr(result, name) for name in _RESULT_TEXTS},
        **attrs.asdict(result.cell),
        "level": result.level.value,
        "verdict": result.verdict.value,
        "seconds": result.seconds,
        "again": result.again,
        "octets": [
            [at, direction, stream, b64encode(data).decode()]
            for at, direction, stream, data in result.octets
        ],
    }


def _decode_result(value: dict[str, Any]) -> Result:
    return Result(
        **{name: value[name] for name in _RESULT_TEXTS},
        cell=Cell(value["role"], value["transport"], value["revision"]),
        level=Level(value["level"]),
        verdict=Verdict(value["verdict"]),
        seconds=value["seconds"],
        again=value["again"],
        octets=tuple(
            (at, direction, stream, b64decode(data))
            for at, direction, stream, data in value["octets"]
        ),
    )


def score(results: Iterable[Result]) -> Score:
    """Return the score of the results of one cell."""
    counted = [r for r in results if r.verdict is not Verdict.ABSENT]
    must = [r for r in counted if r.level is Level.MUST]
    should = [r for r in counted if r.level is Level.SHOULD]
    must_passed = sum(r.verdict in _PASSED for r in must)
    should_passed = sum(r.verdict in _PASSED for r in should)
    points = _share(must_passed, len(must)) * _MUST_WEIGHT
    points += _share(should_passed, len(should)) * _SHOULD_WEIGHT
    if must_passed < len(must):
        points = min(points, _FAILED_CAP)
    if any(r.verdict in _UNRESPONSIVE for r in counted):
        points = min(points, _UNRESPONSIVE_CAP)
    return Score(
        points=int(points),
        must_passed=must_passed,
        must=len(must),
        should_passed=should_passed,
        should=len(should),
        applied=len(counted),
    )


def _share(passed: int, count: int) -> float:
    return passed / count if count else 1.0


def worse(before: Report, after: Report) -> list[tuple[Result | None, Result]]:
    """Return pairs of an earlier and a later result where the later one is worse.

    A case without an earlier result counts only if its verdict is `warn` or worse.
    """
    earlier_results = {(r.case, r.cell): r for r in before.results}
    pairs = []
    for result in after.results:
        earlier = earlier_results.get((result.case, result.cell))
        rank = _RANK[Verdict.LENIENT if earlier is None else earlier.verdict]
        if _RANK[result.verdict] > rank:
            pairs.append((earlier, result))
    return pairs
