"""JSON-RPC messages: ids, errors and unknown methods."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Finding, NoAnswer, Start, since
from mcpwire.check.clients.cases._forms import (
    answer_with,
    before_first_answer,
    handle_requests,
    need_ending,
    need_operation,
    observed_case,
    of_messages,
    undisturbed_case,
)
from mcpwire.check.clients.items import correct_result
from mcpwire.check.clients.subject import UNDISTURBED, id_key, make_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

FAMILY: Final = Family("jsonrpc", defaults={"role": "client"})

UNKNOWN: Final = "mcpwire/unknown"
_REQUESTS: Final = "basic/index#requests"
_RESPONSES: Final = "basic/index#result-responses"

own = FAMILY.with_defaults(start=Start.OWN)
session = own.with_defaults(revisions=LEGACY)


# --- messages of the client -----------------------------------------------------------


def is_integer_or_text(value: Any) -> bool:
    """Return whether a value may be an id or a token."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and value == int(value)
    return isinstance(value, str)


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return False
    if "method" in value:
        return isinstance(value["method"], str)
    return ("result" in value) != ("error" in value)


@observed_case(
    FAMILY.must,
    "C-RPC-01.a",
    'each message is a JSON-RPC message with `"jsonrpc": "2.0"`',
    source="basic/index#messages",
    expects="only requests, notifications and responses of JSON-RPC 2.0",
    why="servers refuse or drop other messages",
)
def _invalid_message(client: ClientSubject) -> object:
    for message in client.messages:
        is_line = client.transport == "stdio" and message.problem  # C-TR-STDIO-01.a
        if not is_line and not _is_message(message.value):
            return message.raw
    return None


@observed_case(
    FAMILY.must,
    "C-RPC-03.a",
    "the id of a request is a string or an integer",
    source=_REQUESTS,
    rules=("RPC-04",),
    expects="no id that is null, a fraction or of another type",
    why="servers refuse the request, or take it for a notification",
)
@of_messages
def _has_invalid_id(message: Message) -> bool:
    if message.method is None or "id" not in message.value:
        return False
    return not is_integer_or_text(message.value["id"])


@observed_case(
    FAMILY.must,
    "C-RPC-05.a",
    "each request of a session has an id of its own",
    revisions=LEGACY,
    source=_REQUESTS,
    expects="no id twice in a session",
    why="a late answer is taken for that of another request",
)
def _reused_id(client: ClientSubject) -> object:
    sessions: Iterable[list[Message]] = [c.messages for c in client.connections]
    if client.transport == "http":
        if len(client.sent("initialize")) > 1:
            client.raise_absent("single session")
        sessions = [client.messages]
    for messages in sessions:
        requests = [m for m in messages if m.method and "id" in m.value]
        # `server/discover` precedes the session.
        repeated = _repeated(m for m in requests if m.method != "server/discover")
        if repeated is not None:
            return repeated
    return None


def _repeated(messages: Iterable[Message]) -> bytes | None:
    """Return the first request with the id of an earlier one."""
    keys = set()
    for message in messages:
        key = id_key(message.value["id"])
        if key in keys:
            return message.raw
        keys.add(key)
    return None


@observed_case(
    FAMILY.must,
    "C-RPC-11.a",
    "a notification has no id",
    source="basic/index#notifications",
    expects="notifications without an id",
    why="servers take it for a request and answer that they do not know it",
)
@of_messages
def _is_notification_with_id(message: Message) -> bool:
    is_notification = (message.method or "").startswith("notifications/")
    return is_notification and "id" in message.value


@observed_case(
    FAMILY.must,
    "C-RPC-15.a",
    "a client sends no batches",
    revisions=since("2025-06-18"),
    source="basic/transports",
    expects="each message alone, not in an array",
    why="servers of these revisions refuse arrays",
)
@of_messages
def _is_in_batch(message: Message) -> bool:
    return message.raw.lstrip().startswith(b"[")


@observed_case(
    FAMILY.must,
    "C-RPC-14.a",
    "`initialize` is not part of a batch",
    revisions=("2025-03-26",),
    source="basic/lifecycle#initialization",
    expects="`initialize` alone, not in an array",
    why="servers refuse all other requests before the handshake",
)
@of_messages
def _is_initialize_in_batch(message: Message) -> bool:
    return message.method == "initialize" and message.raw.lstrip().startswith(b"[")


# --- responses to requests of the server ----------------------------------------------


async def _ping_with_ids(exchange: Exchange, *ids: object) -> None:
    client = exchange.client
    for id in ids:
        start = len(client.messages)
        try:
            await exchange.ask("ping", id=id)
        except NoAnswer:
            for message in client.messages[start:]:
                if message.method is None:
                    client.raise_broken(f"a response with the id {id!r}", message.raw)
            raise


async def _run_with(client: ClientSubject, work: Any) -> None:
    before_first_answer(work)(client)
    await client.run()
    client.need_first_request()


