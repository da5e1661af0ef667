"""Benchmark of large results: cost per call, and growth of the cost per byte.

Texts of 1 KiB to 32 MiB, and 10,000 tools on one page and on a hundred, over each
transport: by the least code for it, by mcpwire and by the official Python SDK, from
null servers in C; and from servers with a tool that returns such a text.

The growth is the cost per byte at 32 MiB divided by the cost per byte at 1 MiB; its
ratio is to the floor's. The floor's grows, too: memory blocks of this size are mapped
for each call, and the kernel faults them in page by page.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_server import SESSION, opener
from harness import machine
from harness.command import chosen, conclude, parser, tell
from harness.figures import Budget
from harness.programs import Served, in_turns, of_slices
from harness.programs import opened as opened_programs
from harness.rounds import Plan, Variant, add, opened, reckon
from harness.servers import Program, python_of
from large.points import BY_NAME, KIB, LARGE, LISTS, SMALL, TEXTS, ask
from leg import NAME as TOOL
from null import build

from mcpwire.bench import Call, Load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.rounds import Child, Round, Slices
    from large.points import Point

    from mcpwire import Client

NAME = "large"
SLICES = 3
BYTES_PER_CALL = 64 * 1024
"""The size of a result above which a slice has fewer calls, in proportion."""

PEER_PORTION = 10
"""The divisor of the number of the peer's calls, which take much longer."""

GROWTH = "growth"
GROWTH_LIMIT = 1.5
CPU_LIMIT = 1.5
"""The limit of CPU time at 32 MiB, as a multiple of the floor's."""


class Way(NamedTuple):
    """A transport, and the programs that receive results over it."""

    name: str
    targets: dict[str, str]
    """The clients' functions by program; empty if servers are measured."""
    server: str = ""
    """The name of the null server, if one is used."""
    points: tuple[Point, ...] = (*TEXTS, *LISTS)


FLOOR, OURS, PEER = "floor", "mcpwire", "Python SDK"
MOST_KIB = {
    # Its cost grows with the square of the size: 32 MiB take half a minute.
    f"stdio: {PEER}": 2 * 1024,
    # It refuses events of more than 1 MiB.
    f"SSE: {PEER}": 64,
}
"""The largest result in KiB for a variant that cannot receive all sizes."""

