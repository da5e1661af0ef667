"""``mcpwire check``: run, list and explain conformance cases, and compare reports."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.baseline import compare, read_baseline, write_baseline
from mcpwire.check.case import Verdict
from mcpwire.check.cases import CASES
from mcpwire.check.cases.fuzz import SECRET_NAME
from mcpwire.check.clients import ALL_CASES
from mcpwire.check.clients import CASES as CLIENT_CASES
from mcpwire.check.clients.runner import run_client
from mcpwire.check.official import find_suite, run_official
from mcpwire.check.pages import write_pages
from mcpwire.check.reports import (
    has_failures,
    to_badge,
    to_junit,
    to_markdown,
    to_sarif,
    to_text,
    write_tapes,
)
from mcpwire.check.results import Report, worse
from mcpwire.check.runner import PROFILE, make_report, run, select
from mcpwire.check.runner import Options as RunOptions
from mcpwire.cli.failures import Exit, UsageError, unknown_name, usage_errors
from mcpwire.cli.output import Output, check_writable, read_file, write_file, writing_to
from mcpwire.cli.session import run_command
from mcpwire.cli.targets import client_words, make_target
from mcpwire.errors import ConnectError, HTTPError
from mcpwire.versions import LATEST, LATEST_SESSION
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcpwire.check.case import Case
    from mcpwire.check.results import Result
    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Signals

_URL_WITH_LOGIN: Final = re.compile(r"://[^/?#\s]*@")
_LOGIN_FIELD: Final = re.compile(r"(?i):\s*(?:basic|bearer|digest|dpop)\s")
_FINDING_VERDICTS: Final = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.HANG})


def check(options: Options) -> int:
    """Run the cases against a server."""
    return _check(options, CASES, _run_suite if options.official else _run_cases)


def check_client(options: Options) -> int:
    """Run the cases against a client."""
    return _check(options, CLIENT_CASES, _run_client_cases)


def _check(
    options: Options,
    cases: Iterable[Case],
    run_all: Callable[[Options, RunOptions, Output], Awaitable[Report]],
) -> int:
    """Select the cases, run them and write the reports; return the exit code."""
    for path in filter(None, (getattr(options, name) for name in _FORMATS)):
        check_writable(path)
    if options.fail_on == "worse" and options.baseline is None:
        raise UsageError("--fail-on worse needs --baseline")
    with usage_errors():
        text = None if options.baseline is None else read_file(options.baseline)
        baseline = None if text is None else read_baseline(text)
        run_options = _run_options(options)
        select(run_options, cases)
    for folder in filter(None, (options.html, options.tapes)):
        with writing_to(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)

    async def perform(output: Output, _: Signals) -> int:
        report = await run_all(options, run_options, output)
        _write_reports(options, report, output)
        if report.out_of_budget:
            output.note(
                "the time limit of --budget was reached: some cases did not run"
            )
            return Exit.TIMEOUT
        with_should = options.fail_on == "should"
        if baseline is None:
            is_bad = has_failures(report.results, with_should=with_should)
            return Exit.PROTOCOL if is_bad else Exit.OK
        comparison = compare(report, baseline)
        for result in comparison.new:
            output.note(f"not in the baseline: {_result_line(result)}")
        for line in comparison.stale:
            output.note(f"stale entry in the baseline: {line}")
        is_worse = has_failures(comparison.new, with_should=with_should)
        return Exit.WORSE if is_worse or comparison.stale else Exit.OK

    return run_command(options, perform)


def _run_options(options: Options) -> RunOptions:
    return RunOptions(
        revisions=tuple(options.revisions),
        only=tuple(options.chosen),
        skip=tuple(options.skip),
        speed="full" if options.full else "quick",
        hostile=options.hostile,
        seed=options.seed,
        budget_s=options.budget,
        wait_s=options.wait or 0.0,
        answer_s=options.timeout or RunOptions().answer_s,
        roles=dict(options.roles),
        allow_calls=tuple(options.allow_calls),
        tokens={kind: os.environ[name] for kind, name in options.access_tokens},
        profile=options.case_profile or PROFILE,
        jobs=options.jobs or RunOptions().jobs,
        again=_repeat_options(options),
        named="" if options.entry is None else f"@{options.entry.name}",
    )


def _repeat_options(options: Options) -> tuple[str, ...]:
    """Return the further options of a command that reproduces a case."""
    words: list[str] = []
    for name, value in options.env:
        is_inherited = os.environ.get(name) == value
        is_secret = SECRET_NAME.search(name) or _URL_WITH_LOGIN.search(value)
        words += ["--env", name if is_inherited or is_secret else f"{name}={value}"]
    for value in options.headers:
        name = value.partition(":")[0].strip()
        is_secret = SECRET_NAME.search(name) or _LOGIN_FIELD.search(value)
        if not value.startswith("@") and is_secret:
            variable = re.sub(r"\W", "_", name).upper()
            words += ["--header-env", f"{name}={variable}"]
        else:
            words += ["-H", value]
    for value in options.header_env:
        words += ["--header-env", value]
    for kind, variable in options.access_tokens:
        words += ["--auth", f"{kind}={variable}"]
    for flag, text in (
        ("--config", options.config),
        ("--cwd", options.cwd),
        ("--ca", options.ca),
        ("--cert", options.cert),
        ("--profile", options.case_profile),
        ("--timeout", options.timeout and f"{options.timeout:g}"),
        ("--wait", options.wait and f"{options.wait:g}s"),
    ):
        words += [flag, text] if text else []
    words += ["--inherit-env"] if options.inherit_env else []
    words += ["--allow-insecure"] if options.allow_insecure else []
    return (*words, *(["--hostile"] if options.hostile else []))


async def _run_cases(
    options: Options, run_options: RunOptions, output: Output
) -> Report:
    target = make_target(options, output)
    try:
        # A `ValueError` here is a --map role that no tool has.
        with usage_errors(), output.waiting(f"connecting to {target} ..."):
            return await run(target, run_options, on_result=_progress(output))
    except ConnectError as error:
        if not options.is_at_url or (match := _STATUS.search(str(error))) is None:
            raise
        refusal = HTTPError(str(error), status=int(match[1]), target=str(target))
        advice = "check that this is the URL of an MCP endpoint, including its path"
        if refusal.status in {401, 403}:
            advice = "the server requires an access token: give one with --auth or "
            advice += "--header-env"
        elif 300 < refusal.status < 400:
            advice = "the server redirects to another URL: use that one"
        refusal.add_note(advice)
        raise refusal from error


_STATUS: Final = re.compile(r": HTTP (\d+)")


async def _run_client_cases(
    options: Options, run_options: RunOptions, output: Output
) -> Report:
    command = client_words(options)
    with output.waiting(f"starting {command[0]} ..."):
        return await run_client(
            command, run_options, http=options.over_http, on_result=_progress(output)
        )


async def _run_suite(
    options: Options, run_options: RunOptions, output: Output
) -> Report:
    """Run the official suite, which tests servers at a loopback URL."""
    if not options.is_at_url:
        raise UsageError("the official suite tests servers at a URL, not processes")
    suite = find_suite(options.suite)
    url = options.command[0]
    results: list[Result] = []
    show = _progress(output)
    for revision in run_options.revisions or (LATEST_SESSION.name, LATEST.name):
        with output.waiting(f"running the official suite against {url} ..."):
            suite_results = await run_official(url, revision, suite)
            results += suite_results
            for result in suite_results:
                show(result)
    return make_report(url, run_options, results, {"name": url})


def _progress(output: Output) -> Callable[[Result], None]:
    done = findings = 0

    def show(result: Result) -> None:
        nonlocal done, findings
        done += 1
        findings += result.verdict in _FINDING_VERDICTS
        message = f"findings: {findings}, {result.cell.revision} {result.case}"
        output.progress.show(done, None, message)
        output.detail(_result_line(result))

    return show


def _result_line(result: Result) -> str:
    cell = f"{result.cell.transport} {result.cell.revision}"
    return f"{result.verdict.value:<8}{result.case}  {cell}  {result.title}"


_FORMATS: Final[dict[str, Callable[[Report], bytes]]] = {
    "junit": to_junit,
    "sarif": to_sarif,
    "badge": to_badge,
    "markdown": lambda report: to_markdown(report).encode(),
    "write_baseline": lambda report: write_baseline(report).encode(),
}
"""Option that names a file -> function that makes the file's contents."""


