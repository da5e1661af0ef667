"""Declarative cases: data to send, and the expected reaction of the server.

::

    add_exchange_case(
        FAMILY.must, "RPC-31.a", "an unknown method is answered with -32601",
        source="schema#MethodNotFoundError",
        send=Request("mcpwire/no-such-method"),
        expect=Error(-32601),
        why="clients probe for features by this code",
    )

A `Request` without an answer has the verdict `hang`. Other data is followed by requests
whose answers prove that the server has read it (`Subject.provoke`); so `Silence` can be
expected. If `send` has several parts, the server must react to each as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.check.peer import HeaderValue
from mcpwire.check.subject import Message, Reaction, Subject, printable
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.check.case import CaseFunction
    from mcpwire.check.peer import Response

Params: TypeAlias = Mapping[str, Any] | Callable[[Subject], Mapping[str, Any]] | None
"""Params of a message, or a function that makes them for a server."""
Headers: TypeAlias = Mapping[str, HeaderValue]
"""Header fields to add or replace; ``None`` removes a field."""

_MAX_SHOWN_CHARS: Final = 120
_MAX_LISTED_VALUES: Final = 8  # maximum number of values that a text lists


# --- data to send ---------------------------------------------------------------------


@attrs.frozen
class Request:
    """A request that must be answered."""

    method: str
    params: Params = None
    text: str = ""
    """Description; by default made from the method and params."""

    async def send(self, subject: Subject, *, waits: bool = True) -> Reaction:
        """Send the request; return its answer only."""
        answer = await subject.request(
            self.method, _resolve_params(self.params, subject)
        )
        return Reaction([answer.message], answer.response)

    def __str__(self) -> str:
        return self.text or f"the request {self.method}{_describe_params(self.params)}"


@attrs.frozen
class Notification:
    """A notification."""

    method: str
    params: Params = None
    text: str = ""

    async def send(self, subject: Subject, *, waits: bool = True) -> Reaction:
        """Send the notification; return the reaction."""
        message = subject.message(self.method, _resolve_params(self.params, subject))
        return await subject.provoke(message)

    def __str__(self) -> str:
        return (
            self.text
            or f"the notification {self.method}{_describe_params(self.params)}"
        )


@attrs.frozen
class ChangedRequest:
    """A valid request of the revision with a change, usually an invalid one."""

    change: Mapping[str, Any] | Callable[[dict[str, Any]], Any]
    """Members to add or replace, or a function that changes the message in place or
    returns another one."""
    text: str
    method: str = ""
    """By default the method of `Facts.barrier`."""
    params: Params = None
    headers: Headers | None = None

    async def send(self, subject: Subject, *, waits: bool = True) -> Reaction:
        """Send the changed request; return the reaction."""
        message: Any = subject.message(
            self.method or subject.facts.barrier,
            _resolve_params(self.params, subject),
            id=subject.next_id(),
        )
        headers = {**subject.http_headers(message), **(self.headers or {})}
        if isinstance(self.change, Mapping):
            message.update(self.change)
        else:
            message = self.change(message) or message
        return await subject.provoke(message, headers=headers, waits=waits)

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Octets:
    """Unchanged octets: a line, or the body of a POST."""

    data: bytes | Callable[[Subject], bytes]
    text: str = ""
    """Description; by default the octets themselves."""

    async def send(self, subject: Subject, *, waits: bool = True) -> Reaction:
        """Send the octets; return the reaction."""
        data = self.data if isinstance(self.data, bytes) else self.data(subject)
        return await subject.provoke(data, waits=waits)

    def __str__(self) -> str:
        if self.text or not isinstance(self.data, bytes):
            return self.text
        return f"the bytes {printable(self.data)[:_MAX_SHOWN_CHARS]}"


_VALUE_PARAMS: Final = {"_meta": {"com.example/value": "mcpwire"}}


def rewritten_request(change: Callable[[bytes], bytes], text: str) -> ChangedRequest:
    """Return the barrier request with changed octets."""
    return ChangedRequest(
        lambda message: change(encode(message)), text, params=_VALUE_PARAMS
    )


def request_with_value(value: bytes, text: str) -> ChangedRequest:
    """Return the barrier request with another value in its params, as JSON text."""
    return rewritten_request(lambda line: line.replace(b'"mcpwire"', value), text)


def _resolve_params(params: Params, subject: Subject) -> Mapping[str, Any] | None:
    return params(subject) if callable(params) else params


def _describe_params(params: Params) -> str:
    if params is None or callable(params):
        return ""
    return f" with the params {printable(dict(params))[:_MAX_SHOWN_CHARS]}"


Sendable: TypeAlias = Request | Notification | ChangedRequest | Octets


# --- expected reactions ---------------------------------------------------------------


class Error:
    """An error with one of the codes and, over HTTP, one of the statuses."""

    def __init__(
        self,
        *codes: int,
        status: Sequence[int] = (),
        data: Callable[[Any], object] | None = None,
        text: str = "",
    ) -> None:
        self.codes = codes
        self.statuses = tuple(status)
        self.data = data
        self.text = text

    def matches(self, reaction: Reaction) -> bool:
        """Return whether the reaction has such an error."""
        has_status = reaction.response is None or reaction.status in self.statuses
        if self.statuses and not has_status:
            return False
        return any(
            error.get("code") in self.codes
            and (self.data is None or bool(self.data(error.get("data"))))
            for message in reaction.errors
            if isinstance(error := message.value["error"], dict)
        )

    def __str__(self) -> str:
        error = (
            f"an error {_join_values(self.codes)}{f' {self.text}' if self.text else ''}"
        )
        http = f"; over HTTP with the status {_join_values(self.statuses)}"
        return error + (http if self.statuses else "")


class Refusal:
    """An error with any code; over HTTP, also a status from 400 to 499."""

    def matches(self, reaction: Reaction) -> bool:
        """Return whether the server refused the data."""
        return bool(reaction.errors) or 400 <= (reaction.status or 0) < 500

    def __str__(self) -> str:
        return "an error, or over HTTP a status from 400 to 499"


@attrs.frozen
class Result:
    """A result for which a condition holds."""

    condition: Callable[[dict[str, Any]], object] = lambda _: True
    text: str = "a result"

    def matches(self, reaction: Reaction) -> bool:
        """Return whether the reaction has such a result."""
        return any(
            isinstance(result := message.value.get("result"), dict)
            and bool(self.condition(result))
            for message in reaction.messages
            if message.is_answer and isinstance(message.value, dict)
        )

    def __str__(self) -> str:
        return self.text


class Silence:
    """No answer, and the process still runs; over HTTP, no body that may be an answer.

    The server may send notifications and requests.
    """

    def matches(self, reaction: Reaction) -> bool:
        """Return whether the reaction has no answer, and the process still runs."""
        response = reaction.response
        body = b"" if response is None else response.body.strip()
        if response is not None and body not in (b"", b"null"):
            is_json = "json" in response.media_type or body.startswith((b"{", b"["))
            if is_json or response.status >= 400:
                return False
        return not reaction.is_answered and not reaction.has_ended

    def __str__(self) -> str:
        return "no answer and no crash"


class Status:
    """A response with one of the statuses for which a condition holds."""

    def __init__(
        self,
        *statuses: int,
        condition: Callable[[Response], object] = lambda _: True,
        text: str = "",
    ) -> None:
        self.statuses = statuses
        self.condition = condition
        self.text = text

    def matches(self, reaction: Reaction) -> bool:
        """Return whether the reaction has such a response."""
        response = reaction.response
        if response is None or response.status not in self.statuses:
            return False
        return bool(self.condition(response))

    def __str__(self) -> str:
        if self.statuses == (0,):
            return self.text
        article = "a" if len(self.statuses) > _MAX_LISTED_VALUES else "the"
        suffix = f", {self.text}" if self.text else ""
        return f"{article} status {_join_values(self.statuses)}{suffix}"


class AnyOf:
    """Any of several expected reactions."""

    def __init__(self, *alternatives: Expectation) -> None:
        self.alternatives = alternatives

    def matches(self, reaction: Reaction) -> bool:
        """Return whether any of them holds."""
        return any(each.matches(reaction) for each in self.alternatives)

    def __str__(self) -> str:
        return ", or ".join(map(str, self.alternatives))


Expectation: TypeAlias = Error | Refusal | Result | Silence | Status | AnyOf

_REFUSAL: Final = Reaction([Message(b"", {"error": {"code": -32600}})])
IGNORED: Final = AnyOf(Silence(), Status(*range(400, 500)))
"""No answer; over HTTP a status from 400 to 499 is allowed, too."""


def _join_values(values: Sequence[object]) -> str:
    if len(values) > _MAX_LISTED_VALUES:
        return f"from {values[0]} to {values[-1]}"
    texts = list(map(str, values))
    return ", ".join([*texts[:-2], " or ".join(texts[-2:])])


# --- cases ----------------------------------------------------------------------------


def add_exchange_case(
    add: Callable[..., Callable[[CaseFunction], CaseFunction]],
    id: str,
    title: str,
    *,
    send: Sendable | tuple[Sendable, ...],
    expect: Expectation,
    lenient: Expectation | None = None,
    **facts: Any,
) -> None:
    """Add a case; `add`: a method of its family, such as `Family.must`.

    `lenient`: another, harmless reaction. `facts`: attributes of the `Case`.
    """
    parts = (*send,) if isinstance(send, tuple) else (send,)
    is_any = expect.matches(Reaction([])) and expect.matches(_REFUSAL)

    async def run(subject: Subject) -> None:
        for part in parts:
            reaction = await part.send(subject, waits=not is_any)
            if not expect.matches(reaction):
                reaction = await subject.wait_late_answer(reaction)
            if expect.matches(reaction):
                continue
            expected = f"{expect} for {part}" if len(parts) > 1 else str(expect)
            subject.expect(not reaction.has_ended, expected, reaction)
            if lenient is not None and lenient.matches(reaction):
                subject.raise_lenient(expected, reaction)
            subject.raise_broken(expected, reaction)

    expects = str(expect) + (f"; lenient: {lenient}" if lenient else "")
    add(id, title, sends="; ".join(map(str, parts)), expects=expects, **facts)(run)
