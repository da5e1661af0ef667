"""Forms of cases for clients over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import NoAnswer, Start
from mcpwire.check.clients.http import EVENTS, event
from mcpwire.check.clients.subject import ENDPOINT, HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcpwire.check.clients.cases._forms import AddCase
    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject, Exchange

    Respond = Callable[[HttpRequest], Awaitable[object]]
    """Responds to a request, or leaves it to the correct server."""

_PATIENCE: Final = 3
"""Time limit of a client that may repeat requests, as a multiple of the usual one."""
_MIN_PATIENCE: Final = 18
"""The shortest such limit, in time limits of an answer; official SDKs wait for 60 s."""


def endpoint_requests(client: ClientSubject, *methods: str) -> list[HttpRequest]:
    """Return the HTTP requests to the MCP endpoint; raise `Absent` if there is none."""
    found = [
        request
        for request in client.requests
        if request.path == ENDPOINT and request.method in methods
    ]
    if not found:
        client.raise_absent(" or ".join(methods))
    return found


def later_requests(client: ClientSubject) -> list[HttpRequest]:
    """Return the requests of sessions: those after the first `initialize`.

    `server/discover` belongs to no session; it may begin a second connection.
    """
    first = min(message.stream for message in client.sent("initialize"))
    handshakes = {m.stream for method in HANDSHAKE for m in client.sent(method)}
    found = endpoint_requests(client, "POST", "GET", "DELETE")
    return [r for r in found if r.number > first and r.number not in handshakes]


def http_request(exchange: Exchange) -> HttpRequest:
    """Return the HTTP request that carries a request of the client."""
    assert exchange.http is not None, "these cases run over HTTP"
    return exchange.http


def describe_request(request: HttpRequest, name: str) -> str:
    """Return a request and one of its header fields as text."""
    value = request.value(name)
    field = f"without {name}" if value is None else f"with {name}: {value}"
    return f"a {request.method} {field} {request.body.decode(errors='replace')}".strip()


def find_field(
    requests: Iterable[HttpRequest],
    name: str,
    is_valid: Callable[[HttpRequest], object],
) -> str | None:
    """Return the first request that is not valid, with one of its header fields."""
    broken = (describe_request(r, name) for r in requests if not is_valid(r))
    return next(broken, None)


async def send_as_event(
    exchange: Exchange, message: Any, fields: dict[str, str] | None = None
) -> None:
    """Answer with an event stream of one event."""
    http = http_request(exchange)
    await http.start_stream(fields or exchange.client.response_fields(exchange.message))
    await http.write(b"event: message\n" + event(message))
    await http.end()


def respond_to(client: ClientSubject, method: str, respond: Respond) -> None:
    """Respond to all requests with an HTTP method; of GET only to those of a stream."""

    async def on_http(request: HttpRequest) -> bool:
        is_chosen = request.method == method and request.path == ENDPOINT
        # A client may look by another GET whether the server requires a token.
        if is_chosen and (method != "GET" or request.accepts(EVENTS)):
            await respond(request)
            return True
        return False

    client.on_http = on_http


async def answer_first(
    client: ClientSubject, respond: Respond, *, must_end: bool = False
) -> str:
    """Run the client, with other responses to the first request after the handshake.

    Its repetitions and other requests of the method get them, too. Return the method.

    Raises:
        Finding: The client repeats requests without end.
    """
    methods = []

    async def handle(exchange: Exchange) -> None:
        method = exchange.message.method or ""
        methods.append(method)
        client.answers[method] = handle
        http = http_request(exchange)
        await respond(http)
        if not http.status and not http.has_ended:
            await exchange.correct()

    client.first = handle
    await run_patiently(client, must_end=must_end)
    if not methods:
        client.raise_absent("request after the handshake")
    return methods[0]


def wait_longer(client: ClientSubject) -> None:
    """Let the client run longer, as it may wait for a response."""
    client.run_s = max(_PATIENCE * client.run_s, _MIN_PATIENCE * client.bound_s)


async def run_patiently(client: ClientSubject, *, must_end: bool = False) -> None:
    """Run a client that may wait before it repeats a request.

    Args:
        client: The client under test.
        must_end: Whether it breaks the rule if it does not end.
    """
    wait_longer(client)
    usual = client.facts.ending
    if usual is not None and usual.code is None:  # it stays running
        client.idle_s = client.bound_s
    try:
        await client.run(must_end=must_end)
    except NoAnswer as finding:
        client.raise_broken(finding.expected, finding.actual)


def add_ending_case(
    add: AddCase, id: str, title: str, *, respond: Respond, **attributes: Any
) -> None:
    """Add a case in which the first request after the handshake never succeeds.

    Args:
        add: `Family.must`, `Family.should` or `Family.robust`.
        id: The id of the case.
        title: The rule in one sentence.
        respond: Responds to that request, its repetitions, and others of its method.
        attributes: Further attributes of the case.
    """
    expects = "the client ends, with a bounded number of requests"

    async def run(client: ClientSubject) -> None:
        await answer_first(client, respond, must_end=True)

    add(id, title, start=Start.OWN, expects=expects, **attributes)(run)
