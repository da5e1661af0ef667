"""Report formats: JUnit, SARIF, Markdown, a badge and text for the terminal."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from mcpwire.check.case import Level, Verdict
from mcpwire.check.subject import shown
from mcpwire.wire.json import encode, encode_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from mcpwire.check.results import Cell, Report, Result, Score

_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {
    Verdict.FAIL: "error",
    Verdict.CRASH: "error",
    Verdict.HANG: "error",
    Verdict.UNRUN: "warning",
    Verdict.WARN: "warning",
    Verdict.LENIENT: "note",
}
_COLOURS: Final = ((100, "brightgreen"), (95, "green"), (80, "yellow"), (0, "red"))

_MARKS: Final = re.compile(r"[\\`*_\[\]<>!|#&]")  # of Markdown
_ESCAPED: Final = r"\\\g<0>"

NOTHING: Final = "no case applied"


def to_junit(report: Report) -> bytes:
    """Return the report as JUnit XML: a test suite per cell, a test case per case.

    `warn` and `lenient` pass, with the finding in ``system-out``.
    """
    root = ET.Element("testsuites", name=f"mcpwire check {report.subject}")
    for cell in report.cells():
        results = [r for r in report.results if r.cell == cell]
        suite = ET.SubElement(root, "testsuite", name=str(cell))
        counts = Counter(_junit_kind(each) for each in results)
        for name, kind in (
            *(("failures", "failure"), ("errors", "error"), ("skipped", "skipped")),
        ):
            suite.set(name, str(counts[kind]))
        suite.set("tests", str(len(results)))
        suite.set("time", f"{sum(r.seconds for r in results):.3f}")
        for each in results:
            suite.append(_junit_case(each))
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _junit_kind(result: Result) -> str:
    match result.verdict:
        case Verdict.FAIL:
            return "failure"
        case Verdict.CRASH | Verdict.HANG | Verdict.UNRUN:
            return "error"
        case Verdict.ABSENT:
            return "skipped"
        case _:
            return ""


def _junit_case(result: Result) -> ET.Element:
    element = ET.Element(
        "testcase",
        name=f"{result.case} {result.title}",
        classname=f"{result.cell}".replace(" ", "."),
        time=f"{result.seconds:.3f}",
    )
    text = _xml_text("\n".join(details(result)))
    if kind := _junit_kind(result):
        ET.SubElement(element, kind, message=result.verdict.value).text = text
    elif result.verdict is not Verdict.PASS:
        out = f"{result.verdict.value}\n{text}"
        ET.SubElement(element, "system-out").text = out
    return element


def _xml_text(text: str) -> str:
    """Replace the characters that XML does not allow."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def details(result: Result) -> Iterator[str]:
    """Yield the lines that describe a result's finding."""
    for name in ("sent", "expected", "actual", "source", "again"):
        if text := getattr(result, name):
            yield f"{name:<9} {_one_line(name, text)}"


