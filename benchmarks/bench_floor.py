"""How near is the floor of `mcpwire.bench` to what C can do?

The same call over two pipes, one at a time: by the least loop in Python and by one in
C, each to the null server in Python and to the one in C. Ratios are to C on both sides.
The floor is good enough while its median is within 15 us of that.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build

from mcpwire.bench.floor import floor_loop
from mcpwire.bench.null_process import null_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.rounds import Round

MOST_ABOVE_C_US = 15.0
SLICES = 20
PYTHON, C = "Python to Python", "C to C"
ABOVE = "p50_above_C_us"


@contextmanager
def pipe(server: str) -> Iterator[Callable[[], None]]:
    """The loop of `mcpwire.bench.floor`."""
    with floor_loop("pipe", *server.split(" ")) as loop:
        yield loop.call


def variants() -> list[Variant]:
    loop = str(build.build("pipe_loop"))
    servers = {"Python": " ".join(null_command("--stdio")), "C": str(build.build())}
    found = []
    for server, command in servers.items():
        for client, interpreter in (("Python", ()), ("C", (loop,))):
            name, target = f"{client} to {server}", "bench_floor:pipe"
            found.append(Variant(name, target, command, C, interpreter=interpreter))
    return found


def add_distance(rounds: list[Round]) -> None:
    """Add by how much the median of each variant is above that of C."""
    for figures in rounds:
        if C in figures:
            least = figures[C]["p50_us"]["value"]
            for each in figures.values():
                above = each["p50_us"]["value"] - least
                each[ABOVE] = {"value": above, "ratio": each["p50_us"]["ratio"]}


def main(arguments: list[str] | None = None) -> int:
    budgets = [Budget(PYTHON, ABOVE, MOST_ABOVE_C_US, is_value=True)]
    notes: dict[str, Any] = {"compiler": build.compiler_version()}
    return run(
        "floor",
        variants(),
        budgets,
        notes=notes,
        arguments=arguments,
        widths=(),
        slices=SLICES,
        derive=add_distance,
    )


if __name__ == "__main__":
    sys.exit(main())
