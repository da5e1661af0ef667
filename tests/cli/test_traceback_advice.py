"""A command that failed by an exception of its server says where the traceback is."""

from __future__ import annotations

import pytest

TRACEBACK = {"stderr": "Traceback (most recent call last):\n  ...\nKeyError: 'shelf'\n"}
ADVICE = "; -v shows the traceback that the server wrote\n"
FAILED = {"result": {"content": [], "isError": True}}
REFUSED = {"error": {"code": -32603, "message": "the handler failed"}}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (FAILED, "mcpwire: tool 'do' reported failure"),
        (REFUSED, "mcpwire: tools/call: the handler failed (JSON-RPC error -32603)"),
    ],
)
def test_where_the_traceback_is_stands_behind_the_error(cli, tool_server, step, said):
    assert cli("call", tool_server(TRACEBACK, step).line, "do").err == said + ADVICE


def test_with_v_the_traceback_is_there_and_no_advice(cli, tool_server):
    done = cli("call", tool_server(TRACEBACK, FAILED).line, "do", "-v")
    assert "server: KeyError: 'shelf'\n" in done.err
    assert ADVICE not in done.err


@pytest.mark.parametrize("written", ["", "listening\n", "x" * 10_000])
def test_a_server_that_wrote_none_gets_no_advice(cli, tool_server, written):
    done = cli("call", tool_server({"stderr": written}, FAILED).line, "do")
    assert done.err == "mcpwire: tool 'do' reported failure\n"
