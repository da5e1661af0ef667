"""The gateway benchmark: measured programs, their legs, and calls through ours."""

import asyncio
import os

import pytest

import mcpwire


@pytest.fixture
def bench(compiled):
    return compiled("bench_gateway")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_calls_pass_through_our_gateway_on_each_leg(bench):
    async def call(variant):
        with variant.open_target() as target:
            async with mcpwire.Client(target, mode=variant.revision) as client:
                result = await client.call_tool("echo", {"text": "hi"})
                return client.server_info.name, result.text

    before = os.sched_getaffinity(0)
    found = {
        each.name: asyncio.run(call(each))
        for each in bench.variants()
        if each.name.endswith((bench.OURS, bench.DIRECT))
    }
    os.sched_setaffinity(0, before)
    for leg in bench.LEGS:
        direct, proxied = found[f"{leg}: direct"], found[f"{leg}: mcpwire"]
        assert (direct[1], proxied[1]) == ("hello", "hello")
        assert direct[0] != proxied[0]


def test_session_only_gateway_is_measured_on_session_legs(bench):
    legs = {leg for leg in bench.LEGS if bench.supports("mcp-proxy", leg)}
    assert legs == {"HTTP to stdio", "stdio to HTTP"}
    assert len(bench.PAIRS) == 5
    names = {f"{leg}: {name}" for leg in bench.LEGS for name in bench.PROGRAMS}
    for budget in bench.BUDGETS:
        assert {budget.variant, budget.against} <= names


def test_added_latency_is_the_difference_to_a_direct_call(bench):
    def figures(p50):
        return {"p50_us": {"value": p50, "ratio": p50 / 100}}

    measured = {"A: direct": figures(100), "A: mcpwire": figures(350)}
    bench.add_latency([measured])
    assert measured["A: mcpwire"]["added_us"] == {"value": 250, "ratio": 2.5}
    assert "added_us" not in measured["A: direct"]


def test_gateways_that_are_not_installed_are_skipped_and_named(bench, monkeypatch):
    monkeypatch.setattr(bench, "peer_python", (bench.ROOT / ".peers/absent").joinpath)
    absent = bench.python_gateway("mcp-proxy", "mcp_proxy_gateway.py")
    monkeypatch.setitem(bench.PROGRAMS, "mcp-proxy", absent)
    call = {}

    def run(name, found, *_, notes, **__):
        call.update(name=name, found=found, remarks=notes["remarks"])
        return 0

    monkeypatch.setattr(bench, "run", run)
    assert bench.main() == 0
    assert not any("mcp-proxy" in each.name for each in call["found"])
    assert call["remarks"]["mcp-proxy"].startswith("left out: no .peers/absent")
