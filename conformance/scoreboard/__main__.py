"""Check and measure the servers of conformance/subjects, and write a static site.

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

_LONGEST_S: Final = 1800.0  # a check over one transport
_DISPUTES: Final = FOLDER.parent / "disputes.toml"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
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
    found = parser.parse_args(words)
    names = {each.name for each in read_subjects(found.subjects)}
    for name in found.only:
        if name not in names and name.rpartition(".")[0] not in names:
            parser.error(f"--only takes {', '.join(sorted(names))}, got {name!r}")
    return found


async def check(chosen: argparse.Namespace, subjects: Sequence[Subject]) -> None:
    """Install, check and measure the chosen subjects, and store the results."""
    facts = site.facts_of(chosen.site)
    measured = []
    for subject in subjects:
        if not (wanted := _wanted(chosen, subject)):
            continue
        found: dict[str, Any] = {**site.NO_FACTS, "start": []}
        before = facts.get(subject.name, site.NO_FACTS)["caller"]
        found["caller"] = {k: v for k, v in before.items() if k not in wanted}
        facts[subject.name] = found
        if problem := install(subject):
            found["problem"] = f"not installed: {problem}"
            print(f"{subject.name}: {found['problem']}", flush=True)
            continue
        measured.append(subject)
        found["size"] = size_of(subject.folder)
        for transport in wanted if _is_checked(chosen, subject) else ():
            problem = await _check_one(chosen, subject, transport)
            found["problem"] += problem
        site.keep_facts(chosen.site, facts)
    for subject in measured:
        if subject.command and subject.kind == "server":
            facts[subject.name]["start"] = await measure.start_times(subject)
    site.keep_facts(chosen.site, facts)
    if chosen.speed:
        await _measure_speed(chosen, measured, facts)


def _wanted(chosen: argparse.Namespace, subject: Subject) -> list[str]:
    """Return the chosen transports of a subject."""
    return [
        transport
        for transport in subject.transports()
        if not chosen.only
        or {subject.name, f"{subject.name}.{transport}"} & set(chosen.only)
    ]


async def _measure_speed(
    chosen: argparse.Namespace, subjects: Sequence[Subject], facts: dict[str, Any]
) -> None:
    """Measure the speed of all subjects in passes; store the figures after each."""
    left = [
        (subject, transport)
        for subject in subjects
        for transport in _wanted(chosen, subject)
    ]
    passes: dict[tuple[str, str], list[Result]] = {}
    for number in range(speed.PASSES):
        for subject, transport in tuple(left):
            found = facts[subject.name]
            try:
                if subject.kind == "client":
                    caller = await speed.measure_caller(subject, transport)
                    found["caller"].setdefault(transport, []).append(caller)
                else:
                    results = await speed.measure_server(subject, transport)
                    for load, result in results.items():
                        key = f"{subject.name}.{transport}", load
                        passes.setdefault(key, []).append(result)
            except (MCPError, OSError) as error:
                found["problem"] += f"speed over {transport}: {error}. "
                print(f"{subject.name}: {found['problem']}", flush=True)
                left.remove((subject, transport))
        for (name, load), of in passes.items():
            speed.keep(chosen.site, name, load, speed.joined(of))
        site.keep_facts(chosen.site, facts)
        print(f"speed: pass {number + 1} of {speed.PASSES}", flush=True)


def _is_checked(chosen: argparse.Namespace, subject: Subject) -> bool:
    return bool(chosen.check) and subject.kind == "server"


async def _check_one(
    chosen: argparse.Namespace, subject: Subject, transport: str
) -> str:
    """Check a subject over a transport, store the report; return the failure or ""."""
    began = monotonic()
    try:
        async with asyncio.timeout(_LONGEST_S):
            report = await measure.check_subject(
                subject, transport, only=tuple(chosen.cases)
            )
    except (MCPError, OSError, TimeoutError, ValueError) as error:
        problem = f"{transport}: {error or type(error).__name__}. "
    else:
        problem = ""
        site.keep(chosen.site, subject, transport, report)
    scores = {} if problem else report.scores()
    shown = " ".join(f"{cell.revision} {s.points}" for cell, s in scores.items())
    took = f"{monotonic() - began:.0f} s"
    print(f"{subject.name} {transport}: {shown or problem} ({took})", flush=True)
    return problem


def main(words: Sequence[str] | None = None) -> int:
    chosen = arguments(words)
    subjects = read_subjects(chosen.subjects)
    if not chosen.pages:
        asyncio.run(check(chosen, subjects))
    site.write_site(chosen.site, subjects, read_disputes(_DISPUTES))
    print(chosen.site / "index.html")
    differing = []
    if chosen.against:
        differing = site.differences(chosen.against, chosen.site, subjects)
        print("\n".join(differing) or "no verdict differs")
        folders = chosen.against, chosen.site
        old, new = ((folder, site.facts_of(folder)) for folder in folders)
        for line in speed.differences(old, new, subjects):
            print(line)
    return 1 if differing else 0


if __name__ == "__main__":
    # As at Ctrl-C, so that the started servers are stopped, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
