"""Origin and Host: protection against web pages and DNS rebinding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, since
from mcpwire.check.cases._http import (
    HTTP,
    STREAMABLE,
    is_local,
    request_head,
    send_with_headers,
    unless_unsupported,
)

if TYPE_CHECKING:
    from mcpwire.check.peer import HeaderValue
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("origin")

_PAGE: Final = "basic/transports#security-warning"
_FOREIGN_ORIGIN: Final = "http://evil.example"
_FOREIGN_SUFFIX: Final = ".evil.example"
_WHY: Final = "web pages that a user visits can use servers on the user's machine"
_WITH_STATUS: Final = since("2025-11-25")
"""Revisions that specify the status."""
_EARLIER: Final = since("2025-03-26", "2025-06-18")

case = FAMILY.with_defaults(revisions=STREAMABLE, transports=HTTP)


for letter, method, origin, text in (
    ("a", "POST", _FOREIGN_ORIGIN, "a foreign web page"),
    ("b", "GET", _FOREIGN_ORIGIN, "a foreign web page"),
    ("c", "DELETE", _FOREIGN_ORIGIN, "a foreign web page"),
    (
        "d",
        "POST",
        f"http://localhost{_FOREIGN_SUFFIX}",
        "a foreign host whose name begins with localhost",
    ),
    (
        "e",
        "POST",
        f"http://127.0.0.1{_FOREIGN_SUFFIX}",
        "a foreign host whose name begins with 127.0.0.1",
    ),
):
    note = unless_unsupported(method)
    for rule, revisions, status in (
        ("TR-HTTP-03", _WITH_STATUS, "the status 403"),
        ("TR-HTTP-02", _EARLIER, "a status from 400 to 499"),
    ):

        async def foreign_origin(
            subject: Subject,
            method: str = method,
            origin: str = origin,
            status: str = status,
        ) -> None:
            response = await send_with_headers(subject, method, {"Origin": origin})
            got = response.status
            if method != "POST" and got == 405:
                return  # the server does not serve the method
            subject.expect(got == 403 or status != "the status 403", status, got)
            subject.expect_refused(got)

        case.must(
            f"{rule}.{letter}",
            f"a {method} from {text} is refused",
            source=_PAGE,
            revisions=revisions,
            sends=f"a {method} with Origin: {origin}",
            expects=status + note,
            why=_WHY,
        )(foreign_origin)


@case.must(
    "TR-HTTP-03.f",
    "a foreign web page cannot start a session",
    source=_PAGE,
    revisions=since("2025-11-25", LEGACY[-1]),
    sends=f"initialize with Origin: {_FOREIGN_ORIGIN}",
    expects="the status 403, and no Mcp-Session-Id",
    why=_WHY,
)
async def no_session(subject: Subject) -> None:
    other = await subject.open_another(handshake=False)
    message = other.message("initialize", other.initialize_params(), id=other.next_id())
    reaction = await other.provoke(message, headers={"Origin": _FOREIGN_ORIGIN})
    fields = reaction.response.fields if reaction.response else {}
    other.session_id = fields.get("mcp-session-id")
    subject.expect(reaction.status == 403, "the status 403", reaction)
    has_id = other.session_id is not None
    subject.expect(not has_id, "no Mcp-Session-Id", other.session_id)


for letter, origin, text in (
    ("a", "null", "the Origin null of files and sandboxed pages"),
    ("b", "mcpwire, no origin", "an invalid Origin"),
):

    async def invalid_origin(subject: Subject, origin: str = origin) -> None:
        response = await send_with_headers(subject, "POST", {"Origin": origin})
        subject.expect_refused(response.status)

    case.robust(
        f"D06.{letter}",
        f"{text} is refused",
        sends=f"a POST with Origin: {origin}",
        expects="a status from 400 to 499",
        why=_WHY,
    )(invalid_origin)


@case.robust(
    "D06.c",
    "two Origin fields are refused if one is foreign",
    sends="a POST with two Origin fields, the server's own and a foreign one",
    expects="a status from 400 to 499",
    why="a second field hides the origin of a page",
)
async def two_origins(subject: Subject) -> None:
    url = subject.need_http().url
    own = f"{url.scheme}://{url.authority}"
    for pair in ((own, _FOREIGN_ORIGIN), (_FOREIGN_ORIGIN, own)):
        response = await send_with_headers(subject, "POST", {"Origin": pair})
        subject.expect_refused(response.status)


# --- Host -----------------------------------------------------------------------------

for letter, method, host in (
    ("d", "POST", "evil.example"),
    ("e", "GET", "evil.example"),
    ("f", "POST", "localhost.evil.example"),
):

    async def foreign_host(
        subject: Subject, method: str = method, host: str = host
    ) -> None:
        if not is_local(subject):
            subject.raise_absent("server at a loopback address")
        response = await send_with_headers(subject, method, {"Host": host})
        subject.expect_refused(response.status)

    case.robust(
        f"D06.{letter}",
        f"a local server refuses a {method} for the host {host}",
        sends=f"a {method} with Host: {host}, and no Origin",
        expects="a status from 400 to 499",
        why="after DNS rebinding, pages of that host can use the server without an "
        "Origin",
    )(foreign_host)


# --- CORS -----------------------------------------------------------------------------


@case.robust(
    "D06.g",
    "a local server does not let foreign web pages read its answers",
    sends=f"a CORS preflight and a POST, with Origin: {_FOREIGN_ORIGIN}",
    expects="no Access-Control-Allow-Origin with that origin or *",
    why=_WHY,
)
async def no_cors(subject: Subject) -> None:
    if not is_local(subject):
        subject.raise_absent("server at a loopback address")
    preflight: dict[str, HeaderValue] = {
        "Origin": _FOREIGN_ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for response in (
        await request_head(subject, "OPTIONS", preflight),
        await send_with_headers(subject, "POST", {"Origin": _FOREIGN_ORIGIN}),
    ):
        allowed = response.fields.get("access-control-allow-origin")
        subject.expect(
            allowed not in {"*", _FOREIGN_ORIGIN},
            "no Access-Control-Allow-Origin for this origin",
            f"Access-Control-Allow-Origin: {allowed}",
        )
