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
from harness.command import conclude, parser, tell
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
SESSIONS, UNDER_WAY = 30, 100
KERNEL_CALLS = 10_000

IMPORTING = """
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
    weighed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The variant for the measurement of memory, and its argument, by path."""

    environment: Mapping[str, str] = field(default_factory=dict)
    imports: str = ""
    """The statement that imports the client alone, timed within the process."""

    is_node: bool = False

    @property
    def interpreter(self) -> str:
        return self.command[0]

    def missing(self) -> bool:
        """Return whether the client is not installed."""
        modules = NODE_MODULES / self.distribution
        return not (modules if self.is_node else Path(self.interpreter)).exists()

    def installed(self) -> Values:
        """Return the size of the installation and its number of distributions."""
        if not self.distribution:
            return {}
        if self.is_node:
            return install.node_install(self.distribution, NODE_MODULES)
        folder = Path(self.interpreter).parent.parent
        (packages,) = folder.glob("lib/*/site-packages")
        return install.python_install(self.distribution, packages, ROOT / OURS)


def foreign(place: str, name: str, **others: str) -> Client:
    """Return a client that runs in its own Python environment."""
    module = f"clients.{name}:connected"
    script = name if name.endswith("_client") else f"{name}_client"
    return Client(
        (str(PEERS / place / "bin/python"), str(PROGRAMS / f"{script}.py")),
        {"python-sdk": "mcp"}.get(place, place),
        {path: (module, build.leg(leg)) for path, leg in PATHS.items()},
        others,
    )


