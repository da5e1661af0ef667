"""Measurement of a subject's speed: a server under load, or a client.

All subjects are measured one after the other in several passes, each with new
processes, so the passes of one subject are minutes apart. Every server is measured in
alternation with the floor, the null server of `mcpwire.bench`, over the same transport;
its figures are compared as multiples of the floor's, and those of a client as multiples
of the first client's.
"""

from __future__ import annotations

from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Http
from mcpwire.bench import Call, Load, Result, compare, run
from mcpwire.bench.client_side import measure_client
from mcpwire.bench.compare import interval, verdict
from scoreboard import measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mcpwire import Stdio
    from scoreboard.subjects import Subject

PASSES: Final = 8
FIGURES: Final = ("p50", "cpu", "rate")
CLIENT_FIGURES: Final = {
    "cpu_us": "CPU per call, µs",
    "calls_per_s": "calls per second",
    "turnaround_p50_us": "turnaround p50, µs",
    "start_cpu_ms": "CPU until the first call, ms",
    "peak_memory": "peak memory, MB",
}
_UNITS: Final = {"peak_memory": 1e6}
_CLIENT_S: Final = 120.0
_LOAD: Final = Load(seconds=0.5, rounds=1, warm_up=0.3)


def loads(subject: Subject) -> dict[str, Load]:
    """Return the loads of a server by name."""
    calls = {"ping": Call("ping"), "tools/list": Call("tools/list")}
    if subject.speed is not None:
        tool = Call.tool(subject.speed.tool, subject.speed.arguments)
        calls[f"tools/call {subject.speed.tool}"] = tool
    loads_by_name = {
        name: attrs.evolve(_LOAD, calls=(call,)) for name, call in calls.items()
    }
    last_name, load = list(loads_by_name.items())[-1]
    return {**loads_by_name, f"{last_name}, 32 users": attrs.evolve(load, users=32)}


async def measure_server(subject: Subject, transport: str) -> dict[str, Result]:
    """Measure one pass of a server; return the result of each load.

    Raises:
        ConnectError: The server does not start, or does not respond.
        ConnectionError: The server accepts no connection in time.
    """
    measure.clear(subject)
    if transport == "stdio":
        return await _run_loads(subject, measure.stdio_target(subject))
    table = subject.servers()[transport]
    async with measure.run_server(subject, table):
        return await _run_loads(subject, Http(table.url))


async def _run_loads(subject: Subject, target: Stdio | Http) -> dict[str, Result]:
    return {
        name: await run(target, load, with_details=False)
        for name, load in loads(subject).items()
    }


def join_passes(passes: Sequence[Result]) -> Result:
    """Merge passes under one load into one result with a round for each."""
    subjects = tuple(
        attrs.evolve(
            subjects[0],
            slices=tuple(
                attrs.evolve(part, round=number)
                for number, subject in enumerate(subjects)
                for part in subject.slices
            ),
            samples=tuple(chain(*(subject.samples for subject in subjects))),
            connects=tuple(chain(*(subject.connects for subject in subjects))),
        )
        for subjects in zip(*(result.subjects for result in passes), strict=True)
    )
    first, rounds = passes[0], len(passes)
    seconds = first.load["seconds"] * rounds
    return attrs.evolve(
        first,
        load={**first.load, "rounds": rounds, "seconds": seconds},
        seconds=sum(result.seconds for result in passes),
        subjects=subjects,
        notes=tuple(dict.fromkeys(chain(*(result.notes for result in passes)))),
    )


async def measure_client_pass(subject: Subject, transport: str) -> dict[str, float]:
    """Measure one pass of a client over stdio or HTTP; return its figures.

    Raises:
        ConnectError: The client does not start, or makes no call.
        RequestTimeout: The client does not end in time.
    """
    variables = [f"{name}={value}" for name, value in subject.variables().items()]
    figures = await measure_client(
        ["env", *variables, *subject.filled(subject.command)],
        http=transport == "http",
        timeout=_CLIENT_S,
    )
    values = {name: figures.median(name) for name in CLIENT_FIGURES}
    return {
        name: value / _UNITS.get(name, 1)
        for name, value in values.items()
        if value is not None
    }


def multiples(result: Result) -> dict[str, tuple[float, float | None]]:
    """Return each figure of a server, with its multiple of the floor's."""
    assert result.floor is not None
    (target,) = result.targets
    own, floor = target.figures(), result.floor.figures()
    return {
        name: (own[name], own[name] / floor[name] if floor.get(name) else None)
        for name in FIGURES
        if name in own
    }


def store(folder: Path, name: str, load: str, result: Result) -> None:
    """Store a result in the data of a site."""
    path = folder / "data" / "speed" / f"{name} {load.replace('/', '-')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(result.to_json())


def load_stored(folder: Path, subject: Subject, transport: str) -> dict[str, Result]:
    """Return load -> the stored result of a server."""
    results = {}
    for load in loads(subject):
        name = f"{subject.name}.{transport} {load.replace('/', '-')}.json"
        path = folder / "data" / "speed" / name
        if path.exists():
            results[load] = Result.from_json(path.read_bytes())
    return results


