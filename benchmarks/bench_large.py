"""Benchmark of large results: cost per call, and growth of the cost per byte.

Texts of 1 KiB to 32 MiB, and 10,000 tools on one page and on a hundred, over each
transport: by the least code for it, by mcpwire and by the official Python SDK, from
null servers in C; and from servers with a tool that returns such a text.

The growth is the cost per byte at 32 MiB divided by the cost per byte at 1 MiB; its
ratio is to the floor's. The floor's grows, too: memory blocks of this size are mapped
for each call, and the kernel faults them in page by page.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_server import SESSION, opener
from harness import machine
from harness.command import (
    create_parser,
    print_progress,
    save_and_print,
    select_variants,
)
from harness.figures import Budget
from harness.programs import (
    ServedProgram,
    measure_in_turns,
    open_programs,
    slice_values,
)
from harness.rounds import Plan, Variant, summarize_round
from harness.servers import Program, peer_python
from large.points import BY_NAME, KIB, LARGE, LISTS, SMALL, TEXTS, format_argument
from leg import NAME as TOOL
from null import build

from mcpwire.bench import Call, CodeProcess, Load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.rounds import Round, Slices
    from large.points import Point

    from mcpwire import Client

NAME = "large"
SLICES = 3
BYTES_PER_CALL = 64 * 1024
"""The size of a result above which a slice has fewer calls, in proportion."""

PEER_DIVISOR = 10
"""The divisor of the number of the peer's calls, which take much longer."""

GROWTH = "growth"
GROWTH_LIMIT = 1.5
CPU_LIMIT = 1.5
"""The limit of CPU time at 32 MiB, as a multiple of the floor's."""


class Transport(NamedTuple):
    """A transport, and the programs that receive results over it."""

    name: str
    targets: dict[str, str]
    """The clients' functions by program; empty if servers are measured."""
    server: str = ""
    """The name of the null server, if one is used."""
    points: tuple[Point, ...] = (*TEXTS, *LISTS)


FLOOR, OURS, PEER = "floor", "mcpwire", "Python SDK"
MAX_KIB = {
    # Its cost grows with the square of the size: 32 MiB take half a minute.
    f"stdio: {PEER}": 2 * 1024,
    # It refuses events of more than 1 MiB.
    f"SSE: {PEER}": 64,
}
"""The largest result in KiB for a variant that cannot receive all sizes."""

TRANSPORTS = [
    Transport(
        name,
        {
            FLOOR: f"large.floors:{function}",
            OURS: f"large.mcpwire_clients:{function}",
            **({PEER: f"large.sdk:{function}"} if "blocking" not in name else {}),
        },
        server,
    )
    for name, function, server in (
        ("stdio", "stdio", "stdio_null"),
        ("JSON", "json", "http_null"),
        ("SSE", "sse", "http_null"),
        ("stdio, blocking", "blocking_stdio", "stdio_null"),
        ("JSON, blocking", "blocking_json", "http_null"),
    )
]
TRANSPORTS += [
    Transport(
        "memory",
        {FLOOR: "large.floors:memory", OURS: "large.mcpwire_clients:memory"},
        points=tuple(TEXTS),
    ),
    *(
        Transport(f"server, {name}", {}, points=tuple(TEXTS))
        for name in ("stdio", "HTTP")
    ),
]

FOLDER = Path(__file__).resolve().parent / "large"
SDK = peer_python("python-sdk")
PROGRAMS = {
    FLOOR: Program((sys.executable, str(FOLDER / "floor_server.py"))),
    OURS: Program((sys.executable, str(FOLDER / "mcpwire_server.py"))),
    PEER: Program((str(SDK), str(FOLDER / "sdk_server.py")), (SDK,)),
}
LOAD_S = 0.2
"""The time of load on a server at each point, for each slice of a round."""


def variants() -> list[Variant | ServedProgram]:
    """Return the variants of each transport."""
    variants: list[Variant | ServedProgram] = []
    for transport in TRANSPORTS:
        if not transport.targets:
            variants += server_variants(transport)
        for program, target in transport.targets.items():
            if program == PEER and not SDK.exists():
                print_progress(
                    f"{transport.name}: {program} is left out, {SDK} is not installed"
                )
                continue
            server = str(build.build(transport.server)) if transport.server else program
            name = f"{transport.name}: {program}"
            variants.append(
                Variant(
                    name,
                    target,
                    format_argument(server, points_of(name, transport)),
                    f"{transport.name}: {FLOOR}",
                    interpreter=(str(SDK) if program == PEER else sys.executable,),
                )
            )
    return variants


def server_variants(transport: Transport) -> list[ServedProgram]:
    """Return the installed servers of a transport."""
    return [
        ServedProgram(
            name=f"{transport.name}: {name}",
            baseline=f"{transport.name}: {FLOOR}",
            leg=transport.name,
            revision=SESSION,
            open_target=partial(opener, program, transport.name),
        )
        for name, program in PROGRAMS.items()
        if program.missing() is None
    ]


def points_of(name: str, transport: Transport) -> list[Point]:
    """Return the points that a variant can be measured at."""
    max_kib = MAX_KIB.get(name, BY_NAME[LARGE].kib)
    return [point for point in transport.points if point.kib <= max_kib]


