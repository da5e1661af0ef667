"""A signal handler that closes the client, whatever its thread is doing."""

import contextlib
import time

import pytest
from http_bytes import json_reply
from interrupts import SignalHandlers
from mcp_server import scripted_mcp
from running import ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

MOMENTS = 25
"""How many moments of a use are tried, the last first."""


def closing(make, use, *, count):
    """Close a client at moments all over its use; yield it after each."""
    client = make()
    with SignalHandlers(lambda: None, 10**9) as all_moments:
        use(client)
    client.close()
    last = all_moments.passed
    for moment in range(last, 0, -max(last // count, 1)):
        client = make()
        ended = contextlib.suppress(mcpwire.MCPError)
        with ended, SignalHandlers(client.close, moment) as handlers:
            use(client)
        yield client, handlers.passed >= moment


def call(client):
    client.call_tool("echo", timeout=BOUND_S)


def run_out_of_time(client):
    with pytest.raises(mcpwire.MCPError):
        client.call_tool("slow", {"seconds": 30}, timeout=0.01)


def decline(_, conn):
    return conn.send(json_reply({}, 429, retry_after="0")) or True


def ask_again(client):
    with pytest.raises(mcpwire.MCPError):
        client.call_tool("echo", timeout=BOUND_S)


@pytest.mark.pain("P12")
@pytest.mark.parametrize(
    ("use", "handlers"),
    [(call, {}), (run_out_of_time, {}), (ask_again, {"tools/call": decline})],
)
def test_a_signal_handler_may_close_the_client_in_a_call(use, handlers):
    quick = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.002)
    with scripted_mcp() as server:
        server.on.update(handlers)

        def make():
            client = mcpwire.sync.Client(server.url, recovery=quick)
            client.connect()
            return client

        started = time.monotonic()
        for client, was_closed in closing(make, use, count=MOMENTS):
            assert not (was_closed and client.is_connected)
            client.close()
            assert time.monotonic() - started < BOUND_S / 3, "nobody waited for it"
            until(lambda: not ours())
            started = time.monotonic()
        server.release()


@pytest.mark.pain("P10", "P12")
def test_a_signal_handler_may_close_the_client_as_it_connects():
    with scripted_mcp() as server:

        def make():
            return mcpwire.sync.Client(server.url)

        closed_late = 0
        for client, was_closed in closing(make, lambda c: c.connect(), count=MOMENTS):
            if was_closed and closed_late < MOMENTS // 2:  # the later: it had begun
                closed_late += 1
                assert not client.is_connected
            client.close()
            until(lambda: not ours())
        assert closed_late == MOMENTS // 2


@pytest.mark.pain("P12")
def test_a_hook_may_close_the_client_as_it_agrees():
    with scripted_mcp() as server:

        def trace(event, _):
            if event == "agree":
                client.close()

        client = mcpwire.sync.Client(server.url, trace=trace)
        with pytest.raises(mcpwire.ConnectionClosed, match="while connecting"):
            client.connect()
        assert not client.is_connected
        until(lambda: not ours())
