"""Errors caused by an exception in the server mention its traceback."""

from __future__ import annotations

import pytest

TRACEBACK = {"stderr": "Traceback (most recent call last):\n  ...\nKeyError: 'shelf'\n"}
ADVICE = "; -v shows the server's traceback\n"
FAILED = {"result": {"content": [], "isError": True}}
REFUSED = {"error": {"code": -32603, "message": "the handler failed"}}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (FAILED, "mcpwire: tool 'do' reported an error"),
        (REFUSED, "mcpwire: tools/call: the handler failed (JSON-RPC error -32603)"),
    ],
)
def test_error_mentions_the_traceback_of_the_server(cli, tool_server, step, message):
    assert cli("call", tool_server(TRACEBACK, step).line, "do").err == message + ADVICE


def test_verbose_shows_the_traceback_without_the_advice(cli, tool_server):
    done = cli("call", tool_server(TRACEBACK, FAILED).line, "do", "-v")
    assert "server: KeyError: 'shelf'\n" in done.err
    assert ADVICE not in done.err


@pytest.mark.parametrize("written", ["", "listening\n", "x" * 10_000])
def test_error_without_a_traceback_has_no_advice(cli, tool_server, written):
    done = cli("call", tool_server({"stderr": written}, FAILED).line, "do")
    assert done.err == "mcpwire: tool 'do' reported an error\n"
