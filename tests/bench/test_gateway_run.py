"""A server alone and behind a gateway, and soak runs."""

import asyncio
import os

import pytest
from made_results import slice_of
from null_targets import null

from mcpwire import Http
from mcpwire.bench import Call, Load
from mcpwire.bench.gateway import run_behind_gateway
from mcpwire.bench.null_process import null_command, null_http
from mcpwire.bench.results import Subject
from mcpwire.testing.procfs import descendants

NULL = null_command("--stdio")
LOAD = Load(
    calls=(Call.tool("echo", {"text": "hi"}),), seconds=0.4, warm_up=0.1, rounds=1
)

FAST = {"with_floor": False, "with_details": False}


async def over_stdio():
    return await run_behind_gateway(null(), LOAD, **FAST)


async def over_http():
    async with null_http() as server:
        return await run_behind_gateway(Http(server.url), LOAD, **FAST)


@pytest.mark.parametrize("way", [over_stdio, over_http])
def test_server_is_measured_alone_and_behind_a_gateway(way):
    others = descendants(os.getpid())
    alone, behind = asyncio.run(way()).subjects
    assert (alone.name, behind.name) == ("target", "gateway")
    assert (alone.server["name"], behind.server["name"]) == ("null", "mcpwire-gateway")
    assert alone.total("done") > 0
    assert behind.total("done") > 0
    assert behind.errors == {}
    assert behind.target == f"mcpwire gateway target={alone.target!r}"
    assert behind.figures()["cpu"] > 0
    assert descendants(os.getpid()) <= others


def test_gateway_command_shows_the_differences(cli, tmp_path):
    page = tmp_path / "page.html"
    words = [
        "--for",
        "0.6s",
        "--rounds",
        "3",
        "--warm-up",
        "0.1s",
        "--call",
        "echo",
        "--html",
        str(page),
    ]
    limit = ["--fail-if", "p50 > 1us"]
    code, out, err = cli("bench", "gateway", *words, *limit, "--", *NULL)
    assert code == 9
    assert err.startswith("failed: p50 > 1us: p50 is ")
    rows = {line.split("  ")[0]: line for line in out.splitlines()[-7:]}
    assert rows["p50"].endswith("worse")
    head = out.splitlines()[-7].split()
    assert head[:3] == ["target", "gateway", "ratio"]
    assert "Ratio gateway / target" in page.read_text("utf-8")


def test_soak_has_one_round_and_reports_drift_and_growth(cli):
    words = ["--for", "5s", "--rate", "50/s", "--fail-if", "p99 drift < 999999%"]
    code, out, err = cli("bench", "soak", *words, "--", *NULL)
    assert code == 9
    assert err.startswith("failed: p99 drift < 999999%: p99 drift is ")
    assert out.splitlines()[0] == "ping, 50 calls/s; 1 round, 5 s each"
    names = {line.split("  ")[0] for line in out.splitlines()}
    assert {"p99 drift", "memory slope", "memory slope low"} <= names
    assert "floor" not in out


def of_slices(*slices):
    server = {"name": "slow", "version": "", "revision": "2025-11-25"}
    return Subject(name="target", target="slow", server=server, slices=slices)


def test_drift_compares_first_and_last_tenth_of_one_round():
    quick, slow = slice_of(0, [100_000] * 99), slice_of(0, [150_000] * 99)
    whole = of_slices(*[quick] * 18, slow, slow)
    assert whole.figures()["p99 drift"] == pytest.approx(50, abs=0.5)
    slow_in_the_middle = of_slices(*[quick] * 9, slow, slow, *[quick] * 9)
    assert slow_in_the_middle.figures()["p99 drift"] == 0
    few = of_slices(*[quick] * 8, slow)
    rounds = of_slices(*[quick] * 10, *[slice_of(1, [150_000])] * 10)
    silent = of_slices(*[quick] * 10, *[slice_of(0, [])] * 10)
    for each in (few, rounds, silent):
        assert "p99 drift" not in each.figures()
