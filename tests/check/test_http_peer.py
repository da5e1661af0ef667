"""The HTTP peer: streams that end early, secrets, header fields and cleanup."""

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
from clocks import on_a_clock_by_hand
from small_http import ACCEPTED, serving, with_body

from mcpwire import Stdio
from mcpwire.check.case import Broken, EndedWithoutAnswer, NoAnswer
from mcpwire.check.cases import CASES
from mcpwire.check.schemas import MessageValidator
from mcpwire.check.subject import Subject
from mcpwire.versions import LATEST_SESSION
from mcpwire.wire.json import encode
from mcpwire.wire.urls import parse_url

OK = b"HTTP/1.1 200 OK\r\n"
STREAM = OK + b"Content-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ANSWER = b'data: {"jsonrpc":"2.0","id":7,"result":{}}\n\n'
TOKEN = "a-secret-token"


@contextlib.asynccontextmanager
async def answered(*responses, is_sse=False, has_end=True):
    """Yield a subject for a server with these responses, and the received heads."""
    left, heads = list(responses), []

    async def answer(reader, writer):
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(left.pop(0))
        if not has_end:
            await reader.read()

    async with serving(answer) as origin:
        subject = Subject(
            parse_url(f"{origin}/mcp"),
            LATEST_SESSION,
            validator=MessageValidator(),
            headers={"Authorization": f"Bearer {TOKEN}"},
            is_sse=is_sse,
        )
        await subject.open()
        try:
            yield subject, heads
        finally:
            await subject.close()


async def test_stream_that_ends_before_the_answer_is_resumed():
    early = STREAM + b"id: e1\nretry: 10\ndata:\n\n"
    async with answered(early, STREAM + ANSWER) as (subject, heads):
        answer = await subject.request("ping", id=7)
        assert answer.result == {}
        assert heads[1].startswith("GET /mcp HTTP/1.1\r\n")
        assert "Last-Event-ID: e1\r\n" in heads[1]


@pytest.mark.parametrize(
    "response",
    [OK + b"Content-Length: 0\r\n\r\n", STREAM, b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    ids=["empty", "a stream without ids", "an error"],
)
async def test_response_without_an_answer_raises_at_once(response):
    async with answered(response) as (subject, _):
        with pytest.raises(EndedWithoutAnswer):
            await subject.request("ping", id=7)


@pytest.mark.parametrize(
    ("id", "body", "is_broken"),
    [
        ("RPC-12.a", b"null", False),
        ("RPC-12.a", b"Accepted", False),
        ("RPC-12.a", b"{}", True),
        ("RPC-12.a", b"[]", True),
        ("RPC-12.a", b"null\n", False),
        ("TR-HTTP-10.b", b"null", True),
    ],
)
async def test_body_that_is_not_a_message_is_not_an_answer(id, body, is_broken):
    (case,) = (each for each in CASES if each.id == id)
    head = b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n" % len(body)
    expected = pytest.raises(Broken) if is_broken else contextlib.nullcontext()
    async with answered(head + body) as (subject, _):
        with expected:
            await case.run(subject)


async def test_unfinished_body_is_judged_by_its_status():
    (case,) = (each for each in CASES if each.id == "LHTTP-31.b")
    head = OK + b"Content-Type: application/json\r\n\r\n"
    async with answered(head, has_end=False) as (subject, _):
        subject.bound_s = 0.2
        with pytest.raises(Broken, match=r"the status 400.*200"):
            await case.run(subject)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 32_768])
async def test_event_stream_may_have_any_line_ends_and_text(end, size):
    text = "\u2028\x85\x0c" + "\u00e9" * size
    result = {"content": [{"type": "text", "text": text}]}
    answer = encode({"jsonrpc": "2.0", "id": 100_001, "result": result})
    lines = [b"\xef\xbb\xbf: start", b"id: e1", b"data", b"", b"data: " + answer]
    tool = {"name": "slow", "inputSchema": {"type": "object"}}
    for id in ("D16.a", "LHTTP-06.a"):
        async with answered(STREAM + end.join(lines) + 2 * end) as (subject, _):
            subject.facts.roles["slow"] = tool
            subject.begin_case(0, id)
            await next(case for case in CASES if case.id == id).run(subject)


@on_a_clock_by_hand
async def test_delay_of_this_process_is_not_a_hang_of_the_server(anyio_backend):
    loop = asyncio.get_running_loop()
    async with answered(STREAM + ANSWER, STREAM) as (subject, heads):
        pinging = asyncio.create_task(subject.request("ping", id=7))
        while not heads:  # noqa: ASYNC110 - what follows is of this very turn
            await asyncio.sleep(0)  # one loop iteration; the clock is manual
        loop.jump(60.0)  # the answer has arrived, but is not read yet
        assert (await pinging).result == {}


