"""Benchmark of client footprints: installation, import, memory, first call.

mcpwire's asyncio and blocking clients beside the official Python SDK, FastMCP, chuk-mcp
and mcp-use, each in its own environment, and the TypeScript SDK on Node. Starts of
fresh interpreters are timed in turn; all other figures are counted. Clients that are
not installed are reported and skipped; `make bench-peers` installs them.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from footprint import install, kernel, starts
from harness import machine
from harness.command import create_parser, print_progress, save_and_print
from harness.figures import Budget
from harness.rounds import FOLDER, Plan
from harness.servers import NODE_MODULES, PEERS, ROOT, node
from null import build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.rounds import Round

    Values = dict[str, float]
    """Figures of one client, by name."""

PROGRAMS = FOLDER / "footprint" / "programs"
PATHS = {"stdio": "stdio --legacy", "http": "json --legacy"}
"""The legs on which the memory of sessions and calls is measured."""

CALLS = 1_000
ROUNDS, SLICES = 3, 1
SESSIONS, IN_FLIGHT = 30, 100
KERNEL_CALLS = 10_000

IMPORT_CODE = """
import time
began = time.perf_counter()
{}
print("import_in_process_ms", (time.perf_counter() - began) * 1e3)
"""

OURS, DISTRIBUTION = "mcpwire", "pymcpwire"
SDK = "Python SDK"
PLAIN = "Python itself"


@dataclass(frozen=True)
class Client:
    """A measured client and its environment."""

    command: tuple[str, ...]
    """The command of its smallest program."""

    distribution: str = ""
    memory_variants: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The variant for the measurement of memory, and its argument, by path."""

    environment: Mapping[str, str] = field(default_factory=dict)
    imports: str = ""
    """The statement that imports the client alone, timed within the process."""

    is_node: bool = False

    @property
    def interpreter(self) -> str:
        return self.command[0]

    def is_missing(self) -> bool:
        """Return whether the client is not installed."""
        modules = NODE_MODULES / self.distribution
        return not (modules if self.is_node else Path(self.interpreter)).exists()

    def installation(self) -> Values:
        """Return the size of the installation and its number of distributions."""
        if not self.distribution:
            return {}
        if self.is_node:
            return install.node_install(self.distribution, NODE_MODULES)
        folder = Path(self.interpreter).parent.parent
        (packages,) = folder.glob("lib/*/site-packages")
        return install.python_install(self.distribution, packages, ROOT / OURS)


def python_client(environment: str, name: str, **environment_variables: str) -> Client:
    """Return a client that runs in its own Python environment."""
    module = f"clients.{name}:connect"
    script = name if name.endswith("_client") else f"{name}_client"
    return Client(
        (str(PEERS / environment / "bin/python"), str(PROGRAMS / f"{script}.py")),
        {"python-sdk": "mcp"}.get(environment, environment),
        {path: (module, build.leg_argument(leg)) for path, leg in PATHS.items()},
        environment_variables,
    )


def clients() -> dict[str, Client]:
    """Return the clients to measure, by name."""

    def own_client(
        script: str,
        distribution: str = "",
        imports: str = "",
        **memory_variants: tuple[str, str],
    ) -> Client:
        command = (sys.executable, str(PROGRAMS / script))
        return Client(command, distribution, memory_variants, imports=imports)

    chuk_mcp = python_client("chuk-mcp", "chuk_mcp_client")
    # Over HTTP chuk-mcp makes one call after the other: none are in flight together.
    chuk_mcp = replace(
        chuk_mcp, memory_variants={"stdio": chuk_mcp.memory_variants["stdio"]}
    )
    return {
        PLAIN: Client((sys.executable, "-c", "pass")),
        OURS: own_client(
            "mcpwire_client.py",
            DISTRIBUTION,
            **{
                path: ("mcpwire_variants:typed", build.leg_argument(leg))
                for path, leg in PATHS.items()
            },
            imports="import mcpwire; mcpwire.Client",
        ),
        "mcpwire.sync": own_client("mcpwire_sync_client.py"),
        SDK: replace(
            python_client("python-sdk", "python_sdk"), imports="from mcp import Client"
        ),
        "FastMCP": python_client(
            "fastmcp", "fastmcp_client", FASTMCP_CHECK_FOR_UPDATES="off"
        ),
        "chuk-mcp": chuk_mcp,
        "mcp-use": python_client(
            "mcp-use", "mcp_use_client", MCP_USE_ANONYMIZED_TELEMETRY="false"
        ),
        "TypeScript SDK": Client(
            (node(), str(PROGRAMS / "typescript_client.cjs")),
            "@modelcontextprotocol/client",
            environment={"NODE_PATH": str(NODE_MODULES), "NODE_ENV": "production"},
            is_node=True,
        ),
    }


