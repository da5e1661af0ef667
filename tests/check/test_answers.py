"""Answers are judged by the request they belong to, whenever they come."""

import asyncio
import sys

import pytest

from mcpwire.check import Options, run
from mcpwire.transports.targets import Stdio

SERVER = """
import json, sys
kind, late = sys.argv[1], None
KNOWN = "tools/list", "notifications/initialized"
def answer(id, **result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message["method"]
    if kind == "rounds" and id == 2**53 + 1:
        id = 2**53
    if method == "initialize":
        answer(id, capabilities=dict(tools={}), serverInfo=dict(name="s", version="1"),
               protocolVersion=message["params"]["protocolVersion"])
    elif kind == "overtakes" and "mcpwire-unknown" in message:
        late = [id, 2]  # two others are answered before it
    elif kind == "no ping" and method not in KNOWN:
        error = dict(code=-32601, message="unknown")
        print(json.dumps(dict(jsonrpc="2.0", id=id, error=error)), flush=True)
    elif id is not None:
        answer(id, **(dict(tools=[]) if method == "tools/list" else {}))
        if late is not None:
            late[1] -= 1
            if late[1] == 0:
                answer(late[0])
                late = None
"""


@pytest.mark.parametrize(
    ("kind", "case", "verdict"),
    [
        ("overtakes", "B09.a", "pass"),
        ("no ping", "B09.a", "pass"),
        ("no ping", "RPC-07.e", "pass"),
        ("rounds", "RPC-07.b", "fail"),
    ],
)
def test_an_answer_counts_for_its_own_request(kind, case, verdict):
    options = Options(revisions=("2025-11-25",), only=(case,))
    report = asyncio.run(run(Stdio(sys.executable, ["-c", SERVER, kind]), options))
    assert [r.verdict.value for r in report.results] == [verdict]
