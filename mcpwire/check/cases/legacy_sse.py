"""HTTP with server-sent events, the transport of 2024-11-05."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from mcpwire.check.case import LEGACY, Family
from mcpwire.check.cases._http import EVENTS, JSON
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("legacy_sse")

_PAGE: Final = "basic/transports#http-with-sse"
_FIRST_REVISION: Final = LEGACY[:1]
_FOREIGN_ORIGIN: Final = "http://evil.example"

case = FAMILY.with_defaults(transports=("sse",))


def _stream(subject: Subject) -> Response:
    assert subject.stream is not None, "these cases run over HTTP+SSE"
    return subject.stream


async def _post(
    subject: Subject, body: bytes, *, target: str | None = None, origin: str = ""
) -> Response:
    """Send a POST to the endpoint of the connection; return the response."""
    fields = {"Content-Type": JSON, "Origin": origin or None}
    address = target or subject.post_target
    return await subject.exchange("POST", fields, body, target=address)


@case.must(
    "SSE-02.a",
    "the first event names the endpoint for messages",
    source=_PAGE,
    rules=("SSE-01",),
    revisions=_FIRST_REVISION,
    sends="a GET of the URL",
    expects="an event named endpoint with a URI at the same origin",
    why="clients cannot send messages, or send them to another host",
)
async def endpoint(subject: Subject) -> None:
    event = _stream(subject).events[0]
    url = str(subject.need_http().url)
    named, own = urlsplit(urljoin(url, event.data.decode())), urlsplit(url)
    is_same = (named.scheme, named.netloc) == (own.scheme, own.netloc)
    subject.expect(is_same and named.path, "a URI at the same origin", event.data)


@case.robust(
    "SSE-04.a",
    "server messages are events named message",
    sends="a request",
    expects="its answer as an event named message",
    why="clients ignore events with other names",
)
async def named_message(subject: Subject) -> None:
    await subject.request(subject.facts.barrier)
    for event in _stream(subject).events[1:]:
        subject.expect(event.event == "message", "the name message", event.event)


@case.robust(
    "SSE-04.b",
    "a POST is accepted, and the answer is sent on the stream only",
    sends="a request by POST",
    expects="a status from 200 to 299 without a message; the answer on the stream",
    why="clients process the answer twice",
)
async def post_is_accepted(subject: Subject) -> None:
    id = subject.next_id()
    message = subject.message(subject.facts.barrier, id=id)
    response = await _post(subject, encode(message))
    is_accepted = 200 <= response.status < 300
    subject.expect(is_accepted, "a status from 200 to 299", response.status)
    answer = await subject.wait_answer(id)
    number = _stream(subject).number
    subject.expect(answer.message.stream == number, "the answer on the stream", answer)
    has_message = b'"jsonrpc"' in response.body
    subject.expect(not has_message, "no message in the body", bytes(response.body))


@case.must(
    "SSE-05.a",
    "a foreign web page cannot open a connection or send a POST",
    source="basic/transports#security-warning-dns-rebinding-attacks",
    revisions=_FIRST_REVISION,
    sends=f"a GET and a POST with Origin: {_FOREIGN_ORIGIN}",
    expects="a status from 400 to 499 for each",
    why="web pages that a user visits can use servers on the user's machine",
)
async def origin(subject: Subject) -> None:
    fields = {"Accept": EVENTS, "Origin": _FOREIGN_ORIGIN}
    response = await subject.exchange("GET", fields, complete=False)
    await subject.need_http().close_exchange(response)
    subject.expect_refused(response.status, f"GET: {response.status}")
    message = subject.any_request()
    response = await _post(subject, encode(message), origin=_FOREIGN_ORIGIN)
    subject.expect_refused(response.status, f"POST: {response.status}")


@case.robust(
    "SSE-03.a",
    "a POST to the endpoint of a closed connection is refused",
    sends="a POST to the endpoint of a connection that the client has closed",
    expects="a status from 400 to 499",
    why="clients do not learn that they have to reconnect",
)
async def closed_connection(subject: Subject) -> None:
    other = await subject.open_another()
    closed_endpoint = other.post_target
    await other.need_http().close_exchange(_stream(other))
    await subject.barrier()
    message = subject.any_request()
    response = await _post(subject, encode(message), target=closed_endpoint)
    subject.expect_refused(response.status)


@case.robust(
    "SSE-03.b",
    "a body of invalid JSON does not end the connection",
    sends="a POST of invalid JSON, and a request",
    expects="a status below 500, and an answer to the request",
    why="one invalid message breaks the connection",
)
async def broken_json(subject: Subject) -> None:
    status = (await _post(subject, b'{"jsonrpc":"2.0","id":1,')).status
    subject.expect(200 <= status < 500, "a status below 500", status)
    await subject.barrier()


@case.robust(
    "SSE-03.c",
    "requests with the same id on two connections are kept apart",
    sends="a request on each of two connections, with the same id",
    expects="one answer on each stream",
    why="one user gets the answers of another",
)
async def equal_ids(subject: Subject) -> None:
    connections = [await subject.open_another(), await subject.open_another()]
    for connection in connections:
        await connection.request(connection.facts.barrier, id="mcpwire-same")
    for connection in connections:
        connection.expect_one_answer("mcpwire-same", "one answer on each stream")
