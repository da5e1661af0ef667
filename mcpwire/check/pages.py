"""Reports as a static web site that needs no JavaScript.

::

    index.html                 the matrix: cases by subjects and their cells; scores
    subjects/NAME.html         one subject: scores, findings first, command, machine
    cases/ID.html              one case: rule, source, why; the verdict per subject
    results/NAME/ID.html       one case of one subject: octets of both directions
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import Verdict
from mcpwire.check.clients import ALL_CASES
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mcpwire.check.results import Cell, Report, Result

VERDICT_LETTERS: Final = {
    Verdict.PASS: "P",
    Verdict.LENIENT: "L",
    Verdict.WARN: "W",
    Verdict.FAIL: "F",
    Verdict.CRASH: "C",
    Verdict.HANG: "H",
    Verdict.ABSENT: "-",
    Verdict.UNRUN: "U",
}

_MAX_SLUG_LENGTH: Final = 80  # characters of a file name


@attrs.frozen
class ReportSubject:
    """One report and its data for the templates."""

    slug: str
    name: str
    report: Report
    by_case: dict[str, dict[Cell, Result]]
    cells: list[Cell]


def write_pages(
    folder: Path,
    reports: Iterable[Report],
    *,
    remarks: Mapping[tuple[str, str], Sequence[str]] | None = None,
    home: str = "",
) -> list[str]:
    """Write a web site of reports into a folder, which may exist.

    Args:
        folder: The folder for the pages.
        reports: One report per subject.
        remarks: Server name and case id -> paragraphs shown with the case's verdicts.
        home: URL of the parent site, relative to the index page; "" for none.

    Returns:
        The name of each report's page in ``subjects``, without ``.html``.

    Raises:
        LocalProtocolError: Jinja2 is not installed.
        OSError: A file cannot be written.
    """
    subjects = _make_subjects(reports)
    templates = _load_templates()
    cases = [
        c for c in ALL_CASES if any(c.id in subject.by_case for subject in subjects)
    ]
    case_ids = {case.id for case in cases}
    _write_file(folder / "style.css", templates.get_template("style.css").render())

    def remarks_of(subject: ReportSubject, result: Result) -> Sequence[str]:
        if result.verdict in {Verdict.PASS, Verdict.ABSENT}:
            return ()
        server = subject.report.server.get("name", "")
        return (remarks or {}).get((server, result.case), ())

    def write_page(path: str, template: str, **values: Any) -> None:
        top = "../" * path.count("/")
        text = templates.get_template(template).render(
            top=top,
            home=top + home if home else "",
            subjects=subjects,
            letters=VERDICT_LETTERS,
            case_ids=case_ids,
            remarks=remarks_of,
            has_remarks=bool(remarks),
            **values,
        )
        _write_file(folder / path, text)

    write_page("index.html", "index.html", cases=cases)
    for case in cases:
        write_page(f"cases/{case.id}.html", "case.html", case=case)
    for subject in subjects:
        write_page(f"subjects/{subject.slug}.html", "subject.html", subject=subject)
        for case in cases:
            results = subject.by_case.get(case.id)
            if results:
                path = f"results/{subject.slug}/{case.id}.html"
                write_page(
                    path, "result.html", subject=subject, case=case, results=results
                )
    return [subject.slug for subject in subjects]


def _make_subjects(reports: Iterable[Report]) -> Sequence[ReportSubject]:
    subjects: list[ReportSubject] = []
    for report in reports:
        server_name = report.server.get("name") or report.subject
        name = f"{server_name} {report.server.get('version', '')}".strip()
        transports = {cell.transport for cell in report.cells()}
        if transports == {"http"}:
            name += " (HTTP)"
        elif transports == {"sse"}:
            name += " (HTTP+SSE)"
        stem = (
            re.sub(r"[^a-z0-9.]+", "-", name.lower())[:_MAX_SLUG_LENGTH].strip("-.")
            or "subject"
        )
        slugs = {subject.slug for subject in subjects}
        slug = next(
            s
            for s in (stem, *(f"{stem}-{n}" for n in range(2, len(slugs) + 3)))
            if s not in slugs
        )
        by_case: dict[str, dict[Cell, Result]] = {}
        for result in report.results:
            by_case.setdefault(result.case, {})[result.cell] = result
        by_case = {
            case: dict(sorted(results.items())) for case, results in by_case.items()
        }
        subjects.append(ReportSubject(slug, name, report, by_case, report.cells()))
    return subjects


def _load_templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise LocalProtocolError("pages need Jinja2: pip install Jinja2") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mcpwire.check"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["octets"] = _decode_octets
    environment.filters["hex"] = _hex_dump
    return environment


def _decode_octets(data: bytes) -> str:
    """Decode octets; escape invalid and non-printable ones."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _hex_dump(data: bytes, limit: int = 512) -> str:
    """Return a hex dump of the first octets, sixteen per line."""
    rows = (data[at : at + 16] for at in range(0, min(len(data), limit), 16))
    lines = [f"{n * 16:04x}  {row.hex(' ')}" for n, row in enumerate(rows)]
    return "\n".join([*lines, "..."] if len(data) > limit else lines)


def _write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
