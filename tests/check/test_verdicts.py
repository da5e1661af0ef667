"""Verdicts on small servers: late, rare, slow and unusual behaviour."""

import asyncio
import sys
import time

import pytest

from mcpwire import Stdio
from mcpwire.check import Options, run, runner
from mcpwire.check.case import PeerDied
from mcpwire.check.cases import sequences
from mcpwire.check.peer import StdioPeer, Transcript
from mcpwire.testing.procfs import HAS_PROC

PRELUDE = """
import json, os, pathlib, sys, threading, time
lock = threading.Lock()
def send(id, **members):
    with lock:
        print(json.dumps(dict(jsonrpc="2.0", id=id, **members)), flush=True)
def answer(id, **result):
    send(id, result=result)
def fail(id, code):
    send(id, error=dict(code=code, message="refused"))
def begin(message, *words, version=None):
    answer(message["id"], capabilities={word: {} for word in words},
           serverInfo=dict(name="s", version="1"),
           protocolVersion=version or message["params"]["protocolVersion"])
def text(value):
    return dict(content=[dict(type="text", text=value)])
def tool(name, properties={}, *required):
    schema = dict(type="object", properties=properties, required=list(required))
    return dict(name=name, inputSchema=schema, annotations=dict(readOnlyHint=True))
TEXT = dict(type="string")
"""


def results(program, *words, case, revision="2025-11-25", **options):
    """Run one case against a program; return its results."""
    target = Stdio(sys.executable, ["-c", PRELUDE + program, *words])
    options = Options(revisions=(revision,), only=(case,), **options)
    return asyncio.run(run(target, options)).results


def verdict(program, *words, **options):
    (result,) = results(program, *words, **options)
    return result.verdict.value


# --- responses are matched with their requests, whenever they arrive ------------------

ANSWERS = """
kind, late = sys.argv[1], None
KNOWN = "tools/list", "notifications/initialized"
TOOLS = "refuses unread", "waits for texts"
heap, count, lists = [], 0, 0
for line in sys.stdin:
    message = json.loads(line.lstrip("\\ufeff"))
    id, method, count = message.get("id"), message["method"], count + 1
    if kind == "fills its heap" and count == 700:
        heap.append(bytes(range(256)) * (40 * 4096))
    if kind == "waits for texts" and '"a":"' in line:
        continue
    if kind == "refuses unread" and "[[[[" in line:
        fail(None, -32600)
        continue
    if kind == "rounds" and id == 2**53 + 1:
        id = 2**53
    if method == "initialize" and kind == "second first" and id == 1:
        continue
    if method == "initialize":
        begin(message, "tools")
        if kind == "second first" and id == 2:
            time.sleep(0.1)  # another thread has the first request
            answer(1, protocolVersion="2025-11-25", serverInfo=dict(name="s"))
    elif kind.startswith("overtakes") and "mcpwire-unknown" in message:
        # Two others are answered before it, or three and a moment passes.
        late = [id, 3 if kind == "overtakes all" else 2]
    elif kind.endswith("no ping") and method not in KNOWN:
        fail(id, -32601)
    elif id is not None:
        if kind == "slow list, no ping" and not lists:
            time.sleep(1.0)  # longer than one answer may take
        lists += 1
        tools = dict(tools=[tool("t", dict(a=TEXT))] if kind in TOOLS else [])
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
    ("kind", "case", "found"),
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
def test_response_is_judged_for_its_own_request(kind, case, found):
    assert verdict(ANSWERS, kind, case=case) == found


def test_list_used_as_a_barrier_may_take_as_long_as_a_start():
    words = ANSWERS, "slow list, no ping"
    assert verdict(*words, case="B09.a", answer_s=0.6) == "pass"


BUILDS = """
is_first = not os.path.exists(sys.argv[1])
open(sys.argv[1], "w").close()
META = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
for message in map(json.loads, sys.stdin):
    if message["method"] == "tools/list":
        if not is_first:
            time.sleep(1.0)  # a catalog that is made when the process starts
            is_first = True
        result = dict(tools=[dict(name="t", inputSchema=dict(type="object"))])
    else:
        result = dict(supportedVersions=["2026-07-28"], capabilities=dict(tools={}))
    answer(message["id"], resultType="complete", ttlMs=0, cacheScope="public",
           _meta=META, **result)
