"""Ping, progress and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.clients.cases._forms import (
    OPERATIONS,
    before_first_answer,
    handle_requests,
    need_operation,
    observed_case,
    undisturbed_case,
)
from mcpwire.check.clients.cases.jsonrpc import (
    is_integer_or_text,
    run_with_two_requests,
)
from mcpwire.check.clients.subject import make_message
from mcpwire.check.subject import TimeLimit

if TYPE_CHECKING:
    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

FAMILY: Final = Family("utilities", defaults={"role": "client"})

PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
_PING: Final = "basic/utilities/ping#behavior-requirements"
_PROGRESS_FLOW: Final = "basic/utilities/progress#progress-flow"
_CANCELLATION: Final = "basic/utilities/cancellation#behavior-requirements"

session = FAMILY.with_defaults(revisions=LEGACY)


# --- ping -----------------------------------------------------------------------------


@session.must(
    "C-PING-01.a",
    "a ping during a request is answered with an empty result",
    source=_PING,
    rules=("RPC-10",),
    start=Start.OWN,
    sends="pings without params and with `_meta`, before the answer to a request",
    expects="a response with an empty result to each",
    why="servers that check their connection consider the client dead",
)
async def ping(client: ClientSubject) -> None:
    responses: list[Message] = []

    async def send(exchange: Exchange) -> None:
        meta = {"progressToken": "mcpwire"}
        responses.append(await exchange.ask("ping"))
        responses.append(await exchange.ask("ping", {"_meta": meta}))

    before_first_answer(send)(client)
    await client.run()
    expected = "a response with an empty result"
    if len(responses) < 2:
        client.raise_broken(expected, f"no response; {client.ending}")
    for response in responses:
        result = response.value.get("result")
        if not isinstance(result, dict) or set(result) - {"_meta", "resultType"}:
            client.raise_broken(expected, response.raw)
        if "error" in response.value:
            client.raise_broken(expected, response.raw)


# --- progress -------------------------------------------------------------------------


def _token(message: Message) -> Any:
    meta = message.params.get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _has_token(message: Message) -> bool:
    meta = message.params.get("_meta")
    return isinstance(meta, dict) and "progressToken" in meta


@observed_case(
    FAMILY.must,
    "C-PROG-01.a",
    "a progress token is a string or an integer",
    source=_PROGRESS_FLOW,
    expects="no token of another type",
    why="servers refuse the request, or report no progress",
)
def _invalid_token(client: ClientSubject) -> object:
    messages = [m for m in client.messages if _has_token(m)]
    if not messages:
        client.raise_absent("progress token")
    return next((m.raw for m in messages if not is_integer_or_text(_token(m))), None)


@FAMILY.must(
    "C-PROG-01.b",
    "requests in flight have different progress tokens",
    source=_PROGRESS_FLOW,
    transports=("stdio",),
    start=Start.OWN,
    sends="the answer to the first request after a second one",
    expects="different tokens of both",
    why="the progress of one call is shown at another",
)
async def tokens_in_flight(client: ClientSubject) -> None:
    if client.facts.run is None or not any(map(_has_token, client.facts.run.messages)):
        client.raise_absent("progress token")
    first, *later = await run_with_two_requests(client)
    with_token = [m for m in later if _has_token(m)]
    if not _has_token(first) or not with_token:
        client.raise_absent("two requests with progress tokens at once")
    for message in with_token:
        if _token(message) == _token(first):
            client.raise_broken("different progress tokens", message.raw)


@undisturbed_case(
    FAMILY.robust,
    "C-A17.a",
    "progress for unknown tokens and for finished requests is ignored",
    rules=("PROG-04",),
    sends="progress for unknown tokens and those of answered requests",
    why="progress that crosses the answer ends all calls",
)
def _send_unknown_progress(client: ClientSubject) -> None:
    tokens: list[Any] = ["mcpwire", 10**9]

    async def answer(exchange: Exchange) -> None:
        for token in tokens:
            params = {"progressToken": token, "progress": 1}
            await exchange.notify(PROGRESS, params)
            await exchange.notify(PROGRESS, {**params, "progress": 2.5, "total": 3})
        if _has_token(exchange.message):
            tokens.append(_token(exchange.message))
        await exchange.correct()

    handle_requests(client, answer)


# --- cancellation ---------------------------------------------------------------------


def _cancelled_ids(client: ClientSubject) -> list[tuple[Message, Any]]:
    return [(m, m.params.get("requestId")) for m in client.sent(CANCELLED)]


@observed_case(
    session.must,
    "C-LIFE-16.a",
    "a client does not cancel `initialize`",
    source=_CANCELLATION,
    expects="no cancellation of `initialize`",
    why="the session is then in no defined state",
)
def _cancelled_initialize(client: ClientSubject) -> object:
    ids = [m.value.get("id") for m in client.sent("initialize")]
    others = [m.value.get("id") for m in client.messages if m.method != "initialize"]
    for message, id in _cancelled_ids(client):
        if id in ids and id not in others:
            return message.raw
    return None


def _cancelled_unknown(client: ClientSubject) -> object:
    cancelled = _cancelled_ids(client)
    if not cancelled or any(message.problem for message in client.messages):
        client.raise_absent("cancellation, and requests that can be read")
    for message, id in cancelled:
        sent = client.messages[: client.messages.index(message)]
        requests = [m for m in sent if m.method and "id" in m.value]
        if not any(_is_same(m.value["id"], id) for m in requests):
            return message.raw
    return None


def _is_same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)


for _rule, _revisions, _source in (
    ("CAN-01", LEGACY, _CANCELLATION),
    ("CAN-02", MODERN, "basic/patterns/cancellation#behavior-requirements"),
):
    observed_case(
        FAMILY.must,
        f"C-{_rule}.a",
        "a client cancels only requests that it has sent",
        revisions=_revisions,
        source=_source,
        expects="the id of an earlier request, of the same JSON type",
        why="the server goes on with the work",
    )(_cancelled_unknown)


@undisturbed_case(
    session.should,
    "C-CAN-06.a",
    "a cancellation of a request that the server has not sent is ignored",
    source="basic/utilities/cancellation#error-handling",
    sends="cancellations with unknown ids, and with the id of the client's request",
    why="a late cancellation ends the connection, or the wrong call",
)
@before_first_answer
async def _cancel_unknown(exchange: Exchange) -> None:
    reasons = {"reason": "a test"}
    # An id of the client's own request is not one of the server's requests.
    for id in ("mcpwire", 10**9, exchange.id):
        await exchange.notify(CANCELLED, {"requestId": id, **reasons})


@undisturbed_case(
    session.must,
    "C-CAN-08.a",
    "a cancellation may arrive during a request of the server and after its response",
    source="basic/utilities/cancellation#timing-considerations",
    rules=("CAN-05",),
    sends="a ping that is cancelled after its response, and one cancelled at once",
    why="a cancellation that crosses the response ends the connection",
)
@before_first_answer
async def _cancel_pings(exchange: Exchange) -> None:
    client = exchange.client
    await exchange.need_ping()
    answered = client.next_id()
    await exchange.ask("ping", id=answered)
    await exchange.notify(CANCELLED, {"requestId": answered})
    running = client.next_id()
    await exchange.send({**make_message("ping"), "id": running})
    await exchange.notify(CANCELLED, {"requestId": running, "reason": "late"})
    await exchange.ask("ping")


_POLL_S: Final = 0.02


async def _run_cancelled(client: ClientSubject, *, is_answered: bool) -> None:
    """Run the client; it gets the first answer after its cancellation, or never."""
    is_cancelled = False
    is_over = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await is_over.wait()
        await exchange.correct()

    async def hold(exchange: Exchange) -> None:
        nonlocal is_cancelled
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(client.bound_s):
                while not is_cancelled:
                    await asyncio.sleep(_POLL_S)
                    ids = [id for _, id in _cancelled_ids(client)]
                    is_cancelled = any(_is_same(exchange.id, id) for id in ids)
        if is_answered or not is_cancelled:
            await exchange.correct()
        is_over.set()

    client.answers |= dict.fromkeys(OPERATIONS, wait)
    client.first = hold
    client.run_s += client.bound_s
    await client.run(must_end=True)
    if not is_cancelled:
        client.raise_absent("cancellation of a request without an answer")


@FAMILY.should(
    "C-CAN-07.a",
    "an answer that arrives after the cancellation of its request is ignored",
    source=_CANCELLATION,
    transports=("stdio",),
    start=Start.OWN,
    is_quick=False,
    is_once=True,
    sends="the answer to a request that the client has cancelled",
    expects="the messages and the end of the client as without this answer",
    why="an answer that crosses the cancellation ends the connection",
)
async def late_answer(client: ClientSubject) -> None:
    need_operation(client)
    without = client.again()
    await _run_cancelled(without, is_answered=False)
    await _run_cancelled(client, is_answered=True)
    missing = without.operations().keys() - client.operations().keys()
    if missing or str(client.ending) != str(without.ending):
        what = f"no {', '.join(sorted(missing))}; " if missing else ""
        client.raise_broken(
            f"the same messages; {without.ending}", f"{what}{client.ending}"
        )
