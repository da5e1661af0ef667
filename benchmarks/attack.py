"""Measure attacks on HTTP servers: resources kept, and harm to an honest client.

    python benchmarks/attack.py              all attacks on all servers: half an hour
    python benchmarks/attack.py --small      all attacks, small, on mcpwire only
    python benchmarks/attack.py --only trailer --server mcpwire
    python benchmarks/attack.py --write      also write docs/contributing/attacks.md

The exit code is 1 if mcpwire does not release memory or descriptors, fails an honest
call, logs without bound, or if an attack has an outcome other than the expected one.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
from typing import TYPE_CHECKING

from attacks import framing, gateways, pools, shutdown, slow_connections
from attacks.report import failures, render, replace_content, server_table
from attacks.runner import ATTACKS, FASTMCP, OURS, SDK, SMALL, Size, perform, programs
from harness import machine
from harness.command import print_progress
from harness.rounds import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attacks.report import Measured
    from attacks.runner import Attack, Figures

MODULES = (framing, slow_connections, pools, shutdown, gateways)
"""The modules that register attacks."""

ROOT = FOLDER.parent
DOCUMENT = ROOT / "docs" / "contributing" / "attacks.md"
SERVERS = (OURS, FASTMCP, SDK)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="attack.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--small", action="store_true", help="few of everything, and short")
    add("--only", action="append", default=[], metavar="TEXT", help="names with TEXT")
    add("--server", action="append", default=[], choices=SERVERS, help="these servers")
    add("--write", action="store_true", help="write docs/contributing/attacks.md")
    return parser.parse_args(arguments)


def select_attacks(only: Sequence[str]) -> list[Attack]:
    """Return the attacks with one of the texts in their names; all without texts."""
    attacks = [
        each for each in ATTACKS if not only or any(text in each.name for text in only)
    ]
    if not attacks:
        names = ", ".join(each.name for each in ATTACKS)
        sys.exit(f"attack.py: no attack is named like {only}; there are {names}")
    return attacks


def measure(attacks: Sequence[Attack], servers: Sequence[str], size: Size) -> Measured:
    """Run each attack on each installed server, and report progress to stderr."""
    measured: Measured = {name: {} for name in servers}
    for attack in attacks:
        for name, program in programs(attack).items():
            if name not in servers:
                continue
            print_progress(f"{attack.name}: {name}")
            try:
                figures = asyncio.run(perform(attack, name, program, size))
            except ConnectionError as error:
                print_progress(f"  left out: {error}")
                continue
            measured[name][attack.name] = figures
            for failure in failures(figures):
                print_progress(f"  {failure}")
    return measured


def raise_descriptor_limit() -> None:
    """Raise this process's soft limit of descriptors to its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def describe_measurement() -> str:
    """Return the date, commit and machine of the measurement."""
    facts = machine.describe()
    return (
        f"Measured on {facts['date']} at {facts['commit']}: {facts['cpu']}, "
        f"{facts['cores']} cores, {facts['system']}, {facts['python']}."
    )


def is_good(figures: Sequence[Figures]) -> bool:
    """Return whether none of the attacks did harm."""
    return not any(failures(attack_figures) for attack_figures in figures)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    raise_descriptor_limit()
    attacks = select_attacks(options.only)
    servers = options.server or ([OURS] if options.small else SERVERS)
    measured = measure(attacks, servers, SMALL if options.small else Size())
    for name, by_attack in measured.items():
        print(f"\n{server_table(name, by_attack)}")
    if options.write:
        content = f"{describe_measurement()}\n\n{render(attacks, measured, ROOT)}"
        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(replace_content(text, content), encoding="utf-8")
    return int(not is_good(list(measured.get(OURS, {}).values())))


if __name__ == "__main__":
    sys.exit(main())
