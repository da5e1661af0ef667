"""``mcpwire bench``: load a server, compare results, check figures against limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Client, Stdio
from mcpwire.bench.client_side import measure_client
from mcpwire.bench.compare import FEWEST, compare, differences
from mcpwire.bench.floor import measure_floor
from mcpwire.bench.footprint import (
    SIZE_UNITS,
    START_UNITS,
    measure_size,
    measure_start,
)
from mcpwire.bench.gateway import run_behind_gateway
from mcpwire.bench.histogram import merged
from mcpwire.bench.load import Call, Load, read_mix
from mcpwire.bench.pages import write_page
from mcpwire.bench.reports import (
    amount,
    to_client_text,
    to_floor_text,
    to_hgrm,
    to_size_text,
    to_start_text,
    to_text,
    verdicts,
)
from mcpwire.bench.results import FIGURES, Result, step_name
from mcpwire.bench.runs import find_max, run
from mcpwire.bench.thresholds import Change, Threshold, parse_condition, parse_failure
from mcpwire.cli.arguments import bind_tool, parse_words
from mcpwire.cli.commands import pick
from mcpwire.cli.failures import Exit, UsageError, usage_errors
from mcpwire.cli.options import Mode
from mcpwire.cli.output import Output, check_writable, one_line, read_file, save
from mcpwire.cli.session import run_command
from mcpwire.cli.targets import against_of, split, target_of

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
    *("timeout", "mode"),
)
"""The options with the same name in `Load`."""


def bench(options: Options) -> int:
    """Put a server under load and measure it."""
    with usage_errors():
        load = _load(options)
        limits = [parse_failure(text) for text in options.fail_if]
        sought = None if options.find_max is None else parse_condition(options.find_max)
    bases = {each.file: _read(each.file) for each in limits if isinstance(each, Change)}
    if sought is not None:
        _check_search(options, with_changes=bool(bases))

    against = against_of(options, Output(is_json=options.json))

    async def measure(target: Stdio | Http, load: Load, **shared: Any) -> Result:
        if sought is not None:
            with usage_errors("--find-max "):
                return await find_max(target, load, sought, **shared)
        return await run(
            target,
            load,
            against=against,
            with_floor=options.floor,
            only_counts=options.counts,
            **shared,
        )

    def failed(result: Result) -> Iterable[str]:
        if result.highest == 0:
            return [f"failed: {each.text}: no rate kept --find-max" for each in limits]
        judged = result.targets[0]
        if result.highest is not None:
            name = step_name(result.highest)
            judged = next(each for each in result.targets if each.name == name)
        changes = {each.figure for each in limits if isinstance(each, Change)}

        def compared(file: str) -> list[Difference]:
            return _compared(bases[file], result, sorted(changes))

        return _failed(judged, limits, compared)

    return _perform(options, load, measure, failed)


def _check_search(options: Options, *, with_changes: bool) -> None:
    """Refuse options that the search for the highest rate ignores."""
    for name, is_given in (
        ("--against", options.against is not None),
        ("--rounds", options.rounds not in {None, 1}),
        ("--fail-if with 'vs'", with_changes),
    ):
        if is_given:
            raise UsageError(f"{name} and --find-max exclude each other")


def _compared(
    before: Result, after: Result, figures: Sequence[str]
) -> list[Difference]:
    """Compare figures of a result with those of an earlier one."""
    with usage_errors("--fail-if: "):
        found = compare(before, after, figures)
    fewest = min(each.load["rounds"] for each in (before, after))
    if fewest < FEWEST:
        raise UsageError(
            f"--fail-if: runs of {fewest} rounds cannot be compared, at least {FEWEST} "
            "are needed"
        )
    return found


def soak(options: Options) -> int:
    """Put a server under load for a long time, without a restart."""
    options.rounds = 1
    options.seconds = options.seconds or _SOAK_S
    options.floor = False
    return bench(options)


def gateway(options: Options) -> int:
    """Measure a server directly and behind a gateway."""
    with usage_errors():
        load = _load(options)
        limits = [parse_condition(text) for text in options.fail_if]

    async def measure(target: Stdio | Http, load: Load, **shared: Any) -> Result:
        return await run_behind_gateway(target, load, with_floor=False, **shared)

    def failed(result: Result) -> Iterable[str]:
        return _failed(result.targets[1], limits)

    return _perform(options, load, measure, failed)


def _perform(
    options: Options,
    load: Load,
    measure: Callable[..., Awaitable[Result]],
    failed: Callable[[Result], Iterable[str]],
) -> int:
    """Measure, print the result, and report which --fail-if conditions are true."""
    for path in filter(None, (options.hgrm, options.bench_html)):
        check_writable(path)

    async def perform(output: Output, _: Signals) -> int:
        target = target_of(options, output)
        result = await measure(
            target,
            await _with_tool(options, load, target),
            processes=options.pids,
            on_progress=_progress(output),
        )
        _show(options, result, output)
        return _noted(failed(result), output)

    return run_command(options, perform)


def _print(output: Output, document: Any, text: str) -> None:
    """Print a result, as JSON or as lines."""
    output.result(document, map(one_line, text.splitlines()))


def _noted(failed: Iterable[str], output: Output) -> int:
    """Report each failure; return the exit code."""
    lines = list(failed)
    for line in lines:
        output.note(line)
    return Exit.WORSE if lines else Exit.OK


def _load(options: Options) -> Load:
    given: dict[str, Any] = {
        name: value
        for name in _LOAD_OPTIONS
        if (value := getattr(options, name)) is not None
    }
    rate = options.rate
    if options.find_max is not None:
        given["rounds"] = 1
        rate = rate or _FIRST_RATE
    if rate is not None and options.users is not None:
        raise UsageError("--rate and --users exclude each other")
    return Load(calls=_calls(options), rate=rate, **given)


def _calls(options: Options) -> tuple[Call, ...]:
    if options.words and options.tool is None:
        raise UsageError(f"--call TOOL is missing before {options.words[0]!r}")
    if options.mix is not None:
        return read_mix(read_file(options.mix))
    return (Call("tools/list" if options.list_tools else "ping"),)


async def _with_tool(options: Options, load: Load, target: Stdio | Http) -> Load:
    """Return the load with calls of --call's tool, its arguments of the right types."""
    if options.tool is None:
        return load
    name, given = str(options.tool), parse_words(options.words)
    async with Client(
        target, timeout=options.timeout or load.timeout, **options.given(Mode)
    ) as client:
        tool = pick("tool", name, await client.list_tools())
    return attrs.evolve(load, calls=(Call.tool(name, bind_tool(tool, given)),))


