"""Correct servers with unusual behaviour get neither a failure nor a pass."""

import asyncio
import sys

import pytest

from mcpwire import Stdio
from mcpwire.check import Options, Verdict, run

SERVER = """
import json, sys, threading
lock = threading.Lock()
tool = {"inputSchema": {"type": "object", "required": ["text"], "properties":
        {"text": {"type": "string"}}}, "annotations": {"readOnlyHint": True}}
tools = [{**tool, "name": "echo"}, {**tool, "name": "ask_the_oracle"}]

def answer(message):
    params = message.get("params") or {}
    method = message["method"]
    result = {"resultType": "complete", "ttlMs": 300_000.0, "cacheScope": "public"}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"],
                  "capabilities": {"tools": {}},
                  "serverInfo": {"name": "own way", "version": "1"}}
    if method == "server/discover":
        result |= {"supportedVersions": ["2026-07-28", "2025-11-25"],
                   "capabilities": {"tools": {}}}
    if method == "tools/list":
        result |= {"tools": tools}
    if method == "tools/call":
        text = json.dumps({"echo": params["arguments"].get("text")})
        result |= {"content": [{"type": "text", "text": text}]}
    if method == "ping":
        result = {}
    with lock:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}),
              flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
"""


PINGING = """
import json, os
rest = b""
while data := os.read(0, 65_536):
    *lines, rest = (rest + data).split(b"\\n")
    for message in map(json.loads, lines):
        result = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "serverInfo": {"name": "pinging", "version": "1"}}
        if message.get("method") in {"initialize", "ping"}:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}),
                  flush=True)
    if rest:
        print('{"jsonrpc":"2.0","id":1,"method":"ping"}', flush=True)
"""


def test_server_may_send_requests_while_it_reads_a_line():
    options = Options(revisions=("2025-11-25",), only=("A11.b",))
    target = Stdio(sys.executable, ["-c", PINGING])
    (result,) = asyncio.run(run(target, options)).results
    assert result.verdict is Verdict.PASS, result.actual


@pytest.mark.parametrize(
    ("case", "revision", "verdict"),
    [
        # The tool returns the text inside its own JSON, in ASCII only.
        ("TR-STDIO-01.a", "2025-11-25", Verdict.ABSENT),
        # A tool with "ask" in its name need not send a request: nothing is observed.
        ("LIFE-11.b", "2025-11-25", Verdict.ABSENT),
        ("ELIC-02.b", "2025-11-25", Verdict.ABSENT),
        ("MRTR-06.a", "2026-07-28", Verdict.ABSENT),
        # 300000.0 is an integer to JSON Schema.
        ("CACHE-03.a", "2026-07-28", Verdict.PASS),
        ("VER-05.a", "2026-07-28", Verdict.PASS),
    ],
)
def test_unusual_correct_behaviour_is_no_finding(case, revision, verdict):
    options = Options(revisions=(revision,), only=(case,), answer_s=5.0)
    target = Stdio(sys.executable, ["-c", SERVER])
    (result,) = asyncio.run(run(target, options)).results
    assert (result.verdict, result.expected) == (verdict, ""), result.actual