"""


@pytest.mark.parametrize("slow", ["each process", "all but the first"])
def test_list_may_take_as_long_as_a_process_start(tmp_path, slow):
    started = tmp_path / "started"
    if slow == "each process":
        started.touch()
    options = {"case": "TOOL-03.a", "revision": "2026-07-28", "answer_s": 0.6}
    assert verdict(BUILDS, str(started), **options) == "pass"


STATELESS = """
told = dict(listChanged=sys.argv[1] == "declared")
for message in map(json.loads, sys.stdin):
    if message["method"] == "server/discover":
        answer(message["id"], supportedVersions=["2026-07-28"],
               capabilities=dict(tools=told))
    elif message["method"] == "tools/list":
        answer(message["id"], tools=[])
    elif "id" in message:
        fail(message["id"], -32603)
"""


@pytest.mark.parametrize(
    ("kind", "found"), [("declared", "fail"), ("not declared", "absent")]
)
def test_server_without_list_changed_may_refuse_subscriptions(kind, found):
    assert verdict(STATELESS, kind, case="SUB-03.a", revision="2026-07-28") == found


SERIAL = """
for message in map(json.loads, sys.stdin):
    if message["method"] == "initialize":
        begin(message, "tools")
    elif message["method"] == "tools/call":
        time.sleep(0.05)  # the subject: calls that take time, one after another
        answer(message["id"], content=[])
    elif "id" in message:
        answer(message["id"], tools=[tool("slow")])
"""


def test_server_may_answer_calls_sequentially():
    assert verdict(SERIAL, case="A15.a", answer_s=0.4) == "pass"


# --- a slow or unreachable backend is not a finding -----------------------------------

BACKENDS = """
kind = sys.argv[1]
LISTS = {
    "tools/list": dict(tools=[tool("t", dict(a=dict(type="integer", minimum=1)), "a")]),
    "prompts/list": dict(prompts=[dict(name="p", arguments=[dict(name="a")])]),
    "resources/list": dict(resources=[]),
    "resources/templates/list": dict(
        resourceTemplates=[dict(name="r", uriTemplate="x://{a}")]),
    "ping": {},
}
for message in map(json.loads, sys.stdin):
    id, method = message.get("id"), message["method"]
    arguments = message.get("params", {}).get("arguments")
    if method == "initialize":
        begin(message, "tools", "prompts", "resources")
    elif method in LISTS:
        answer(id, **LISTS[method])
    elif id is None or kind == "slow":
        continue
    elif kind == "slow if wrong" and arguments != {"a": 1}:
        continue
    elif kind == "refuses by header" and arguments != {}:
        fail(id, -32020)
    elif kind == "out of reach":
        fail(id, -32603)
    else:
        answer(id, content=[])
"""


@pytest.mark.parametrize(
    ("kind", "case", "found"),
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
def test_failure_with_valid_arguments_is_not_a_finding(kind, case, found):
    assert verdict(BACKENDS, kind, case=case, speed="full", answer_s=0.3) == found


# --- rare and late faults -------------------------------------------------------------

RARE = """
kind, noted = sys.argv[1:]
held, pings, barriers, is_begun = [], 0, 0, False
seen = set()
def is_even():
    with open(noted, "a+") as file:
        file.write("x")
        return file.tell() % 2 == 0
def give_all():
    for id, value in held:
        for _ in range(2 if kind == "late, three" else 1):
            answer(id, **text("other" if kind == "late, of another" else value))
def call(id, value):
    is_second = id in seen
    seen.add(id)
    if is_second and kind == "refused":
        fail(id, -32600)
    elif not is_second or kind == "at once":
        answer(id, **text(value))
    elif kind.startswith("late"):
        held.append((id, value))
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
        begin(message, "tools")
    elif method == "tools/list":
        answer(id, tools=[tool("echo", dict(text=TEXT), "text")])
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
    monkeypatch.setattr(sequences, "LATE_TIMEOUT_S", 60.0)
    noted = str(tmp_path / "noted")
    (result,) = results(RARE, kind, noted, case=case, answer_s=2.0)
    assert result.verdict.value == found[0]
    assert found[1] in result.actual


def test_second_response_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(sequences, "LATE_TIMEOUT_S", 0.05)
    assert verdict(RARE, "once", str(tmp_path / "noted"), case="B04.a") == "pass"


