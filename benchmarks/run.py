"""Run all benchmarks, in less than twenty minutes.

    python benchmarks/run.py                 all, results in results/local/
    python benchmarks/run.py --publish       results in results/, and update the tables
    python benchmarks/run.py --short         only test that all scripts run
    python benchmarks/run.py --summary       print the summary of the published results
    python benchmarks/run.py --tables        update the tables in the texts

A script that fails does not stop the others; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING

from full_run import tables
from full_run.parts import Part, PartResult, run_part
from harness import report
from harness.rounds import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PARTS = [
    Part("stdio", "--rounds 6 --slices 5 --widths 8,32,64", 65, "--only call_tool"),
    Part("stdio_blocking", "--rounds 4 --slices 8", 30, "--only request"),
    Part("http", "--rounds 6 --slices 5", 80, "--only SSE,"),
    Part("http_blocking", "--rounds 4 --slices 8", 40, "--only SSE"),
    Part("memory", "--rounds 3 --slices 2", 55, "--only call_tool"),
    Part(
        "clients", "--rounds 2 --slices 2", 200, "--only 'SSE: TypeScript' --widths 8"
    ),
    Part("threads", "--rounds 2 --slices 2", 70, "--only 'one core'"),
    Part("server", "--rounds 2", 250, "--only 'HTTP: mcpwire' --widths 8"),
    Part("gateway", "--rounds 2", 100, "--only 'HTTP to stdio: mcpwire' --widths 8"),
    Part("large", "--rounds 1 --slices 2 --calls 100", 50, "--only memory --calls 20"),
    Part("loops", "--rounds 1 --slices 2", 45, "--only 'stdio: mcpwire'"),
    Part("footprint", "--rounds 1", 50, "--only mcpwire.sync --kernel-calls 0"),
    Part(
        "growth",
        "--max-calls 1000000 --max-sessions 1000",
        100,
        "--only 'stdio client' --max-calls 100 --max-sessions 1 --max-in-flight 2",
    ),
    Part("floor", "--rounds 5 --slices 10", 40),
    Part("many", "--rounds 1 --many 100", 7, "--only Group --many 5"),
]
"""In order of execution; all together take less than twenty minutes."""

ROOT = FOLDER.parent
PUBLISHED = FOLDER / "results"
LOCAL = PUBLISHED / "local"
SHORT = ROOT / ".build" / "short"


def parts_of_folder(folder: Path) -> list[Part]:
    """Return a part for each script of a folder, in the order of `PARTS`."""
    known = {part.name for part in PARTS}
    names = sorted(path.stem[len("bench_") :] for path in folder.glob("bench_*.py"))
    return [
        *(part for part in PARTS if part.name in names),
        *(Part(name, "--rounds 3", 60) for name in names if name not in known),
    ]


def select_parts(parts: Sequence[Part], only: Sequence[str]) -> list[Part]:
    """Return the parts named in `only`; all if it is empty."""
    return [part for part in parts if not only or part.name in only]


def run_parts(
    parts: Sequence[Part],
    output: Path,
    *,
    folder: Path = FOLDER,
    is_short: bool = False,
) -> list[PartResult]:
    """Run the parts one after the other, even if some fail."""
    outcomes = []
    for part in parts:
        print(f"\n== bench_{part.name}.py", flush=True)
        log = output / f"{part.name}.log" if is_short else None
        result_file = output / f"{part.name}.json"
        outcome = run_part(part, folder, result_file, log=log)
        outcomes.append(outcome)
        print(f"== {outcome.seconds:.1f} s {outcome.failure}".rstrip(), flush=True)
        if outcome.failure and log is not None:
            print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
    return outcomes


def load_results(parts: Sequence[Part], folder: Path) -> list[report.Result]:
    """Return the existing results, in the order of the parts."""
    files = [folder / f"{part.name}.json" for part in parts]
    return [report.load(file) for file in files if file.exists()]


def format_times(outcomes: Sequence[PartResult]) -> str:
    """Return the time and the failure of each part, and the total time."""
    lines = [
        f"{outcome.seconds:7.1f} s  bench_{outcome.name}.py  {outcome.failure}".rstrip()
        for outcome in outcomes
    ]
    return "\n".join([*lines, f"{sum(outcome.seconds for outcome in outcomes):7.1f} s"])


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--publish", action="store_true", help="write results/ and the tables")
    add("--short", action="store_true", help="only see that everything measures")
    add("--summary", action="store_true", help="measure nothing; of results/")
    add("--tables", action="store_true", help="measure nothing; write the tables")
    add("--only", action="append", default=[], metavar="NAME", help="these parts")
    add("--check", action="store_true", help="exit 1 when a budget is not kept")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    known_parts = parts_of_folder(FOLDER)
    if unknown := set(options.only).difference(part.name for part in known_parts):
        known = ", ".join(part.name for part in known_parts)
        sys.exit(f"run.py: no part is called {', '.join(unknown)}; there are {known}")
    parts = select_parts(known_parts, options.only)
    if options.tables:
        for path in tables.write(ROOT, PUBLISHED):
            print(f"written: {path.relative_to(ROOT)}")
        return 0
    if options.summary:
        print(report.summary_tables(load_results(parts, PUBLISHED)))
        return 0
    # At SIGTERM, exit through the cleanup that stops the children.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    output = SHORT if options.short else LOCAL
    for part in parts:  # a failed part must not leave old figures
        (output / f"{part.name}.json").unlink(missing_ok=True)
    outcomes = run_parts(parts, output, is_short=options.short)
    results = load_results(parts, output)
    if not options.short:
        print(
            "\n".join(
                [
                    "",
                    report.summary_tables(results),
                    "",
                    *report.unmeasured_lines(results),
                ]
            )
        )
    if options.publish:
        for result in results:
            report.save(PUBLISHED / f"{result['benchmark']}.json", result)
        tables.write(ROOT, PUBLISHED)
    print(f"\n{format_times(outcomes)}")
    failed = any(outcome.failure for outcome in outcomes)
    return int(
        failed or (options.check and not all(map(report.are_budgets_met, results)))
    )


if __name__ == "__main__":
    sys.exit(main())