def clients() -> dict[str, Client]:
    """Return the clients to measure, by name."""

    def own(
        script: str,
        distribution: str = "",
        imports: str = "",
        **weighed: tuple[str, str],
    ) -> Client:
        command = (sys.executable, str(PROGRAMS / script))
        return Client(command, distribution, weighed, imports=imports)

    chuk = foreign("chuk-mcp", "chuk_mcp_client")
    # Over HTTP chuk-mcp makes one call after the other: none are in flight together.
    chuk = replace(chuk, weighed={"stdio": chuk.weighed["stdio"]})
    return {
        PLAIN: Client((sys.executable, "-c", "pass")),
        OURS: own(
            "mcpwire_client.py",
            DISTRIBUTION,
            **{path: ("ours:typed", build.leg(leg)) for path, leg in PATHS.items()},
            imports="import mcpwire; mcpwire.Client",
        ),
        "mcpwire.sync": own("mcpwire_sync_client.py"),
        SDK: replace(
            foreign("python-sdk", "python_sdk"),
            imports="from mcp import Client",
        ),
        "FastMCP": foreign(
            "fastmcp", "fastmcp_client", FASTMCP_CHECK_FOR_UPDATES="off"
        ),
        "chuk-mcp": chuk,
        "mcp-use": foreign(
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


def timed(client: Client, server: str) -> Values:
    """Return the times of an import, and of an import with a connection and a call."""
    took, told = starts.run(client.command, client.environment)
    values = {"import_ms": took, **told}
    if client.imports:
        command = (client.interpreter, "-c", IMPORTING.format(client.imports))
        values |= starts.run(command, client.environment)[1]
    if client.command[1] != "-c":
        command = (*client.command, server)
        values["first_call_ms"], told = starts.run(command, client.environment)
        values |= told
    return values


def counted(client: Client, server: str, calls: int) -> Values:
    """Return the counted figures, which do not vary between runs."""
    values = client.installed()
    if client.command[1] != "-c":
        command = (*client.command, server, str(calls))
        values |= starts.run(command, client.environment)[1]
    return values


def weighed(client: Client) -> Values:
    """Return the memory of a session and of a call in flight, on Linux."""
    if not client.weighed or sys.platform != "linux":
        return {}
    words = [word for path, of in client.weighed.items() for word in (path, *of)]
    command = [client.interpreter, "-m", "footprint.weighing"]
    command += [str(SESSIONS), str(UNDER_WAY), *words]
    environment = {**client.environment, "PYTHONPATH": str(FOLDER)}
    return starts.run(command, environment)[1]


KERNEL_PATHS = {
    "mcpwire, stdio": ("ours:typed", "stdio --legacy"),
    "mcpwire, HTTP JSON": ("ours:typed", "json --legacy"),
    "mcpwire, HTTP SSE": ("ours:typed", "sse --legacy"),
    "mcpwire.sync, stdio": ("ours:blocking", "stdio --legacy apart"),
    "mcpwire.sync, HTTP JSON": ("ours:blocking", "json --legacy apart"),
}
"""The paths with a count of their system calls for memory."""


def asked(calls: int) -> dict[str, Values]:
    """Return the number of system calls for memory on each path."""
    if not kernel.is_there():
        tell("what calls ask of the kernel is left out: no strace")
        return {}
    found = {}
    for name, (target, leg) in KERNEL_PATHS.items():
        tell(name)
        found[name] = {"memory_syscalls": kernel.asked(target, build.leg(leg), calls)}
    return found


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
    found = []
    for taken in times:
        medians = {
            name: {f: median(each[f] for each in slices) for f in slices[0]}
            for name, slices in taken.items()
        }
        values = {
            name: {**medians.get(name, {}), **constant.get(name, {})}
            for name in [*medians, *(n for n in constant if n not in medians)]
        }
        ours = values.get(OURS, {})
        found.append(
            {
                name: {
                    figure: {"value": value, "ratio": value / (ours.get(figure) or 1)}
                    for figure, value in of.items()
                }
                for name, of in values.items()
            }
        )
    return found


def versions(chosen: Mapping[str, Client]) -> dict[str, str]:
    """Return the versions of the compared clients."""
    found = {}
    for name, client in chosen.items():
        if client.distribution in {"", DISTRIBUTION}:
            continue
        if client.is_node:
            found[name] = install.node_version(client.distribution, NODE_MODULES)
        else:
            folder = Path(client.interpreter).parent.parent
            (packages,) = folder.glob("lib/*/site-packages")
            found[name] = install.version(client.distribution, packages)
    return found


def there(only: Sequence[str]) -> dict[str, Client]:
    """Return the selected clients that are installed."""
    found = {}
    for name, client in clients().items():
        if only and not any(text in name for text in only):
            continue
        if client.missing():
            tell(f"{name} is left out: it is not installed; `make bench-peers`")
        else:
            found[name] = client
    return found


def count_all(chosen: dict[str, Client], server: str, calls: int) -> dict[str, Values]:
    """Return the counted figures; a client that fails is reported and removed."""
    found = {}
    for name, client in list(chosen.items()):
        tell(f"{name}: counted")
        try:
            found[name] = counted(client, server, calls) | weighed(client)
        except (ChildProcessError, subprocess.TimeoutExpired) as error:
            if name.startswith(OURS):
                raise
            tell(f"{name} is left out: {error}")
            del chosen[name]
    return found


def time_all(
    chosen: Mapping[str, Client], server: str, rounds: int, slices: int
) -> list[dict[str, list[Values]]]:
    """Return the start times of all clients, measured in turn."""
    found = []
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        taken: dict[str, list[Values]] = {name: [] for name in chosen}
        for _ in range(slices):
            for name, client in chosen.items():
                taken[name].append(timed(client, server))
        found.append(taken)
    return found


def main() -> int:
    reading = parser("footprint")
    reading.set_defaults(rounds=ROUNDS, slices=SLICES, calls=CALLS)
    text = f"calls that the kernel is watched in ({KERNEL_CALLS})"
    reading.add_argument("--kernel-calls", type=int, default=KERNEL_CALLS, help=text)
    options = reading.parse_args()
    with build.compiling("footprint"):
        server, chosen = str(build.build()), there(options.only)
        build.build("http_null")
    if not chosen:
        sys.exit(f"no client is named like {options.only!r}")
    constant = count_all(chosen, server, options.calls)
    times = time_all(chosen, server, options.rounds, options.slices)
    if options.kernel_calls:
        constant |= asked(options.kernel_calls)
    rounds = rounds_of(times, constant)
    notes = {
        "placed": "fresh interpreters, one after the other",
        "peers": versions(chosen),
    }
    peers = [name for name in chosen if name not in {PLAIN, OURS, "mcpwire.sync"}]
    return conclude(
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
