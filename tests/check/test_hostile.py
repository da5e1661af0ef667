"""Hostile servers: the checker ends in time, does not crash and leaks no secret."""

import asyncio
import json
import sys

import attrs
import pytest
from small_http import ACCEPTED, opening, read_request, respond, serving

from mcpwire import Http, Stdio
from mcpwire.check import Options, Verdict, run, runner
from mcpwire.check import peer as peers
from mcpwire.check import subject as subjects
from mcpwire.check.cases.authorization import _parse_challenge
from mcpwire.check.cases.fuzz import STACK_TRACE
from mcpwire.check.pages import write_pages
from mcpwire.check.roles import arguments_for, callable_tools
from mcpwire.errors import ConnectError

ONE = Options(revisions=("2025-11-25",), only=("tools",))

SERVER = """
import json, sys, time
tool = json.loads({tool!r})
for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    method = message.get("method")
    if "id" not in message or method is None:
        continue
    result = {{}}
    if method == "initialize":
        result = {{
            "protocolVersion": "2025-11-25",
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": {name!r}, "version": "1"}},
        }}
    if method == "tools/list":
        result = {{"tools": [tool]}}
    if method == "tools/call":
        result = {{"content": []}}
    {more}
    answer = {{"jsonrpc": "2.0", "id": message["id"], "result": result}}
    print(json.dumps(answer), flush=True)
"""
TOOL = {
    "name": "look",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def server(*, name="hostile", more="", **tool):
    text = SERVER.format(tool=json.dumps(TOOL | tool), name=name, more=more)
    return Stdio(sys.executable, ["-c", text])


def schema(**value):
    return {"type": "object", "required": ["a"], "properties": {"a": value}}


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "tool",
    [
        {"inputSchema": schema(type="string", minLength=10**18)},
        {"inputSchema": schema(type="string", minLength=10**9)},
        {"inputSchema": schema(default=deep(450))},
        {"annotations": ["readOnlyHint"]},
        {"annotations": {"readOnlyHint": True}, "inputSchema": schema(enum=5)},
    ],
    ids=["no length", "1 GB", "deep", "annotations", "enum"],
)
def test_hostile_tool_definition_does_not_end_the_run(tool):
    report = asyncio.run(run(server(**tool), ONE))
    assert any(each.verdict is Verdict.PASS for each in report.results)


def test_huge_argument_is_not_generated():
    bomb = {"inputSchema": schema(type="string", minLength=10**9)}
    assert arguments_for(bomb) is None
    assert callable_tools([TOOL | {"annotations": ["readOnlyHint"]}]) == []


FLOOD = """
    if method == "ping":
        for n in range(6000):
            print(json.dumps({"jsonrpc": "2.0", "id": "x" * 100, "method": "ping"}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
        sys.stdout.flush()
        time.sleep(60)
"""


@pytest.mark.timeout(60)
def test_server_flooding_requests_without_reading_is_an_error():
    with pytest.raises(ConnectError, match=r"it has stopped reading|no answer"):
        asyncio.run(run(server(more=FLOOD.strip()), attrs.evolve(ONE, answer_s=1.0)))


def test_request_with_an_array_as_method_is_tolerated(caplog):
    request = '{"jsonrpc": "2.0", "id": 1, "method": ["a"]}'
    options = Options(revisions=("2025-11-25",), only=("tools", "asking"))
    report = asyncio.run(run(server(more=f"print({request!r}, flush=True)"), options))
    assert {result.verdict for result in report.results} >= {Verdict.PASS}
    assert caplog.text == ""  # asyncio logs an exception of a task


def test_long_server_name_gets_a_short_file_name(tmp_path):
    report = asyncio.run(run(server(name="n" * 5_000), ONE))
    write_pages(tmp_path, [report])
    (page,) = (tmp_path / "subjects").iterdir()
    assert len(page.name) < 100


# --- over HTTP ------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "


def run_check(answer, options=ONE, **headers):
    """Check a server; `answer` maps head and body to the parts of a response."""

    async def serve(reader, writer):
        for part in answer(*await read_request(reader)):
            writer.write(part)
            await writer.drain()

    async def main():
        async with serving(serve) as origin:
            return await run(Http(f"{origin}/mcp", headers=headers), options)

    return asyncio.run(main())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("retry", [b"999999999", b"60"])