SUPPRESSED = """
import select
def has_next(seconds):
    return bool(select.select([0], [], [], seconds)[0])
is_late = False
for line in iter(sys.stdin.buffer.raw.readline, b""):
    message = json.loads(line)
    if isinstance(message, list) or not isinstance(message["method"], str):
        if not is_late and not has_next(0.02):
            fail(None, -32600)
    elif message["method"] == "initialize":
        begin(message)
    elif "id" in message:
        answer(message["id"])
    is_late, end = False, time.monotonic() + 0.02
    while not is_late and time.monotonic() < end:
        is_late = has_next(0)
"""

WRAPPER = "import subprocess; subprocess.run([sys.executable, '-c', {!r}])"


@pytest.mark.skipif(not HAS_PROC, reason="no /proc shows whether a server is idle")
@pytest.mark.parametrize(
    ("program", "case", "found"),
    [
        (SUPPRESSED, "B02.d", "pass"),
        (SUPPRESSED, "RPC-13.b", "fail"),
        (WRAPPER.format(PRELUDE + SUPPRESSED), "B02.d", "pass"),
    ],
    ids=["server", "batch", "wrapper"],
)
def test_other_messages_do_not_suppress_a_judged_answer(program, case, found):
    assert verdict(program, case=case, revision="2025-03-26") == found


ALWAYS_BUSY = """
import hashlib
def work():
    while True:
        hashlib.sha256(bytes(1_000_000))
threading.Thread(target=work, daemon=True).start()
for message in map(json.loads, sys.stdin):
    time.sleep(0.12)  # the subject: answers that take time
    if not isinstance(message["method"], str):
        continue
    if message["method"] == "initialize":
        begin(message)
    elif "id" in message:
        answer(message["id"])
"""


def test_server_that_is_always_busy_is_judged():
    assert verdict(ALWAYS_BUSY, case="B02.d") == "warn"


CANCELLED = """
import select
while data := os.read(0, 65_536):
    if not data.endswith(b"\\n") and select.select([0], [], [], 0.02)[0]:
        break
    for message in map(json.loads, data.splitlines()):
        if message["method"] == "initialize":
            begin(message)
        elif "id" in message:
            answer(message["id"])
"""


async def test_last_line_and_the_end_of_the_input_arrive_together():
    async def use_loop():
        while True:
            time.sleep(0.04)  # noqa: ASYNC251 - as the other cases of a run
            await asyncio.sleep(0)

    task = asyncio.create_task(use_loop())
    target = Stdio(sys.executable, ["-c", PRELUDE + CANCELLED])
    report = await run(target, Options(revisions=("2025-11-25",), only=("A09.d",)))
    task.cancel()
    assert [result.verdict.value for result in report.results] == ["warn"]


async def write_until_closed(server):
    while True:
        await server.write(b"x")
        await asyncio.sleep(0)  # an iteration, in which the loop may close the pipe


async def test_last_line_to_a_dead_server_is_reported():
    target = Stdio(sys.executable, ["-c", "raise SystemExit(3)"])
    server = StdioPeer(target, Transcript(), lambda line: None, lambda: None)
    await server.open()
    await server.wait_exit(10)
    with pytest.raises(PeerDied):
        await write_until_closed(server)
    with pytest.raises(PeerDied, match="exited with code 3"):
        await server.write_last(b"{}")
    await server.close()


# --- correct servers with unusual behaviour -------------------------------------------

UNUSUAL = """
tools = [tool(name, dict(text=TEXT), "text") for name in ("echo", "ask_the_oracle")]
CACHED = dict(resultType="complete", ttlMs=300_000.0, cacheScope="public")

def handle(message):
    id, params = message["id"], message.get("params") or {}
    method = message["method"]
    if method == "initialize":
        begin(message, "tools")
    elif method == "server/discover":
        answer(id, **CACHED, supportedVersions=["2026-07-28", "2025-11-25"],
               capabilities={"tools": {}})
    elif method == "tools/list":
        answer(id, **CACHED, tools=tools)
    elif method == "tools/call":
        echoed = json.dumps({"echo": params["arguments"].get("text")})
        answer(id, **CACHED, **text(echoed))
    elif method == "ping":
        answer(id)
    else:
        answer(id, **CACHED)

for message in map(json.loads, sys.stdin):
    if "id" in message and "method" in message:
        threading.Thread(target=handle, args=(message,), daemon=True).start()
"""


