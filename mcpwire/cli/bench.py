"""``mcpwire bench``: load a server, compare results, check figures against limits."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Client, Stdio
from mcpwire.bench.client_side import measure_client
from mcpwire.bench.compare import MIN_ROUNDS, compare, differences
from mcpwire.bench.floor import measure_floor
from mcpwire.bench.footprint import SIZE_UNITS, START_UNITS, measure_size, measure_start
from mcpwire.bench.gateway import run_behind_gateway
from mcpwire.bench.histogram import merge_histograms
from mcpwire.bench.load import Call, Load, read_mix
from mcpwire.bench.pages import write_page
from mcpwire.bench.reports import (
    format_amount,
    format_verdicts,
    to_client_text,
    to_floor_text,
    to_hgrm,
    to_size_text,
    to_start_text,
    to_text,
)
from mcpwire.bench.results import FIGURES, Result, step_name
from mcpwire.bench.runs import find_max, run
from mcpwire.bench.thresholds import Change, Threshold, parse_condition, parse_failure
from mcpwire.cli.arguments import bind_tool, parse_words
from mcpwire.cli.commands import find_item
from mcpwire.cli.failures import Exit, UsageError, usage_errors
from mcpwire.cli.options import Mode
from mcpwire.cli.output import (
    Output,
    check_writable,
    one_line,
    read_file,
    write_file,
    writing_to,
)
from mcpwire.cli.session import run_command
from mcpwire.cli.targets import client_words, make_second_target, make_target, timeouts
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcpwire import Http
    from mcpwire.bench.compare import Difference
    from mcpwire.bench.results import Subject
    from mcpwire.bench.runs import Progress
    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Signals

_FIRST_RATE: Final = 100.0
_SOAK_S: Final = 600.0
_LOAD_OPTIONS: Final = (
    *("users", "seconds", "warm_up", "rounds", "shape", "sessions", "workers"),
)
"""The options with the same name in `Load`."""


def bench(options: Options) -> int:
    """Put a server under load and measure it."""
    with usage_errors():
        load = _make_load(options)
        limits = [parse_failure(text) for text in options.fail_if]
        condition = (
            None if options.find_max is None else parse_condition(options.find_max)
        )
    baselines = {
        limit.file: _read_result(limit.file)
        for limit in limits
        if isinstance(limit, Change)
    }
    if condition is not None:
        _check_search(options, with_changes=bool(baselines))

    against = make_second_target(options, Output(is_json=options.json))

    async def measure(target: Stdio | Http, load: Load, **settings: Any) -> Result:
        if condition is not None:
            with usage_errors("--find-max "):
                return await find_max(target, load, condition, **settings)
        return await run(
            target,
            load,
            against=against,
            with_floor=options.floor,
            only_counts=options.counts,
            **settings,
        )

    def failures(result: Result) -> Iterable[str]:
        if result.highest == 0:
            return [
                f"failed: {limit.text}: no rate satisfied --find-max"
                for limit in limits
            ]
        subject = result.targets[0]
        if result.highest is not None:
            name = step_name(result.highest)
            subject = next(target for target in result.targets if target.name == name)
        changes = {limit.figure for limit in limits if isinstance(limit, Change)}

        def compare_to(file: str) -> list[Difference]:
            return _compare_to_base(baselines[file], result, sorted(changes))

        return _subject_failures(subject, limits, compare_to)

    return _run_measurement(options, load, measure, failures)


def _check_search(options: Options, *, with_changes: bool) -> None:
    """Refuse options that the search for the highest rate ignores."""
    for name, is_given in (
        ("--against", options.against is not None),
        ("--rounds", options.rounds not in {None, 1}),
        ("--fail-if with 'vs'", with_changes),
        ("--counts", options.counts),
    ):
        if is_given:
            raise UsageError(f"{name} and --find-max exclude each other")


def _compare_to_base(
    before: Result, after: Result, figures: Sequence[str]
) -> list[Difference]:
    """Compare figures of a result with those of an earlier one."""
    with usage_errors("--fail-if: "):
        compared = compare(before, after, figures)
    rounds = min(result.load["rounds"] for result in (before, after))
    if rounds < MIN_ROUNDS:
        raise UsageError(
            f"--fail-if: runs of {rounds} rounds cannot be compared, at least "
            f"{MIN_ROUNDS} are needed"
        )
    return compared


def soak(options: Options) -> int:
    """Put a server under load for a long time, without a restart."""
    options.rounds = 1
    options.seconds = options.seconds or _SOAK_S
    options.floor = False
    return bench(options)


def gateway(options: Options) -> int:
    """Measure a server directly and behind a gateway."""
    with usage_errors():
        load = _make_load(options)
        limits = [parse_condition(text) for text in options.fail_if]

    async def measure(target: Stdio | Http, load: Load, **settings: Any) -> Result:
        return await run_behind_gateway(target, load, with_floor=False, **settings)

    def failures(result: Result) -> Iterable[str]:
        return _subject_failures(result.targets[1], limits)

    return _run_measurement(options, load, measure, failures)


def _run_measurement(
    options: Options,
    load: Load,
    measure: Callable[..., Awaitable[Result]],
    failures: Callable[[Result], Iterable[str]],
) -> int:
    """Measure, print the result, and report which --fail-if conditions are true."""
    for path in filter(None, (options.hgrm, options.bench_html)):
        check_writable(path)

    async def perform(output: Output, _: Signals) -> int:
        target = make_target(options, output)
        result = await measure(
            target,
            await _bind_tool_call(options, load, target),
            processes=options.pids,
            on_progress=_progress_callback(output),
        )
        _write_result(options, result, output)
        return _report_failures(failures(result), output)

    return run_command(options, perform)


def _print(output: Output, document: Any, text: str) -> None:
    """Print a result, as JSON or as lines."""
    output.result(document, map(one_line, text.splitlines()))


def _report_failures(failures: Iterable[str], output: Output) -> int:
    """Report each failure; return the exit code."""
    messages = list(failures)
    for message in messages:
        output.note(message)
    return Exit.WORSE if messages else Exit.OK


def _make_load(options: Options) -> Load:
    fields: dict[str, Any] = {
        name: value
        for name in _LOAD_OPTIONS
        if (value := getattr(options, name)) is not None
    }
    rate = options.rate
    if options.find_max is not None:
        fields["rounds"] = 1
        rate = rate or _FIRST_RATE
    if rate is not None and options.users is not None:
        raise UsageError("--rate and --users exclude each other")
    if options.counts and options.sessions == "per-call":
        raise UsageError("--counts and --sessions per-call exclude each other")
    fields |= _client_options(options)
    return Load(calls=_make_calls(options), rate=rate, **fields)


def _client_options(options: Options) -> dict[str, Any]:
    """Return the options of the clients; `--timeout` also limits connecting."""
    limits = timeouts(options).items()
    return options.values(Mode) | {n: None if t == inf else t for n, t in limits}


def _make_calls(options: Options) -> tuple[Call, ...]:
    if options.words and options.tool is None:
        raise UsageError(f"--call TOOL is missing before {options.words[0]!r}")
    if options.mix is not None:
        return read_mix(read_file(options.mix))
    return (Call("tools/list" if options.list_tools else "ping"),)


async def _bind_tool_call(options: Options, load: Load, target: Stdio | Http) -> Load:
    """Return the load with calls of --call's tool, its arguments of the right types."""
    if options.tool is None:
        return load
    name, parsed = str(options.tool), parse_words(options.words)
    async with Client(target, **load.client_options) as client:
        tool = find_item("tool", name, await client.list_tools())
    return attrs.evolve(load, calls=(Call.tool(name, bind_tool(tool, parsed)),))


