"""Requests in flight, duplicate ids, and extreme JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import EndedWithoutAnswer, Family
from mcpwire.check.cases._calls import echo_params, texts_of
from mcpwire.check.cases._exchange import (
    AnyOf,
    Refusal,
    Result,
    Silence,
    add_exchange_case,
    request_with_value,
    rewritten_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("sequences")

SOURCE: Final = "basic/index#result-responses"

LATE_TIMEOUT_S: Final = 1.0  # time limit for an answer that arrives out of order
_LISTS: Final = {"tools": "tools", "prompts": "prompts", "resources": "resources"}


@attrs.frozen
class _PendingRequest:
    """A request and the check of its answer."""

    id: int | str
    fits: Callable[[Message], object]
    text: str
    response: Response | None = None


class _RequestSource:
    """Source of random requests, each with a check of its answer."""

    def __init__(self, subject: Subject, *, can_echo: bool, has_errors: bool) -> None:
        self.subject = subject
        self._factories = [self._barrier]
        self._factories += [self._unknown] if has_errors else []
        self._factories += [self._list] if self._lists() else []
        self._factories += [self._echo] * 3 if can_echo else []

    def _lists(self) -> list[str]:
        return [name for name in _LISTS if self.subject.facts.declares(name)]

    def next_request(self) -> tuple[dict[str, Any], _PendingRequest]:
        """Return a random request message, and the check of its answer."""
        number = self.subject.next_id()
        id = self.subject.random.choice((number, f"mcpwire-{number}"))
        return self.subject.random.choice(self._factories)(id)

    def _barrier(self, id: int | str) -> tuple[dict[str, Any], _PendingRequest]:
        message = self.subject.message(self.subject.facts.barrier, id=id)
        return message, _PendingRequest(id, lambda m: "result" in m.value, "a result")

    def _unknown(self, id: int | str) -> tuple[dict[str, Any], _PendingRequest]:
        message = self.subject.message(f"mcpwire/{id}", id=id)
        return message, _PendingRequest(id, lambda m: "error" in m.value, "an error")

    def _list(self, id: int | str) -> tuple[dict[str, Any], _PendingRequest]:
        name = self.subject.random.choice(self._lists())

        def fits(message: Message) -> bool:
            result = message.value.get("result")
            return isinstance(result, dict) and name in result

        message = self.subject.message(f"{name}/list", {}, id=id)
        return message, _PendingRequest(id, fits, f"a result with {name}")

    def _echo(self, id: int | str) -> tuple[dict[str, Any], _PendingRequest]:
        text = f"mcpwire {id} {self.subject.random.random()}"
        params = echo_params(self.subject, text)
        message = self.subject.message("tools/call", params, id=id)
        return message, _PendingRequest(
            id, lambda m: text in texts_of(m), f"the text {text!r}"
        )


async def _can_echo(subject: Subject) -> bool:
    if "echo" not in subject.facts.roles:
        return False
    params = echo_params(subject, "mcpwire first")
    answer = await subject.request("tools/call", params)
    return "mcpwire first" in texts_of(answer.message)


async def _has_errors(subject: Subject) -> bool:
    """Return whether an unknown method has an answer, not only an HTTP status."""
    try:
        await subject.request("mcpwire/no-such-method")
    except EndedWithoutAnswer:
        return False
    return True


async def _run_traffic(subject: Subject, count: int, max_in_flight: int) -> None:
    """Send `count` random requests, a limited number in flight; check each answer."""
    can_echo, has_errors = await _can_echo(subject), await _has_errors(subject)
    source = _RequestSource(subject, can_echo=can_echo, has_errors=has_errors)
    pending: list[_PendingRequest] = []
    requests: list[_PendingRequest] = []

    async def await_answer() -> None:
        request = pending.pop(subject.random.randrange(len(pending)))
        answer = await subject.wait_answer(request.id, request.response)
        fits = request.fits(answer.message)
        subject.expect(fits, f"{request.text} for {request.id!r}", answer)

    for _ in range(count):
        message, request = source.next_request()
        response = await subject.send(message)
        pending.append(attrs.evolve(request, response=response))
        requests.append(request)
        while len(pending) > subject.random.randrange(max_in_flight):
            await await_answer()
    while pending:
        await await_answer()
    await subject.barrier()
    for request in requests:
        subject.expect_one_answer(request.id, f"one answer to {request.id!r}")


@FAMILY.must(
    "RPC-07.e",
    "each of several calls in flight gets its own answer",
    source=SOURCE,
    sends="fifty random requests, up to eight in flight: calls to the `echo` tool, "
    "lists, unknown methods, with ids of both types",
    expects="one answer to each, with its own text, list or error",
    why="two users see each other's data",
)
async def short_traffic(subject: Subject) -> None:
    await _run_traffic(subject, 50, 8)


@FAMILY.must(
    "RPC-07.f",
    "each of many calls in flight gets its own answer",
    source=SOURCE,
    is_quick=False,
    sends="four hundred random requests, up to forty in flight",
    expects="one answer to each, with its own text, list or error",
    why="two users see each other's data",
    bound_s=60.0,
)
async def long_traffic(subject: Subject) -> None:
    await _run_traffic(subject, 400, 40)


@FAMILY.robust(
    "B04.a",
    "two concurrent calls with one id do not mix up their answers",
    rules=("RPC-05", "RPC-06"),
    needs=("role:echo",),
    is_quick=False,
    sends="fifty pairs of concurrent calls to the `echo` tool, with one id for a pair",
    expects="one or two answers, each an error or one of the texts",
    why="a client with a wrong counter hangs, or gets the data of another call",
)
async def same_id_twice(subject: Subject) -> None:
    if not await _can_echo(subject):
        subject.raise_absent("`echo` tool that returns its text")
    ids = [f"mcpwire-twice-{subject.next_id()}" for _ in range(50)]
    sent: dict[int, str] = {}
    for id in ids:
        texts = [f"mcpwire one {id}", f"mcpwire two {id}"]
        calls = [echo_params(subject, text) for text in texts]
        sends = [subject.send(subject.message("tools/call", c, id=id)) for c in calls]
        responses = await asyncio.gather(*sends)
        numbers = [response.number if response else 0 for response in responses]
        sent |= dict(zip(numbers, texts, strict=True))
        await subject.wait_answer(id)
    await subject.barrier()
    await subject.barrier()
    # A later answer would count for the next case.
    await subject.wait_until(
        lambda: all(len(subject.answers_to(i)) > 1 for i in ids), LATE_TIMEOUT_S
    )
    for id in ids:
        answers = subject.answers_to(id)
        subject.expect(
            len(answers) <= 2, "at most two answers", f"{len(answers)} answers"
        )
        for answer in answers:
            is_http = answer.stream in sent and len(sent) > 1
            own = sent[answer.stream] if is_http else str(id)
            fits = "error" in answer.value or own in texts_of(answer)
            subject.expect(fits, "an error or its own text", answer.raw)


@FAMILY.must(
    "B04.b",
    "calls with the same id from two clients get their own answers",
    source=SOURCE,
    transports=("http",),
    needs=("role:echo",),
    sends="twenty calls to the `echo` tool from each of two clients, with the same ids",
    expects="each client gets its own texts",
    why="two users see each other's data",
)
async def same_id_in_two_sessions(subject: Subject) -> None:
    if not await _can_echo(subject):
        subject.raise_absent("`echo` tool that returns its text")
    sessions = subject, await subject.open_another()
    for number in range(20):
        id = 880_000 + number
        calls = []
        for name, session in zip(("one", "two"), sessions, strict=True):
            params = echo_params(session, f"mcpwire {name} {number}")
            message = session.message("tools/call", params, id=id)
            calls.append((session, name, await session.send(message)))
        for session, name, response in calls:
            answer = await session.wait_answer(id, response)
            fits = f"mcpwire {name} {number}" in texts_of(answer.message)
            session.expect(fits, f"the text of client {name}", answer)


# --- extreme JSON ---------------------------------------------------------------------

RESULT_OR_REFUSAL: Final = AnyOf(Result(), Refusal())

hostile = FAMILY.with_defaults(is_hostile=True, bound_s=60.0)


add_exchange_case(
    FAMILY.robust,
    "B13.a",
    "params nested ten thousand levels deep are answered or refused",
    send=request_with_value(
        b"[" * 10_000 + b"]" * 10_000, "a request with 10,000 nested arrays"
    ),
    expect=RESULT_OR_REFUSAL,
    why="one request crashes the server for all users",
)

add_exchange_case(
    FAMILY.robust,
    "B13.b",
    "a duplicate name in an object is accepted or refused",
    send=(
        request_with_value(
            b'{"a":1,"a":2}', "a request with a duplicate name in its params"
        ),
        rewritten_request(
            lambda line: line.replace(b'{"jsonrpc"', b'{"jsonrpc":"2.0","jsonrpc"', 1),
            'one with "jsonrpc" twice',
        ),
    ),
    expect=RESULT_OR_REFUSAL,
    why="one request crashes the server for all users",
)

add_exchange_case(
    FAMILY.robust,
    "B13.c",
    "messages with NaN or Infinity are refused or ignored",
    send=(
        request_with_value(b"NaN", "a request with NaN"),
        request_with_value(b"-Infinity", "one with -Infinity"),
    ),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="they are not JSON, and other implementations reject the whole message",
)

add_exchange_case(
    FAMILY.robust,
    "B13.d",
    "extreme numbers are answered or refused",
    send=(
        request_with_value(b"1e400", "a request with 1e400"),
        request_with_value(b"9" * 5_000, "one with an integer of 5,000 digits"),
        request_with_value(b"-0.0", "one with -0.0"),
    ),
    expect=RESULT_OR_REFUSAL,
    why="one request crashes the server for all users",
)

add_exchange_case(
    hostile.robust,
    "B13.e",
    "an object with a million names is answered or refused",
    send=request_with_value(
        b"{" + b",".join(b'"%d":1' % i for i in range(1_000_000)) + b"}",
        "a request with a million names in its params",
    ),
    expect=RESULT_OR_REFUSAL,
    why="one request blocks the server for all users",
)

add_exchange_case(
    hostile.robust,
    "B13.f",
    "an integer of five million digits is answered or refused",
    send=request_with_value(
        b"9" * 5_000_000, "a request with an integer of five million digits"
    ),
    expect=RESULT_OR_REFUSAL,
    why="one request blocks the server for all users",
)
