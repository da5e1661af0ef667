"""Origin and Host: what keeps web pages away from servers, DNS rebinding included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, Family, since
from mcpwire.check.cases._http import EVENTS, HTTP, STREAMABLE, head_of, is_local

if TYPE_CHECKING:
    from mcpwire.check.peer import HeaderValue, Response
    from mcpwire.check.subject import Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("origin")

_PAGE: Final = "basic/transports#security-warning"
_EVIL: Final = "http://evil.example"
_WHY: Final = "web pages that a user visits use the servers on the user's machine"
_STRICT: Final = since("2025-11-25")
"""The revisions that name the status."""
_EARLIER: Final = since("2025-03-26", "2025-06-18")

case = FAMILY.where(revisions=STREAMABLE, transports=HTTP)


async def _sent(
    subject: Subject, method: str, headers: dict[str, HeaderValue]
) -> Response:
    """Send a request with other header fields, and return the response."""
    if method == "POST":
        message = subject.any_request()
        response = await subject.send(message, headers=headers)
        assert response is not None, "these cases run over HTTP"
        await subject.ended(response)
        return response
    accept = {"Accept": EVENTS} if method == "GET" else {}
    its = await subject.another() if method == "DELETE" else subject
    response = await head_of(its, method, {**accept, **headers})
    if method == "DELETE" and response.status < 300:
        its.session_id = None
    return response


def _expect_refused(
    subject: Subject, response: Response, method: str, *, is_strict: bool
) -> None:
    status = response.status
    if method != "POST" and status == 405:
        return  # it is not served at all
    if is_strict:
        subject.expect(status == 403, "the status 403", status)
    subject.expect_refused(status)


def _origin_case(id: str, method: str, origin: str, text: str, **facts: Any) -> None:
    """Add two cases: 403 where a revision names it, and a refusal before."""
    for rule, revisions in (("TR-HTTP-03", _STRICT), ("TR-HTTP-02", _EARLIER)):

        async def run(subject: Subject, rule: str = rule) -> None:
            response = await _sent(subject, method, {"Origin": origin})
            is_strict = rule == "TR-HTTP-03"
            _expect_refused(subject, response, method, is_strict=is_strict)

        status = (
            "the status 403" if revisions is _STRICT else "a status from 400 to 499"
        )
        more = "" if method == "POST" else " (405 where it is not served)"
        FAMILY.must(
            f"{rule}.{id}",
            f"a {method} of {text} is refused",
            source=_PAGE,
            revisions=revisions,
            transports=HTTP,
            sends=f"a {method} with Origin: {origin}",
            expects=status + more,
            why=_WHY,
            **facts,
        )(run)


_origin_case("a", "POST", _EVIL, "a foreign web page")
_origin_case("b", "GET", _EVIL, "a foreign web page")
_origin_case("c", "DELETE", _EVIL, "a foreign web page")
_origin_case(
    "d",
    "POST",
    "http://localhost.evil.example",
    "a web page with a name like localhost",
)
_origin_case(
    "e",
    "POST",
    "http://127.0.0.1.evil.example",
    "a web page with a name like 127.0.0.1",
)


@case.must(
    "TR-HTTP-03.f",
    "a foreign web page cannot begin a session",
    source=_PAGE,
    revisions=since("2025-11-25", LEGACY[-1]),
    sends=f"initialize with Origin: {_EVIL}",
    expects="the status 403, and no Mcp-Session-Id",
    why=_WHY,
)
async def no_session(subject: Subject) -> None:
    other = await subject.another(handshake=False)
    message = other.message("initialize", other.hello(), id=other.next_id())
    reaction = await other.provoke(message, headers={"Origin": _EVIL})
    fields = reaction.response.fields if reaction.response else {}
    other.session_id = fields.get("mcp-session-id")
    subject.expect(reaction.status == 403, "the status 403", reaction)
    has_id = other.session_id is not None
    subject.expect(not has_id, "no Mcp-Session-Id", other.session_id)


for letter, origin, text in (
    ("a", "null", "a page without an origin, such as a file or a sandbox"),
    ("b", "mcpwire, no origin", "what is no origin"),
):

    async def no_origin(subject: Subject, origin: str = origin) -> None:
        subject.expect_refused(
            (await _sent(subject, "POST", {"Origin": origin})).status
        )

    case.robust(
        f"D06.{letter}",
        f"the Origin of {text} is refused",
        sends=f"a POST with Origin: {origin}",
        expects="a status from 400 to 499",
        why=_WHY,
    )(no_origin)


@case.robust(
    "D06.c",
    "one foreign Origin among two is refused",
    sends="a POST with two Origin fields, that of the server itself and a foreign one",
    expects="a status from 400 to 499",
    why="a field that a page smuggles in hides where the page comes from",
)
async def two_origins(subject: Subject) -> None:
    url = subject.need_http().url
    own = f"{url.scheme}://{url.authority}"
    for pair in ((own, _EVIL), (_EVIL, own)):
        subject.expect_refused((await _sent(subject, "POST", {"Origin": pair})).status)


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
            subject.absent("server on this machine")
        subject.expect_refused((await _sent(subject, method, {"Host": host})).status)

    case.robust(
        f"D06.{letter}",
        f"a {method} for the host {host} is refused on the user's own machine",
        sends=f"a {method} with Host: {host}, and no Origin",
        expects="a status from 400 to 499",
        why="after DNS rebinding, pages of that host read the server without an Origin",
    )(foreign_host)


# --- CORS -----------------------------------------------------------------------------


@case.robust(
    "D06.g",
    "foreign web pages may not read what a server on the user's machine answers",
    sends=f"a POST and the OPTIONS before one, with Origin: {_EVIL}",
    expects="no Access-Control-Allow-Origin that names it, or all",
    why=_WHY,
)
async def no_cors(subject: Subject) -> None:
    if not is_local(subject):
        subject.absent("server on this machine")
    asks: dict[str, HeaderValue] = {
        "Origin": _EVIL,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for response in (
        await head_of(subject, "OPTIONS", asks),
        await _sent(subject, "POST", {"Origin": _EVIL}),
    ):
        allowed = response.fields.get("access-control-allow-origin")
        subject.expect(
            allowed not in {"*", _EVIL},
            "no Access-Control-Allow-Origin for it",
            f"Access-Control-Allow-Origin: {allowed}",
        )
