"""Report formats: JUnit, SARIF, Markdown, a badge and text for the terminal."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from mcpwire.check.case import Level, Verdict
from mcpwire.check.subject import printable
from mcpwire.testing.tape import FIRST_LINE, Part, Side, encode_part
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from mcpwire.check.results import Cell, Report, Result, Score

_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVELS: Final = {
    Verdict.FAIL: "error",
    Verdict.CRASH: "error",
    Verdict.HANG: "error",
    Verdict.UNRUN: "warning",
    Verdict.WARN: "warning",
    Verdict.LENIENT: "note",
}
_COLOURS: Final = ((100, "brightgreen"), (95, "green"), (80, "yellow"), (0, "red"))

_MARKDOWN_MARKUP: Final = re.compile(r"[\\`*_\[\]<>!|#&]")
_ESCAPED_MARKUP: Final = r"\\\g<0>"

NO_CASE_APPLIED: Final = "no applicable cases"


def to_junit(report: Report) -> bytes:
    """Return the report as JUnit XML: a test suite per cell, a test case per case.

    `warn` and `lenient` pass, with the finding in ``system-out``.
    """
    root = ET.Element("testsuites", name=f"mcpwire check {report.subject}")
    for cell in report.cells():
        results = [r for r in report.results if r.cell == cell]
        suite = ET.SubElement(root, "testsuite", name=str(cell))
        counts = Counter(_junit_kind(result) for result in results)
        for name, kind in (
            *(("failures", "failure"), ("errors", "error"), ("skipped", "skipped")),
        ):
            suite.set(name, str(counts[kind]))
        suite.set("tests", str(len(results)))
        suite.set("time", f"{sum(r.seconds for r in results):.3f}")
        for result in results:
            suite.append(_junit_case(result))
    head = "<?xml version='1.0' encoding='utf-8'?>\n"
    return f"{head}{_xml_text(ET.tostring(root, encoding='unicode'))}".encode()


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
    text = "\n".join(details(result))
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
    findings = [r for r in report.results if r.verdict in _SARIF_LEVELS]
    rules = {r.case: r for r in findings}
    run = {
        "tool": {
            "driver": {
                "name": "mcpwire check",
                "version": report.tool.rpartition(" ")[2],
                "rules": [_sarif_rule(result) for result in rules.values()],
            }
        },
        "results": [_sarif_result(result, report.subject) for result in findings],
    }
    return encode({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


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
    expected = f"expected {result.expected}, got " if result.expected else ""
    text = f"{result.title}: {expected}{result.actual}"
    return {
        "ruleId": result.case,
        "level": _SARIF_LEVELS[result.verdict],
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
    colour = next(name for minimum, name in _COLOURS if (points or 0) >= minimum)
    return encode(
        {
            "schemaVersion": 1,
            "label": f"MCP {report.profile}",
            "message": NO_CASE_APPLIED if points is None else f"{points} of 100",
            "color": "lightgrey" if points is None else colour,
        }
    )


def to_markdown(report: Report) -> str:
    """Return scores and findings as Markdown."""
    lines = [
        f"# {_MARKDOWN_MARKUP.sub(_ESCAPED_MARKUP, _server_name(report))}",
        "",
        f"`{report.subject}`, profile {report.profile}",
        "",
    ]
    lines += ["| | score | MUST | SHOULD |", "|---|---|---|---|"]
    lines += [
        f"| {cell} | {_points_text(score)} | {score.must_passed}/{score.must} "
        f"| {score.should_passed}/{score.should} |"
        for cell, score in report.scores().items()
    ]
    for group in _group_results(report.failures()):
        first = group[0]
        lines += ["", f"## {first.verdict.value}: {first.case} {first.title}", ""]
        summary = (first.level.value, _describe_cells(group), first.source)
        lines += [f"- {', '.join(filter(None, summary))}"]
        lines += [
            f"- {name}: `{text.replace('`', ' ')}`"
            for name, text in _finding_parts(first)
        ]
    return "\n".join([*lines, ""])


def _finding_parts(result: Result) -> Iterator[tuple[str, str]]:
    for name in ("sent", "expected", "actual", "again"):
        if text := getattr(result, name):
            yield name, _one_line(name, text)


def _one_line(name: str, text: str) -> str:
    """Return a text as one line, shortened unless it is a command to copy."""
    return text if name == "again" and text.isprintable() else printable(text)


def _server_name(report: Report) -> str:
    server = " ".join(filter(None, map(report.server.get, ("name", "version"))))
    return printable(server or report.subject)


def _group_results(results: Iterable[Result]) -> list[list[Result]]:
    """Group the results that have the same case, verdict and expectation."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        groups.setdefault((result.case, result.verdict, result.expected), []).append(
            result
        )
    return list(groups.values())


