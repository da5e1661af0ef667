"""Sessions over HTTP: ids, termination, and the version header."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, NoAnswer, since
from mcpwire.check.cases._calls import lasting
from mcpwire.check.cases._exchange import Changed, Result, exchange
from mcpwire.check.cases._http import EVENTS, HTTP, SESSIONS, head_of, response_to

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpwire.check.peer import HeaderValue
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("sessions")

_PAGE: Final = "basic/transports#session-management"
_ID: Final = "Mcp-Session-Id"
_OPENED: Final = 12
_ENTROPY_BITS: Final = 48  # estimated per column; UUIDs of all versions have more
_UNKNOWN: Final = "00000000-0000-4000-8000-000000000000"
_LONG: Final = "x" * 4_096

case = FAMILY.where(revisions=SESSIONS, transports=HTTP)


def _need_session(subject: Subject) -> str:
    """Return the session id of the connection, or raise `Absent`."""
    if subject.session_id is None:
        subject.absent("session")
    return subject.session_id or ""


async def _status(subject: Subject, method: str, fields: dict[str, HeaderValue]) -> int:
    """Send a request with changed header fields; return the status."""
    if method == "POST":
        message = subject.any_request()
        reaction = await subject.provoke(message, headers=fields)
        return reaction.status or 0
    accept = {"Accept": EVENTS} if method == "GET" else {}
    return (await head_of(subject, method, {**accept, **fields})).status


def _expect_status(subject: Subject, method: str, status: int, wanted: int) -> None:
    """Raise `Broken` for another status; a GET or DELETE may get 405, too."""
    fits = status == wanted or (status == 405 and method != "POST")
    subject.expect(fits, f"the status {wanted}", status)


async def _end(subject: Subject, *, must: bool = False) -> str | None:
    """Send a DELETE for a session; return its id; `must`: `Absent` if refused."""
    id, subject.session_id = subject.session_id, None
    status = await _status(subject, "DELETE", {_ID: id})
    if must and not 200 <= status < 300:
        subject.absent("DELETE for sessions")
    return id


@case.must(
    "LHTTP-23.a",
    "session ids have visible ASCII characters only",
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
    sends=f"initialize, {_OPENED} times",
    expects=f"{_OPENED} ids that differ in at least {_ENTROPY_BITS} bits",
    why="another user can take over the session with a guessed id",
)
async def unguessable(subject: Subject) -> None:
    _need_session(subject)
    ids = []
    for _ in range(_OPENED):
        other = await subject.another()
        ids.append(other.session_id or "")
    expected = f"{_OPENED} different ids"
    subject.expect(len(set(ids)) == _OPENED, expected, f"such as {ids[:2]}")
    columns = zip(*(id.ljust(max(map(len, ids))) for id in ids), strict=True)
    bits = sum(math.log2(len(set(column))) for column in columns)
    subject.expect(
        bits >= _ENTROPY_BITS,
        f"ids that differ in at least {_ENTROPY_BITS} bits",
        f"about {bits:.0f} bits, such as {', '.join(ids[:3])}",
    )


# --- missing, unknown and ended ids ---------------------------------------------------


for letter, method in zip("abc", ("POST", "GET", "DELETE"), strict=True):

    async def no_id(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        status = await _status(subject, method, {_ID: None})
        if 200 <= status < 300:
            subject.absent("need for a session id")
        _expect_status(subject, method, status, 400)

    async def unknown_id(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        status = await _status(subject, method, {_ID: _UNKNOWN})
        _expect_status(subject, method, status, 404)

    async def ended(subject: Subject, method: str = method) -> None:
        _need_session(subject)
        other = await subject.another()
        gone = await _end(other, must=True)
        _expect_status(subject, method, await _status(other, method, {_ID: gone}), 404)

    more = "" if method == "POST" else " (405 if it is not supported)"
    case.should(
        f"LHTTP-25.{letter}",
        f"a {method} without a session id is answered with 400",
        source=_PAGE,
        sends=f"a {method} without Mcp-Session-Id",
        expects=f"the status 400{more}",
        why="clients cannot tell a missing id from a lost session",
    )(no_id)
    case.robust(
        f"D04.{letter}",
        f"a {method} with an unknown session id is answered with 404",
        sends=f"a {method} with an unknown Mcp-Session-Id",
        expects=f"the status 404{more}",
        why="after a server restart, clients do not start a new session",
    )(unknown_id)
    case.must(
        f"LHTTP-26.{letter}",
        f"a {method} with the id of an ended session is answered with 404",
        source=_PAGE,
        sends=f"initialize, DELETE, and a {method} with that id",
        expects=f"the status 404{more}",
        why="clients do not notice that they need a new session",
    )(ended)


@case.robust(
    "D04.d",
    "malformed session ids are refused without a server error",
    sends="requests with an id of 4 KiB, with a path as the id, and with two ids",
    expects="a status from 400 to 499 for each",
    why="ids may reach the disk or a database",
)
async def strange_ids(subject: Subject) -> None:
    id = _need_session(subject)
    for text, value in (
        ("an id of 4 KiB", _LONG),
        ("a path", "../../../../etc/passwd"),
        ("two ids", (id, _UNKNOWN)),
    ):
        status = await _status(subject, "POST", {_ID: value})
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
    other = await subject.another()
    id, other.session_id = other.session_id, None
    status = await _status(other, "DELETE", {_ID: id})
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
    kept, ended = await subject.another(), await subject.another()
    await _end(ended)
    await _status(ended, "DELETE", {_ID: _UNKNOWN})
    reaction = await kept.provoke(kept.any_request())
    subject.expect(Result().holds(reaction), "a result", reaction)


@case.robust(
    "D04.f",
    "a DELETE of a session ends its GET stream",
    sends="a GET that opens a stream, and a DELETE of its session",
    expects="the end of the stream",
    why="connections of ended sessions stay open",
)
async def delete_ends_stream(subject: Subject) -> None:
    _need_session(subject)
    other = await subject.another()
    stream = await other.exchange("GET", {"Accept": EVENTS}, complete=False)
    if not stream.is_stream or stream.status != 200:
        subject.absent("GET stream")
    await _end(other, must=True)
    await _over(subject, other.ended(stream), "the end of the stream")


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
    other = await subject.another()
    params = lasting(subject.need_tool("slow"), 1.0)
    calling = await other.send(other.message("tools/call", params, id=other.next_id()))
    await _end(other)
    if calling is not None:
        await _over(subject, other.ended(calling), "the end of the response")


async def _over(subject: Subject, ended: Awaitable[None], expected: str) -> None:
    """Raise `Broken` if a wait for an end exceeds its time limit."""
    try:
        await ended
    except NoAnswer as found:
        subject.broken(expected, found.actual)


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
        response = await response_to(subject, method, {_VERSION: version})
        _expect_status(subject, method, response.status, 400)

    case.must(
        f"LHTTP-31.{letter}",
        f"a {method} with {text} is answered with 400",
        source=_VERSION_PAGE,
        revisions=_WITH_VERSION,
        sends=f"a {method} with {_VERSION}: {version}",
        expects="the status 400 (405 if it is not supported)",
        why="server and client follow different rules",
    )(wrong_version)


exchange(
    case.should,
    "LHTTP-30.a",
    "a request of a session without the version header is answered",
    source=_VERSION_PAGE,
    revisions=_WITH_VERSION,
    send=Changed({}, f"a request without {_VERSION}", headers={_VERSION: None}),
    expect=Result(),
    why="clients that predate the header cannot use the server",
)
