"""The legs: versions of the suite, scenarios and protocol versions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "conformance" / "expected"
INSTALLED = ROOT / ".peers" / "conformance" / "node_modules"

SEQUENTIAL = frozenset({"sse-retry"})
"""Scenarios that measure time, and fail on a busy machine."""


@dataclass(frozen=True)
class Suite:
    """One version of the suite, by its alias in `package.json`."""

    alias: str
    version: str

    @property
    def folder(self) -> Path:
        """The folder of its installation by `make`."""
        return INSTALLED / self.alias

    @property
    def program(self) -> Path:
        """The script that node executes."""
        return self.folder / "dist" / "index.js"

    def installed(self) -> str:
        """Return the installed version."""
        about = json.loads((self.folder / "package.json").read_text("utf-8"))
        return str(about["version"])


ALPHA = Suite("conformance-alpha", "0.2.0-alpha.12")
STABLE = Suite("conformance-stable", "0.1.16")


@dataclass(frozen=True)
class Leg:
    """One configuration of the suite for the scenarios of one side."""

    name: str
    suite: Suite
    description: str
    """The description for the table."""

    listing: tuple[str, ...] = ()
    """Options of `list` that select its scenarios."""

    options: tuple[str, ...] = ()
    """Options for the run of a single scenario."""

    side: Literal["client", "server"] = "client"
    """The side under test."""

    suite_options: tuple[str, ...] = ("--suite", "all")
    """Options for the run of all scenarios of the leg on one server."""

    shares: tuple[str, ...] = ()
    """Legs that run scenarios of this one at the same protocol version.

    The suite's behaviour is then the same with other options, so these scenarios are
    not run again.
    """

    only_extensions: bool = False

    runs_unscored: bool = False
    """Whether the suite also runs scenarios that do not belong to the leg."""

    program: str = "server.py"
    """The program that runs as the server under test."""

    arguments: tuple[str, ...] = ()
    """Further arguments of that program."""

    @property
    def pins(self) -> Path:
        """The file with the checks that must succeed."""
        return EXPECTED / f"{self.name}.json"

    def pinned(self) -> Mapping[str, list[str] | None]:
        """Return the pinned checks of each scenario."""
        pinned: Mapping[str, list[str] | None] = json.loads(
            self.pins.read_text("utf-8")
        )
        return pinned


# --- clients: each scenario starts a new client --------------------------------------


def _client_at(name: str, revision: str) -> Leg:
    version = ("--spec-version", revision)
    return Leg(name, ALPHA, f"everything at {revision}", version, version)


def _client_required(name: str, revision: str, *shares: str) -> Leg:
    # `--requirements` takes no `--scenario`; these options have the same effect.
    return Leg(
        name,
        ALPHA,
        f"the requirement set of {revision}",
        ("--requirements", revision),
        ("--spec-version", revision, "--force"),
        shares=shares,
    )


CLIENT_LEGS = (
    _client_at("C1", "2025-03-26"),
    _client_at("C2", "2025-06-18"),
    _client_at("C3", "2025-11-25"),
    _client_at("C4", "2026-07-28"),
    Leg(
        "C5",
        ALPHA,
        "everything, each at the wire the suite chooses",
        shares=("C3", "C4"),
    ),
    Leg(
        "C6",
        ALPHA,
        "the extensions, forced onto the wire of 2026-07-28",
        options=("--spec-version", "2026-07-28", "--force"),
        only_extensions=True,
    ),
    _client_required("R1", "2025-11-25", "C3"),
    _client_required("R2", "2026-07-28", "C4"),
    Leg("O1", STABLE, "everything"),
    Leg(
        "O2",
        STABLE,
        "everything at 2025-06-18",
        ("--spec-version", "2025-06-18"),
        ("--spec-version", "2025-06-18"),
        shares=("O1",),
    ),
)


# --- servers: one server for all scenarios of a leg, as in the suite -----------------


def _server_at(name: str, suite: Suite, revision: str) -> Leg:
    version = ("--spec-version", revision)
    return Leg(
        name,
        suite,
        f"everything at {revision}",
        version,
        version,
        side="server",
        suite_options=("--suite", "all", *version),
    )


def _server_required(name: str, revision: str) -> Leg:
    return Leg(
        name,
        ALPHA,
        f"the requirement set of {revision}",
        ("--requirements", revision),
        ("--spec-version", revision, "--force"),
        side="server",
        suite_options=("--requirements", revision),
        runs_unscored=True,
    )


SERVER_LEGS = (
    _server_at("S1", ALPHA, "2025-03-26"),
    _server_at("S2", ALPHA, "2025-06-18"),
    _server_at("S3", ALPHA, "2025-11-25"),
    _server_at("S4", ALPHA, "2026-07-28"),
    Leg("S5", ALPHA, "everything, each at the wire the suite chooses", side="server"),
    _server_required("R3", "2025-11-25"),
    _server_required("R4", "2026-07-28"),
    Leg("O3", STABLE, "everything", side="server"),
    _server_at("O4", STABLE, "2025-06-18"),
)


# --- the gateway, with the same server behind it -------------------------------------


def _through_gateway(name: str, revision: str, upstream: str) -> Leg:
    version = ("--spec-version", revision)
    return Leg(
        name,
        ALPHA,
        f"everything at {revision}, through the gateway to a server over {upstream}",
        version,
        version,
        side="server",
        suite_options=("--suite", "all", *version),
        program="gateway.py",
        arguments=("--upstream", upstream),
    )


GATEWAY_LEGS = (
    _through_gateway("G1", "2025-11-25", "http"),
    _through_gateway("G2", "2026-07-28", "stdio"),
    _through_gateway("G3", "2025-06-18", "http"),
    _through_gateway("G4", "2026-07-28", "http"),
)

LEGS = CLIENT_LEGS + SERVER_LEGS + GATEWAY_LEGS


def parse_scenarios(listing: str, leg: Leg) -> list[str]:
    """Parse the output of the suite's `list`; return the scenarios of a leg's side.

    Requirement sets are printed for both sides, with the unscored scenarios last.
    """
    _, _, own = listing.partition(f"{leg.side.title()} scenarios")
    lines = re.split(r"never scored|^\w+ scenarios", own, flags=re.MULTILINE)[0]
    rows = [line[4:] for line in lines.splitlines() if line.startswith("  - ")]
    return [
        row.partition(" [")[0]
        for row in rows
        if "[extension]" in row or not leg.only_extensions
    ]