def to_sarif(report: Report) -> bytes:
    """Return the findings as SARIF 2.1, for code scanning."""
    found = [r for r in report.results if r.verdict in _LEVELS]
    rules = {r.case: r for r in found}
    run = {
        "tool": {
            "driver": {
                "name": "mcpwire check",
                "version": report.tool.rpartition(" ")[2],
                "rules": [_sarif_rule(each) for each in rules.values()],
            }
        },
        "results": [_sarif_result(each, report.subject) for each in found],
    }
    return encode({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _sarif_rule(result: Result) -> dict[str, Any]:
    return {
        "id": result.case,
        "shortDescription": {"text": result.title},
        "help": {
            "text": result.source or "robustness, not a rule of the specification"
        },
        "properties": {"level": result.level.value, "family": result.family},
    }


def _sarif_result(result: Result, subject: str) -> dict[str, Any]:
    cell = result.cell
    text = f"{result.title}: expected {result.expected}, got {result.actual}"
    return {
        "ruleId": result.case,
        "level": _LEVELS[result.verdict],
        "message": {"text": f"{text} ({cell}). Repeat with: {result.again}"},
        "locations": [
            {
                "logicalLocations": [
                    {"fullyQualifiedName": f"{subject} {cell}", "kind": "module"}
                ]
            }
        ],
        "partialFingerprints": {
            "mcpwireCheck/v1": f"{result.case}/{cell.transport}/{cell.revision}"
        },
        "properties": {"verdict": result.verdict.value},
    }


def to_badge(report: Report) -> bytes:
    """Return the lowest score as the JSON of a shields.io endpoint badge."""
    points = report.lowest()
    colour = next(name for least, name in _COLOURS if (points or 0) >= least)
    return encode(
        {
            "schemaVersion": 1,
            "label": f"MCP {report.profile}",
            "message": NOTHING if points is None else f"{points} of 100",
            "color": "lightgrey" if points is None else colour,
        }
    )


def to_markdown(report: Report) -> str:
    """Return scores and findings as Markdown."""
    lines = [
        f"# {_MARKS.sub(_ESCAPED, _name(report))}",
        "",
        f"`{report.subject}`, profile {report.profile}",
        "",
    ]
    lines += ["| | score | MUST | SHOULD |", "|---|---|---|---|"]
    lines += [
        f"| {cell} | {_points(each)} | {each.must_passed}/{each.must} "
        f"| {each.should_passed}/{each.should} |"
        for cell, each in report.scores().items()
    ]
    for group in _grouped(report.failures()):
        first = group[0]
        lines += ["", f"## {first.verdict.value}: {first.case} {first.title}", ""]
        said = (first.level.value, _where(group), first.source)
        lines += [f"- {', '.join(filter(None, said))}"]
        lines += [
            f"- {name}: `{text.replace('`', ' ')}`" for name, text in _parts(first)
        ]
    return "\n".join([*lines, ""])


def _parts(result: Result) -> Iterator[tuple[str, str]]:
    for name in ("sent", "expected", "actual", "again"):
        if text := getattr(result, name):
            yield name, _one_line(name, text)


def _one_line(name: str, text: str) -> str:
    """Return a text as one line, shortened unless it is a command to copy."""
    return text if name == "again" and text.isprintable() else shown(text)


def _name(report: Report) -> str:
    named = " ".join(filter(None, map(report.server.get, ("name", "version"))))
    return shown(named or report.subject)


def _grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Group the results that have the same case, verdict and expectation."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for each in results:
        groups.setdefault((each.case, each.verdict, each.expected), []).append(each)
    return list(groups.values())


def _where(group: list[Result]) -> str:
    by_transport: dict[str, list[str]] = {}
    for each in group:
        by_transport.setdefault(each.cell.transport, []).append(each.cell.revision)
    return "; ".join(f"{t} {', '.join(sorted(r))}" for t, r in by_transport.items())


def to_text(report: Report, *, colour: bool = False) -> str:
    """Return scores and findings for the terminal, the worst first."""
    paint = _PAINT if colour else {}
    lines = []
    for group in _grouped(report.failures()):
        first = group[0]
        verdict = first.verdict.value
        start, end = paint.get(first.verdict, ""), "\x1b[0m" if colour else ""
        lines.append(
            f"{start}{verdict:<8}{end}{first.case}  {first.level.value}  {first.title}"
        )
        lines.append(
            f"        {_where(group)}  {first.source.partition(' ')[2]}".rstrip()
        )
        lines += [f"        {name:<9} {text}" for name, text in _parts(first)]
        lines.append("")
    lines.append(_summary(report))
    lines += [_score_line(cell, each) for cell, each in report.scores().items()]
    lines += [f"unsupported {shown(note)}" for note in report.notes]
    return "\n".join(lines) + "\n"


_PAINT: Final = {
    Verdict.FAIL: "\x1b[31m",
    Verdict.CRASH: "\x1b[1;31m",
    Verdict.HANG: "\x1b[1;31m",
    Verdict.WARN: "\x1b[33m",
    Verdict.UNRUN: "\x1b[35m",
}


def _summary(report: Report) -> str:
    counts = Counter(result.verdict for result in report.results)
    parts = [f"{counts[each]} {each.value}" for each in Verdict if counts[each]]
    return f"{_name(report)}: {', '.join(parts)}, {report.seconds:.1f} s"


def _points(each: Score) -> str:
    return str(each.points) if each.applied else "-"


def _score_line(cell: Cell, each: Score) -> str:
    if not each.applied:
        return f"  -  {cell.transport:<6} {cell.revision}  {NOTHING}"
    must = f"MUST {each.must_passed} of {each.must}"
    should = f"SHOULD {each.should_passed} of {each.should}"
    return f"{each.points:>3}  {cell.transport:<6} {cell.revision}  {must}, {should}"


def failed(results: Iterable[Result], *, with_should: bool = False) -> bool:
    """Return whether the server breaks a MUST, crashed or hung, or a MUST is `unrun`.

    `with_should`: a broken SHOULD counts too.
    """
    return any(
        each.verdict in _FAILED
        or (each.verdict is Verdict.UNRUN and each.level is Level.MUST)
        or (with_should and each.verdict is Verdict.WARN and each.level is Level.SHOULD)
        for each in results
    )


_FAILED: Final = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.HANG})


def write_tapes(folder: Path, report: Report) -> None:
    """Write the octets of each result as JSON lines, one file per result.

    Each line has ``at`` in seconds, ``direction``, ``stream`` (the HTTP exchange) and
    ``octets`` in base64.
    """
    for result in report.results:
        lines = [
            encode_line(
                {
                    "at": at,
                    "direction": direction,
                    "stream": stream,
                    "octets": b64encode(data).decode(),
                }
            )
            for at, direction, stream, data in result.octets
        ]
        cell = result.cell
        path = folder / f"{cell.transport}-{cell.revision}" / f"{result.case}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