def _write_reports(options: Options, report: Report, output: Output) -> None:
    try:
        _write_files(options, report)
    finally:  # neither a failed write nor a closed pipe loses the other result
        if options.json:
            output.document(loads(report.to_json()))
        else:
            text = to_text(report, colour=output.has_styles)
            output.lines(text.splitlines())


def _write_files(options: Options, report: Report) -> None:
    for name, form in _FORMATS.items():
        if (path := getattr(options, name)) is not None:
            write_file(path, form(report))
    if options.html is not None:
        with writing_to(options.html):
            write_pages(Path(options.html), [report])
    if options.tapes is not None:
        with writing_to(options.tapes):
            write_tapes(Path(options.tapes), report)


def list_cases(options: Options) -> int:
    """List the cases."""
    with usage_errors():
        cases = select(
            RunOptions(only=tuple(options.chosen), speed="full", hostile=True),
            ALL_CASES,
        )
    width = max(len(case.id) for case in cases)
    Output(is_json=options.json).result(
        [_case_document(case) for case in cases],
        (
            f"{case.id:<{width}}  {case.level.value:<6}  {case.family:<13}  "
            f"{case.title}"
            for case in cases
        ),
    )
    return Exit.OK


def _case_document(case: Case) -> dict[str, Any]:
    fields = ("role", "title", "source", "rules", "revisions", "transports", "needs")
    return {
        "id": case.id,
        "family": case.family,
        "level": case.level.value,
        **{name: getattr(case, name) for name in (*fields, "sends", "expects", "why")},
        "quick": case.is_quick,
        "hostile": case.is_hostile,
    }


