"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness import machine, report
from harness.figures import Budget, compare_variants, summarise
from harness.programs import ServedProgram
from harness.rounds import FOLDER, SLICE_S, Plan, Variant, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.rounds import Round

AnyVariant = TypeVar("AnyVariant", Variant, ServedProgram, Variant | ServedProgram)

SLICES = 20
WIDTHS = (1, 8, 32, 64)


def positive_int(text: str) -> int:
    """Parse an integer of at least one."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def int_list(text: str) -> tuple[int, ...]:
    """Parse a comma-separated list of numbers, which may be empty."""
    return tuple(positive_int(part) for part in text.split(",") if part)


def create_parser(
    name: str,
    widths: tuple[int, ...] = (),
    slices: int | None = SLICES,
    *,
    counts_calls: bool = True,
) -> argparse.ArgumentParser:
    """Return a parser with the shared options; `--widths` only if there are any.

    Without `slices` there is no option of that name: a round is one measurement.
    """
    parser = argparse.ArgumentParser(prog=f"bench_{name}.py")
    local = FOLDER / "results" / "local" / f"{name}.json"
    add = parser.add_argument
    add("--rounds", type=positive_int, default=7, help="interleaved rounds (7)")
    if slices is not None:
        text = f"slices in a round ({slices})"
        add("--slices", type=positive_int, default=slices, help=text)
    if counts_calls:
        add("--calls", type=positive_int, default=500, help="calls in a slice (500)")
    if widths:
        text = f"calls in flight ({','.join(map(str, widths))}); '' for none"
        add("--widths", type=int_list, default=widths, help=text)
    add("--only", action="append", default=[], metavar="TEXT", help="names with TEXT")
    add("--output", type=Path, default=local, help="result file (results/local/)")
    add("--check", action="store_true", help="exit 1 when a budget is not kept")
    defaults = {} if counts_calls else {"calls": 0}
    parser.set_defaults(name=name, widths=widths, start=time.monotonic(), **defaults)
    return parser


def select_variants(
    variants: Sequence[AnyVariant], only: Sequence[str]
) -> list[AnyVariant]:
    """Return the variants with a text of `only` in their names, and their baselines."""
    if not only:
        return list(variants)
    names = {v.name for v in variants if any(text in v.name for text in only)}
    names |= {v.baseline for v in variants if v.name in names}
    return [v for v in variants if v.name in names]


def print_progress(text: str) -> None:
    """Report progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def run(
    name: str,
    variants: Sequence[Variant | ServedProgram],
    budgets: Sequence[Budget] = (),
    *,
    notes: dict[str, Any] | None = None,
    arguments: Sequence[str] | None = None,
    widths: tuple[int, ...] | None = None,
    slices: int = SLICES,
    pairs: Sequence[tuple[str, str]] = (),
    is_blocking: bool = False,
    is_placed: bool = False,
    derive: Callable[[list[Round]], None] | None = None,
) -> int:
    """Measure the variants, print and save the result; return the exit code.

    Args:
        name: The name of the benchmark.
        variants: The variants to measure.
        budgets: The budgets to check.
        notes: Additional facts for the description of the machine.
        arguments: The command line instead of the process's own.
        widths: The numbers of calls in flight; by default `WIDTHS`, or none for
            blocking variants.
        slices: The default number of slices in a round.
        pairs: Pairs of variants to divide, in addition to the baselines; the peer
            comes first.
        is_blocking: Whether the variants block.
        is_placed: Whether the variants choose their cores themselves.
        derive: Adds derived figures to the rounds.
    """
    if widths is None:
        widths = () if is_blocking else WIDTHS
    parser = create_parser(name, widths, slices, counts_calls=False)
    options = parser.parse_args(arguments)
    variants = select_variants(variants, options.only)
    plan = Plan(
        options.rounds,
        options.slices,
        options.calls,
        options.widths,
        pinned=not (is_blocking or is_placed),
        slice=describe_slices(variants),
    )
    if not variants:
        sys.exit(f"no variant is named like {options.only!r}")
    machine_facts = machine.describe() | (notes or {})
    machine_facts["pinned"] = machine_facts["pinned"] and plan.pinned
    rounds = run_rounds(variants, plan, print_progress)
    if derive is not None:
        derive(rounds)
    baselines = {variant.name: variant.baseline for variant in variants}
    return save_and_print(
        options, plan, machine_facts, rounds, baselines, budgets, pairs
    )


def describe_slices(variants: Sequence[Variant | ServedProgram]) -> str:
    """Return the time of a slice in words."""
    words = {
        "half a second"
        if isinstance(variant, ServedProgram)
        else f"{SLICE_S * 1e3:g} ms"
        for variant in variants
    }
    return " or ".join(sorted(words))


def save_and_print(
    options: argparse.Namespace,
    plan: Plan,
    machine_facts: Mapping[str, Any],
    rounds: list[Round],
    baselines: Mapping[str, str],
    budgets: Sequence[Budget],
    pairs: Sequence[tuple[str, str]] = (),
) -> int:
    """Save and print the result; return the exit code."""
    verdicts = [budget.verdict(rounds) for budget in budgets]
    result = {
        "format": report.FORMAT,
        "benchmark": options.name,
        "machine": machine_facts,
        "plan": asdict(plan),
        "seconds": round(time.monotonic() - options.start, 1),
        "baselines": baselines,
        "summary": summarise(rounds),
        "compared": [
            {"variant": variant, "against": other, "figures": figures}
            for variant, other in pairs
            if (figures := compare_variants(rounds, variant, other)) is not None
        ],
        "budgets": [verdict for verdict in verdicts if verdict is not None],
        "unmeasured": [
            report.budget_text(asdict(budget))
            for budget, verdict in zip(budgets, verdicts, strict=True)
            if verdict is None
        ],
        "rounds": rounds,
    }
    report.save(options.output, result)
    print(
        "\n\n".join(
            [report.section(result, in_full=True), *report.unmeasured_lines([result])]
        )
    )
    return int(options.check and not report.are_budgets_met(result))