WAYS = [
    Way(
        name,
        {
            FLOOR: f"large.floors:{function}",
            OURS: f"large.ours:{function}",
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
WAYS += [
    Way(
        "memory",
        {FLOOR: "large.floors:memory", OURS: "large.ours:memory"},
        points=tuple(TEXTS),
    ),
    *(Way(f"server, {name}", {}, points=tuple(TEXTS)) for name in ("stdio", "HTTP")),
]

FOLDER = Path(__file__).resolve().parent / "large"
SDK = python_of("python-sdk")
PROGRAMS = {
    FLOOR: Program((sys.executable, str(FOLDER / "floor_server.py"))),
    OURS: Program((sys.executable, str(FOLDER / "mcpwire_server.py"))),
    PEER: Program((str(SDK), str(FOLDER / "sdk_server.py")), (SDK,)),
}
SERVED_S = 0.2
"""The time of load on a server at each point, for each slice of a round."""


def variants() -> list[Variant | Served]:
    """Return the variants of each transport."""
    found: list[Variant | Served] = []
    for way in WAYS:
        if not way.targets:
            found += served(way)
        for who, target in way.targets.items():
            if who == PEER and not SDK.exists():
                tell(f"{way.name}: {who} is left out, {SDK} is not installed")
                continue
            server = str(build.build(way.server)) if way.server else who
            name = f"{way.name}: {who}"
            found.append(
                Variant(
                    name,
                    target,
                    ask(server, points_of(name, way)),
                    f"{way.name}: {FLOOR}",
                    interpreter=(str(SDK), "-m", "harness.child")
                    if who == PEER
                    else (),
                )
            )
    return found


def served(way: Way) -> list[Served]:
    """Return the installed servers of a transport."""
    return [
        Served(
            name=f"{way.name}: {name}",
            baseline=f"{way.name}: {FLOOR}",
            leg=way.name,
            revision=SESSION,
            opened=partial(opener, program, way.name),
        )
        for name, program in PROGRAMS.items()
        if program.missing() is None
    ]


def points_of(name: str, way: Way) -> list[Point]:
    """Return the points that a variant can be measured at."""
    most = MOST_KIB.get(name, BY_NAME[LARGE].kib)
    return [point for point in way.points if point.kib <= most]


def wanted(name: str, points: Sequence[Point], calls: int) -> dict[str, int]:
    """Return the number of calls in a slice at each point, at least one."""
    if name.endswith(PEER):
        calls //= PEER_PORTION
    return {
        each.name: max(1, calls * BYTES_PER_CALL // max(BYTES_PER_CALL, KIB * each.kib))
        for each in points
    }


def measure(way: Way, those: Sequence[Variant], plan: Plan) -> Round:
    """Return the figures of one transport: slices of all its variants, in turn."""
    slices: Slices = {variant.name: {} for variant in those}
    points = {variant.name: points_of(variant.name, way) for variant in those}
    with ExitStack() as stack:
        children = [stack.enter_context(opened(each, ())) for each in those]
        for _ in range(plan.slices):
            children.append(children.pop(0))
            for child in children:
                name = child.variant.name
                take(child, slices, "measure", wanted(name, points[name], plan.calls))
        for child in children:
            if BY_NAME[LARGE] in points[child.variant.name]:
                take(child, slices, "peak", [LARGE])
    return with_growth(those, reckon(those, slices))


async def check_texts(client: Client) -> None:
    """Check that the server returns texts of the expected lengths."""
    for point in TEXTS:
        result = await client.call_tool(TOOL, {"kib": point.kib})
        point.check(len(result.text))


def measure_served(those: Sequence[Served], plan: Plan) -> Round:
    """Return the figures of the servers, measured in turn at all points."""
    slices: Slices = {each.name: {} for each in those}
    with opened_programs(those, check_texts) as targets:
        found = in_turns(
            {
                f"{name}, {point.name}": (target, load_of(point, plan))
                for point in TEXTS
                for name, target in targets.items()
            }
        )
    for each in those:
        for point in TEXTS:
            subject = found[f"{each.name}, {point.name}"]
            for ours, theirs in (("cpu_us", "cpu"), ("took_us", "mean")):
                values = of_slices(each.name, subject, theirs)
                slices[each.name][f"{ours}@{point.name}"] = values
    return with_growth(those, reckon(those, slices))


def load_of(point: Point, plan: Plan) -> Load:
    """Return the load of one user with results of this size."""
    return Load(
        calls=(Call.tool(TOOL, {"kib": point.kib}),),
        seconds=SERVED_S * plan.slices,
        rounds=1,
        warm_up=SERVED_S / 2,
        mode=SESSION,
    )


def take(child: Child, slices: Slices, do: str, what: Any) -> None:
    """Add the figures that a variant's own method returns."""
    add(slices[child.variant.name], child.ask(**{"do": do, "with": what}))


def with_growth(those: Sequence[Variant | Served], found: Round) -> Round:
    """Add the growth: cost per byte at the largest size divided by that at 1 MiB."""
    times = BY_NAME[LARGE].kib / BY_NAME[SMALL].kib
    small, large = f"cpu_us@{SMALL}", f"cpu_us@{LARGE}"
    growths = {
        name: of[large]["value"] / of[small]["value"] / times
        for name, of in found.items()
        if large in of
    }
    for variant in those:
        if variant.name in growths:
            mine = growths[variant.name]
            figures = {"value": mine, "ratio": mine / growths[variant.baseline]}
            found[variant.name][GROWTH] = figures
    return found


def budgets() -> list[Budget]:
    """Return the budgets of each transport: linear growth, and CPU near the floor."""
    return [
        budget
        for way in WAYS
        for budget in (
            Budget(f"{way.name}: {OURS}", GROWTH, GROWTH_LIMIT),
            Budget(f"{way.name}: {OURS}", f"cpu_us@{LARGE}", CPU_LIMIT),
        )
    ]


def run(options: Any) -> int:
    """Measure all transports, print and save the result; return the exit code."""
    plan = Plan(options.rounds, options.slices, options.calls, (), pinned=False)
    with build.compiling(NAME) as notes:
        those = chosen(variants(), options.only)
    if not those:
        sys.exit(f"no variant is named like {options.only!r}")
    rounds: list[Round] = []
    for number in range(plan.rounds):
        tell(f"round {number + 1} of {plan.rounds}")
        found: Round = {}
        for way in WAYS:
            here = [each for each in those if each.name.startswith(f"{way.name}: ")]
            if clients := [each for each in here if isinstance(each, Variant)]:
                found |= measure(way, clients, plan)
            if servers := [each for each in here if isinstance(each, Served)]:
                found |= measure_served(servers, plan)
        rounds.append(found)
    described = machine.describe() | {
        **notes,
        "placed": "one call at a time unpinned, servers on one core",
    }
    baselines = {each.name: each.baseline for each in those}
    pairs = [
        (f"{way.name}: {PEER}", f"{way.name}: {OURS}")
        for way in WAYS
        if PEER in way.targets or not way.targets
    ]
    described["pinned"] = False
    return conclude(options, plan, described, rounds, baselines, budgets(), pairs)


def main() -> int:
    return run(parser(NAME, slices=SLICES).parse_args())


if __name__ == "__main__":
    sys.exit(main())
