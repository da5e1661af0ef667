"""``mcpwire bench``: put a server under load, compare, hold figures against limits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Client
from mcpwire.bench.client_side import measure_client
from mcpwire.bench.compare import compare, differences
from mcpwire.bench.floor import measure_floor
from mcpwire.bench.histogram import merged
from mcpwire.bench.load import Call, Load, read_mix
from mcpwire.bench.pages import write_page
from mcpwire.bench.reports import (
    amount,
    to_client_text,
    to_floor_text,
    to_hgrm,
    to_text,
    verdicts,
)
from mcpwire.bench.results import FIGURES, Result
from mcpwire.bench.runs import find_max, run
from mcpwire.bench.thresholds import Change, Threshold, parse_condition, parse_failure
from mcpwire.cli.arguments import bind_tool, parse_words
from mcpwire.cli.commands import pick
from mcpwire.cli.failures import Exit, UsageError
from mcpwire.cli.output import Output, check_writable, read_file, save
from mcpwire.cli.session import run_command
from mcpwire.cli.targets import target_of

if TYPE_CHECKING:
    from mcpwire import Http, Stdio
    from mcpwire.bench.compare import Difference
    from mcpwire.bench.runs import Progress
    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Signals

__all__ = ["bench", "client", "compare_results", "floor", "page"]

_FIRST_RATE: Final = 100.0


def bench(options: Options) -> int:
    """Put a server under load and measure it."""
    try:
        load = _load(options)
        limits = [parse_failure(text) for text in options.fail_if]
        sought = None if options.find_max is None else parse_condition(options.find_max)
    except ValueError as error:
        raise UsageError(str(error)) from error
    bases = {each.file: _read(each.file) for each in limits if isinstance(each, Change)}
    for path in filter(None, (options.hgrm, options.bench_html)):
        check_writable(path)

    async def perform(output: Output, _: Signals) -> int:
        nonlocal load
        target = target_of(options, output)
        told = _progress(output)
        if options.tool is not None:
            load = attrs.evolve(load, calls=(await _tool_call(options, load, target),))
        if sought is not None:
            result = await find_max(
                target, load, sought, processes=options.pids, on_progress=told
            )
        else:
            result = await run(
                target,
                load,
                against=options.against,
                with_floor=options.floor,
                processes=options.pids,
                on_progress=told,
            )
        _show(options, result, output)
        failed = list(_failed(result, limits, bases))
        for line in failed:
            output.note(line)
        return Exit.WORSE if failed else Exit.OK

    return run_command(options, perform)


def _load(options: Options) -> Load:
    given: dict[str, Any] = {
        name: value
        for name, option in (
            *(("users", "users"), ("seconds", "seconds"), ("warm_up", "warm_up")),
            *(("rounds", "rounds"), ("shape", "shape"), ("sessions", "sessions")),
            *(("workers", "workers"), ("timeout", "timeout"), ("mode", "mode")),
        )
        if (value := getattr(options, option)) is not None
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


async def _tool_call(options: Options, load: Load, target: Stdio | Http) -> Call:
    """Return the call of a tool, with arguments as its schema asks for them."""
    name, given = str(options.tool), parse_words(options.words)
    async with Client(
        target, timeout=options.timeout or load.timeout, mode=options.mode
    ) as client:
        tool = pick("tool", name, await client.list_tools())
    return Call.tool(name, bind_tool(tool, given))


def _progress(output: Output) -> Any:
    def show(progress: Progress) -> None:
        if output.progress is not None:
            one = progress.slice
            p99 = merged([one.latency]).get_value_at_percentile(99) / 1_000
            said = (
                f"{progress.subject} {one.done / one.seconds:,.0f}/s, "
                f"p99 {amount(p99, 'us')}"
            )
            output.progress.show(progress.done, progress.total, said)

    return show


def _show(options: Options, result: Result, output: Output) -> None:
    if options.hgrm is not None:
        texts = to_hgrm(result)
        for name, text in texts.items():
            path = Path(options.hgrm)
            one = path.with_stem(f"{path.stem}-{name.replace('/', '-')}")
            save(str(path if name == "target" else one), text)
    if options.bench_html is not None:
        write_page(Path(options.bench_html), [result])
    if options.json:
        output.exact(result.to_json() + b"\n")
        return
    output.lines(to_text(result).splitlines())
    if len(result.targets) > 1 and result.highest is None:
        first, second = (each.name for each in result.targets)
        found = differences(result)
        output.lines(verdicts(found, (first, second)).splitlines())


def _failed(
    result: Result, limits: list[Threshold | Change], bases: dict[str, Result]
) -> Any:
    """Say which conditions for a failure are true."""
    figures = result.targets[0].figures()
    for each in limits:
        if not result.targets[0].total("done"):
            yield f"failed: {each.text}: no call was answered"
            continue
        value = figures.get(each.figure)
        if value is None:
            raise UsageError(f"--fail-if {each.text!r}: {each.figure} was not measured")
        if isinstance(each, Threshold):
            is_true = each.is_true(figures)
        else:
            is_true = _has_changed(each, compare(bases[each.file], result))
        if is_true:
            shown = amount(value, FIGURES[each.figure].unit)
            yield f"failed: {each.text}: {each.figure} is {shown}"


def _has_changed(change: Change, found: list[Difference]) -> bool:
    """Tell whether a figure has changed so much, beyond what the slices scatter."""
    for each in found:
        if each.figure == change.figure:
            return change.is_true(each.ratio) and each.verdict != "no difference shown"
    raise UsageError(f"--fail-if {change.text!r}: {change.figure} cannot be compared")


def client(options: Options) -> int:
    """Measure a client."""

    async def perform(output: Output, _: Signals) -> int:
        found = await measure_client(
            options.command
            if len(options.command) > 1
            else shlex.split(options.command[0]),
            http=options.over_http,
            timeout=options.client_timeout,
            rounds=options.client_rounds,
        )
        if options.json:
            output.document(attrs.asdict(found))
        else:
            output.lines(to_client_text(found).splitlines())
        return Exit.OK

    return run_command(options, perform)


def floor(options: Options) -> int:
    """Measure the floor of this machine."""

    async def perform(output: Output, _: Signals) -> int:
        found = await measure_floor(options.floor_seconds)
        if options.json:
            output.document({kind: attrs.asdict(of) for kind, of in found.items()})
        else:
            output.lines(to_floor_text(found).splitlines())
        return Exit.OK

    return run_command(options, perform)


def compare_results(options: Options) -> int:
    """Say what differs between two results."""
    before, after = (_read(path) for path in options.words)
    try:
        found = compare(before, after)
    except ValueError as error:
        raise UsageError(str(error)) from error
    output = Output(is_json=options.json)
    if options.json:
        output.document([attrs.asdict(each) for each in found])
    else:
        output.lines(verdicts(found).splitlines())
    return Exit.WORSE if any(each.verdict == "worse" for each in found) else Exit.OK


def page(options: Options) -> int:
    """Write the page of some results."""
    file, *paths = options.words
    check_writable(file)
    write_page(Path(file), [_read(path) for path in paths])
    return Exit.OK


def _read(path: str) -> Result:
    try:
        return Result.from_json(read_file(path).encode())
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