def _progress_callback(output: Output) -> Any:
    def show(progress: Progress) -> None:
        slice = progress.slice
        p99 = merge_histograms([slice.latency]).get_value_at_percentile(99) / 1_000
        rate = f"{slice.in_time / slice.seconds:,.0f}/s"
        message = f"{progress.subject} {rate}, p99 {format_amount(p99, 'us')}"
        output.progress.show(progress.done, progress.total, message)

    return show


def _write_result(options: Options, result: Result, output: Output) -> None:
    if options.json:
        output.document(loads(result.to_json()))
    else:
        output.lines(map(one_line, to_text(result).splitlines()))
        if len(result.targets) > 1 and result.highest is None:
            first, second = (subject.name for subject in result.targets)
            compared = differences(result)
            output.lines(format_verdicts(compared, (first, second)).splitlines())
    # Files are written last, so that a failed write does not lose the printed result.
    if options.hgrm is not None:
        texts = to_hgrm(result)
        for name, text in texts.items():
            path = Path(options.hgrm)
            named_path = path.with_stem(f"{path.stem}-{name.replace('/', '-')}")
            write_file(str(path if name == "target" else named_path), text)
    if options.bench_html is not None:
        with writing_to(options.bench_html):
            write_page(Path(options.bench_html), [result])


def _subject_failures(
    subject: Subject,
    limits: Sequence[Threshold | Change],
    compare_to: Callable[[str], list[Difference]] | None = None,
) -> Iterable[str]:
    """Return a line for each --fail-if condition that is true of a subject."""
    if subject.slices and not subject.total("done"):
        return [f"failed: {limit.text}: no call was answered" for limit in limits]
    units = {name: figure.unit for name, figure in FIGURES.items()}
    return _failure_lines(limits, subject.figures(), units, compare_to)