def _progress(output: Output) -> Any:
    def show(progress: Progress) -> None:
        one = progress.slice
        p99 = merged([one.latency]).get_value_at_percentile(99) / 1_000
        rate = f"{one.in_time / one.seconds:,.0f}/s"
        said = f"{progress.subject} {rate}, p99 {amount(p99, 'us')}"
        output.progress.show(progress.done, progress.total, said)

    return show


def _show(options: Options, result: Result, output: Output) -> None:
    if options.json:
        output.exact(result.to_json() + b"\n")
    else:
        output.lines(map(one_line, to_text(result).splitlines()))
        if len(result.targets) > 1 and result.highest is None:
            first, second = (each.name for each in result.targets)
            found = differences(result)
            output.lines(verdicts(found, (first, second)).splitlines())
    # Files are written last, so that a failed write does not lose the printed result.
    if options.hgrm is not None:
        texts = to_hgrm(result)
        for name, text in texts.items():
            path = Path(options.hgrm)
            one = path.with_stem(f"{path.stem}-{name.replace('/', '-')}")
            save(str(path if name == "target" else one), text)
    if options.bench_html is not None:
        write_page(Path(options.bench_html), [result])


def _failed(
    subject: Subject,
    limits: Sequence[Threshold | Change],
    compared: Callable[[str], list[Difference]] | None = None,
) -> Iterable[str]:
    """Yield a line for each --fail-if condition that is true of a subject."""
    if subject.slices and not subject.total("done"):
        yield from (f"failed: {each.text}: no call was answered" for each in limits)
        return
    figures, units = subject.figures(), {n: each.unit for n, each in FIGURES.items()}
    for each in limits:
        if isinstance(each, Threshold):
            yield from _broken([each], figures, units)
        elif compared is not None and _has_changed(each, compared(each.file)):
            yield _said(each, figures, units)


