"""A slow or unreachable backend is not a finding."""

import asyncio
import sys

import pytest

from mcpwire.check import Options, run
from mcpwire.transports.targets import Stdio

SERVER = """
import json, sys
kind = sys.argv[1]
SCHEMA = dict(type="object", properties=dict(a=dict(type="integer", minimum=1)))
LISTS = {
    "tools/list": dict(tools=[dict(name="t", inputSchema={**SCHEMA, "required": ["a"]},
                                   annotations=dict(readOnlyHint=True))]),
    "prompts/list": dict(prompts=[dict(name="p", arguments=[dict(name="a")])]),
    "resources/list": dict(resources=[]),
    "resources/templates/list": dict(
        resourceTemplates=[dict(name="r", uriTemplate="x://{a}")]),
    "ping": {},
}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    answer = dict(jsonrpc="2.0", id=message.get("id"))
    if method == "initialize":
        answer["result"] = dict(
            protocolVersion=params["protocolVersion"],
            capabilities=dict(tools={}, prompts={}, resources={}),
            serverInfo=dict(name="s", version="1"),
        )
    elif method in LISTS:
        answer["result"] = LISTS[method]
    elif "id" not in message or kind == "slow":
        continue
    elif kind == "slow if wrong" and params.get("arguments") != {"a": 1}:
        continue
    elif kind == "refuses by header" and params.get("arguments") != {}:
        answer["error"] = dict(code=-32020, message="the header lacks it")
    elif kind == "out of reach":
        answer["error"] = dict(code=-32603, message="connection refused")
    else:
        answer["result"] = dict(content=[])
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "case", "verdict"),
    [
        ("slow", "F09.h", "absent"),
        ("slow", "F09.i", "absent"),
        ("slow", "F09.k", "absent"),
        ("slow", "F09.m", "absent"),
        ("slow", "F09.p", "absent"),
        ("slow", "F13.l", "absent"),
        ("slow", "TOOL-18.c", "lenient"),
        ("slow if wrong", "F09.i", "hang"),
        ("out of reach", "F09.p", "absent"),
        ("refuses by header", "F09.p", "pass"),
        ("out of reach", "F13.l", "absent"),
    ],
)
def test_failure_with_valid_arguments_is_not_a_finding(kind, case, verdict):
    options = Options(
        revisions=("2025-11-25",), only=(case,), speed="full", answer_s=0.3
    )
    report = asyncio.run(run(Stdio(sys.executable, ["-c", SERVER, kind]), options))
    assert [r.verdict.value for r in report.results] == [verdict]
