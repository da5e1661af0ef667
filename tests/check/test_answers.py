"""Responses are matched with their requests, whenever they arrive."""

import asyncio
import sys

import pytest

from mcpwire.check import Options, run
from mcpwire.transports.targets import Stdio

SERVER = """
import json, sys, time
kind, late = sys.argv[1], None
KNOWN = "tools/list", "notifications/initialized"
READS = dict(annotations=dict(readOnlyHint=True))
SCHEMA = dict(type="object", properties=dict(a=dict(type="string")))
TEXT = dict(name="t", inputSchema=SCHEMA, **READS)
TOOLS = "refuses unread", "waits for texts"
heap, count, lists = [], 0, 0
def answer(id, **result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
for line in sys.stdin:
    message = json.loads(line.lstrip("\ufeff"))
    id, method, count = message.get("id"), message["method"], count + 1
    if kind == "fills its heap" and count == 700:
        heap.append(bytes(range(256)) * (40 * 4096))
    if kind == "waits for texts" and '"a":"' in line:
        continue
    if kind == "refuses unread" and "[[[[" in line:
        error = dict(code=-32600, message="too deep")
        print(json.dumps(dict(jsonrpc="2.0", id=None, error=error)), flush=True)
        continue
    if kind == "rounds" and id == 2**53 + 1:
        id = 2**53
    if method == "initialize" and kind == "second first" and id == 1:
        continue
    if method == "initialize":
        answer(id, capabilities=dict(tools={}), serverInfo=dict(name="s", version="1"),
               protocolVersion=message["params"]["protocolVersion"])
        if kind == "second first" and id == 2:
            time.sleep(0.1)  # another thread has the first request
            answer(1, protocolVersion="2025-11-25", serverInfo=dict(name="s"))
    elif kind.startswith("overtakes") and "mcpwire-unknown" in message:
        # Two others are answered before it, or three and a moment passes.
        late = [id, 3 if kind == "overtakes all" else 2]
    elif kind.endswith("no ping") and method not in KNOWN:
        error = dict(code=-32601, message="unknown")
        print(json.dumps(dict(jsonrpc="2.0", id=id, error=error)), flush=True)
    elif id is not None:
        if kind == "slow list, no ping" and not lists:
            time.sleep(1.0)  # longer than one answer may take
        lists += 1
        tools = dict(tools=[TEXT] if kind in TOOLS else [])
        answer(id, **(tools if method == "tools/list" else dict(content=[])))
        if late is not None:
            late[1] -= 1
            if late[1] == 0:
                if kind == "overtakes all":
                    time.sleep(0.02)  # longer than ten barriers take
                answer(late[0])
                late = None
"""


@pytest.mark.parametrize(
    ("kind", "case", "verdict"),
    [
        ("overtakes", "B09.a", "pass"),
        ("overtakes all", "B09.a", "pass"),
        ("no ping", "B09.a", "pass"),
        ("no ping", "RPC-07.e", "pass"),
        ("rounds", "RPC-07.b", "fail"),
        ("refuses unread", "F09.n", "pass"),
        ("waits for texts", "F09.n", "pass"),
        ("second first", "A08.d", "pass"),
        ("fills its heap", "H03.a", "pass"),
    ],
)
def test_response_is_judged_for_its_own_request(kind, case, verdict):
    options = Options(revisions=("2025-11-25",), only=(case,))
    report = asyncio.run(run(Stdio(sys.executable, ["-c", SERVER, kind]), options))
    assert [r.verdict.value for r in report.results] == [verdict]


BUILDS = """
import json, os, sys, time
is_first = not os.path.exists(sys.argv[1])
open(sys.argv[1], "w").close()
META = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/list":
        if not is_first:
            time.sleep(1.0)  # a catalog that is made when the process starts
            is_first = True
        result = dict(tools=[dict(name="t", inputSchema=dict(type="object"))])
    else:
        result = dict(supportedVersions=["2026-07-28"], capabilities=dict(tools={}))
    result.update(resultType="complete", ttlMs=0, cacheScope="public", _meta=META)
    print(json.dumps(dict(jsonrpc="2.0", id=message["id"], result=result)), flush=True)
"""


@pytest.mark.parametrize("slow", ["each process", "all but the first"])
def test_list_may_take_as_long_as_a_process_start(tmp_path, slow):
    started = tmp_path / "started"
    if slow == "each process":
        started.touch()
    target = Stdio(sys.executable, ["-c", BUILDS, str(started)])
    options = Options(revisions=("2026-07-28",), only=("TOOL-03.a",), answer_s=0.6)
    report = asyncio.run(run(target, options))
    assert [r.verdict.value for r in report.results] == ["pass"]


def test_list_used_as_a_barrier_may_take_as_long_as_a_start():
    target = Stdio(sys.executable, ["-c", SERVER, "slow list, no ping"])
    options = Options(revisions=("2025-11-25",), only=("B09.a",), answer_s=0.6)
    report = asyncio.run(run(target, options))
    assert [r.verdict.value for r in report.results] == ["pass"]


STATELESS = """
import json, sys
told = dict(listChanged=sys.argv[1] == "declared")
for line in sys.stdin:
    message = json.loads(line)
    answer = dict(jsonrpc="2.0", id=message.get("id"))
    if message["method"] == "server/discover":
        answer["result"] = dict(supportedVersions=["2026-07-28"],
                                capabilities=dict(tools=told))
    elif message["method"] == "tools/list":
        answer["result"] = dict(tools=[])
    else:
        answer["error"] = dict(code=-32603, message="subscription limit reached")
    if "id" in message:
        print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "verdict"), [("declared", "fail"), ("not declared", "absent")]
)
def test_server_without_list_changed_may_refuse_subscriptions(kind, verdict):
    command = Stdio(sys.executable, ["-c", STATELESS, kind])
    options = Options(revisions=("2026-07-28",), only=("SUB-03.a",))
    report = asyncio.run(run(command, options))
    assert [r.verdict.value for r in report.results] == [verdict]


SERIAL = """
import json, sys, time
SLOW = dict(name="slow", inputSchema=dict(type="object"),
            annotations=dict(readOnlyHint=True))
for line in sys.stdin:
    message = json.loads(line)
    result = dict(capabilities=dict(tools={}), tools=[SLOW], content=[],
                  serverInfo=dict(name="s", version="1"), protocolVersion="2025-11-25")
    if message["method"] == "tools/call":
        time.sleep(0.05)  # the subject: calls that take time, one after another
    if "id" in message:
        print(json.dumps(dict(jsonrpc="2.0", id=message["id"], result=result)))
        sys.stdout.flush()
"""


def test_server_may_answer_calls_sequentially():
    options = Options(revisions=("2025-11-25",), only=("A15.a",), answer_s=0.4)
    report = asyncio.run(run(Stdio(sys.executable, ["-c", SERIAL]), options))
    assert [r.verdict.value for r in report.results] == ["pass"]
