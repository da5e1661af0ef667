"""The legs: which scenarios of which version of the suite, and on which wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "conformance" / "expected"
INSTALLED = ROOT / ".peers" / "conformance" / "node_modules"

ALONE = frozenset({"sse-retry"})
"""Scenarios with a stopwatch, which a busy machine would upset."""


@dataclass(frozen=True)
class Suite:
    """One version of the suite, by its alias in `package.json`."""

    alias: str
    version: str

    @property
    def folder(self) -> Path:
        """Return where `make` installs it."""
        return INSTALLED / self.alias

    @property
    def program(self) -> Path:
        """Return what node runs."""
        return self.folder / "dist" / "index.js"

    def installed(self) -> str:
        """Return the version that lies there."""
        about = json.loads((self.folder / "package.json").read_text("utf-8"))
        return str(about["version"])


ALPHA = Suite("conformance-alpha", "0.2.0-alpha.12")
STABLE = Suite("conformance-stable", "0.1.16")


@dataclass(frozen=True)
class Leg:
    """One way of running the suite over its client scenarios."""

    name: str
    suite: Suite
    says: str
    """What it is, for the table."""

    listing: tuple[str, ...] = ()
    """Options of `list` that name its scenarios."""

    options: tuple[str, ...] = ()
    """Options with which each scenario is run."""

    only_extensions: bool = False

    @property
    def pins(self) -> Path:
        """Return the file with the checks that have to succeed."""
        return EXPECTED / f"{self.name}.json"

    def pinned(self) -> Mapping[str, list[str] | None]:
        """Return each scenario with its checks."""
        pinned: Mapping[str, list[str] | None] = json.loads(
            self.pins.read_text("utf-8")
        )
        return pinned


def _at(name: str, revision: str) -> Leg:
    version = ("--spec-version", revision)
    return Leg(name, ALPHA, f"everything at {revision}", version, version)


def _required(name: str, revision: str) -> Leg:
    # `--requirements` takes no `--scenario`; this is what it does to each of its own.
    return Leg(
        name,
        ALPHA,
        f"the requirement set of {revision}",
        ("--requirements", revision),
        ("--spec-version", revision, "--force"),
    )


LEGS = (
    _at("C1", "2025-03-26"),
    _at("C2", "2025-06-18"),
    _at("C3", "2025-11-25"),
    _at("C4", "2026-07-28"),
    Leg("C5", ALPHA, "everything, each at the wire the suite chooses"),
    Leg(
        "C6",
        ALPHA,
        "the extensions, forced onto the wire of 2026-07-28",
        options=("--spec-version", "2026-07-28", "--force"),
        only_extensions=True,
    ),
    _required("R1", "2025-11-25"),
    _required("R2", "2026-07-28"),
    Leg("O1", STABLE, "everything"),
    Leg(
        "O2",
        STABLE,
        "everything at 2025-06-18",
        ("--spec-version", "2025-06-18"),
        ("--spec-version", "2025-06-18"),
    ),
)


def scenarios_in(listing: str, *, only_extensions: bool = False) -> list[str]:
    """Return the client scenarios that the suite's `list` printed.

    Requirement sets are printed with server scenarios before and unscored ones behind.
    """
    _, _, clients = listing.partition("Client scenarios")
    lines = clients.partition("never scored")[0].splitlines()
    rows = [line[4:] for line in lines if line.startswith("  - ")]
    return [
        row.partition(" [")[0]
        for row in rows
        if "[extension]" in row or not only_extensions
    ]
