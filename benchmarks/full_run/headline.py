"""The main table: required ratios, and the measured ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.figures import compare_variants, digits
from harness.report import spread_cell, table, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.figures import Spread
    from harness.report import Result


@dataclass(frozen=True)
class Line:
    """A row of the table: a budget of a result file, with its description."""

    words: str
    ratio: str
    question: str
    variant: str
    figure: str
    against: str = ""

    def budget(self, results: Mapping[str, Result]) -> dict[str, Any] | None:
        """Return the budget; ``None`` if it was not measured."""
        budgets: Sequence[dict[str, Any]] = results.get(self.question, {}).get(
            "budgets", ()
        )
        key = (self.variant, self.figure, self.against)
        for budget in budgets:
            if (budget["variant"], budget["figure"], budget["against"]) == key:
                return budget
        return None


SDK, FASTMCP = "Python SDK", "FastMCP"
CPU, CPU_32 = "CPU per call", "CPU per call, 32 in flight"
TO_LOOP, TO_SDK = "mcpwire / least loop", "mcpwire / Python SDK"


def ratio_name(peer: str) -> str:
    """Return the name of a ratio that is above 1 if mcpwire is better."""
    return f"{peer} / mcpwire"


def client_lines() -> Iterator[Line]:
    """Yield the rows of the asyncio client, by transport."""
    for leg, name, question, variant in (
        ("stdio", "stdio", "stdio", "call_tool"),
        ("JSON", "HTTP, JSON", "http", "JSON"),
        ("SSE", "HTTP, event stream", "http", "SSE"),
    ):
        own, sdk = f"{leg}: mcpwire", f"{leg}: {SDK}"
        yield Line(f"{name}: {CPU}", TO_LOOP, question, variant, "cpu_us")
        if leg == "stdio":
            yield Line(f"{name}: {CPU_32}", TO_LOOP, question, variant, "cpu_us@32")
        yield Line(f"{name}: {CPU}", ratio_name(SDK), "clients", sdk, "cpu_us", own)
        words = f"{name}: calls per second, 32 in flight"
        yield Line(words, TO_SDK, "clients", own, "calls_per_s@32", sdk)


def other_lines() -> Iterator[Line]:
    """Yield the rows of all other benchmarks."""
    for name, question, suffix, variant in (
        ("stdio", "stdio_blocking", "", "call_tool"),
        ("HTTP, JSON", "http_blocking", ", JSON", "JSON"),
    ):
        words, peer = f"blocking, {name}: p50 of a call", f"{SDK}, asyncio"
        yield Line(
            words, ratio_name(peer), question, f"{peer}{suffix}", "p50_us", variant
        )
    for transport in ("stdio", "HTTP"):
        for peer in (SDK, FASTMCP):
            words, own = f"server, {transport}: {CPU}", f"{transport}: mcpwire"
            yield Line(
                words, ratio_name(peer), "server", f"{transport}: {peer}", "cpu_us", own
            )
    words, figure = "import of the client, in its process", "import_in_process_ms"
    yield Line(words, TO_SDK, "footprint", "mcpwire", figure, SDK)
    words, leg = "gateway, HTTP to stdio: latency that it adds", "HTTP to stdio"
    peer, own = f"{leg}: {FASTMCP}", f"{leg}: mcpwire"
    yield Line(
        words, ratio_name(f"{FASTMCP}'s proxy"), "gateway", peer, "added_us", own
    )


LINES = (*client_lines(), *other_lines())
"""The rows in the order of the table."""


def spread_of(result: Result, budget: Mapping[str, Any]) -> Spread:
    """Return the spread of a budget's ratio over the rounds."""
    variant, figure, other = (budget[key] for key in ("variant", "figure", "against"))
    if not other:
        kind = "value" if budget.get("is_value") else "ratio"
        spread: Spread = result["summary"][variant][figure][kind]
        return spread
    # A `PeerBudget` has no figure of its own.
    ratio = budget["ratio"]
    constant: Spread = {"median": ratio, "min": ratio, "max": ratio}
    return (compare_variants(result["rounds"], variant, other) or {}).get(
        figure, constant
    )


def verdict_text(budget: Mapping[str, Any], spread: Spread) -> str:
    """Return as text whether the limit holds: in every round or in the median."""
    worst, best = spread["max"], spread["min"]
    if budget["at_least"]:
        worst, best = best, worst

    def holds(ratio: float) -> bool:
        limit: float = budget["limit"]
        return ratio >= limit if budget["at_least"] else ratio <= limit

    if holds(worst):
        return "kept"
    if holds(spread["median"]):
        return "kept in the median"
    return "**missed** in the median" if holds(best) else "**missed**"


def limit(budget: Mapping[str, Any]) -> str:
    """Return the limit as text, such as ``at most 1.45``."""
    return f"at {'least' if budget['at_least'] else 'most'} {budget['limit']:g}"


def render(results: Sequence[Result]) -> str:
    """Return the table with a row for each measured line."""
    by_benchmark = {result["benchmark"]: result for result in results}
    spread_heading = "median (lowest-highest round)"
    rows = [["what", "ratio", spread_heading, "must hold", "", "rounds", "measured"]]
    for line in LINES:
        if (budget := line.budget(by_benchmark)) is None:
            continue
        result = by_benchmark[line.question]
        plan, spread = result["plan"], spread_of(result, budget)
        rows.append(
            [
                line.words,
                line.ratio,
                spread_cell(spread, digits(line.figure, plan)),
                limit(budget),
                verdict_text(budget, spread),
                f"{plan['rounds']} of {plan['slices']}",
                result["machine"]["date"],
            ]
        )
    return table(rows)


def missed_budgets(results: Sequence[Result]) -> str:
    """Return a line for each budget with a median over the limit."""
    lines = []
    for result in results:
        for budget in result.get("budgets", []):
            if budget["holds"]:
                continue
            spread = spread_of(result, budget)
            spread_text = spread_cell(spread, digits(budget["figure"], result["plan"]))
            divisor = budget["against"] or result["baselines"][budget["variant"]]
            lines.append(
                f"- `{result['benchmark']}`: {budget['variant']}, "
                f"{title(budget['figure'])}: {spread_text} times {divisor}; "
                f"must be {limit(budget)} ({result['machine']['date']})."
            )
    return "\n".join(lines) or "Every line is kept in the median."
