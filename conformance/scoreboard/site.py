"""Files of the scoreboard: data, pages of the findings, tables, and the method.

::

    index.html           one row for each subject and transport
    speed.html           speed of servers and clients
    made.html            machine, versions, the command of each subject
    scoreboard.json      the table as data
    data/NAME.FORM.json  the reports, FORM a transport; facts.json: size and start
    matrix/              the pages of `mcpwire check page`
"""

from __future__ import annotations

import json
import platform
import statistics
from typing import TYPE_CHECKING, Any, Final

import attrs
import jinja2

from mcpwire.bench.reports import format_amount
from mcpwire.bench.results import FIGURES
from mcpwire.check import Report, Verdict
from mcpwire.check.case import Level
from mcpwire.check.clients import ALL_CASES
from mcpwire.check.pages import write_pages
from mcpwire.versions import REVISIONS
from scoreboard import measure, speed
from scoreboard.subjects import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from scoreboard.subjects import Dispute, Subject

NO_FACTS: Final = {"problem": "", "size": 0, "start": [], "caller": {}}

_UNRESPONSIVE: Final = (Verdict.CRASH, Verdict.HANG)
_COUNTED: Final = {
    "MUST": ((Verdict.FAIL,), Level.MUST),
    "crash or hang": (_UNRESPONSIVE, None),
    "SHOULD": ((Verdict.WARN,), Level.SHOULD),
    "unrun": ((Verdict.UNRUN,), None),
}
"""Column -> the counted verdicts, and the level of the counted cases."""


@attrs.frozen
class TableLine:
    """One transport of a subject: a line of the table."""

    transport: str
    report: Report
    slug: str
    points: dict[str, int]
    """Revision -> score."""
    classes: dict[str, str]
    """Revision -> ``fail`` after a crash or a hang, ``warn`` if a MUST is violated."""
    findings: dict[str, int]
    """Column -> cases with such a finding in any revision."""


def store(folder: Path, subject: Subject, transport: str, report: Report) -> None:
    """Store a report in the data of a site."""
    path = folder / "data" / f"{subject.name}.{transport}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(report.to_json())


def load_stored(folder: Path, subject: Subject) -> dict[str, Report]:
    """Return transport -> the stored report of a subject."""
    reports = {}
    for transport in subject.transports():
        path = folder / "data" / f"{subject.name}.{transport}.json"
        if path.exists():
            reports[transport] = Report.from_json(path.read_bytes())
    return reports


def load_facts(folder: Path) -> dict[str, dict[str, Any]]:
    """Return subject -> its other stored data."""
    path = folder / "data" / "facts.json"
    return json.loads(path.read_text()) if path.exists() else {}


def store_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Store the other data of the subjects."""
    path = folder / "data" / "facts.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=1) + "\n")


def write_site(
    folder: Path, subjects: Sequence[Subject], disputes: Iterable[Dispute]
) -> None:
    """Write all pages from the data in the folder."""
    facts = load_facts(folder)
    reports = [
        (subject, transport, _with_subject_name(subject, report))
        for subject in subjects
        for transport, report in load_stored(folder, subject).items()
    ]
    slugs = write_pages(
        folder / "matrix",
        [report for _, _, report in reports],
        remarks=_remarks(subjects, disputes),
        home="../index.html",
    )
    lines: dict[str, list[TableLine]] = {subject.name: [] for subject in subjects}
    for (subject, transport, report), slug in zip(reports, slugs, strict=True):
        lines[subject.name].append(_line(transport, report, slug))
    rows = [
        (subject, lines[subject.name], {**NO_FACTS, **facts.get(subject.name, {})})
        for subject in subjects
    ]
    callers = [
        (subject, facts.get(subject.name, NO_FACTS))
        for subject in subjects
        if subject.kind == "client"
    ]
    servers = [subject for subject in subjects if subject.kind == "server"]
    speeds = [(subject, speed.rows(folder, subject)) for subject in servers]
    values = {
        "rows": rows,
        "revisions": [revision.name for revision in REVISIONS],
        "speeds": speeds,
        "ahead": speed.better_servers(speeds) if speeds else [],
        "figures": speed.FIGURES,
        "most_passes": speed.PASSES,
        "callers": callers,
        "caller_figures": speed.CLIENT_FIGURES,
        "counted": list(_COUNTED),
        "shared": _shared(subjects, lines),
        "titles": {case.id: case.title for case in ALL_CASES},
        "made": _method_values(subjects, [report for _, _, report in reports]),
    }
    _write_table(folder, rows)
    templates = _templates()
    for name in ("index.html", "speed.html", "made.html"):
        (folder / name).write_text(templates.get_template(name).render(values))


def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER.parent / "scoreboard" / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["median_ms"] = median_ms
    templates.filters["median_of"] = speed.median_of
    templates.filters["amount"] = _amount
    return templates


def _with_subject_name(subject: Subject, report: Report) -> Report:
    """Return a report with the subject's name and version in place of its own."""
    server = {"name": subject.name, "version": subject.version}
    return attrs.evolve(report, server=server)


