"""Rare and late faults are found, and similar correct behaviour is accepted."""

import asyncio
import sys

import pytest

from mcpwire import Stdio
from mcpwire.check import Options, run
from mcpwire.check.cases import sequences

SERVER = """
import json, sys, threading
kind, noted = sys.argv[1:]
held, pings, barriers, is_begun = [], 0, 0, False
seen = set()
ECHO = dict(name="echo", annotations=dict(readOnlyHint=True),
            inputSchema=dict(type="object", required=["text"],
                             properties=dict(text=dict(type="string"))))
def answer(id, **result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
def give(id, text):
    answer(id, content=[dict(type="text", text=text)])
def is_even():
    with open(noted, "a+") as file:
        file.write("x")
        return file.tell() % 2 == 0
def give_all():
    for id, text in held:
        for _ in range(2 if kind == "late, three" else 1):
            give(id, "other" if kind == "late, of another" else text)
def call(id, text):
    is_second = id in seen
    seen.add(id)
    if is_second and kind == "refused":
        error = dict(code=-32600, message="the id is taken")
        print(json.dumps(dict(jsonrpc="2.0", id=id, error=error)), flush=True)
    elif not is_second or kind == "at once":
        give(id, text)
    elif kind.startswith("late"):
        held.append((id, text))
for line in sys.stdin:
    if not line.endswith("\\n") and kind == "no last one":
        continue
    if not line.endswith("\\n") and kind == "each second" and is_even():
        continue
    message = json.loads(line)
    id, method = message.get("id"), message["method"]
    if method == "ping" and kind in {"late ping", "no early ping"} and not is_begun:
        if kind == "late ping":
            threading.Timer(0.05, answer, [id]).start()
    elif method == "ping":
        pings += 1
        if kind == "the 1,500th lost" and pings == 1_500:
            continue
        if kind == "the 1,500th twice" and pings == 1_500:
            answer(id)
        answer(id)
        barriers += len(held) == 50
        if barriers == 2:
            # As a thread that was busy: behind the answers to both pings.
            threading.Timer(0.05, give_all).start()
            barriers += 1
    elif method == "initialize":
        is_begun = True
        answer(id, capabilities=dict(tools={}), serverInfo=dict(name="s", version="1"),
               protocolVersion=message["params"]["protocolVersion"])
    elif method == "tools/list":
        answer(id, tools=[ECHO])
    elif method == "tools/call":
        call(id, message["params"]["arguments"]["text"])
    elif id is not None:
        answer(id)
"""


@pytest.mark.parametrize(
    ("kind", "case", "found"),
    [
        ("at once", "A09.d", ("pass", "")),
        ("each second", "A09.d", ("pass", "")),
        ("no last one", "A09.d", ("warn", "the server exited with code 0")),
        ("at once", "C01.b", ("pass", "")),
        ("late ping", "C01.b", ("pass", "")),
        ("no early ping", "C01.b", ("warn", "no answer")),
        ("at once", "A11.d", ("pass", "")),
        ("the 1,500th lost", "A11.d", ("hang", "no answer")),
        ("the 1,500th twice", "A11.d", ("warn", "2 answers")),
        ("at once", "B04.a", ("pass", "")),
        ("refused", "B04.a", ("pass", "")),
        ("late", "B04.a", ("pass", "")),
        ("late, of another", "B04.a", ("warn", '"text": "other"')),
        ("late, three", "B04.a", ("warn", "3 answers")),
    ],
)
def test_rare_or_late_faults_are_judged(kind, case, found, tmp_path, monkeypatch):
    verdict, actual = found
    monkeypatch.setattr(sequences, "LATE_TIMEOUT_S", 60.0)
    target = Stdio(sys.executable, ["-c", SERVER, kind, str(tmp_path / "noted")])
    options = Options(revisions=("2025-11-25",), only=(case,), answer_s=2.0)
    (result,) = asyncio.run(run(target, options)).results
    assert (result.verdict.value, actual in result.actual) == (verdict, True)


def test_second_response_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(sequences, "LATE_TIMEOUT_S", 0.05)
    target = Stdio(sys.executable, ["-c", SERVER, "once", str(tmp_path / "noted")])
    options = Options(revisions=("2025-11-25",), only=("B04.a",))
    (result,) = asyncio.run(run(target, options)).results
    assert result.verdict.value == "pass"