@session.must(
    "C-RPC-07.a",
    "a response has the id of its request, of the same JSON type",
    source=_RESPONSES,
    rules=("TR-STDIO-01", "RPC-02"),
    sends="pings with integer and string ids, one non-ASCII, one with a line feed",
    expects="a response with exactly that id to each",
    why="the server cannot match the response, and waits in vain",
)
async def ids_come_back(client: ClientSubject) -> None:
    ids = (0, -1, 2**31, "mcpwire", "7", "", "\u00e9 \U0001f600 \u2028", 'a"b\\c\n')
    await _run_with(client, lambda exchange: _ping_with_ids(exchange, *ids))


@session.must(
    "C-RPC-07.b",
    "an id beyond 2^53 is returned exactly",
    source=_RESPONSES,
    sends="a ping with the id 9007199254740993 (2^53+1)",
    expects="a response with exactly that id",
    why="servers that take ids from a clock or a random number generator wait in vain",
)
async def large_id_comes_back(client: ClientSubject) -> None:
    await _run_with(client, lambda exchange: _ping_with_ids(exchange, 2**53 + 1))


async def _ask_unknown(client: ClientSubject) -> Message:
    """Run the client; return its response to an unknown request."""
    answers = []
    expected = "an error as the response to an unknown request"

    async def ask(exchange: Exchange) -> None:
        await exchange.need_ping()
        try:
            answers.append(await exchange.ask(UNKNOWN, id="unknown 1"))
        except NoAnswer as error:
            client.raise_broken(expected, error.actual)

    await _run_with(client, ask)
    if not answers:
        client.raise_broken(expected, f"no response; {client.ending}")
    return answers[0]


@session.robust(
    "C-A13.a",
    "an unknown request of the server is answered with the error -32601",
    rules=("RPC-01", "RPC-08"),
    sends="a request with an unknown method",
    expects="an error with the code -32601",
    why="the server waits in vain, or retries",
)
async def unknown_request(client: ClientSubject) -> None:
    answer = await _ask_unknown(client)
    error = answer.value.get("error")
    if not isinstance(error, dict) or error.get("code") != -32601:
        client.raise_broken("an error with the code -32601", answer.raw)


@session.must(
    "C-RPC-09.a",
    "an error of the client has an integer `code` and a `message`",
    source="basic/index#error-responses",
    sends="a request with an unknown method",
    expects="an error with an integer `code` and a string `message`, if any",
    why="servers drop the error and wait in vain",
)
async def error_members(client: ClientSubject) -> None:
    try:
        answer = await _ask_unknown(client)
    except Finding:  # C-A13.a reports it
        client.raise_absent("error of the client")
    if "error" not in answer.value:
        client.raise_absent("error of the client")
    error = answer.value["error"]
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        client.raise_broken("an integer `code`", answer.raw)
    if not isinstance(error.get("message"), str):
        client.raise_broken("a string `message`", answer.raw)


@own.must(
    "C-RPC-12.a",
    "a client does not respond to notifications and responses",
    source="basic/index#notifications",
    sends="an unknown notification, and a response with an unknown id",
    expects="no response",
    why="servers log errors, or take it for the response to another request",
)
async def no_response(client: ClientSubject) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.notify("notifications/mcpwire", {"text": "unknown"})
        await exchange.notify("notifications/mcpwire")
        await exchange.send({"jsonrpc": "2.0", "id": "unknown", "result": {}})

    await _run_with(client, send)
    for message in client.messages:
        if message.method is None and isinstance(message.value, dict):
            client.raise_broken("no response", message.raw)


# --- unusual messages of the server ---------------------------------------------------


@undisturbed_case(
    FAMILY.robust,
    "C-A13.b",
    "an unknown notification of the server is ignored",
    sends="unknown notifications, with and without params, before an answer",
    why="servers of newer revisions and with extensions send them",
)
@before_first_answer
async def _send_unknown_notifications(exchange: Exchange) -> None:
    await exchange.notify("notifications/mcpwire", {"text": "unknown", "_meta": {}})
    await exchange.notify("notifications/mcpwire/other")


def _add_unknown_members(value: Any) -> Any:
    """Return a result with unknown members in its objects."""
    if isinstance(value, list):
        return [_add_unknown_members(item) for item in value]
    if not isinstance(value, dict):
        return value
    # The members of these are names that the server chooses.
    kept = {"_meta", "inputSchema", "properties"}
    members = {k: v if k in kept else _add_unknown_members(v) for k, v in value.items()}
    return {**members, "mcpwireUnknown": {"list": [1, None]}}


@undisturbed_case(
    FAMILY.robust,
    "C-RPC-33.a",
    "unknown members of results and capabilities are ignored",
    sends="results, capabilities, tools and contents with a further member",
    why="newer servers have further members",
)
@answer_with
async def _answer_with_unknown_members(
    exchange: Exchange, message: dict[str, Any]
) -> None:
    result = _add_unknown_members(message["result"])
    await exchange.finish({**message, "result": result})


