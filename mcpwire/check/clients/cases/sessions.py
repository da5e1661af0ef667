"""Sessions of Streamable HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, Start
from mcpwire.check.cases._http import HTTP, SESSIONS
from mcpwire.check.clients.cases._forms import observed_case, undisturbed_case
from mcpwire.check.clients.cases._http import (
    describe_request,
    endpoint_requests,
    find_field,
    later_requests,
    respond_to,
    run_patiently,
    wait_longer,
)
from mcpwire.check.clients.subject import UNDISTURBED

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.clients.cases._http import Respond
    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject, Exchange

FAMILY: Final = Family("sessions", defaults={"role": "client"})

case = FAMILY.with_defaults(transports=HTTP, revisions=SESSIONS)
once = case.with_defaults(is_once=True)

_PAGE: Final = "basic/transports#session-management"
_ID: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F)))


# --- the id on each request -----------------------------------------------------------


@observed_case(
    case.must,
    "C-LHTTP-24.a",
    "each request of a session carries its id",
    source=_PAGE,
    expects="Mcp-Session-Id of the server on each later POST, GET and DELETE",
    why="servers refuse a request without it, and may end the session",
)
def _without_id(client: ClientSubject) -> object:
    valid = [client.session_id]
    return find_field(later_requests(client), _ID, lambda r: r.values(_ID) == valid)


@case.must(
    "C-LHTTP-24.b",
    "a response to the server's request carries the session id and the version",
    source=_PAGE,
    rules=("LHTTP-29",),
    start=Start.OWN,
    sends="a ping on the event stream of the first request after the handshake",
    expects="a POST with Mcp-Session-Id, and since 2025-06-18 MCP-Protocol-Version",
    why="servers refuse the response, and their request never ends",
)
async def id_of_response(client: ClientSubject) -> None:
    responses = []

    async def handle(exchange: Exchange) -> None:
        await exchange.need_ping()
        responses.append(await exchange.ask("ping"))
        await exchange.correct()

    client.first = handle
    await client.run()
    if not responses:
        client.raise_absent("request after the handshake")
    names = [_ID] if client.revision.name == SESSIONS[0] else [_ID, _VERSION]
    for request in endpoint_requests(client, "POST"):
        for name in names:
            if request.number == responses[0].stream and not request.value(name):
                client.raise_broken(
                    f"a POST with {name}", describe_request(request, name)
                )


async def _run_with_id(client: ClientSubject, id: str) -> None:
    client.session_id = id
    await client.run_undisturbed()


@once.must(
    "C-LHTTP-24.c",
    "a session id with any visible ASCII characters is sent unchanged",
    source=_PAGE,
    rules=("LHTTP-23",),
    start=Start.OWN,
    sends="a session id with all characters from 0x21 to 0x7E",
    expects="the same id on each later request",
    why="servers choose the form of their ids",
)
async def visible_id(client: ClientSubject) -> None:
    await _run_with_id(client, _VISIBLE)
    # C-LHTTP-24.a finds requests without it.
    requests = [r for r in later_requests(client) if r.values(_ID)]
    if problem := find_field(requests, _ID, lambda r: r.values(_ID) == [_VISIBLE]):
        client.raise_broken("the session id, unchanged", problem)


@once.robust(
    "C-F28.a",
    "a client without a session sends no session id",
    start=Start.OWN,
    sends="`initialize` answered without a session id",
    expects="no Mcp-Session-Id, and the client ends as with a correct server",
    why="servers refuse an unknown session",
)
async def no_id(client: ClientSubject) -> None:
    await _run_with_id(client, "")
    if problem := find_field(client.requests, _ID, lambda r: not r.values(_ID)):
        client.raise_broken("no session id", problem)


# --- an expired session ---------------------------------------------------------------


def _expire_sessions(client: ClientSubject, count: int) -> set[str]:
    """Answer the first request of so many sessions, and all later ones, with 404.

    Return the ids of those sessions, after the run.
    """
    expired: set[str] = set()

    async def on_http(request: HttpRequest) -> bool:
        id = request.value(_ID)
        # A notification has no id; it is a part of the handshake.
        if id and b'"id"' in request.body and len(expired) < count:
            expired.add(id)
        if id not in expired:
            return False
        client.session_id = f"{client.random.randrange(1 << 60):x}"
        await request.respond(404)
        return True

    client.on_http = on_http
    return expired


def _session_starts(client: ClientSubject) -> list[HttpRequest]:
    return [r for r in client.requests if b'"initialize"' in r.body]


@case.must(
    "C-LHTTP-27.a",
    "after 404 a client starts a new session, without the old id",
    source=_PAGE,
    start=Start.OWN,
    sends="404 to the first request of the session, and to all others with its id",
    expects="a new `initialize` without Mcp-Session-Id",
    why="after a restart of the server, the client fails until it is restarted",
)
async def new_session(client: ClientSubject) -> None:
    expired = _expire_sessions(client, 1)
    await run_patiently(client)
    if not expired:
        client.raise_absent("request in the session")
    starts = _session_starts(client)
    expected = "a new `initialize` without Mcp-Session-Id"
    if len(starts) < 2:
        client.raise_broken(expected, f"no second initialize; {client.ending}")
    for request in starts:
        if request.value(_ID):
            client.raise_broken(expected, describe_request(request, _ID))


@case.robust(
    "C-LHTTP-27.b",
    "a request that got 404 is repeated in the new session",
    start=Start.OWN,
    sends="404 to the first request of the session, and to all others with its id",
    expects=UNDISTURBED,
    why="the call fails, although the server did not begin it",
)
async def repeated_request(client: ClientSubject) -> None:
    _expire_sessions(client, 1)
    try:
        await client.run_undisturbed()
    finally:
        if len(_session_starts(client)) < 2:
            client.raise_absent("new session after 404")


@once.robust(
    "C-F27.a",
    "a client gives up if each new session is unknown at once",
    start=Start.OWN,
    sends="404 to the first request of each session",
    expects="the client ends, with a bounded number of sessions",
    why="a client that starts sessions without end overloads the server",
)
async def always_expired(client: ClientSubject) -> None:
    _expire_sessions(client, 1 << 60)
    await run_patiently(client, must_end=True)


# --- the end of a session -------------------------------------------------------------


@observed_case(
    case.should,
    "C-LHTTP-28.a",
    "a client ends its session with a DELETE",
    source=_PAGE,
    expects="a DELETE with the session id at the end",
    why="the server keeps the session until a timeout",
)
def _without_delete(client: ClientSubject) -> object:
    ending = client.ending
    if ending is None or ending.code != 0:
        client.raise_absent("end of the client by itself")
    if any(request.method == "DELETE" for request in client.requests):
        return None
    return "no DELETE"


def _answer_delete(respond: Respond) -> Callable[[ClientSubject], None]:
    def change(client: ClientSubject) -> None:
        wait_longer(client)
        respond_to(client, "DELETE", respond)

    return change


for letter, sends, respond in (
    ("a", "405", lambda request: request.respond(405)),
    ("b", "404 with text", lambda request: request.respond(404, b"not found")),
    ("c", "no response", lambda request: request.closed.wait()),
):
    undisturbed_case(
        once.robust,
        f"C-E04.{letter}",
        f"a client survives {sends} to its DELETE",
        rules=("LHTTP-28",),
        needs=("sends:DELETE",),
        sends=f"{sends} to DELETE",
        why="the end of the client fails or takes for ever",
    )(_answer_delete(respond))