def explain(options: Options) -> int:
    """Explain one case."""
    (case_id,) = options.words
    case = next((case for case in ALL_CASES if case.id == case_id), None)
    if case is None:
        ids = [case.id for case in ALL_CASES]
        raise unknown_name(
            f"no case {case_id!r}", case_id, ids, "; see mcpwire check list"
        )
    document = _case_document(case)
    lines = [f"{case.id}  {case.level.value}  {case.title}", ""]
    for name in ("source", "rules", "revisions", "transports", "needs"):
        value = document[name]
        text = value if isinstance(value, str) else ", ".join(value)
        lines += [f"{name:<11} {text}"] if text else []
    for name in ("sends", "expects", "why"):
        lines += [f"{name:<11} {document[name]}"]
    Output(is_json=options.json).result(document, lines)
    return Exit.OK


def diff(options: Options) -> int:
    """List the verdicts that got worse between two reports."""
    before, after = (_read_report(path) for path in options.words)
    changes = worse(before, after)
    rows, lines = [], []
    for old, new in changes:
        old_verdict = None if old is None else old.verdict.value
        verdicts = {"before": old_verdict, "after": new.verdict.value}
        rows.append({"case": new.case, **attrs.asdict(new.cell), **verdicts})
        lines.append(f"{old_verdict or 'new'} -> {_result_line(new)}")
    Output(is_json=options.json).result(rows, [*lines, f"{len(changes)} worse"])
    return Exit.WORSE if changes else Exit.OK


def page(options: Options) -> int:
    """Write a static site of reports."""
    folder, *paths = options.words
    reports = [_read_report(path) for path in paths]
    with writing_to(folder):
        write_pages(Path(folder), reports)
    return Exit.OK


def _read_report(path: str) -> Report:
    with usage_errors(f"{path}: "):
        return Report.from_json(read_file(path).encode())
