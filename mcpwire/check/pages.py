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
from mcpwire.check.cases import CASES
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mcpwire.check.results import Cell, Report, Result

LETTERS: Final = {
    Verdict.PASS: "P",
    Verdict.LENIENT: "L",
    Verdict.WARN: "W",
    Verdict.FAIL: "F",
    Verdict.CRASH: "C",
    Verdict.HANG: "H",
    Verdict.ABSENT: "-",
    Verdict.UNRUN: "U",
}

_SLUG: Final = 80  # characters of a file name


@attrs.frozen
class Subject:
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
    subjects = _subjects(reports)
    templates = _templates()
    cases = [c for c in CASES if any(c.id in each.by_case for each in subjects)]
    known = {case.id for case in cases}
    _write(folder / "style.css", templates.get_template("style.css").render())

    def remarks_of(subject: Subject, result: Result) -> Sequence[str]:
        if result.verdict in {Verdict.PASS, Verdict.ABSENT}:
            return ()
        server = subject.report.server.get("name", "")
        return (remarks or {}).get((server, result.case), ())

    def page(path: str, template: str, **values: Any) -> None:
        top = "../" * path.count("/")
        text = templates.get_template(template).render(
            top=top,
            home=top + home if home else "",
            subjects=subjects,
            letters=LETTERS,
            known=known,
            remarks=remarks_of,
            has_remarks=bool(remarks),
            **values,
        )
        _write(folder / path, text)

    page("index.html", "index.html", cases=cases)
    for case in cases:
        page(f"cases/{case.id}.html", "case.html", case=case)
    for subject in subjects:
        page(f"subjects/{subject.slug}.html", "subject.html", subject=subject)
        for case in cases:
            results = subject.by_case.get(case.id)
            if results:
                path = f"results/{subject.slug}/{case.id}.html"
                page(path, "result.html", subject=subject, case=case, results=results)
    return [subject.slug for subject in subjects]


def _subjects(reports: Iterable[Report]) -> Sequence[Subject]:
    found: list[Subject] = []
    for report in reports:
        named = report.server.get("name") or report.subject
        name = f"{named} {report.server.get('version', '')}".strip()
        transports = {cell.transport for cell in report.cells()}
        if transports == {"http"}:
            name += " (HTTP)"
        elif transports == {"sse"}:
            name += " (HTTP+SSE)"
        stem = (
            re.sub(r"[^a-z0-9.]+", "-", name.lower())[:_SLUG].strip("-.") or "subject"
        )
        taken = {each.slug for each in found}
        slug = next(
            s
            for s in (stem, *(f"{stem}-{n}" for n in range(2, len(taken) + 3)))
            if s not in taken
        )
        by_case: dict[str, dict[Cell, Result]] = {}
        for result in report.results:
            by_case.setdefault(result.case, {})[result.cell] = result
        by_case = {case: dict(sorted(each.items())) for case, each in by_case.items()}
        found.append(Subject(slug, name, report, by_case, report.cells()))
    return found


def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise LocalProtocolError("pages need Jinja2: pip install Jinja2") from error
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("mcpwire.check"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["octets"] = _as_text
    made.filters["hex"] = _as_hex
    return made


def _as_text(data: bytes) -> str:
    """Decode octets; escape invalid and non-printable ones."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _as_hex(data: bytes, most: int = 512) -> str:
    """Return a hex dump of the first octets, sixteen per line."""
    rows = (data[at : at + 16] for at in range(0, min(len(data), most), 16))
    lines = [f"{n * 16:04x}  {row.hex(' ')}" for n, row in enumerate(rows)]
    return "\n".join([*lines, "..."] if len(data) > most else lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