@undisturbed_case(
    FAMILY.robust,
    "C-F14.a",
    "responses with an unknown id, and second responses, are ignored",
    rules=("CAN-07",),
    transports=("stdio",),
    sends="two responses with unknown ids and a second response before each answer",
    why="one message of a faulty server ends all calls",
)
def _wrap_answers(client: ClientSubject) -> None:
    finished: list[Any] = []

    async def answer(exchange: Exchange) -> None:
        await exchange.send({"jsonrpc": "2.0", "id": "unknown", "result": {}})
        error = {"code": -32603, "message": "unknown"}
        await exchange.send({"jsonrpc": "2.0", "id": 10**9, "error": error})
        if finished:  # a second answer to the previous request
            await exchange.send({"jsonrpc": "2.0", "id": finished[-1], "result": {}})
        finished.append(exchange.id)
        await exchange.correct()

    handle_requests(client, answer)


@own.robust(
    "C-A14.a",
    "a request ends with the error that answers it",
    sends="an error as the answer to each request after the handshake",
    expects="the client ends, without a signal",
    why="one error stops the client forever",
)
async def errors_as_answers(client: ClientSubject) -> None:
    need_ending(client)
    codes = iter((-32603, -32602, -32000, 7, -32099))

    async def fail(exchange: Exchange) -> None:
        await exchange.fail(next(codes, -1), "no\nresult", [None, {"detail": "none"}])

    handle_requests(client, fail)
    await client.run(must_end=True)
    client.need_first_request()


def _log(text: str) -> dict[str, Any]:
    return make_message("notifications/message", {"level": "info", "data": text})


@undisturbed_case(
    FAMILY.must,
    "C-RPC-13.a",
    "a client receives batches",
    revisions=("2025-03-26",),
    source="basic/index#batching",
    sends="a batch with a ping, and a batch with the answer",
    why="calls hang if the server puts their answers into a batch",
)
def _send_batches(client: ClientSubject) -> None:
    need_operation(client)

    async def answer(exchange: Exchange) -> None:
        await exchange.need_ping()
        id = client.next_id()
        answered = client.expect_response(id)
        await exchange.send([_log("one"), {**make_message("ping"), "id": id}])
        try:
            await asyncio.wait_for(answered, client.bound_s)
        except TimeoutError:
            client.raise_broken("a response to the ping of a batch", "none in time")
        method = exchange.message.method or ""
        result = correct_result(client, method, exchange.params)
        response = {"jsonrpc": "2.0", "id": exchange.id, "result": result}
        await exchange.send([_log("two"), response])
        if exchange.http is not None:
            await exchange.http.end()

    client.first = answer


# --- several requests at once ---------------------------------------------------------

_HOLD_S: Final = 0.2
_MAX_HELD_MESSAGES: Final = 8


def _requests_after(first: Message, client: ClientSubject) -> list[Message]:
    """Return the requests after a request to the same process."""
    for connection in client.connections:
        for index, message in enumerate(connection.messages):
            if message is first:
                later = connection.messages[index + 1 :]
                return [m for m in later if m.method and "id" in m.value]
    return []


async def run_with_two_requests(client: ClientSubject) -> list[Message]:
    """Run the client over stdio; return a request and those sent before its answer.

    The server waits a little for a second request, which it answers first.

    Raises:
        Absent: The client waits for each answer before its next request.
    """
    found: list[Message] = []
    held: list[Message] = []
    answered = asyncio.Event()  # a request while another one is held

    async def hold(exchange: Exchange) -> None:
        if not held and not found and len(client.messages) < _MAX_HELD_MESSAGES:
            held.append(exchange.message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(answered.wait(), _HOLD_S)
            if later := _requests_after(exchange.message, client):
                found.extend([exchange.message, *later])
            held.clear()
        await exchange.correct()
        if held:
            answered.set()

    handle_requests(client, hold)
    await client.run()
    if not found:
        client.raise_absent("second request before the first answer")
    return found


@own.robust(
    "C-A15.a",
    "answers out of order are matched by their ids",
    transports=("stdio",),
    is_once=True,
    sends="the answer to a second request before that to the first",
    expects=UNDISTURBED,
    why="calls get the answers of others",
)
async def out_of_order(client: ClientSubject) -> None:
    await run_with_two_requests(client)
    client.need_undisturbed()


@own.must(
    "C-RPC-06.a",
    "requests in flight have different ids",
    revisions=MODERN,
    transports=("stdio",),
    source=_REQUESTS,
    sends="the answer to the first request after a second one",
    expects="different ids of both",
    why="calls get the answers of others",
)
async def ids_in_flight(client: ClientSubject) -> None:
    first, *later = await run_with_two_requests(client)
    for message in later:
        if _repeated([first, message]):
            client.raise_broken("different ids of requests in flight", message.raw)