# Figures of one client...


def measure_starts(client: Client, server: str) -> Values:
    """Return the times of an import, and of an import with a connection and a call."""
    milliseconds, figures = starts.run(client.command, client.environment)
    values = {"import_ms": milliseconds, **figures}
    if client.imports:
        command = (client.interpreter, "-c", IMPORT_CODE.format(client.imports))
        values |= starts.run(command, client.environment)[1]
    if client.command[1] != "-c":
        command = (*client.command, server)
        values["first_call_ms"], figures = starts.run(command, client.environment)
        values |= figures
    return values


def count_figures(client: Client, server: str, calls: int) -> Values:
    """Return the counted figures, which do not vary between runs."""
    values = client.installation()
    if client.command[1] != "-c":
        command = (*client.command, server, str(calls))
        values |= starts.run(command, client.environment)[1]
    return values


def measure_memory(client: Client) -> Values:
    """Return the memory of a session and of a call in flight, on Linux."""
    if not client.memory_variants or sys.platform != "linux":
        return {}
    words = [
        word
        for path, target in client.memory_variants.items()
        for word in (path, *target)
    ]
    command = [client.interpreter, "-m", "footprint.memory"]
    command += [str(SESSIONS), str(IN_FLIGHT), *words]
    environment = {**client.environment, "PYTHONPATH": str(FOLDER)}
    return starts.run(command, environment)[1]


KERNEL_PATHS = {
    "mcpwire, stdio": ("mcpwire_variants:typed", "stdio --legacy"),
    "mcpwire, HTTP JSON": ("mcpwire_variants:typed", "json --legacy"),
    "mcpwire, HTTP SSE": ("mcpwire_variants:typed", "sse --legacy"),
    "mcpwire.sync, stdio": ("mcpwire_variants:blocking", "stdio --legacy apart"),
    "mcpwire.sync, HTTP JSON": ("mcpwire_variants:blocking", "json --legacy apart"),
}
"""The paths with a count of their system calls for memory."""


def count_memory_syscalls(calls: int) -> dict[str, Values]:
    """Return the number of system calls for memory on each path."""
    if not kernel.has_strace():
        print_progress("what calls ask of the kernel is left out: no strace")
        return {}
    counts = {}
    for name, (target, leg) in KERNEL_PATHS.items():
        print_progress(name)
        counts[name] = {
            "memory_syscalls": kernel.count_memory_syscalls(
                target, build.leg_argument(leg), calls
            )
        }
    return counts


# All clients...

BUDGETS = [
    Budget(OURS, "import_ms", 0.25, against=SDK),
    Budget(OURS, "import_in_process_ms", 0.2, against=SDK),
    *(Budget(name, "blocks_left", 0, is_value=True) for name in (OURS, "mcpwire.sync")),
    *(Budget(name, "memory_syscalls", 0, is_value=True) for name in KERNEL_PATHS),
]


