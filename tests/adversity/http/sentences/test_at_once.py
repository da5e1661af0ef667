"""An answer that can complete no call ends it at once, beneath every engine."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from faulty import ERAS, PROMPT_S, answering, connected, outcome
from http_bytes import reply
from mcp_server import scripted_mcp
from test_answers import HOPELESS

import mcpwire
from mcpwire import ConnectionClosed, HTTPError

pytestmark = pytest.mark.anyio

ENGINES = ("direct", "httpx")
TRIES = 5

DOUBTFUL = ("no http",)
"""What one engine takes for no HTTP, and another for an end before any."""


async def prompt_errors(shell, server, engine, handler, **options):
    """Return the errors of calls, until one of them came at once."""
    target = mcpwire.Http(server.url, engine=engine)
    errors = []
    async with connected(shell, target, **options) as client:
        server.on["tools/call"] = handler
        took = []
        for _ in range(TRIES):
            started = time.monotonic()
            errors.append(await outcome(client.call_tool("echo", timeout=5)))
            took.append(time.monotonic() - started)
            if took[-1] < PROMPT_S:
                break
        assert min(took) < PROMPT_S, errors
    return errors


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("case", HOPELESS)
@pytest.mark.fault("F21", "F22", "F24", "F25", "F31")
@pytest.mark.pain("P02")
async def test_each_of_them_ends_its_call_within_250_ms(shell, era, case, engine):
    """With recovery as it is by default, which may not run a tool again."""
    (data, then), expected, named = HOPELESS[case]
    with scripted_mcp(era) as server:
        errors = await prompt_errors(shell, server, engine, answering(data, then))
        assert Counter(server.verbs())["tools/call"] == len(errors), "asked once each"
    for error in errors:
        if case not in DOUBTFUL:
            assert type(error) is expected, error
        assert all(name in str(error) for name in named), error
        if type(error) is ConnectionClosed:
            assert error.sent is True


@pytest.mark.parametrize("engine", ENGINES)
async def test_one_that_fails_leaves_those_beside_it_alone(shell, engine):
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(shell, target) as client:
            server.on["tools/call"] = answering(reply(500))
            assert isinstance(await outcome(client.call_tool("echo")), HTTPError)
            del server.on["tools/call"]
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