def _describe_cells(group: list[Result]) -> str:
    by_transport: dict[str, list[str]] = {}
    for result in group:
        by_transport.setdefault(result.cell.transport, []).append(result.cell.revision)
    return "; ".join(f"{t} {', '.join(sorted(r))}" for t, r in by_transport.items())


def to_text(report: Report, *, colour: bool = False) -> str:
    """Return scores and findings for the terminal, the worst first."""
    colours = _ANSI_COLOURS if colour else {}
    lines = []
    for group in _group_results(report.failures()):
        first = group[0]
        verdict = first.verdict.value
        start, end = colours.get(first.verdict, ""), "\x1b[0m" if colour else ""
        lines.append(
            f"{start}{verdict:<8}{end}{first.case}  {first.level.value}  {first.title}"
        )
        source = first.source.partition(" ")[2]
        lines.append(f"        {_describe_cells(group)}  {source}".rstrip())
        lines += [f"        {name:<9} {text}" for name, text in _finding_parts(first)]
        lines.append("")
    lines.append(_summary(report))
    lines += [_score_line(cell, score) for cell, score in report.scores().items()]
    lines += [f"unsupported {printable(note)}" for note in report.notes]
    return "\n".join(lines) + "\n"


_ANSI_COLOURS: Final = {
    Verdict.FAIL: "\x1b[31m",
    Verdict.CRASH: "\x1b[1;31m",
    Verdict.HANG: "\x1b[1;31m",
    Verdict.WARN: "\x1b[33m",
    Verdict.UNRUN: "\x1b[35m",
}


def _summary(report: Report) -> str:
    counts = Counter(result.verdict for result in report.results)
    parts = [
        f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]
    ]
    return f"{_server_name(report)}: {', '.join(parts)}, {report.seconds:.1f} s"


def _points_text(score: Score) -> str:
    return str(score.points) if score.applied else "-"


def _score_line(cell: Cell, score: Score) -> str:
    if not score.applied:
        return f"  -  {cell.transport:<6} {cell.revision}  {NO_CASE_APPLIED}"
    must = f"MUST {score.must_passed} of {score.must}"
    should = f"SHOULD {score.should_passed} of {score.should}"
    return f"{score.points:>3}  {cell.transport:<6} {cell.revision}  {must}, {should}"


def has_failures(results: Iterable[Result], *, with_should: bool = False) -> bool:
    """Return whether the server breaks a MUST, crashed or hung, or a MUST is `unrun`.

    `with_should`: a broken SHOULD counts too.
    """
    return any(
        result.verdict in _FAILING
        or (result.verdict is Verdict.UNRUN and result.level is Level.MUST)
        or (
            with_should
            and result.verdict is Verdict.WARN
            and result.level is Level.SHOULD
        )
        for result in results
    )


_FAILING: Final = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.HANG})


def write_tapes(folder: Path, report: Report) -> None:
    """Write the octets of each result as a tape (`mcpwire.testing.tape`).

    Over HTTP the text of a part also has the head of the message.
    """
    for result in report.results:
        # Cases of clients are the server of their subject.
        is_server = result.case.startswith("C-")
        lines = [FIRST_LINE]
        for at, direction, stream, data in result.octets:
            side: Side = "server" if is_server == (direction == "sent") else "client"
            lines.append(encode_part(Part(at, side, data, stream or None)))
        cell = result.cell
        path = folder / f"{cell.transport}-{cell.revision}" / f"{result.case}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