@on_a_clock_by_hand
async def test_missing_answer_is_a_hang_after_the_timeout(anyio_backend):
    loop = asyncio.get_running_loop()
    async with answered(b"") as (subject, _):
        waiting = asyncio.create_task(subject.wait_answer(7, timeout=2.0))
        await loop.advance(1.9)
        assert not waiting.done()
        await loop.advance(0.2)
        with pytest.raises(NoAnswer):
            await waiting


async def test_secrets_are_sent_but_masked_in_the_transcript():
    async with answered(STREAM + ANSWER) as (subject, heads):
        subject.transcript.secrets = (TOKEN.encode(),)
        await subject.request("ping", id=7)
        assert f"Authorization: Bearer {TOKEN}\r\n" in heads[0]
        kept = b"".join(octets.data for octets in subject.transcript.octets)
        assert b"Authorization: Bearer ***" in kept
        assert TOKEN.encode() not in kept
        for name in (b"Authorization: Bearer ", b"Authorization: ", b"Cookie: "):
            sent = b"X: y\r\n" + name + b"changed.token; b=c"
            assert subject.transcript.masked(sent) == b"X: y\r\n" + name + b"***"


async def test_last_request_is_shown_with_masked_credentials():
    async with answered(STREAM) as (subject, _):
        subject.transcript.secrets = (TOKEN.encode(),)
        fields = {"Authorization": "changed", "Cookie": "a=b; c=d", "X-Key": TOKEN}
        message = {"jsonrpc": "2.0", "method": "x"}
        await subject.exchange("POST", fields, message)
        shown = (
            b"POST, Authorization: ***, Cookie: ***, X-Key: ***, "
            b'{"jsonrpc":"2.0","method":"x"}'
        )
        assert subject.transcript.masked(subject.last_sent) == shown


async def test_header_fields_are_not_shown_over_stdio():
    server = Path(__file__).with_name("server.py")
    subject = Subject(
        Stdio(sys.executable, [str(server)]),
        LATEST_SESSION,
        validator=MessageValidator(),
    )
    await subject.open()
    try:
        message = {"jsonrpc": "2.0", "method": "x"}
        await subject.send(message, headers={"Mcp-Method": "y"})
        assert subject.last_sent == b'{"jsonrpc":"2.0","method":"x"}'
    finally:
        await subject.close()


async def test_header_fields_are_case_insensitive_and_repeatable():
    async with answered(STREAM + ANSWER, STREAM) as (subject, heads):
        fields = {"authorization": None, "X-Two": ("a", "b")}
        await subject.request("ping", id=7, headers=fields)
        assert "uthorization" not in heads[0]
        assert "X-Two: a\r\nX-Two: b\r\n" in heads[0]
        assert subject.last_sent.startswith(
            b'POST, without authorization, X-Two: a, X-Two: b, {"'
        )
        await subject.exchange("GET", {"Origin": "http://x"})
        assert subject.last_sent == b"GET, Origin: http://x"


async def test_abandoned_exchange_closes_its_connection():
    async with answered() as (subject, _):
        http = subject.need_http()
        response = await http.send_raw(b"")
        await http.close_exchange(response)
        assert response.ended.is_set()
        assert response.writer.transport.is_closing()


async def test_legacy_sse_posts_to_the_endpoint_of_the_first_event():
    place = STREAM + b"event: endpoint\ndata: messages?id=1\n\n"
    async with answered(place, ACCEPTED, is_sse=True) as (subject, heads):
        assert await subject.send({"jsonrpc": "2.0", "method": "x"}) is None
        assert heads[1].startswith("POST /messages?id=1 HTTP/1.1\r\n")


async def test_legacy_sse_post_response_is_not_a_message():
    place = STREAM + b"event: endpoint\ndata: messages?id=1\n\n"
    accepted = with_body(b'{"message":"Accepted"}', status="202 Accepted")
    async with answered(place, accepted, is_sse=True) as (subject, _):
        await subject.notify("notifications/x")
        assert list(subject.received) == []


@pytest.mark.parametrize(
    ("body", "codes"),
    [(b'{"jsonrpc":"2.0","error":{"code":-32700}}', [-32700]), (b'{"detail":1}', [])],
)
async def test_refused_legacy_sse_post_is_a_reaction(body, codes):
    place = STREAM + b"event: endpoint\ndata: messages?id=1\n\n"
    refused = with_body(body, status="400 Bad Request")
    async with answered(place, refused, is_sse=True) as (subject, _):
        reaction = await subject.provoke(b"{bad")
        assert (reaction.status, reaction.codes) == (400, codes)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"detail":"no"}', 0),
        (b'{"error":"no"}', 0),
        (b'{"jsonrpc":"2.0","error":{}}', 1),
        (b'{"id":1,"error":{}}', 1),
    ],
)
async def test_non_jsonrpc_error_body_is_not_a_message(body, count):
    refusal = with_body(body, status="405 Method Not Allowed")
    async with answered(refusal) as (subject, _):
        await subject.exchange("PUT", None, b"{}")
        assert len(subject.received) == count
