"""The verdict on an attack, and the tables of all attacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.report import table

from attacks.scene import (
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

    from attacks.scene import Latency, State

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
    found = []
    if figures.outcome.holds is False:
        found.append(f"outcome: {figures.outcome.text}")
    if figures.after is not None:
        if not is_memory_back(figures.before, figures.after):
            found += _memory_kept(figures.after, figures.second, figures.before)
        if not are_descriptors_back(figures.before, figures.after):
            found.append(
                f"descriptors: {figures.before.descriptors} before, "
                f"{figures.after.descriptors} after"
            )
    for part, latency in zip(
        ("before", "during", "after"), figures.latencies, strict=True
    ):
        if latency.failed:
            reasons = ", ".join(latency.reasons)
            found.append(f"honest calls failed {part}: {latency.failed} ({reasons})")
    if figures.log_bytes > LOG_BYTES + LOG_BYTES_PER_S * figures.seconds:
        found.append(f"log: {figures.log_bytes:,} bytes")
    return found


def _memory_kept(after: State, second: State | None, before: State) -> list[str]:
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


def _three(values: Sequence[float | None]) -> str:
    return " / ".join(map(_number, values))


def _times(latencies: Sequence[Latency], name: str) -> str:
    return _three([getattr(each, name) for each in latencies])


def row(name: str, figures: Figures) -> list[str]:
    """Return the row of one attack: figures before, during (or at the peak), after."""
    states = [figures.before, figures.peak, figures.after]
    memory = [None if each is None else each.rss_mib for each in states]
    descriptors = ["-" if each is None else str(each.descriptors) for each in states]
    return [
        name,
        _three(memory),
        _number(figures.second.rss_mib if figures.second else None),
        " / ".join(descriptors),
        _times(figures.latencies, "median_ms"),
        _times(figures.latencies, "worst_ms"),
        _times(figures.latencies, "new_worst_ms"),
        " / ".join(str(each.failed) for each in figures.latencies),
        f"{figures.log_bytes / 1024:,.0f}",
        figures.outcome.text,
    ]


def of_server(name: str, by_attack: Mapping[str, Figures]) -> str:
    """Return the table of one server."""
    rows = [row(attack, figures) for attack, figures in by_attack.items()]
    rows.insert(0, list(HEADS))
    if not any(figures.second for figures in by_attack.values()):
        for each in rows:
            del each[HEADS.index(SECOND)]
    return f"### {name}\n\n{table(rows)}"


def tests_of(item: str, tests: Path) -> list[Path]:
    """Return the test files that have a marker with the item's id."""
    marker = re.compile(rf"\battack\([^)]*\"{item}\"")
    return [
        path
        for path in sorted(tests.rglob("test_*.py"))
        if marker.search(path.read_text(encoding="utf-8"))
    ]


def what_is_attacked(
    attacks: Sequence[Attack],
    measured: Mapping[str, Figures],
    root: Path,
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
    parts = [what_is_attacked(attacks, measured.get(OURS, {}), root)]
    parts += [of_server(name, found) for name, found in measured.items() if found]
    return "\n\n".join(parts)


def written(text: str, content: str) -> str:
    """Return the text with the content between its markers.

    Raises:
        ValueError: The text lacks a marker.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} and {END} to write between")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"
