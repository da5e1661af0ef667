"""Sessions over HTTP: ids, termination, and the version header."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, NoAnswer, since
from mcpwire.check.cases._calls import params_with_duration
from mcpwire.check.cases._exchange import ChangedRequest, Result, add_exchange_case
from mcpwire.check.cases._http import (
    EVENTS,
    HTTP,
    SESSIONS,
    request_head,
    send_with_headers,
    unless_unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpwire.check.peer import HeaderValue
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("sessions")

_PAGE: Final = "basic/transports#session-management"
_ID: Final = "Mcp-Session-Id"
_SESSION_COUNT: Final = 12
_ENTROPY_BITS: Final = 48  # estimated per column; UUIDs of all versions have more
_UNKNOWN_ID: Final = "00000000-0000-4000-8000-000000000000"
_LONG_ID: Final = "x" * 4_096

case = FAMILY.with_defaults(revisions=SESSIONS, transports=HTTP)


def _need_session(subject: Subject) -> str:
    """Return the session id of the connection, or raise `Absent`."""
    if subject.session_id is None:
        subject.raise_absent("session")
    return subject.session_id or ""


async def _request_status(
    subject: Subject, method: str, fields: dict[str, HeaderValue]
) -> int:
    """Send a request with changed header fields; return the status."""
    if method == "POST":
        message = subject.any_request()
        reaction = await subject.provoke(message, headers=fields)
        return reaction.status or 0
    accept = {"Accept": EVENTS} if method == "GET" else {}
    return (await request_head(subject, method, {**accept, **fields})).status


def _expect_status(subject: Subject, method: str, status: int, expected: int) -> None:
    """Raise `Broken` for another status; a GET or DELETE may get 405, too."""
    fits = status == expected or (status == 405 and method != "POST")
    subject.expect(fits, f"the status {expected}", status)


async def _delete_session(subject: Subject, *, required: bool = False) -> str | None:
    """Send a DELETE for a session; return its id; `required`: `Absent` if refused."""
    id, subject.session_id = subject.session_id, None
    status = await _request_status(subject, "DELETE", {_ID: id})
    if required and not 200 <= status < 300:
        subject.raise_absent("DELETE for sessions")
    return id


@case.must(
    "LHTTP-23.a",
    "session ids contain only visible ASCII characters",
    source=_PAGE,
    sends="initialize",
    expects="characters from 0x21 to 0x7E in Mcp-Session-Id",
    why="HTTP libraries of clients refuse to send the id",
)
async def visible_ascii(subject: Subject) -> None:
    id = _need_session(subject)
    is_visible = id != "" and all("!" <= c <= "~" for c in id)
    subject.expect(is_visible, "characters from 0x21 to 0x7E", repr(id))


@case.should(
    "LHTTP-23.b",
    "session ids are unique and cannot be guessed",
    source=_PAGE,
    rules=("LHTTP-33",),
    sends=f"initialize, {_SESSION_COUNT} times",
    expects=f"{_SESSION_COUNT} ids that differ in at least {_ENTROPY_BITS} bits",
    why="another user can take over the session with a guessed id",
)
async def unguessable(subject: Subject) -> None:
    _need_session(subject)
    ids = []
    for _ in range(_SESSION_COUNT):
        other = await subject.open_another()
        ids.append(other.session_id or "")
    expected = f"{_SESSION_COUNT} different ids"
    subject.expect(len(set(ids)) == _SESSION_COUNT, expected, f"such as {ids[:2]}")
    columns = zip(*(id.ljust(max(map(len, ids))) for id in ids), strict=True)
    bits = sum(math.log2(len(set(column))) for column in columns)
    subject.expect(
        bits >= _ENTROPY_BITS,
        f"ids that differ in at least {_ENTROPY_BITS} bits",
        f"about {bits:.0f} bits, such as {', '.join(ids[:3])}",
    )


# --- missing, unknown and ended ids ---------------------------------------------------


for letter, method in zip("abc", ("POST", "GET", "DELETE"), strict=True):

    async def missing_id(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        status = await _request_status(subject, method, {_ID: None})
        if 200 <= status < 300:
            subject.raise_absent("need for a session id")
        _expect_status(subject, method, status, 400)

    async def unknown_id(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        status = await _request_status(subject, method, {_ID: _UNKNOWN_ID})
        _expect_status(subject, method, status, 404)

    async def ended_id(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        other = await subject.open_another()
        deleted_id = await _delete_session(other, required=True)
        status = await _request_status(other, method, {_ID: deleted_id})
        _expect_status(subject, method, status, 404)

    note = unless_unsupported(method)
    case.should(
        f"LHTTP-25.{letter}",
        f"a {method} without a session id is answered with 400",
        source=_PAGE,
        sends=f"a {method} without Mcp-Session-Id",
        expects=f"the status 400{note}",
        why="clients cannot tell a missing id from a lost session",
    )(missing_id)
    case.robust(
        f"D04.{letter}",
        f"a {method} with an unknown session id is answered with 404",
        sends=f"a {method} with an unknown Mcp-Session-Id",
        expects=f"the status 404{note}",
        why="after a server restart, clients do not start a new session",
    )(unknown_id)
    case.must(
        f"LHTTP-26.{letter}",
        f"a {method} with the id of an ended session is answered with 404",
        source=_PAGE,
        sends=f"initialize, DELETE, and a {method} with that id",
        expects=f"the status 404{note}",
        why="clients do not notice that they need a new session",
    )(ended_id)


@case.robust(
    "D04.d",
    "malformed session ids are refused without a server error",
    sends="requests with an id of 4 KiB, with a path as the id, and with two ids",
    expects="a status from 400 to 499 for each",
    why="ids may reach the disk or a database",
)
async def malformed_ids(subject: Subject) -> None:
    id = _need_session(subject)
    for text, value in (
        ("an id of 4 KiB", _LONG_ID),
        ("a path", "../../../../etc/passwd"),
        ("two ids", (id, _UNKNOWN_ID)),
    ):
        status = await _request_status(subject, "POST", {_ID: value})
        expected = f"a status from 400 to 499 for {text}"
        subject.expect(400 <= status < 500, expected, status)


# --- DELETE ---------------------------------------------------------------------------


@case.robust(
    "LHTTP-28.a",
    "a DELETE ends the session, or is answered with 405",
    sends="initialize and DELETE",
    expects="a status from 200 to 299, or 405",
    why="sessions are never removed",
)
async def delete(subject: Subject) -> None:
    _need_session(subject)
    other = await subject.open_another()
    id, other.session_id = other.session_id, None
    status = await _request_status(other, "DELETE", {_ID: id})
    is_fine = 200 <= status < 300 or status == 405
    subject.expect(is_fine, "a status from 200 to 299, or 405", status)


@case.robust(
    "D04.e",
    "a DELETE ends no other session",
    sends="two sessions; a DELETE of one, and one with an unknown id",
    expects="an answer in the other session",
    why="one client ends the sessions of others",
)
async def delete_of_another(subject: Subject) -> None:
    _need_session(subject)
    remaining, deleted = await subject.open_another(), await subject.open_another()
    await _delete_session(deleted)
    await _request_status(deleted, "DELETE", {_ID: _UNKNOWN_ID})
    reaction = await remaining.provoke(remaining.any_request())
    subject.expect(Result().matches(reaction), "a result", reaction)


@case.robust(
    "D04.f",
    "a DELETE of a session ends its GET stream",
    sends="a GET that opens a stream, and a DELETE of its session",
    expects="the end of the stream",
    why="connections of ended sessions stay open",
)
async def delete_ends_stream(subject: Subject) -> None:
    _need_session(subject)
    other = await subject.open_another()
    stream = await other.exchange("GET", {"Accept": EVENTS}, complete=False)
    if not stream.is_stream or stream.status != 200:
        subject.raise_absent("GET stream")
    await _delete_session(other, required=True)
    await _expect_end(subject, other.wait_ended(stream), "the end of the stream")


@case.robust(
    "D04.g",
    "a DELETE of a session ends its calls",
    needs=("role:slow",),
    sends="a slow call, and a DELETE of its session during the call",
    expects="the end of the response to the call",
    why="the caller waits forever",
)
async def delete_during_call(subject: Subject) -> None:
    _need_session(subject)
    other = await subject.open_another()
    params = params_with_duration(subject.need_tool("slow"), 1.0)
    response = await other.send(other.message("tools/call", params, id=other.next_id()))
    await _delete_session(other)
    if response is not None:
        await _expect_end(
            subject, other.wait_ended(response), "the end of the response"
        )


async def _expect_end(subject: Subject, end: Awaitable[None], expected: str) -> None:
    """Raise `Broken` if a wait for an end exceeds its time limit."""
    try:
        await end
    except NoAnswer as error:
        subject.raise_broken(expected, error.actual)


# --- version header -------------------------------------------------------------------

_VERSION: Final = "MCP-Protocol-Version"
_VERSION_PAGE: Final = "basic/transports#protocol-version-header"
_WITH_VERSION: Final = since("2025-06-18", SESSIONS[-1])

for letter, method, version, text in (
    ("a", "POST", "2999-01-01", "an unsupported version"),
    ("d", "POST", "banana", "an invalid version"),
    ("b", "GET", "1999-01-01", "an unsupported version"),
    ("c", "DELETE", "1999-01-01", "an unsupported version"),
):

    async def wrong_version(
        subject: Subject, method: str = method, version: str = version
    ) -> None:
        response = await send_with_headers(subject, method, {_VERSION: version})
        _expect_status(subject, method, response.status, 400)

    note = unless_unsupported(method)
    case.must(
        f"LHTTP-31.{letter}",
        f"a {method} with {text} is answered with 400",
        source=_VERSION_PAGE,
        revisions=_WITH_VERSION,
        sends=f"a {method} with {_VERSION}: {version}",
        expects=f"the status 400{note}",
        why="server and client follow different rules",
    )(wrong_version)


add_exchange_case(
    case.should,
    "LHTTP-30.a",
    "a request in a session is answered if it lacks MCP-Protocol-Version",
    source=_VERSION_PAGE,
    revisions=_WITH_VERSION,
    send=ChangedRequest({}, f"a request without {_VERSION}", headers={_VERSION: None}),
    expect=Result(),
    why="clients that predate the header cannot use the server",
)
