"""Measures how fast a subject is: a server under load, or a client that calls.

Every server is measured in turns with the floor, the server of `mcpwire.bench` that
does nothing, over the same transport; its figures are compared as multiples of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Http
from mcpwire.bench import Call, Load, Result, compare, run
from mcpwire.bench.client_side import measure_client
from scoreboard import measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scoreboard.subjects import Subject

FIGURES: Final = ("p50", "cpu", "rate")
CLIENT_FIGURES: Final = {
    "cpu_us": "CPU per call, µs",
    "calls_per_s": "calls per second",
    "turnaround_p50_us": "turnaround p50, µs",
    "start_cpu_ms": "CPU until the first call, ms",
    "peak_memory": "peak memory, MB",
}
_UNITS: Final = {"peak_memory": 1e6}
_CLIENT_ROUNDS: Final = 3
_CLIENT_S: Final = 120.0
_LOAD: Final = Load(seconds=4, rounds=5, warm_up=0.3)


def loads(subject: Subject) -> dict[str, Load]:
    """Return the name of each load that a server is put under, and the load."""
    calls = {"ping": Call("ping"), "tools/list": Call("tools/list")}
    if subject.speed is not None:
        tool = Call.tool(subject.speed.tool, subject.speed.arguments)
        calls[f"tools/call {subject.speed.tool}"] = tool
    found = {name: attrs.evolve(_LOAD, calls=(call,)) for name, call in calls.items()}
    last, load = list(found.items())[-1]
    return {**found, f"{last}, 32 users": attrs.evolve(load, users=32)}


async def measure_server(subject: Subject, transport: str) -> dict[str, Result]:
    """Return what was measured of a server under each load.

    Raises:
        ConnectError: It does not start, or gives no answer.
        ConnectionError: It takes no connection in time.
    """
    found = {}
    for name, load in loads(subject).items():
        measure.clear(subject)
        if transport == "stdio":
            target = measure.process(subject)
            found[name] = await run(target, load, with_phases=False)
            continue
        table = subject.servers()[transport]
        async with measure.serving(subject, table):
            found[name] = await run(Http(table.url), load, with_phases=False)
    return found


async def measure_caller(subject: Subject, transport: str) -> dict[str, float]:
    """Return the figures of a client over stdio or HTTP.

    Raises:
        ConnectError: It does not start, or calls nothing.
        RequestTimeout: It does not end.
    """
    variables = [f"{name}={value}" for name, value in subject.variables().items()]
    figures = await measure_client(
        ["env", *variables, *subject.filled(subject.command)],
        http=transport == "http",
        timeout=_CLIENT_S,
        rounds=_CLIENT_ROUNDS,
    )
    values = {name: figures.median(name) for name in CLIENT_FIGURES}
    return {
        name: value / _UNITS.get(name, 1)
        for name, value in values.items()
        if value is not None
    }


def multiples(result: Result) -> dict[str, tuple[float, float | None]]:
    """Return each figure of a server, and how many times the floor's it is."""
    assert result.floor is not None
    (target,) = result.targets
    own, floor = target.figures(), result.floor.figures()
    return {
        name: (own[name], own[name] / floor[name] if floor.get(name) else None)
        for name in FIGURES
        if name in own
    }


def keep(folder: Path, name: str, results: Mapping[str, Result]) -> None:
    """Store results among the data of a site."""
    for load, result in results.items():
        path = folder / "data" / "speed" / f"{name} {load.replace('/', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result.to_json())


def stored(folder: Path, subject: Subject, transport: str) -> dict[str, Result]:
    """Return load -> the result that is stored of a server."""
    found = {}
    for load in loads(subject):
        name = f"{subject.name}.{transport} {load.replace('/', '-')}.json"
        path = folder / "data" / "speed" / name
        if path.exists():
            found[load] = Result.from_json(path.read_bytes())
    return found


def differences(before: Path, after: Path, subject: Subject) -> list[str]:
    """Return a line for each figure that differs between two sites for certain."""
    found = []
    for transport in subject.transports():
        old, new = (stored(folder, subject, transport) for folder in (before, after))
        for load in old.keys() & new.keys():
            found += [
                f"{subject.name} {transport} {load}: {each.figure} {each.ratio:.2f} of "
                f"before ({each.low:.2f} to {each.high:.2f})"
                for each in compare(old[load], new[load], FIGURES)
                if each.verdict != "no difference shown"
            ]
    return found


def rows(folder: Path, subject: Subject) -> list[dict[str, Any]]:
    """Return a row of the page for each transport and load of a server."""
    return [
        {
            "transport": transport,
            "load": load,
            "figures": multiples(result),
            "errors": result.targets[0].errors,
            "revision": result.targets[0].server["revision"],
        }
        for transport in subject.transports()
        for load, result in stored(folder, subject, transport).items()
    ]


def ahead(tables: Sequence[tuple[Subject, list[dict[str, Any]]]]) -> list[str]:
    """Return a line for each figure in which others are ahead of the first server.

    Of calls that all servers know: lists of other tools cannot be compared.
    """
    (first, own), *others = tables
    found = []
    for mine in own:
        for figure, (_, multiple) in mine["figures"].items():
            if "tools/list" in mine["load"] or multiple is None:
                continue
            before = [
                (theirs, subject.name)
                for subject, table in others
                for row in table
                if (row["transport"], row["load"]) == (mine["transport"], mine["load"])
                and (theirs := row["figures"].get(figure, (0, None))[1]) is not None
                and (theirs > multiple if figure == "rate" else theirs < multiple)
                and not row["errors"]
            ]
            if before:
                names = ", ".join(
                    f"{name} {value:.2f}" for value, name in sorted(before)
                )
                where = f"{mine['transport']}, {mine['load']}, {figure}"
                found.append(f"{where}: {first.name} {multiple:.2f}; {names}")
    return found