def _failure_lines(
    limits: Iterable[Threshold | Change],
    figures: Mapping[str, float],
    units: Mapping[str, str],
    compare_to: Callable[[str], list[Difference]] | None = None,
) -> Iterable[str]:
    """Yield a line for each condition that is true of the figures."""
    for limit in limits:
        if isinstance(limit, Threshold):
            with usage_errors("--fail-if "):
                is_true = limit.is_true(figures)
        else:
            assert compare_to is not None
            is_true = _has_changed(limit, compare_to(limit.file))
        if is_true:
            name = limit.figure
            amount = format_amount(figures[name], units[name])
            yield f"failed: {limit.text}: {name} is {amount}"


def _has_changed(change: Change, compared: list[Difference]) -> bool:
    """Return whether a figure has changed by as much as stated, and significantly."""
    for item in compared:
        if item.figure == change.figure:
            return change.is_true(item.ratio) and item.verdict != "no difference shown"
    raise UsageError(f"--fail-if {change.text!r}: {change.figure} cannot be compared")


def start(options: Options) -> int:
    """Measure how long a server takes to start."""
    if options.is_at_url:
        raise UsageError("bench start needs a command line, not a URL")
    limits = _fixed_limits(options, START_UNITS)

    async def perform(output: Output, _: Signals) -> int:
        target = make_target(options, output)
        assert isinstance(target, Stdio)
        starts = await measure_start(
            target,
            options.starts,
            with_floor=options.floor,
            on_progress=lambda number, name: output.progress.show(
                number, options.starts, name
            ),
            **_client_options(options),
        )
        document = [
            {**attrs.asdict(start), "figures": start.figures()} for start in starts
        ]
        _print(output, document, to_start_text(starts))
        failures = _failure_lines(limits, starts[-1].figures(), START_UNITS)
        return _report_failures(failures, output)

    return run_command(options, perform)


def size(options: Options) -> int:
    """Measure memory, threads, descriptors and files of a server's processes."""
    limits = _fixed_limits(options, SIZE_UNITS)
    with usage_errors():
        load = Load(calls=_make_calls(options), **_client_options(options))

    async def perform(output: Output, _: Signals) -> int:
        target = make_target(options, output)
        sizes = await measure_size(
            target,
            await _bind_tool_call(options, load, target),
            options.size_calls,
            processes=options.pids,
        )
        figures = sizes.figures()
        document = {**attrs.asdict(sizes), "figures": figures}
        _print(output, document, to_size_text(sizes))
        return _report_failures(_failure_lines(limits, figures, SIZE_UNITS), output)

    return run_command(options, perform)


def _fixed_limits(options: Options, units: Mapping[str, str]) -> list[Threshold]:
    with usage_errors():
        return [parse_condition(text, units) for text in options.fail_if]


def client(options: Options) -> int:
    """Measure a client program."""
    command = client_words(options)

    async def perform(output: Output, _: Signals) -> int:
        figures = await measure_client(
            command,
            http=options.over_http,
            timeout=options.client_timeout,
            rounds=options.client_rounds,
        )
        _print(output, attrs.asdict(figures), to_client_text(figures))
        return Exit.OK

    return run_command(options, perform)


def floor(options: Options) -> int:
    """Measure this machine's minimum cost of a round trip over each transport."""

    async def perform(output: Output, _: Signals) -> int:
        floors = await measure_floor(options.floor_seconds)
        document = {kind: attrs.asdict(floor) for kind, floor in floors.items()}
        _print(output, document, to_floor_text(floors))
        return Exit.OK

    return run_command(options, perform)


def compare_results(options: Options) -> int:
    """Compare two results figure by figure."""
    before, after = (_read_result(path) for path in options.words)
    with usage_errors():
        compared = compare(before, after, options.figures or tuple(FIGURES))
    for name in options.figures or ():
        if all(item.figure != name for item in compared):
            raise UsageError(f"--on {name}: the results have no such figure to compare")
    document = [attrs.asdict(item) for item in compared]
    _print(Output(is_json=options.json), document, format_verdicts(compared))
    return Exit.WORSE if any(item.verdict == "worse" for item in compared) else Exit.OK


def page(options: Options) -> int:
    """Write an HTML page of results."""
    file, *paths = options.words
    check_writable(file)
    with writing_to(file):
        write_page(Path(file), [_read_result(path) for path in paths])
    return Exit.OK


def _read_result(path: str) -> Result:
    with usage_errors(f"{path}: "):
        return Result.from_json(read_file(path).encode())