def _broken(
    limits: Iterable[Threshold],
    figures: Mapping[str, float],
    units: Mapping[str, str],
) -> Iterable[str]:
    """Yield a line for each threshold that the figures meet."""
    for limit in limits:
        with usage_errors("--fail-if "):
            is_true = limit.is_true(figures)
        if is_true:
            yield _said(limit, figures, units)


def _said(
    limit: Threshold | Change, figures: Mapping[str, float], units: Mapping[str, str]
) -> str:
    name = limit.figure
    return f"failed: {limit.text}: {name} is {amount(figures[name], units[name])}"


def _has_changed(change: Change, found: list[Difference]) -> bool:
    """Return whether a figure has changed by as much as stated, and significantly."""
    for each in found:
        if each.figure == change.figure:
            return change.is_true(each.ratio) and each.verdict != "no difference shown"
    raise UsageError(f"--fail-if {change.text!r}: {change.figure} cannot be compared")


def start(options: Options) -> int:
    """Measure how long a server takes to start."""
    if options.is_at_url:
        raise UsageError("a server at a URL is not started here")
    limits = _fixed_limits(options, START_UNITS)

    async def perform(output: Output, _: Signals) -> int:
        target = target_of(options, output)
        assert isinstance(target, Stdio)
        found = await measure_start(
            target,
            options.starts,
            with_floor=options.floor,
            timeout=options.timeout or Load().timeout,
            on_progress=lambda n, name: output.progress.show(n, options.starts, name),
            **options.given(Mode),
        )
        document = [{**attrs.asdict(one), "figures": one.figures()} for one in found]
        _print(output, document, to_start_text(found))
        return _noted(_broken(limits, found[-1].figures(), START_UNITS), output)

    return run_command(options, perform)


def size(options: Options) -> int:
    """Measure memory, threads, descriptors and files of a server's processes."""
    limits = _fixed_limits(options, SIZE_UNITS)
    timeout = options.timeout or Load().timeout
    load = Load(calls=_calls(options), timeout=timeout, **options.given(Mode))

    async def perform(output: Output, _: Signals) -> int:
        target = target_of(options, output)
        found = await measure_size(
            target,
            await _with_tool(options, load, target),
            options.size_calls,
            processes=options.pids,
        )
        figures = found.figures()
        document = {**attrs.asdict(found), "figures": figures}
        _print(output, document, to_size_text(found))
        return _noted(_broken(limits, figures, SIZE_UNITS), output)

    return run_command(options, perform)


def _fixed_limits(options: Options, units: Mapping[str, str]) -> list[Threshold]:
    with usage_errors():
        return [parse_condition(text, units) for text in options.fail_if]


def client(options: Options) -> int:
    """Measure a client program."""
    command = options.command
    if len(command) == 1:
        command = split(command[0], "client")

    async def perform(output: Output, _: Signals) -> int:
        found = await measure_client(
            command,
            http=options.over_http,
            timeout=options.client_timeout,
            rounds=options.client_rounds,
        )
        _print(output, attrs.asdict(found), to_client_text(found))
        return Exit.OK

    return run_command(options, perform)


def floor(options: Options) -> int:
    """Measure this machine's minimum cost of a round trip over each transport."""

    async def perform(output: Output, _: Signals) -> int:
        found = await measure_floor(options.floor_seconds)
        document = {kind: attrs.asdict(of) for kind, of in found.items()}
        _print(output, document, to_floor_text(found))
        return Exit.OK

    return run_command(options, perform)


def compare_results(options: Options) -> int:
    """Compare two results figure by figure."""
    before, after = (_read(path) for path in options.words)
    with usage_errors():
        found = compare(before, after, options.figures or tuple(FIGURES))
    for name in options.figures or ():
        if all(each.figure != name for each in found):
            raise UsageError(f"--on {name}: the results have no such figure to compare")
    document = [attrs.asdict(each) for each in found]
    _print(Output(is_json=options.json), document, verdicts(found))
    return Exit.WORSE if any(each.verdict == "worse" for each in found) else Exit.OK


def page(options: Options) -> int:
    """Write an HTML page of results."""
    file, *paths = options.words
    check_writable(file)
    write_page(Path(file), [_read(path) for path in paths])
    return Exit.OK


def _read(path: str) -> Result:
    with usage_errors(f"{path}: "):
        return Result.from_json(read_file(path).encode())
