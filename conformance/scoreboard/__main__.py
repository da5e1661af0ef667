"""Check and measure the subjects of conformance/subjects, and write a static site.

    PYTHONPATH=conformance python -m scoreboard --site .build/scoreboard
    ... --only libgen-mcp        # only this subject; keep the stored data of others
    ... --only libgen-mcp.http   # over this transport
    ... --no-speed, --no-check   # only check; only measure
    ... --pages                  # only write the pages
    ... --against DIR            # print the differences to the data of another site

Run it from the root of the checkout, as `make scoreboard` does. Exit code 1: a verdict
differs from that of the other site.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire import MCPError
from scoreboard import measure, site, speed
from scoreboard.install import install, size_of
from scoreboard.subjects import FOLDER, Subject, read_disputes, read_subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.bench import Result

_CHECK_TIMEOUT_S: Final = 1800.0  # a check over one transport
_DISPUTES: Final = FOLDER.parent / "disputes.toml"


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", type=Path, required=True, metavar="DIR")
    parser.add_argument("--subjects", type=Path, default=FOLDER, metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--cases", action="append", default=[], metavar="ID")
    parser.add_argument("--no-speed", dest="speed", action="store_false")
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--against", type=Path, metavar="DIR")
    options = parser.parse_args(words)
    names = {subject.name for subject in read_subjects(options.subjects)}
    for name in options.only:
        if name not in names and name.rpartition(".")[0] not in names:
            parser.error(f"--only takes {', '.join(sorted(names))}, got {name!r}")
    return options


async def check(options: argparse.Namespace, subjects: Sequence[Subject]) -> None:
    """Install, check and measure the chosen subjects, and store the results."""
    facts = site.load_facts(options.site)
    installed = []
    for subject in subjects:
        if not (transports := _selected_transports(options, subject)):
            continue
        subject_facts: dict[str, Any] = {**site.NO_FACTS, "start": []}
        stored_passes = facts.get(subject.name, site.NO_FACTS)["caller"]
        subject_facts["caller"] = {
            k: v for k, v in stored_passes.items() if k not in transports
        }
        facts[subject.name] = subject_facts
        if problem := install(subject):
            subject_facts["problem"] = f"not installed: {problem}"
            print(f"{subject.name}: {subject_facts['problem']}", flush=True)
            continue
        installed.append(subject)
        subject_facts["size"] = size_of(subject.folder)
        for transport in transports if options.check else ():
            problem = await _check_one(options, subject, transport)
            subject_facts["problem"] += problem
        site.store_facts(options.site, facts)
    for subject in installed:
        if subject.command and subject.kind == "server":
            facts[subject.name]["start"] = await measure.start_times(subject)
    site.store_facts(options.site, facts)
    if options.speed:
        await _measure_speed(options, installed, facts)


def _selected_transports(options: argparse.Namespace, subject: Subject) -> list[str]:
    """Return the chosen transports of a subject."""
    return [
        transport
        for transport in subject.transports()
        if not options.only
        or {subject.name, f"{subject.name}.{transport}"} & set(options.only)
    ]


async def _measure_speed(
    options: argparse.Namespace, subjects: Sequence[Subject], facts: dict[str, Any]
) -> None:
    """Measure the speed of all subjects in passes; store the figures after each."""
    remaining = [
        (subject, transport)
        for subject in subjects
        for transport in _selected_transports(options, subject)
    ]
    passes: dict[tuple[str, str], list[Result]] = {}
    for number in range(speed.PASSES):
        for subject, transport in tuple(remaining):
            subject_facts = facts[subject.name]
            try:
                if subject.kind == "client":
                    caller = await speed.measure_client_pass(subject, transport)
                    subject_facts["caller"].setdefault(transport, []).append(caller)
                else:
                    results = await speed.measure_server(subject, transport)
                    for load, result in results.items():
                        key = f"{subject.name}.{transport}", load
                        passes.setdefault(key, []).append(result)
            except (MCPError, OSError) as error:
                subject_facts["problem"] += f"speed over {transport}: {error}. "
                print(f"{subject.name}: {subject_facts['problem']}", flush=True)
                remaining.remove((subject, transport))
        for (name, load), results in passes.items():
            speed.store(options.site, name, load, speed.join_passes(results))
        site.store_facts(options.site, facts)
        print(f"speed: pass {number + 1} of {speed.PASSES}", flush=True)


async def _check_one(
    options: argparse.Namespace, subject: Subject, transport: str
) -> str:
    """Check a subject over a transport, store the report; return the failure or ""."""
    start = monotonic()
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            is_client = subject.kind == "client"
            checked = measure.check_client if is_client else measure.check_subject
            report = await checked(subject, transport, only=tuple(options.cases))
    except (MCPError, OSError, TimeoutError, ValueError) as error:
        problem = f"{transport}: {error or type(error).__name__}. "
    else:
        problem = ""
        site.store(options.site, subject, transport, report)
    scores = {} if problem else report.scores()
    scores_text = " ".join(f"{cell.revision} {s.points}" for cell, s in scores.items())
    duration = f"{monotonic() - start:.0f} s"
    print(
        f"{subject.name} {transport}: {scores_text or problem} ({duration})", flush=True
    )
    return problem


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    subjects = read_subjects(options.subjects)
    if not options.pages:
        asyncio.run(check(options, subjects))
    site.write_site(options.site, subjects, read_disputes(_DISPUTES))
    print(options.site / "index.html")
    differences = []
    if options.against:
        differences = site.differences(options.against, options.site, subjects)
        print("\n".join(differences) or "no verdict differs")
        folders = options.against, options.site
        old, new = ((folder, site.load_facts(folder)) for folder in folders)
        for line in speed.differences(old, new, subjects):
            print(line)
    return 1 if differences else 0


if __name__ == "__main__":
    # As at Ctrl-C, so that the started servers are stopped, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
