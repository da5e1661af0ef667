"""Helpers for cases over HTTP: revisions, requests, and detection of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, MODERN, NoAnswer, since
from mcpwire.versions import LATEST_SESSION
from mcpwire.wire.urls import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.check.case import Transport
    from mcpwire.check.peer import HeaderValue, Response
    from mcpwire.check.subject import Message, Subject

HTTP: Final[tuple[Transport, ...]] = ("http",)
STREAMABLE: Final = since("2025-03-26")
"""Revisions with Streamable HTTP."""
SESSIONS: Final = since("2025-03-26", LEGACY[-1])
"""Revisions with sessions over Streamable HTTP."""
assert MODERN[0] in STREAMABLE

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"


def unless_unsupported(method: str) -> str:
    """Return the note that a server without an HTTP method answers it with 405."""
    return "" if method == "POST" else f" (405 if the server does not support {method})"


async def request_head(
    subject: Subject, method: str, headers: Mapping[str, HeaderValue] | None = None
) -> Response:
    """Send a request without a body, wait for the head, close; return the response.

    Unless it is an event stream, also wait for its body: raise `NoAnswer` if the body
    of an HTTP error does not end in time.
    """
    response = await subject.exchange(method, headers, complete=False)
    if not response.is_stream and method != "HEAD":
        try:
            await subject.wait_ended(response)
        except NoAnswer:
            if response.status >= 400:
                raise
    await subject.need_http().close_exchange(response)
    return response


async def send_with_headers(
    subject: Subject, method: str, fields: Mapping[str, HeaderValue]
) -> Response:
    """Send a request with changed header fields; by POST, the barrier request.

    A DELETE may end its session, so it uses a new one.
    """
    if method == "POST":
        response = (
            await subject.provoke(subject.any_request(), headers=fields)
        ).response
        assert response is not None, "these cases run over HTTP"
        return response
    accept = {"Accept": EVENTS} if method == "GET" else {}
    connection = await subject.open_another() if method == "DELETE" else subject
    response = await request_head(connection, method, {**accept, **fields})
    if method == "DELETE" and response.status < 300:
        connection.session_id = None
    return response


async def expect_answer_beside(subject: Subject, responses: Iterable[Response]) -> None:
    """Send a request while other connections are open, then close those."""
    try:
        await subject.request(subject.facts.barrier)
    finally:
        for response in responses:
            await subject.need_http().close_exchange(response)


def messages_on(subject: Subject, response: Response) -> list[Message]:
    """Return the messages received with a response."""
    return [each for each in subject.received if each.stream == response.number]


def is_local(subject: Subject) -> bool:
    """Return whether the host in the URL is a loopback address."""
    return is_loopback(subject.need_http().url.host)


async def session_revision(subject: Subject) -> str | None:
    """Return the revision that `initialize` negotiates; ``None``: not supported."""
    other = await subject.open_another(handshake=False)
    other.revision = LATEST_SESSION
    reaction = await other.provoke(
        other.message("initialize", other.initialize_params(), id=1)
    )
    for message in reaction.messages:
        result = message.value.get("result") if message.is_answer else None
        if isinstance(result, dict):
            if reaction.response is not None:
                other.session_id = reaction.response.fields.get("mcp-session-id")
            return str(result.get("protocolVersion"))
    return None