def differences(
    before: tuple[Path, Mapping[str, Any]],
    after: tuple[Path, Mapping[str, Any]],
    subjects: Sequence[Subject],
) -> list[str]:
    """Return a line for each figure that differs significantly between two sites.

    The level is 95 % for all figures together: 95 of 100 pairs of sites with the same
    subjects have no such line. The last lines report the number of compared figures,
    the width of the intervals, and the number of figures with fewer than `PASSES`
    passes. Figures of clients are compared as multiples of the first client's.

    Args:
        before: The folder of a site, and its facts.
        after: The folder and the facts of the other site.
        subjects: The subjects to compare, if both sites have their data.
    """
    servers = {
        f"{subject.name} {transport} {load}": (old[load], new[load])
        for subject in subjects
        for transport in subject.transports()
        for old in [load_stored(before[0], subject, transport)]
        for new in [load_stored(after[0], subject, transport)]
        for load in old.keys() & new.keys()
    }
    old, new = (_client_multiples(facts, subjects) for _, facts in (before, after))
    callers = {name: (old[name], new[name]) for name in old.keys() & new.keys()}
    count, too_few = len(servers) + len(callers), 0
    compared: list[tuple[str, tuple[float, float, float], str]] = []
    for name, (before_result, after_result) in sorted(servers.items()):
        if (
            min(result.load["rounds"] for result in (before_result, after_result))
            < PASSES
        ):
            too_few += len(FIGURES)
            continue
        for difference in compare(
            before_result, after_result, FIGURES, comparisons=count
        ):
            ratio_interval = difference.ratio, difference.low, difference.high
            compared.append(
                (f"{name}: {difference.figure}", ratio_interval, difference.verdict)
            )
    for name, (old_passes, new_passes) in sorted(callers.items()):
        figures = [f for f in CLIENT_FIGURES if old_passes[f] and new_passes[f]]
        for figure in figures:
            values = new_passes[figure], old_passes[figure]
            if min(map(len, values)) < PASSES:
                too_few += 1
                continue
            ratio_interval = interval(*values, count=count * len(figures))
            verdict_text = verdict(
                ratio_interval, more_is_better=figure == "calls_per_s"
            )
            compared.append((f"{name}: {figure}", ratio_interval, verdict_text))
    lines = [
        f"{name} {ratio:.2f} of before ({low:.2f} to {high:.2f})"
        for name, (ratio, low, high), verdict_text in compared
        if verdict_text != "no difference shown"
    ]
    if compared:
        width = median(high / low - 1 for _, (_, low, high), _ in compared)
        lines.append(
            f"{len(lines)} of {len(compared)} figures of speed differ; the ends of an "
            f"interval are {width:.0%} apart (median)"
        )
    if too_few:
        lines.append(f"{too_few} figures of speed have too few passes to be compared")
    return lines


def _client_multiples(
    facts: Mapping[str, Any], subjects: Sequence[Subject]
) -> dict[str, dict[str, list[list[float]]]]:
    """Return the figures of clients by pass, as multiples of the first client's."""
    callers = [subject.name for subject in subjects if subject.kind == "client"]
    measured = {name: facts[name]["caller"] for name in callers if name in facts}
    first = measured.pop(callers[0], {}) if callers else {}
    return {
        f"{name} {transport}": {
            figure: [
                [values[figure] / base[figure]]
                for values, base in zip(passes, first.get(transport, ()), strict=False)
                if figure in values and figure in base
            ]
            for figure in CLIENT_FIGURES
        }
        for name, transports in measured.items()
        for transport, passes in transports.items()
    }


def median_of(passes: Sequence[Mapping[str, float]], figure: str) -> float | None:
    """Return the median of a client's figure over the passes that have it."""
    values = [figures[figure] for figures in passes if figure in figures]
    return median(values) if values else None


def rows(folder: Path, subject: Subject) -> list[dict[str, Any]]:
    """Return the rows of a server, one for each transport and load."""
    return [
        {
            "transport": transport,
            "load": load,
            "figures": multiples(result),
            "errors": result.targets[0].errors,
            "revision": result.targets[0].server["revision"],
        }
        for transport in subject.transports()
        for load, result in load_stored(folder, subject, transport).items()
    ]


def better_servers(tables: Sequence[tuple[Subject, list[dict[str, Any]]]]) -> list[str]:
    """Return a line for each figure in which a server is better than the first one.

    `tools/list` is left out: the lists of different servers are not comparable.
    """
    (first, own_rows), *other_servers = tables
    lines = []
    for own_row in own_rows:
        for figure, (_, multiple) in own_row["figures"].items():
            if "tools/list" in own_row["load"] or multiple is None:
                continue
            better = [
                (other_multiple, subject.name)
                for subject, table in other_servers
                for row in table
                if (row["transport"], row["load"])
                == (own_row["transport"], own_row["load"])
                and (other_multiple := row["figures"].get(figure, (0, None))[1])
                is not None
                and (
                    other_multiple > multiple
                    if figure == "rate"
                    else other_multiple < multiple
                )
                and not row["errors"]
            ]
            if better:
                names = ", ".join(
                    f"{name} {value:.2f}" for value, name in sorted(better)
                )
                case = f"{own_row['transport']}, {own_row['load']}, {figure}"
                lines.append(f"{case}: {first.name} {multiple:.2f}; {names}")
    return lines