def rounds_of(
    times: Sequence[dict[str, list[Values]]], constant: Mapping[str, Values]
) -> list[Round]:
    """Return each round's figures, divided by mcpwire's unless that is 0."""
    rounds = []
    for slices_by_client in times:
        medians = {
            name: {
                f: median(slice_figures[f] for slice_figures in slices)
                for f in slices[0]
            }
            for name, slices in slices_by_client.items()
        }
        values = {
            name: {**medians.get(name, {}), **constant.get(name, {})}
            for name in [*medians, *(n for n in constant if n not in medians)]
        }
        own = values.get(OURS, {})
        rounds.append(
            {
                name: {
                    figure: {"value": value, "ratio": value / (own.get(figure) or 1)}
                    for figure, value in figures.items()
                }
                for name, figures in values.items()
            }
        )
    return rounds


def versions(selected: Mapping[str, Client]) -> dict[str, str]:
    """Return the versions of the compared clients."""
    found_versions = {}
    for name, client in selected.items():
        if client.distribution in {"", DISTRIBUTION}:
            continue
        if client.is_node:
            found_versions[name] = install.node_version(
                client.distribution, NODE_MODULES
            )
        else:
            folder = Path(client.interpreter).parent.parent
            (packages,) = folder.glob("lib/*/site-packages")
            found_versions[name] = install.version(client.distribution, packages)
    return found_versions


def installed_clients(only: Sequence[str]) -> dict[str, Client]:
    """Return the selected clients that are installed."""
    installed = {}
    for name, client in clients().items():
        if only and not any(text in name for text in only):
            continue
        if client.is_missing():
            print_progress(
                f"{name} is left out: it is not installed; `make bench-peers`"
            )
        else:
            installed[name] = client
    return installed


def count_all(
    selected: dict[str, Client], server: str, calls: int
) -> dict[str, Values]:
    """Return the counted figures; a client that fails is reported and removed."""
    counts = {}
    for name, client in list(selected.items()):
        print_progress(f"{name}: counted")
        try:
            counts[name] = count_figures(client, server, calls) | measure_memory(client)
        except (ChildProcessError, subprocess.TimeoutExpired) as error:
            if name.startswith(OURS):
                raise
            print_progress(f"{name} is left out: {error}")
            del selected[name]
    return counts


def time_all(
    selected: Mapping[str, Client], server: str, rounds: int, slices: int
) -> list[dict[str, list[Values]]]:
    """Return the start times of all clients, measured in turn."""
    rounds_times = []
    for number in range(rounds):
        print_progress(f"round {number + 1} of {rounds}")
        slices_by_client: dict[str, list[Values]] = {name: [] for name in selected}
        for _ in range(slices):
            for name, client in selected.items():
                slices_by_client[name].append(measure_starts(client, server))
        rounds_times.append(slices_by_client)
    return rounds_times


def main() -> int:
    parser = create_parser("footprint")
    parser.set_defaults(rounds=ROUNDS, slices=SLICES, calls=CALLS)
    text = f"calls that the kernel is watched in ({KERNEL_CALLS})"
    parser.add_argument("--kernel-calls", type=int, default=KERNEL_CALLS, help=text)
    options = parser.parse_args()
    with build.exit_on_compile_error("footprint"):
        server, selected = str(build.build()), installed_clients(options.only)
        build.build("http_null")
    if not selected:
        sys.exit(f"no client is named like {options.only!r}")
    constant = count_all(selected, server, options.calls)
    times = time_all(selected, server, options.rounds, options.slices)
    if options.kernel_calls:
        constant |= count_memory_syscalls(options.kernel_calls)
    rounds = rounds_of(times, constant)
    notes = {
        "placed": "fresh interpreters, one after the other",
        "peers": versions(selected),
    }
    peers = [name for name in selected if name not in {PLAIN, OURS, "mcpwire.sync"}]
    return save_and_print(
        options,
        Plan(options.rounds, options.slices, options.calls, (), pinned=False),
        {**machine.describe(), **notes, "pinned": False},
        rounds,
        {name: name if name in KERNEL_PATHS else OURS for name in rounds[0]},
        BUDGETS,
        [(peer, OURS) for peer in peers],
    )


if __name__ == "__main__":
    sys.exit(main())