PINGING = """
rest = b""
while data := os.read(0, 65_536):
    *lines, rest = (rest + data).split(b"\\n")
    for message in map(json.loads, lines):
        if message.get("method") in {"initialize", "ping"}:
            begin(message, version="2025-11-25")
    if rest:
        print('{"jsonrpc":"2.0","id":1,"method":"ping"}', flush=True)
"""


def test_server_may_send_requests_while_it_reads_a_line():
    assert verdict(PINGING, case="A11.b") == "pass"


@pytest.mark.parametrize(
    ("case", "revision", "found"),
    [
        # The tool returns the text inside its own JSON, in ASCII only.
        ("TR-STDIO-01.a", "2025-11-25", "absent"),
        # A tool with "ask" in its name need not send a request: nothing is observed.
        ("LIFE-11.b", "2025-11-25", "absent"),
        ("ELIC-02.b", "2025-11-25", "absent"),
        ("MRTR-06.a", "2026-07-28", "absent"),
        # 300000.0 is an integer to JSON Schema.
        ("CACHE-03.a", "2026-07-28", "pass"),
        ("VER-05.a", "2026-07-28", "pass"),
    ],
)
def test_unusual_correct_behaviour_is_no_finding(case, revision, found):
    (result,) = results(UNUSUAL, case=case, revision=revision, answer_s=5.0)
    assert (result.verdict.value, result.expected) == (found, ""), result.actual


# --- the survey, with servers that start slowly ---------------------------------------

SURVEYED = """
waiting, marker = [], pathlib.Path(sys.argv[2])
has_started = marker.exists()  # only the first process is slow
for message in map(json.loads, sys.stdin):
    id, method = message.get("id"), message["method"]
    if method == "server/discover":
        waiting.append(id)
    elif method == "initialize":
        begin(message)
        has_started = sys.argv[1] == "modern"
    elif id is not None:
        answer(id)
    if has_started:
        marker.touch()
        while waiting:
            answer(waiting.pop(), capabilities={}, supportedVersions=["2026-07-28"])
"""


@pytest.mark.parametrize(
    ("era", "revisions", "found"),
    [
        ("modern", ("2026-07-28",), {"2026-07-28"}),
        ("legacy", ("2025-11-25", "2026-07-28"), {"2025-11-25"}),
    ],
)
def test_silence_after_discover_counts_from_the_server_start(
    monkeypatch, tmp_path, era, revisions, found
):
    monkeypatch.setattr(runner, "_PROBE_TIMEOUT_S", 0.5)
    words = ["-c", PRELUDE + SURVEYED, era, str(tmp_path / "x")]
    options = Options(revisions=revisions, only=("schema",))
    report = asyncio.run(run(Stdio(sys.executable, words), options))
    assert {cell.revision for cell in report.cells()} == found


# --- subscriptions that the server ends -----------------------------------------------

ENDS = """
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message["method"]
    meta = {"io.modelcontextprotocol/serverInfo": dict(name="s", version="1")}
    own = {"io.modelcontextprotocol/subscriptionId": id}
    if method == "server/discover":
        answer(id, resultType="complete", supportedVersions=["2026-07-28"],
               capabilities=dict(tools=dict(listChanged=True)), ttlMs=0,
               cacheScope="public", _meta=meta)
    elif method == "subscriptions/listen":
        params = dict(_meta=own, notifications=message["params"]["notifications"])
        print(json.dumps(dict(
            jsonrpc="2.0", method="notifications/subscriptions/acknowledged",
            params=params)), flush=True)
        answer(id, resultType="complete", _meta={**meta, **own})
    elif id is not None:
        answer(id, resultType="complete", tools=[], ttlMs=0, cacheScope="public",
               _meta=meta)
"""


def test_subscription_that_ends_with_its_id_passes():
    only = "SUB-06.a", "SUB-12.a"
    options = Options(revisions=("2026-07-28",), only=only)
    target = Stdio(sys.executable, ["-c", PRELUDE + ENDS])
    results = asyncio.run(run(target, options)).results
    assert {each.case: each.verdict.value for each in results}["SUB-12.a"] == "pass"
