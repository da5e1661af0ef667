"""JSON-RPC: ids, methods, errors, malformed messages, batches."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import EndedWithoutAnswer, Family, NoAnswer, since
from mcpwire.check.cases._exchange import (
    IGNORED,
    AnyOf,
    ChangedRequest,
    Error,
    Notification,
    Octets,
    Refusal,
    Request,
    Result,
    Silence,
    add_exchange_case,
)
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("jsonrpc")

# Before 2025-11-25 the schema does not allow an error without an id.
ERRORS_WITHOUT_ID: Final = since("2025-11-25")
NO_BATCHES: Final = ("2024-11-05", "2025-06-18", *ERRORS_WITHOUT_ID)

# A request without `_meta` belongs to an older era, which may lack the method.
PARAMS_IGNORED: Final = AnyOf(Result(), Error(-32601))

INVALID_JSON: Final = (
    Octets(b'{"jsonrpc":"2.0","id":1,"method":'),
    Octets(b"hello"),
    Octets(b'{"jsonrpc":"2.0","id":1,"method":"ping"}}'),
)
INVALID_REQUEST: Final = Error(-32600, -32602, -32020)
"""-32020: over HTTP the headers of 2026-07-28 do not match such a message."""

errors_without_id = FAMILY.with_defaults(revisions=ERRORS_WITHOUT_ID)
batches = FAMILY.with_defaults(revisions=("2025-03-26",))


# --- ids ------------------------------------------------------------------------------


@FAMILY.must(
    "RPC-07.a",
    "an answer has the id of its request",
    source="basic/index#result-responses",
    rules=("RPC-03",),
    sends="requests with the ids 0, -1, 1 and 2147483648",
    expects="an answer with exactly that id for each",
    why="a client cannot match the answer, and its call hangs",
)
async def number_ids_come_back(subject: Subject) -> None:
    for id in (0, -1, 1, 2**31):
        await subject.request(subject.facts.barrier, id=id)


@FAMILY.must(
    "RPC-07.b",
    "an id beyond 2^53 is returned exactly",
    source="basic/index#result-responses",
    sends="a request with the id 9007199254740993 (2^53+1)",
    expects="an answer with exactly that id",
    why="calls hang if the client takes its ids from a clock or a random number "
    "generator",
)
async def large_ids_come_back(subject: Subject) -> None:
    id = 2**53 + 1
    start = len(subject.received)
    response = await subject.send(subject.message(subject.facts.barrier, id=id))
    if response is None:
        await subject.barrier()  # an answer out of order may take a second more
    with contextlib.suppress(NoAnswer):
        await subject.wait_answer(
            id, response, timeout=1.0 if response is None else None
        )
        return
    rounded = [each for each in subject.received[start:] if _is_rounded(each, id)]
    subject.expect(not rounded, f'"id":{id}', rounded and rounded[0].raw)
    raise NoAnswer(f"an answer with the id {id}", "no answer")


def _is_rounded(message: Message, id: int) -> bool:
    got = message.value.get("id") if message.is_answer else None
    return isinstance(got, int | float) and abs(got - id) < 1_000


@FAMILY.must(
    "RPC-07.c",
    "a string id is returned unchanged",
    source="basic/index#result-responses",
    sends="requests with string ids: a word, digits, empty, non-ASCII, with escapes",
    expects="an answer with exactly that id for each",
    why="a client cannot match the answer, and its call hangs",
)
async def text_ids_come_back(subject: Subject) -> None:
    for id in ("mcpwire", "7", "", "\u00e9 \U0001f600 \u2028", 'a"b\\c\n'):
        await subject.request(subject.facts.barrier, id=id)


@FAMILY.must(
    "RPC-07.d",
    'the ids 7 and "7" are different',
    source="basic/index#result-responses",
    sends='ten pairs of concurrent requests, with ids such as 7001 and "7001"',
    expects="one answer for each, its id of the same JSON type",
    why="two calls of one client get each other's answers",
)
async def ids_differ_by_type(subject: Subject) -> None:
    ids: list[int | str] = []
    for number in range(7001, 7011):
        ids += [number, str(number)]
    messages = [subject.message(subject.facts.barrier, id=id) for id in ids]
    # Over HTTP the server holds both requests at once only if they are sent together.
    responses = await asyncio.gather(*map(subject.send, messages))
    for id, response in zip(ids, responses, strict=True):
        await subject.wait_answer(id, response)
    for id in ids:
        subject.expect_one_answer(id, f"one answer with the id {id!r}")


@FAMILY.must(
    "RPC-08.a",
    "an error has the id of its request",
    source="basic/index#error-responses",
    sends="requests with an unknown method, with the id 2147483649 and a string id",
    expects="an error with exactly that id for each",
    why="a client cannot match the error, and its call hangs",
)
async def errors_have_ids(subject: Subject) -> None:
    for id in (2**31 + 1, "mcpwire error"):
        start = len(subject.received)
        try:
            answer = await subject.request("mcpwire/no-such-method", id=id)
        except EndedWithoutAnswer:
            if len(subject.received) == start:  # RPC-31.a reports it
                subject.raise_absent("JSON-RPC answer to an unknown method")
            raise
        subject.expect(answer.error is not None, "an error", answer)


add_exchange_case(
    FAMILY.robust,
    "B03.a",
    "a request with the id null is refused or ignored",
    send=ChangedRequest({"id": None}, "a request with the id null"),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="an answer with the id null belongs to no call",
)

add_exchange_case(
    FAMILY.robust,
    "B03.b",
    "a request with an id that is neither a string nor an integer is refused or "
    "ignored",
    send=(
        ChangedRequest({"id": True}, "a request with the id true"),
        ChangedRequest({"id": 1.5}, "one with the id 1.5"),
        ChangedRequest({"id": {"a": 1}}, "one with an object as its id"),
        ChangedRequest({"id": ["a"]}, "one with an array as its id"),
    ),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="such an id fails as the key of a lookup table",
)


# --- methods and notifications --------------------------------------------------------

add_exchange_case(
    FAMILY.must,
    "RPC-31.a",
    "an unknown method is answered with -32601",
    source="schema#MethodNotFoundError",
    rules=("RPC-01",),
    send=Request("mcpwire/no-such-method"),
    expect=Error(-32601),
    why="clients probe for features by this code",
)

add_exchange_case(
    FAMILY.robust,
    "B08.a",
    "method names are compared exactly",
    rules=("RPC-31",),
    send=(Request("Tools/List"), Request("tools/list "), Request("")),
    expect=Error(-32601, -32600, -32602, -32020),
    lenient=Result(),
    why="a proxy that filters by method can be bypassed",
)

add_exchange_case(
    FAMILY.must,
    "RPC-12.a",
    "an unknown notification is not answered",
    source="basic/index#notifications",
    send=Notification("notifications/mcpwire/unknown", {"a": 1}),
    expect=IGNORED,
    why="clients match the answer to another call, or close the connection",
)

add_exchange_case(
    FAMILY.must,
    "RPC-12.b",
    "a request method sent as a notification is not answered",
    source="basic/index#notifications",
    send=(Notification("tools/list"), Notification("mcpwire/no-such-method")),
    expect=IGNORED,
    why="clients match the answer to another call, or close the connection",
)

add_exchange_case(
    FAMILY.robust,
    "B08.b",
    "an answer that matches no server request is ignored or refused",
    send=(
        Octets(b'{"jsonrpc":"2.0","id":"mcpwire-never","result":{}}'),
        Octets(
            b'{"jsonrpc":"2.0","id":"mcpwire-never",'
            b'"error":{"code":-32603,"message":"no"}}'
        ),
    ),
    expect=AnyOf(IGNORED, Error(-32600, -32602, -32020)),
    why="a late answer of a client breaks the connection",
)

add_exchange_case(
    FAMILY.robust,
    "B09.a",
    "unknown members are ignored",
    rules=("RPC-33",),
    send=(
        ChangedRequest(
            {"mcpwire-unknown": {"a": [1]}}, "a request with an unknown member"
        ),
        Request(
            "tools/list", {"mcpwireUnknown": {"a": 1}}, text="one with an unknown param"
        ),
        Request(
            "tools/list",
            {"_meta": {"com.example.mcpwire/unknown": [1, {"a": None}]}},
            text="one with an unknown member of `_meta`",
        ),
    ),
    needs=("tools",),
    expect=Result(),
    why="newer clients and clients with extensions cannot use the server",
)


# --- malformed messages ---------------------------------------------------------------

add_exchange_case(
    errors_without_id.should,
    "B01.a",
    "invalid JSON is answered with -32700",
    source="schema#ParseError",
    send=INVALID_JSON,
    expect=Error(-32700),
    why="the sender of a truncated request waits forever",
)

add_exchange_case(
    FAMILY.robust,
    "B01.b",
    "invalid JSON does not end the connection",
    revisions=since("2024-11-05", "2025-06-18"),
    send=INVALID_JSON,
    expect=AnyOf(Refusal(), Silence()),
    why="one truncated line aborts all other calls",
)

add_exchange_case(
    errors_without_id.should,
    "B02.a",
    "JSON that is not an object is answered with -32600",
    source="schema#InvalidRequestError",
    send=(Octets(b"42"), Octets(b'"ping"'), Octets(b"true"), Octets(b"null")),
    expect=Error(-32600),
    why="a bug in the client goes unnoticed",
)

add_exchange_case(
    errors_without_id.should,
    "B02.b",
    "an object without a method is refused",
    source="schema#InvalidRequestError",
    send=(
        Octets(b"{}"),
        Octets(b'{"jsonrpc":"2.0"}'),
        Octets(b'{"jsonrpc":"2.0","params":{}}'),
    ),
    expect=INVALID_REQUEST,
    why="a bug in the client goes unnoticed",
)

add_exchange_case(
    FAMILY.robust,
    "B02.c",
    "JSON that is not a message does not end the connection",
    revisions=since("2024-11-05", "2025-06-18"),
    send=(Octets(b"42"), Octets(b'"ping"'), Octets(b"null"), Octets(b"{}")),
    expect=AnyOf(Refusal(), Silence()),
    why="one invalid line aborts all other calls",
)

add_exchange_case(
    FAMILY.robust,
    "B02.d",
    "a method that is not a string is refused",
    rules=("RPC-01",),
    send=(
        ChangedRequest({"method": 5}, "a request with the method 5"),
        ChangedRequest({"method": None}, "one with the method null"),
        ChangedRequest({"method": ["ping"]}, "one with an array as its method"),
    ),
    expect=INVALID_REQUEST,
    why="the client waits forever",
)

add_exchange_case(
    FAMILY.robust,
    "B02.e",
    "a request with another JSON-RPC version is refused",
    rules=("RPC-01",),
    send=(
        ChangedRequest({"jsonrpc": "1.0"}, 'a request with "jsonrpc": "1.0"'),
        ChangedRequest({"jsonrpc": 2.0}, 'one with "jsonrpc": 2.0'),
        ChangedRequest(
            lambda message: message.pop("jsonrpc") and None, 'one without "jsonrpc"'
        ),
    ),
    expect=INVALID_REQUEST,
    lenient=Result(),
    why="the mistake shows up much later",
)

add_exchange_case(
    FAMILY.robust,
    "B02.f",
    "params that are not an object are refused",
    rules=("RPC-01",),
    send=(
        ChangedRequest({"params": "x"}, "a request with a string as its params"),
        ChangedRequest({"params": 5}, "one with a number as its params"),
        ChangedRequest({"params": [1, 2]}, "one with an array as its params"),
    ),
    expect=INVALID_REQUEST,
    lenient=PARAMS_IGNORED,
    why="the params are silently ignored",
)

add_exchange_case(
    FAMILY.robust,
    "B02.g",
    "a `_meta` that is not an object is refused",
    send=(
        ChangedRequest(
            {"params": {"_meta": "x"}}, "a request with a string as its `_meta`"
        ),
        ChangedRequest({"params": {"_meta": [1]}}, "one with an array as its `_meta`"),
    ),
    expect=INVALID_REQUEST,
    lenient=PARAMS_IGNORED,
    why="the metadata is silently ignored",
)


@FAMILY.robust(
    "B02.h",
    "errors are not lost among other requests",
    transports=("stdio",),
    sends="fifty requests with the method 5 and fifty valid ones, in one write",
    expects="an error for each request that is not valid, if for a single one",
    why="the client waits forever",
)
async def errors_are_not_lost(subject: Subject) -> None:
    request = ChangedRequest({"method": 5}, "a request with the method 5")
    if not (await request.send(subject)).errors:
        subject.raise_absent("error for a method that is not a string")
    messages = [subject.any_request() for _ in range(100)]
    valid = {message["id"] for message in messages[1::2]}
    for message in messages[::2]:
        message["method"] = 5
    start = len(subject.received)

    def other_answers() -> list[Message]:
        answers = [m for m in subject.received[start:] if m.is_answer]
        return [m for m in answers if m.value.get("id") not in valid]

    await subject.send(b"\n".join(map(encode, messages)))
    for id in valid:
        await subject.wait_answer(id)
    await subject.wait_until(lambda: len(other_answers()) >= 50, 1.0)
    count = len(other_answers())
    subject.expect(count >= 50, "50 errors", f"{count} errors")


# --- batches --------------------------------------------------------------------------


@batches.must(
    "RPC-13.a",
    "each request of a batch is answered",
    source="basic/index#batching",
    sends="an array of two requests with a notification between them",
    expects="one answer for each request, and none for the notification",
    why="clients of this revision may send batches",
)
async def batch_is_answered(subject: Subject) -> None:
    ids = subject.next_id(), f"batch-{subject.next_id()}"
    barrier = subject.facts.barrier
    unknown = subject.message("notifications/mcpwire/unknown")
    messages = [subject.message(barrier, id=id) for id in ids]
    reaction = await subject.provoke(encode([messages[0], unknown, messages[1]]))
    with contextlib.suppress(NoAnswer):
        for id in ids:
            await subject.wait_answer(id, reaction.response, timeout=1.0)
    for id in ids:
        count = len(subject.answers_to(id))
        subject.expect(count == 1, f"one answer to {id!r}", reaction)
    answers = sum(each.is_answer for each in reaction.messages)
    subject.expect(answers <= 2, "no answer to the notification", reaction)


add_exchange_case(
    batches.must,
    "RPC-13.b",
    "a batch of notifications is accepted and not answered",
    source="basic/index#batching",
    send=Octets(
        encode(
            [
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": f"mcpwire-never-{n}"},
                }
                for n in (1, 2)
            ]
        ),
        "an array of two cancellations of unknown requests",
    ),
    expect=Silence(),
    why="clients of this revision may send batches",
)

add_exchange_case(
    batches.robust,
    "B05.a",
    "an empty batch is refused or ignored",
    send=Octets(b"[]"),
    expect=AnyOf(Refusal(), Silence()),
    why="one empty batch aborts all other calls",
)

add_exchange_case(
    batches.robust,
    "B05.b",
    "a batch with an invalid item is answered",
    send=Octets(
        lambda subject: encode([5, subject.any_request()]),
        "an array of a number and a request",
    ),
    expect=AnyOf(Result(), Error(-32600)),
    why="one invalid item leaves all calls of the batch unanswered",
)

add_exchange_case(
    FAMILY.robust,
    "B06.a",
    "batches are refused or ignored in revisions without batches",
    rules=("RPC-15",),
    revisions=NO_BATCHES,
    send=Octets(
        lambda subject: encode([subject.any_request() for _ in range(2)]),
        "an array of two requests",
    ),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="a proxy that inspects messages sees none, and the server executes several",
)

add_exchange_case(
    errors_without_id.robust,
    "B06.b",
    "an array without messages is answered with an error",
    rules=("RPC-15",),
    send=(Octets(b"[]"), Octets(b"[5]")),
    expect=Refusal(),
    why="a bug in the client goes unnoticed",
)
