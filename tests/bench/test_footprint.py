"""The cost of starting a server, and the memory and processes it uses."""

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from made_results import read_schema
from null_targets import NULL_SERVER, null, program

from mcpwire import ConnectError, Http, Stdio
from mcpwire.bench import Call, Load
from mcpwire.bench.footprint import SIZE_UNITS, START_UNITS, measure_size, measure_start
from mcpwire.bench.null_process import null_command, null_http

NULL = null_command("--stdio")
ECHO = Load(calls=(Call.tool("echo", {"text": "hi"}),))

LARGER = """
import subprocess, sys, threading
waits = threading.Event()
threading.Thread(target=waits.wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
kept = bytearray(b"x" * (64 * 2**20))
"""
"""One more thread, one more child and 64 MiB more memory."""

STARTS, SIZES = (
    jsonschema_rs.validator_for(read_schema(name)) for name in ("start", "size")
)


def without_members(validator, value):
    """Return the members that are optional in the first item and its figures."""
    found = []
    whole = value if isinstance(value, dict) else value[0]
    for place in (whole, whole["figures"]):
        for name in list(place):
            if name == "private":  # not available on every system
                continue
            kept = place.pop(name)
            found += [name] if validator.is_valid(value) else []
            place[name] = kept
            place["unknown"] = 1
            assert not validator.is_valid(value), name
            del place["unknown"]
    return sorted(found)


def test_starts_are_measured_alternately_with_the_floor():
    progress = []
    found = asyncio.run(
        measure_start(null(), 2, on_progress=lambda *update: progress.append(update))
    )
    assert progress == [(n, name) for n in range(3) for name in ("floor", "target")]
    floor, target = found
    assert (floor.name, target.name) == ("floor", "target")
    assert target.server["name"] == "null"
    assert len(target.starts) == len(floor.starts) == 2
    for each in target.starts:
        assert each.keys() == START_UNITS.keys()
        assert 0 < each["handshake"] < each["first list"]
        assert each["cpu"] > 0
    low, high = target.values("handshake")
    assert low <= target.figures()["handshake"] <= high


def test_server_without_tools_has_no_first_list_figure():
    target = program("import mcpwire; mcpwire.Server('bare', '1').run()")
    (found,) = asyncio.run(measure_start(target, 1, with_floor=False))
    assert "handshake" in found.figures()
    sizes = asyncio.run(measure_size(target, calls=1))
    assert [each.when for each in sizes.sizes][-1] == "1 calls"


def test_server_that_does_not_start_is_an_error():
    with pytest.raises(ConnectError):
        asyncio.run(measure_start(Stdio("/no/such/program"), 1, with_floor=False))


def test_processes_threads_and_memory_of_a_server_are_counted():
    small, large = (
        asyncio.run(measure_size(target, ECHO, 20))
        for target in (null(), program(LARGER, NULL_SERVER))
    )
    assert [each.when for each in small.sizes] == [
        "handshake",
        "first list",
        "20 calls",
    ]
    for before, after in zip(small.sizes, large.sizes, strict=True):
        assert (before.processes, after.processes) == (1, 2)
        assert after.threads == before.threads + 2
        assert after.descriptors > before.descriptors
        assert after.resident > before.resident + 64 * 2**20
        assert after.private > before.private + 64 * 2**20
    figures = large.figures()
    assert figures.keys() == SIZE_UNITS.keys()
    assert figures["mapped files"] == sum(large.files.values())
    executable = os.path.realpath(sys.executable)
    assert large.files[executable] == Path(executable).stat().st_size
    assert list(large.files.values()) == sorted(large.files.values(), reverse=True)


def test_local_server_at_a_url_is_found():
    async def over_http():
        async with null_http() as server:
            found = await measure_size(Http(server.url), ECHO, 3)
            named = await measure_size(
                Http(server.url), ECHO, 3, processes=[server.pid]
            )
            return found, named

    for found in asyncio.run(over_http()):
        assert found.sizes[-1].processes == 1
        assert found.sizes[-1].resident > 2**20


def test_start_command_prints_figures_and_checks_limits(cli):
    code, out, err = cli("bench", "start", "--starts", "1", "--", *NULL)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "null 1: 1 starts"
    assert lines[2].split() == ["median", "least", "most", "floor", "multiple"]
    assert [line.split("  ")[0] for line in lines[3:]] == list(START_UNITS)
    words = ["--starts", "1", "--json", "--no-floor", "--fail-if", "first list > 1us"]
    code, out, err = cli("bench", "start", *words, "--", *NULL)
    assert code == 9
    assert err.startswith("failed: first list > 1us: first list is ")
    assert STARTS.is_valid(json.loads(out))
    (found,) = json.loads(out)
    assert found["figures"]["first list"] == found["starts"][0]["first list"]


def test_size_command_prints_figures_and_checks_limits(cli):
    words = ["--calls", "5", "--call", "echo", "text=hi"]
    limit = ["--fail-if", "resident > 1GiB", "--fail-if", "threads > 0"]
    code, out, err = cli("bench", "size", *words, *limit, "--", *NULL)
    assert code == 9
    assert err == "failed: threads > 0: threads is 1\n"
    assert [line.split("  ")[0] for line in out.splitlines()[2:6]] == [
        *("after", "handshake", "first list", "5 calls")
    ]
    assert "mapped files: " in out.splitlines()[-1]
    code, out, _ = cli("bench", "size", "--calls", "1", "--json", shlex.join(NULL))
    assert code == 0
    assert SIZES.is_valid(json.loads(out))
    assert json.loads(out)["figures"]["processes"] == 1
    assert without_members(SIZES, json.loads(out)) == []
    code, out, _ = cli("bench", "start", "--starts", "1", "--json", shlex.join(NULL))
    assert STARTS.is_valid(json.loads(out))
    assert without_members(STARTS, json.loads(out)) == ["cpu", "first list"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["start", "http://127.0.0.1:1/mcp"],
            "bench start needs a command line, not a URL",
        ),
        (["start", "--fail-if", "p99 > 1s", "x"], "there are handshake, first list"),
        (["size", "--fail-if", "cpu > 1s", "x"], "there are processes, threads"),
        (["size", "--fail-if", "resident +1% vs a", "x"], "a condition is FIGURE"),
        (["start", "--starts", "0", "x"], "must be at least 1"),
    ],
)
def test_invalid_options_are_refused(cli, words, message):
    code, out, err = cli("bench", *words)
    assert (code, out) == (2, "")
    assert message in err