def test_stream_without_the_answer_is_abandoned(retry, monkeypatch):
    monkeypatch.setattr(subjects, "_MAX_RESUME_PAUSES_S", 0.3)
    monkeypatch.setattr(runner, "_START_TIMEOUT_S", 0.2)

    def later(head, body):
        yield HEAD + b"text/event-stream\r\n\r\nid: 1\nretry: " + retry + b"\ndata:\n\n"

    with pytest.raises(ConnectError, match="HTTP 200, and no answer"):
        run_check(later, attrs.evolve(ONE, answer_s=0.2))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (b"application/json", b"x" * 100_000),
        (b"text/event-stream", b"data: {}\n\n" * 1_000),
        (b"text/event-stream", b"data:\n\n" * 1_000),
    ],
    ids=["body", "messages", "events"],
)
def test_endless_response_is_cut(kind, part, monkeypatch):
    monkeypatch.setattr(peers, "MAX_MESSAGE_BYTES", 1_000_000)
    monkeypatch.setattr(peers, "_MAX_STREAM_BYTES", 4_000_000)
    monkeypatch.setattr(peers, "MAX_EVENTS", 10_000)
    sent = []

    def endless(head, body):
        yield HEAD + kind + b"\r\n\r\n"
        while True:
            sent.append(len(part))
            yield part

    with pytest.raises(ConnectError, match="no revision could be used"):
        run_check(endless)
    assert sum(sent) < 400_000_000


def test_endless_messages_are_a_connect_error(monkeypatch):
    monkeypatch.setattr(subjects, "MAX_OCTETS", 1 << 20)
    more = """
    if method == "ping":
        while True:
            print(json.dumps({"jsonrpc": "2.0", "method": "x" * 100_000}))
"""
    with pytest.raises(ConnectError, match="1 MiB, such as"):
        asyncio.run(run(server(more=more.strip()), ONE))


# --- secrets --------------------------------------------------------------------------

TOKEN = "c2VjcmV0+dG9rZW4/for=this.server-and-no-other"


def chatty(head, body):
    """Answer the handshake; echo the head of any other request, as debuggers do."""
    try:
        message = json.loads(body)
    except ValueError:
        message = {}
    known = {"initialize": opening("chatty"), "ping": {}}
    if message.get("method") in known and b"text/plain" not in head:
        yield respond(message, result=known[message["method"]])
    elif body and "id" not in message and "method" in message:
        yield ACCEPTED
    else:
        yield b"HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n" + b"." * 330 + head


def test_echoed_secrets_are_not_in_the_report():
    options = Options(
        revisions=("2025-11-25",),
        answer_s=2.0,
        only=("http", "authorization", "jsonrpc", "sessions"),
        tokens={"good": TOKEN},
    )
    report = run_check(chatty, options, **{"X-Api-Key": "k-7f3a9b1c5d"})
    assert len(report.failures()) > 20
    for each in report.results:
        texts = f"{each.sent} {each.expected} {each.actual} {each.again}"
        whole = texts.encode() + b"".join(octets[3] for octets in each.octets)
        for part in (TOKEN[:12], TOKEN[-12:], "k-7f3a9b1c5d"):
            assert part.encode() not in whole, each.case


def test_report_shows_only_header_fields_set_by_the_case():
    def forbidding(head, body):
        if b"Bearer " in head:
            yield from chatty(head, body)
        else:
            yield b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    options = attrs.evolve(
        ONE, revisions=("2025-11-25",), only=("AUTH-13.a",), tokens={"good": TOKEN}
    )
    (result,) = run_check(forbidding, options).failures()
    assert result.sent.startswith('POST, without Authorization, {"jsonrpc":"2.0",')


def test_tokens_derived_from_a_secret_are_masked():
    tape = peers.Transcript()
    tape.secrets = (b"head.claims.signature",)
    for token in (b"head.claims.", b"head.other.signature"):
        tape.add("sent", b"POST / HTTP/1.1\r\nAuthorization: Bearer " + token + b"\r\n")
    kept = b"".join(octets.data for octets in tape.octets)
    assert b"claims" not in kept
    assert b"signature" not in kept


def test_long_challenge_is_parsed_in_linear_time():
    response = peers.Response(1, lambda _: None, lambda: None)
    response.fields["www-authenticate"] = "Bearer realm=x, " + "a" * 60_000
    assert _parse_challenge(response) == {"realm": "x"}


@pytest.mark.parametrize("part", ["\n", "\n at (" + ":1(" * 20_000])
def test_long_error_is_searched_in_linear_time(part):
    assert STACK_TRACE.search(part * (200_000 // len(part))) is None
    for line in (
        "f (/a/b.js:1:22)",
        "A.B`1.C(Int32 i) in /b.cs:line 7",
        "a.B(B.java:1)",
    ):
        assert STACK_TRACE.search(f"Error: x\r\n    at {line}\r\n")


def test_invalid_endpoint_uri_is_a_connect_error():
    def odd(head, body):
        if head.startswith(b"POST"):
            yield b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
            return
        yield HEAD + b"text/event-stream\r\n\r\nevent: endpoint\ndata: http://[x\n\n"
        yield b": more\n\n"

    with pytest.raises(ConnectError):
        run_check(odd)
