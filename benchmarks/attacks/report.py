"""The verdict on an attack, and the tables of all attacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.report import table

from attacks.runner import (
    GROWTH,
    OURS,
    Attack,
    Figures,
    are_descriptors_back,
    is_memory_back,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from attacks.runner import Latency, State

LOG_BYTES_PER_S = 4_096
"""Enough for one line of each kind per second."""

LOG_BYTES = 16_384

BEGIN, END = "<!-- attacks: measured -->", "<!-- end of attacks -->"
SECOND = "after a second attack (MiB)"
HEADS = (
    "attack",
    "memory (MiB)",
    SECOND,
    "descriptors",
    "call, median (ms)",
    "call, worst (ms)",
    "newcomer, worst (ms)",
    "failed calls",
    "log (KiB)",
    "outcome",
)

Measured = dict[str, dict[str, Figures]]
"""Figures by server, then by attack."""


def failures(figures: Figures) -> list[str]:
    """Return a text for each harm that an attack did to a server."""
    failures = []
    if figures.outcome.holds is False:
        failures.append(f"outcome: {figures.outcome.text}")
    if figures.after is not None:
        if not is_memory_back(figures.before, figures.after):
            failures += _memory_failure(figures.after, figures.second, figures.before)
        if not are_descriptors_back(figures.before, figures.after):
            failures.append(
                f"descriptors: {figures.before.descriptors} before, "
                f"{figures.after.descriptors} after"
            )
    for phase, latency in zip(
        ("before", "during", "after"), figures.latencies, strict=True
    ):
        if latency.failed:
            reasons = ", ".join(latency.reasons)
            failures.append(
                f"honest calls failed {phase}: {latency.failed} ({reasons})"
            )
    if figures.log_bytes > LOG_BYTES + LOG_BYTES_PER_S * figures.seconds:
        failures.append(f"log: {figures.log_bytes:,} bytes")
    return failures


def _memory_failure(after: State, second: State | None, before: State) -> list[str]:
    """Return the failure, unless a second attack was made and added little memory."""
    if second is not None and second.rss_mib <= after.rss_mib * GROWTH:
        return []
    text = f"memory: {before.rss_mib:.0f} MiB before, {after.rss_mib:.0f} MiB after"
    if second is not None:
        text += f", {second.rss_mib:.0f} MiB after a second attack"
    return [text]


# Tables...


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _join_numbers(values: Sequence[float | None]) -> str:
    return " / ".join(map(_number, values))


def _times(latencies: Sequence[Latency], name: str) -> str:
    return _join_numbers([getattr(latency, name) for latency in latencies])


def row(name: str, figures: Figures) -> list[str]:
    """Return the row of one attack: figures before, during (or at the peak), after."""
    states = [figures.before, figures.peak, figures.after]
    memory = [None if state is None else state.rss_mib for state in states]
    descriptors = ["-" if state is None else str(state.descriptors) for state in states]
    return [
        name,
        _join_numbers(memory),
        _number(figures.second.rss_mib if figures.second else None),
        " / ".join(descriptors),
        _times(figures.latencies, "median_ms"),
        _times(figures.latencies, "worst_ms"),
        _times(figures.latencies, "new_worst_ms"),
        " / ".join(str(latency.failed) for latency in figures.latencies),
        f"{figures.log_bytes / 1024:,.0f}",
        figures.outcome.text,
    ]


def server_table(name: str, by_attack: Mapping[str, Figures]) -> str:
    """Return the table of one server."""
    rows = [row(attack, figures) for attack, figures in by_attack.items()]
    rows.insert(0, list(HEADS))
    if not any(figures.second for figures in by_attack.values()):
        for row_cells in rows:
            del row_cells[HEADS.index(SECOND)]
    return f"### {name}\n\n{table(rows)}"


def tests_of(item: str, tests: Path) -> list[Path]:
    """Return the test files that have a marker with the item's id."""
    marker = re.compile(rf"\battack\([^)]*\"{item}\"")
    return [
        path
        for path in sorted(tests.rglob("test_*.py"))
        if marker.search(path.read_text(encoding="utf-8"))
    ]


def attack_table(
    attacks: Sequence[Attack], measured: Mapping[str, Figures], root: Path
) -> str:
    """Return the table of attacks, bounds and tests; the verdict is on mcpwire."""
    rows = []
    for attack in attacks:
        tests = tests_of(attack.item, root / "tests")
        links = ", ".join(
            f"[{path.stem}](../../{path.relative_to(root)})" for path in tests
        )
        figures = measured.get(attack.name)
        verdict = "not run"
        if figures is not None:
            verdict = "; ".join(failures(figures)) or "holds"
        text = " ".join((attack.run.__doc__ or "").split())
        rows.append([attack.item, attack.name, text, attack.bound, verdict, links])
    heads = ["item", "attack", "what it does", "bound", "verdict", "tests"]
    return table([heads, *rows])


def render(attacks: Sequence[Attack], measured: Measured, root: Path) -> str:
    """Return all content between the markers: the overview and each server's table."""
    parts = [attack_table(attacks, measured.get(OURS, {}), root)]
    parts += [
        server_table(name, by_attack)
        for name, by_attack in measured.items()
        if by_attack
    ]
    return "\n\n".join(parts)


def replace_content(text: str, content: str) -> str:
    """Return the text with the content between its markers.

    Raises:
        ValueError: The text lacks a marker.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} and {END} to write between")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"