def calls_by_point(name: str, points: Sequence[Point], calls: int) -> dict[str, int]:
    """Return the number of calls in a slice at each point, at least one."""
    if name.endswith(PEER):
        calls //= PEER_DIVISOR
    return {
        point.name: max(
            1, calls * BYTES_PER_CALL // max(BYTES_PER_CALL, KIB * point.kib)
        )
        for point in points
    }


async def measure(
    transport: Transport, variants: Sequence[Variant], plan: Plan
) -> Round:
    """Return the figures of one transport: slices of all its variants, in turn."""
    slices: Slices = {variant.name: {} for variant in variants}
    points = {variant.name: points_of(variant.name, transport) for variant in variants}
    async with AsyncExitStack() as stack:
        children = [
            (variant.name, await stack.enter_async_context(CodeProcess(variant.code())))
            for variant in variants
        ]
        for _ in range(plan.slices):
            children.append(children.pop(0))
            for name, child in children:
                calls = calls_by_point(name, points[name], plan.calls)
                figures = await child.request(
                    method="measure", argument=calls, timeout=None
                )
                add_figures(slices[name], figures)
        for name, child in children:
            if BY_NAME[LARGE] in points[name]:
                figures = await child.request(method="peak", argument=[LARGE])
                add_figures(slices[name], figures)
    return with_growth(variants, summarize_round(variants, slices))


async def check_texts(client: Client) -> None:
    """Check that the server returns texts of the expected lengths."""
    for point in TEXTS:
        result = await client.call_tool(TOOL, {"kib": point.kib})
        point.check(len(result.text))


def measure_servers(servers: Sequence[ServedProgram], plan: Plan) -> Round:
    """Return the figures of the servers, measured in turn at all points."""
    slices: Slices = {server.name: {} for server in servers}
    with open_programs(servers, check_texts) as targets:
        subjects = measure_in_turns(
            {
                f"{name}, {point.name}": (target, load_of(point, plan))
                for point in TEXTS
                for name, target in targets.items()
            }
        )
    for server in servers:
        for point in TEXTS:
            subject = subjects[f"{server.name}, {point.name}"]
            for figure, bench_figure in (("cpu_us", "cpu"), ("took_us", "mean")):
                values = slice_values(server.name, subject, bench_figure)
                slices[server.name][f"{figure}@{point.name}"] = values
    return with_growth(servers, summarize_round(servers, slices))


def add_figures(values: dict[str, list[float]], figures: dict[str, float]) -> None:
    """Append the figures of one slice."""
    for name, value in figures.items():
        values.setdefault(name, []).append(value)


def load_of(point: Point, plan: Plan) -> Load:
    """Return the load of one user with results of this size."""
    return Load(
        calls=(Call.tool(TOOL, {"kib": point.kib}),),
        seconds=LOAD_S * plan.slices,
        rounds=1,
        warm_up=LOAD_S / 2,
        mode=SESSION,
    )


def with_growth(variants: Sequence[Variant | ServedProgram], results: Round) -> Round:
    """Add the growth: cost per byte at the largest size divided by that at 1 MiB."""
    times = BY_NAME[LARGE].kib / BY_NAME[SMALL].kib
    small, large = f"cpu_us@{SMALL}", f"cpu_us@{LARGE}"
    growths = {
        name: figures[large]["value"] / figures[small]["value"] / times
        for name, figures in results.items()
        if large in figures
    }
    for variant in variants:
        if variant.name in growths:
            growth = growths[variant.name]
            figure = {"value": growth, "ratio": growth / growths[variant.baseline]}
            results[variant.name][GROWTH] = figure
    return results


def budgets() -> list[Budget]:
    """Return the budgets of each transport: linear growth, and CPU near the floor."""
    return [
        budget
        for transport in TRANSPORTS
        for budget in (
            Budget(f"{transport.name}: {OURS}", GROWTH, GROWTH_LIMIT),
            Budget(f"{transport.name}: {OURS}", f"cpu_us@{LARGE}", CPU_LIMIT),
        )
    ]


def run(options: Any) -> int:
    """Measure all transports, print and save the result; return the exit code."""
    plan = Plan(options.rounds, options.slices, options.calls, (), pinned=False)
    with build.exit_on_compile_error(NAME) as notes:
        selected = select_variants(variants(), options.only)
    if not selected:
        sys.exit(f"no variant is named like {options.only!r}")
    rounds: list[Round] = []
    for number in range(plan.rounds):
        print_progress(f"round {number + 1} of {plan.rounds}")
        results: Round = {}
        for transport in TRANSPORTS:
            own = [
                each for each in selected if each.name.startswith(f"{transport.name}: ")
            ]
            if clients := [each for each in own if isinstance(each, Variant)]:
                results |= asyncio.run(measure(transport, clients, plan))
            if servers := [each for each in own if isinstance(each, ServedProgram)]:
                results |= measure_servers(servers, plan)
        rounds.append(results)
    machine_facts = machine.describe() | {
        **notes,
        "placed": "one call at a time unpinned, servers on one core",
    }
    baselines = {each.name: each.baseline for each in selected}
    pairs = [
        (f"{transport.name}: {PEER}", f"{transport.name}: {OURS}")
        for transport in TRANSPORTS
        if PEER in transport.targets or not transport.targets
    ]
    machine_facts["pinned"] = False
    return save_and_print(
        options, plan, machine_facts, rounds, baselines, budgets(), pairs
    )


def main() -> int:
    return run(create_parser(NAME, slices=SLICES).parse_args())


if __name__ == "__main__":
    sys.exit(main())
