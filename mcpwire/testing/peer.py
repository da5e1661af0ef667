"""A scripted side of a connection, for valid and invalid behaviour.

`ScriptedPeer` is the base of `ScriptedServer` and `ScriptedClient`: it sends messages
and bytes without any check, receives messages (`Message`), and answers requests by a
table of outcomes by method.

An outcome is a result (a dict, or a value of `mcpwire.types`), an `RPCError`, bytes to
send unchanged, `SILENCE`, a value of `later` or `repeated`, or a function of the
`Message` that returns any of them.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import RPCError
from mcpwire.testing.wire import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.testing.wire import Split, Wire

DEFAULT_TIMEOUT_S: Final = 10.0
"""Default time limit of a peer's waits, in seconds."""


def to_json(value: Any) -> Any:
    """Return a value of `mcpwire.types` as JSON, and a JSON value unchanged."""
    if isinstance(value, (dict, list, str, int, float, type(None))):
        return value
    from mcpwire.types import encode

    return encode(value)


def _answer(id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": to_json(result)}


def _error(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message}
    error |= {} if data is None else {"data": to_json(data)}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def _notification(method: str, params: Any = None) -> dict[str, Any]:
    members = {} if params is None else {"params": to_json(params)}
    return {"jsonrpc": "2.0", "method": method, **members}


class _Silence:
    def __repr__(self) -> str:
        return "SILENCE"


SILENCE: Final = _Silence()
"""The outcome without an answer: `ScriptedPeer.receive` returns the request."""


@attrs.frozen(eq=False)
class Message:
    """A received message.

    Attributes:
        raw: The decoded JSON value, or the line as bytes if it is not JSON.
    """

    raw: Any
    _send: Callable[[Any], None] = attrs.field(repr=False)

    @property
    def id(self) -> Any:
        """The id; ``None`` if the message has none."""
        return self._member("id")

    @property
    def method(self) -> str | None:
        """The method; ``None`` for a response."""
        method = self._member("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> Any:
        """The params; an empty dict if the message has none."""
        return self._member("params", {})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool call; an empty dict if the message has none."""
        params = self.params
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return arguments if isinstance(arguments, dict) else {}

    @property
    def result(self) -> Any:
        """The result of a response; ``None`` if the message has none."""
        return self._member("result")

    @property
    def error(self) -> Any:
        """The error object of a response; ``None`` if the message has none."""
        return self._member("error")

    @property
    def is_request(self) -> bool:
        """Whether the message is a request."""
        return self.method is not None and "id" in self.raw

    @property
    def is_answer(self) -> bool:
        """Whether the message is a response."""
        return self.method is None and isinstance(self.raw, dict) and "id" in self.raw

    def answer(self, result: Any) -> None:
        """Send a result: a dict, or a value of `mcpwire.types`."""
        self._send(_answer(self.id, result))

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """Send an error response."""
        self._send(_error(self.id, code, message, data))

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification if the request has a progress token."""
        params = self.params
        meta = params.get("_meta") if isinstance(params, dict) else None
        if not isinstance(meta, dict) or "progressToken" not in meta:
            return
        progress_params = {"progressToken": meta["progressToken"], "progress": progress}
        progress_params |= {} if total is None else {"total": total}
        progress_params |= {} if message is None else {"message": message}
        self._send(_notification("notifications/progress", progress_params))

    def _member(self, name: str, default: Any = None) -> Any:
        return self.raw.get(name, default) if isinstance(self.raw, dict) else default


@attrs.frozen
class _Later:
    outcome: Any
    seconds: float
    turns: int


@attrs.frozen
class _Repeated:
    outcome: Any
    times: int


def later(outcome: Any, *, seconds: float = 0.0, turns: int = 0) -> Any:
    """Return an outcome that is delayed by some seconds, or else turns of the loop.

    Seconds are those of the loop's clock: none in real time on a `VirtualClockLoop`.
    """
    return _Later(outcome, seconds, turns)


def repeated(outcome: Any, times: int = 2) -> Any:
    """Return an outcome that answers the same request `times` times."""
    return _Repeated(outcome, times)


def in_turn(*outcomes: Any) -> Callable[[Message], Any]:
    """Return an outcome that is the next of these at each request; the last repeats.

    Raises:
        ValueError: No outcome is given.
    """
    if not outcomes:
        raise ValueError("in_turn takes at least one outcome")
    remaining = iter(outcomes[:-1])
    return lambda _: next(remaining, outcomes[-1])


class ScriptedPeer:
    """Sends scripted messages and answers by a table; see `ScriptedServer`.

    `receive` returns the messages that the table does not answer: notifications,
    responses to the peer's own requests, and requests with the outcome `SILENCE`.

    Args:
        answers: Outcomes by method (see the module's text).
        split: The split of each message into parts, the default of `send`.
        turns: Turns of the loop before each part, at least one.

    Attributes:
        answers: The table; it may be changed at any time.
        received: Every received message, over all connections.
        received_bytes: Every received byte, over all connections.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        split: Split = None,
        turns: int = 1,
    ) -> None:
        cut(b"", None if callable(split) else split)  # refuses impossible splits
        self.answers: dict[str, Any] = dict(answers or {})
        self.split = split
        self.turns = turns
        self.received: list[Message] = []
        self.received_bytes = bytearray()
        self._inbox: list[tuple[Wire, Message]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._received_condition = threading.Condition()
        self._wire: Wire | None = None
        self._last_id = 0

    def __repr__(self) -> str:
        state = "connected" if self.is_open else "not connected"
        return f"<{type(self).__name__} {state}, {len(self.received)} received>"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._wire is not None and self._wire.is_open

    # Outgoing data

    def send_bytes(
        self, data: bytes, *, split: Split = None, turns: int | None = None
    ) -> None:
        """Send these bytes unchanged, in the parts of a split (`mcpwire.testing.wire`).

        The defaults of `split` and `turns` are the peer's own.

        Messages are sent in the order of the calls, each part in its own turn of the
        loop. It may be called from any thread.

        Raises:
            ConnectionError: There is no connection.
        """
        self._send_parts(self._need_wire(), data, split, turns)

    def send(
        self, message: Any, *, split: Split = None, turns: int | None = None
    ) -> None:
        """Send any JSON value as one line."""
        self._send_parts(self._need_wire(), _encode_line(message), split, turns)

    def answer(self, id: Any, result: Any) -> None:
        """Answer a request with a dict, or with a value of `mcpwire.types`."""
        self.send(_answer(id, result))

    def fail(self, id: Any, code: int, message: str, data: Any = None) -> None:
        """Answer a request with an error."""
        self.send(_error(id, code, message, data))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(_notification(method, params))

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request and return its id; `request` also waits for the response."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self.send({**_notification(method, params), "id": id})
        return id

    def hang_up(self) -> None:
        """Close the connection after the data that was sent before."""
        self._need_wire().finish()

    def go_silent(self) -> None:
        """Stop sending; the connection stays open."""
        self._need_wire().is_silent = True

    # Incoming data

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        id: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Message:
        """Send a request and return its response.

        Raises:
            AssertionError: No response within `timeout`, or the connection has ended.
        """
        id = self.ask(method, params, id=id)
        wire = self._need_wire()
        return await self._expect(
            lambda message: message.is_answer and message.id == id,
            f"answer to {method!r}",
            timeout,
            is_over=lambda: not wire.is_open,
        )

    async def receive(
        self, method: str | None = None, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> Message:
        """Return the next message that the table did not answer, of a method if given.

        Raises:
            AssertionError: No message within `timeout`, or the connection has ended.
        """
        expected = "message" if method is None else repr(method)
        return await self._expect(
            lambda message: method is None or message.method == method,
            expected,
            timeout,
            is_over=self._is_over,
        )

    async def closed(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until the connection is closed by either side.

        Raises:
            AssertionError: It was not closed within `timeout`.
        """
        await self._wait(lambda: not self.is_open, "end of the connection", timeout)

    def wait_for(
        self, method: str, *, count: int = 1, timeout: float = DEFAULT_TIMEOUT_S
    ) -> list[Message]:
        """Wait without a loop until `count` messages of a method are received in all.

        For tests of blocking clients, which run the loop of the peer.

        Raises:
            AssertionError: Fewer messages were received within `timeout`.
        """

        def matching() -> list[Message]:
            return [m for m in self.received if m.method == method]

        with self._received_condition:
            if self._received_condition.wait_for(
                lambda: len(matching()) >= count, timeout
            ):
                return matching()
        raise AssertionError(
            f"{len(matching())} of {count} {method!r} came within {timeout:g} s: "
            f"{self._describe_received()}"
        )

    def requests(self, method: str) -> list[Any]:
        """Return the params of each received request or notification of a method."""
        return [each.params for each in self.received if each.method == method]

    async def _expect(
        self,
        matches: Callable[[Message], bool],
        expected: str,
        timeout: float,
        *,
        is_over: Callable[[], bool],
    ) -> Message:
        matched: list[Message] = []

        def take_match() -> bool:
            match = next((each for each in self._inbox if matches(each[1])), None)
            if match is not None:
                self._inbox.remove(match)
                matched.append(match[1])
            elif is_over():
                raise AssertionError(
                    f"no {expected} came before the end: {self._describe_received()}"
                )
            return match is not None

        await self._wait(take_match, expected, timeout)
        return matched[0]

    async def _wait(
        self, is_met: Callable[[], bool], expected: str, timeout: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not is_met():
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise AssertionError(
                f"no {expected} came within {timeout:g} s: {self._describe_received()}"
            ) from None

    def _is_over(self) -> bool:
        """Return whether no further message can arrive."""
        return not self.is_open

    def _describe_received(self) -> str:
        """Describe the messages received so far."""
        names = [
            each.method or ("answer" if each.is_answer else "noise")
            for each in self.received
        ]
        text = f"received {', '.join(names)}" if names else "nothing was received"
        problem = self._wire.problem if self._wire is not None else ""
        return f"{text} ({problem})" if problem else text

    def _notify_waiters(self) -> None:
        with self._received_condition:
            self._received_condition.notify_all()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Callbacks of the wire

    def wire_received(self, wire: Wire, data: bytes) -> None:
        """Process received bytes, and each message that they complete."""
        self.received_bytes += data
        wire.partial += data
        if b"\n" in data:
            *lines, wire.partial = wire.partial.split(b"\n")
            for line in lines:
                if line.strip():
                    self._receive_line(wire, bytes(line))
        self._notify_waiters()

    def wire_ended(self, wire: Wire) -> None:
        """Handle the end of the connection, from either side."""
        self._notify_waiters()

    def _set_wire(self, wire: Wire) -> None:
        """Make a connection the current one; earlier ones stay usable."""
        self._wire = wire
        # Messages of closed connections are no longer of use.
        self._inbox = [each for each in self._inbox if each[0].is_open]

    def _need_wire(self) -> Wire:
        if self._wire is None or not self._wire.is_open:
            raise ConnectionError(f"not connected: {self!r}")
        return self._wire

    def _send_parts(
        self, wire: Wire, data: bytes, split: Split = None, turns: int | None = None
    ) -> None:
        parts = cut(data, self.split if split is None else split)
        wire.put(parts, self.turns if turns is None else turns)

    def _receive_line(self, wire: Wire, line: bytes) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = line

        def send(message: Any) -> None:
            self._send_parts(wire, _encode_line(message))

        for item in value if isinstance(value, list) else [value]:
            message = Message(item, send)
            self.received.append(message)
            if not self._process(wire, message):
                self._inbox.append((wire, message))

    def _process(self, wire: Wire, message: Message) -> bool:
        """Process a message; return False if `receive` is to return it."""
        outcome = self.answers.get(message.method or "", self.outcome)
        return message.is_request and self._perform(wire, message, outcome)

    # The table of outcomes

    def outcome(self, request: Message) -> Any:
        """Return the outcome of a method that is not in the table."""
        return SILENCE

    def _perform(self, wire: Wire, request: Message, outcome: Any) -> bool:
        """Perform an outcome; return False for `SILENCE`."""
        if not wire.is_open:
            return True  # a function of the test may have closed it
        if callable(outcome):
            return self._perform(wire, request, _call_script(outcome, request))
        if outcome is SILENCE:
            return False
        if isinstance(outcome, _Later):
            perform = partial(self._perform, wire, request, outcome.outcome)
            if outcome.seconds > 0:
                wire.later(outcome.seconds, perform)
            else:
                wire.after_turns(outcome.turns, perform)
        elif isinstance(outcome, _Repeated):
            for _ in range(outcome.times):
                self._perform(wire, request, outcome.outcome)
        elif isinstance(outcome, bytes):
            self._send_parts(wire, outcome)
        else:
            _answer_request(request, outcome)
        return True


def _encode_line(message: Any) -> bytes:
    return json.dumps(to_json(message), separators=(",", ":")).encode() + b"\n"


def _answer_request(request: Message, outcome: Any) -> None:
    """Answer a request; an outcome without a JSON form becomes an error answer."""
    try:
        if isinstance(outcome, RPCError):
            request.fail(outcome.code, outcome.message, outcome.data)
        else:
            request.answer(outcome)
    except Exception as error:  # noqa: BLE001 - must reach the waiting caller
        request.fail(-32603, f"the outcome cannot be sent: {error}")


def _call_script(script: Callable[[Message], Any], request: Message) -> Any:
    """Call a function of the test; its errors become error answers."""
    try:
        outcome = script(request)
    except RPCError as error:
        return error
    except Exception as error:  # noqa: BLE001 - must reach the waiting caller
        return RPCError(f"the script raised {error!r}", code=-32603)
    if inspect.iscoroutine(outcome):
        outcome.close()
        return RPCError(
            f"{script!r} is a coroutine function: scripts are plain functions, "
            "and what takes time is said with `later`",
            code=-32603,
        )
    return outcome