def _line(transport: str, report: Report, slug: str) -> TableLine:
    findings = {
        name: len(
            {
                result.case
                for result in report.results
                if result.verdict in verdicts and level in {None, result.level}
            }
        )
        for name, (verdicts, level) in _COUNTED.items()
    }
    unresponsive_cells = {r.cell for r in report.results if r.verdict in _UNRESPONSIVE}
    points, classes = {}, {}
    for cell, score in report.scores().items():
        points[cell.revision] = score.points
        holds = "pass" if score.must_passed == score.must else "warn"
        classes[cell.revision] = "fail" if cell in unresponsive_cells else holds
    return TableLine(transport, report, slug, points, classes, findings)


def _shared(
    subjects: Sequence[Subject], lines: Mapping[str, list[TableLine]]
) -> list[tuple[str, str, list[str]]]:
    """Return SDK, case and servers for cases that several servers of an SDK fail."""
    servers_by_case: dict[tuple[str, str], list[str]] = {}
    for subject in subjects:
        failed_cases = {
            result.case
            for line in lines[subject.name]
            for result in line.report.results
            if result.verdict in {*_UNRESPONSIVE, Verdict.FAIL}
        }
        for case in failed_cases:
            servers_by_case.setdefault((subject.sdk, case), []).append(subject.name)
    return sorted(
        (sdk, case, names)
        for (sdk, case), names in servers_by_case.items()
        if len(names) > 1 and sdk != "none"
    )


def _remarks(
    subjects: Sequence[Subject], disputes: Iterable[Dispute]
) -> dict[tuple[str, str], list[str]]:
    """Return subject and case -> the remarks on its verdicts."""
    remarks: dict[tuple[str, str], list[str]] = {}
    for dispute in disputes:
        text = [dispute.objection, f"{dispute.source}: \u201c{dispute.sentence}\u201d"]
        cases = [c.id for c in ALL_CASES if f"{c.id}.".startswith(dispute.prefixes())]
        for subject in subjects:
            if {subject.name, subject.sdk, "*"} & set(dispute.subjects):
                for case in cases:
                    remarks.setdefault((subject.name, case), []).extend(text)
    return remarks


def _method_values(
    subjects: Sequence[Subject], reports: Sequence[Report]
) -> dict[str, Any]:
    """Return the values of the page about the method."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _lines_of("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "machine": {**(dict(reports[0].machine) if reports else {}), "processor": cpu},
        "tools": sorted({report.tool for report in reports}),
        "profiles": sorted({report.profile for report in reports}),
        "from": min((report.started for report in reports), default=""),
        "to": max((report.started for report in reports), default=""),
        "commands": {
            subject.name: {
                **dict.fromkeys(
                    subject.transports(), measure.command_line(subject, subject.command)
                ),
                **{
                    name: measure.command_line(subject, server.command)
                    for name, server in subject.servers().items()
                },
            }
            for subject in subjects
        },
        "seed": measure.SEED,
    }


def _lines_of(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.readlines()
    except OSError:
        return []


def _write_table(
    folder: Path, rows: Iterable[tuple[Subject, list[TableLine], Any]]
) -> None:
    table = [
        {
            "name": subject.name,
            "language": subject.language,
            "sdk": f"{subject.sdk} {subject.sdk_version}".strip(),
            "version": subject.version,
            "scores": {line.transport: line.points for line in lines},
            "findings": {line.transport: line.findings for line in lines},
            **facts,
        }
        for subject, lines, facts in rows
    ]
    path = folder / "scoreboard.json"
    path.write_text(json.dumps({"subjects": table}, indent=1) + "\n")


def _amount(value: float, figure: str) -> str:
    return format_amount(value, FIGURES[figure].unit)


def median_ms(seconds: Sequence[float]) -> int | None:
    """Return the median in milliseconds."""
    return round(statistics.median(seconds) * 1000) if seconds else None


def differences(before: Path, after: Path, subjects: Iterable[Subject]) -> list[str]:
    """Return a line for each verdict that differs between the data of two sites."""
    lines = []
    for subject in subjects:
        old, new = load_stored(before, subject), load_stored(after, subject)
        for transport in old.keys() & new.keys():
            verdicts = [
                {(r.case, str(r.cell)): r.verdict.value for r in report.results}
                for report in (old[transport], new[transport])
            ]
            for key in sorted(verdicts[0].keys() | verdicts[1].keys()):
                earlier, later = (by_key.get(key, "nothing") for by_key in verdicts)
                if earlier != later:
                    case, cell = key
                    lines.append(
                        f"{subject.name}: {case} {cell}: {earlier}, then {later}"
                    )
    return lines
