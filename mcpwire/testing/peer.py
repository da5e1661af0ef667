"""One side of a connection that does what a test says, right or wrong.

`ScriptedPeer` is what `ScriptedServer` and `ScriptedClient` share: messages and bytes
out, messages in (`Message`), and a table of outcomes by method. What it sends passes no
check.

An outcome is a result (a dict, or a value of `mcpwire.types`), an `RPCError`, bytes to
send as they are, `SILENCE`, one of the marks below, or a function of the `Message` that
returns any of them.
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

__all__ = [
    "PATIENCE_S",
    "SILENCE",
    "Message",
    "ScriptedPeer",
    "in_turn",
    "later",
    "plain",
    "repeated",
]

PATIENCE_S: Final = 10.0
"""How long a peer waits for what a test expects, unless told otherwise."""


def plain(value: Any) -> Any:
    """Return a value of `mcpwire.types` as JSON, and anything else as it is."""
    if isinstance(value, (dict, list, str, int, float, type(None))):
        return value
    from mcpwire.types import encode

    return encode(value)


def _answer(id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": plain(result)}


def _error(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message}
    error |= {} if data is None else {"data": plain(data)}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def _notification(method: str, params: Any = None) -> dict[str, Any]:
    members = {} if params is None else {"params": plain(params)}
    return {"jsonrpc": "2.0", "method": method, **members}


class _Silence:
    def __repr__(self) -> str:
        return "SILENCE"


SILENCE: Final = _Silence()
"""The outcome that answers nothing: the request waits for `ScriptedPeer.receive`."""


@attrs.frozen(eq=False)
class Message:
    """One message as it came.

    Attributes:
        raw: The decoded JSON, untouched; the line itself, as bytes, where it is none.
    """

    raw: Any
    _send: Callable[[Any], None] = attrs.field(repr=False)

    @property
    def id(self) -> Any:
        """The id; ``None`` where there is none."""
        return self._member("id")

    @property
    def method(self) -> str | None:
        """The method; ``None`` of an answer."""
        method = self._member("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> Any:
        """The params; an empty dict where there are none."""
        return self._member("params", {})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool call; an empty dict where there are none."""
        params = self.params
        found = params.get("arguments") if isinstance(params, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def result(self) -> Any:
        """The result of an answer; ``None`` where there is none."""
        return self._member("result")

    @property
    def error(self) -> Any:
        """The error object of an answer; ``None`` where there is none."""
        return self._member("error")

    @property
    def is_request(self) -> bool:
        """Whether it waits for an answer."""
        return self.method is not None and "id" in self.raw

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request."""
        return self.method is None and isinstance(self.raw, dict) and "id" in self.raw

    def answer(self, result: Any) -> None:
        """Answer it: with a result as a dict, or with a value of `mcpwire.types`."""
        self._send(_answer(self.id, result))

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """Answer it with an error."""
        self._send(_error(self.id, code, message, data))

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far it has come, if it asked for that."""
        params = self.params
        meta = params.get("_meta") if isinstance(params, dict) else None
        if not isinstance(meta, dict) or "progressToken" not in meta:
            return
        told = {"progressToken": meta["progressToken"], "progress": progress}
        told |= {} if total is None else {"total": total}
        told |= {} if message is None else {"message": message}
        self._send(_notification("notifications/progress", told))

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
    """Return an outcome that comes after so many seconds or turns of the loop.

    Seconds are those of the loop's clock: with a `VirtualClockLoop` they take no time.
    """
    return _Later(outcome, seconds, turns)


def repeated(outcome: Any, times: int = 2) -> Any:
    """Return an outcome that answers the same id so many times."""
    return _Repeated(outcome, times)


def in_turn(*outcomes: Any) -> Callable[[Message], Any]:
    """Return an outcome that is the first at first, then the second; the last stays.

    Raises:
        ValueError: There is none.
    """
    if not outcomes:
        raise ValueError("in_turn takes at least one outcome")
    left = iter(outcomes[:-1])
    return lambda _: next(left, outcomes[-1])


class ScriptedPeer:
    """Sends what it is told to and answers by a table; see `ScriptedServer`.

    What the table does not answer waits for `receive`: notifications, answers to our
    own requests, and requests with the outcome `SILENCE`.

    Args:
        answers: Outcomes by method (see the module's text).
        split: How every message is cut, unless `send` or `send_bytes` say otherwise.
        turns: Turns of the loop before each part, at least one.

    Attributes:
        answers: The table; it may be changed at any time.
        received: Every message that came, over all connections.
        received_bytes: Every byte that came, over all connections.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        split: Split = None,
        turns: int = 1,
    ) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.split = split
        self.turns = turns
        self.received: list[Message] = []
        self.received_bytes = bytearray()
        self._inbox: list[tuple[Wire, Message]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._arrived = threading.Condition()
        self._wire: Wire | None = None
        self._last_id = 0

    def __repr__(self) -> str:
        state = "connected" if self.is_open else "not connected"
        return f"<{type(self).__name__} {state}, {len(self.received)} received>"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._wire is not None and self._wire.is_open

    # Out...

    def send_bytes(
        self, data: bytes, *, split: Split = None, turns: int | None = None
    ) -> None:
        """Send exactly these bytes, in these parts (see `mcpwire.testing.wire`).

        Where `split` or `turns` is left out, the peer's own counts.

        Messages leave in the order in which they were given, each part in a turn of the
        loop of its own. It may be called from any thread.

        Raises:
            ConnectionError: There is no connection.
        """
        self._put(self._need_wire(), data, split, turns)

    def send(
        self, message: Any, *, split: Split = None, turns: int | None = None
    ) -> None:
        """Send any JSON value as one line."""
        self._put(self._need_wire(), _line(message), split, turns)

    def answer(self, id: Any, result: Any) -> None:
        """Answer a request: with a dict, or with a value of `mcpwire.types`."""
        self.send(_answer(id, result))

    def fail(self, id: Any, code: int, message: str, data: Any = None) -> None:
        """Answer a request with an error."""
        self.send(_error(id, code, message, data))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(_notification(method, params))

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request and return its id; `request` also waits for the answer."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self.send({**_notification(method, params), "id": id})
        return id

    def hang_up(self) -> None:
        """Close the connection once everything sent before has left."""
        self._need_wire().finish()

    def go_silent(self) -> None:
        """Send nothing from now on, whatever is asked; the connection stays open."""
        self._need_wire().is_silent = True

    # In...

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        id: Any = None,
        timeout: float = PATIENCE_S,
    ) -> Message:
        """Send a request and return the message that answers it.

        Raises:
            AssertionError: No answer came in time, or the other side went away.
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
        self, method: str | None = None, *, timeout: float = PATIENCE_S
    ) -> Message:
        """Return the next message that was not answered, of that method if given.

        Raises:
            AssertionError: None came in time, or the other side went away.
        """
        what = "message" if method is None else repr(method)
        return await self._expect(
            lambda message: method is None or message.method == method,
            what,
            timeout,
            is_over=self._is_over,
        )

    async def closed(self, *, timeout: float = PATIENCE_S) -> None:
        """Wait until the connection is closed by either side.

        Raises:
            AssertionError: It was not in time.
        """
        await self._wait(lambda: not self.is_open, "end of the connection", timeout)

    def wait_for(
        self, method: str, *, count: int = 1, timeout: float = PATIENCE_S
    ) -> list[Message]:
        """Wait, without a loop, until so many messages of a method have come, ever.

        For tests of blocking clients, which run the loop of their server.

        Raises:
            AssertionError: They did not come in time.
        """

        def come() -> list[Message]:
            return [each for each in self.received if each.method == method]

        with self._arrived:
            if self._arrived.wait_for(lambda: len(come()) >= count, timeout):
                return come()
        raise AssertionError(
            f"{len(come())} of {count} {method!r} came within {timeout:g} s: "
            f"{self._account()}"
        )

    def requests(self, method: str) -> list[Any]:
        """Return the params of each request and notification of that method so far."""
        return [each.params for each in self.received if each.method == method]

    async def _expect(
        self,
        matches: Callable[[Message], bool],
        what: str,
        timeout: float,
        *,
        is_over: Callable[[], bool],
    ) -> Message:
        found: list[Message] = []

        def look() -> bool:
            match = next((each for each in self._inbox if matches(each[1])), None)
            if match is not None:
                self._inbox.remove(match)
                found.append(match[1])
            elif is_over():
                raise AssertionError(
                    f"no {what} came before the end: {self._account()}"
                )
            return match is not None

        await self._wait(look, what, timeout)
        return found[0]

    async def _wait(
        self, is_met: Callable[[], bool], what: str, timeout: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not is_met():
                    arrival = asyncio.get_running_loop().create_future()
                    self._waiting.append(arrival)
                    await arrival
        except TimeoutError:
            raise AssertionError(
                f"no {what} came within {timeout:g} s: {self._account()}"
            ) from None

    def _is_over(self) -> bool:
        """Tell whether no further message can arrive."""
        return not self.is_open

    def _account(self) -> str:
        """Describe the messages received so far."""
        names = [
            each.method or ("answer" if each.is_answer else "noise")
            for each in self.received
        ]
        return f"received {', '.join(names)}" if names else "nothing was received"

    def _wake(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        waiting, self._waiting = self._waiting, []
        for arrival in waiting:
            if not arrival.done():
                arrival.set_result(None)

    # What the wire tells...

    def wire_received(self, wire: Wire, data: bytes) -> None:
        """Take bytes, and each message that they complete."""
        self.received_bytes += data
        wire.partial += data
        if b"\n" in data:
            *lines, wire.partial = wire.partial.split(b"\n")
            for line in lines:
                if line.strip():
                    self._take_line(wire, bytes(line))
        self._wake()

    def wire_ended(self, wire: Wire) -> None:
        """Handle the end of the connection, from either side."""
        self._wake()

    def _use(self, wire: Wire) -> None:
        """Make a connection the current one; earlier ones stay usable."""
        self._wire = wire
        # What nobody took of connections that are over concerns nobody any more.
        self._inbox = [each for each in self._inbox if each[0].is_open]

    def _need_wire(self) -> Wire:
        if self._wire is None or not self._wire.is_open:
            raise ConnectionError(f"there is no connection: {self!r}")
        return self._wire

    def _put(
        self, wire: Wire, data: bytes, split: Split = None, turns: int | None = None
    ) -> None:
        parts = cut(data, self.split if split is None else split)
        wire.put(parts, self.turns if turns is None else turns)

    def _take_line(self, wire: Wire, line: bytes) -> None:
        try:
            value = json.loads(line)
        except ValueError:
            value = line

        def send(message: Any) -> None:
            self._put(wire, _line(message))

        for item in value if isinstance(value, list) else [value]:
            message = Message(item, send)
            self.received.append(message)
            outcome = self.answers.get(message.method or "", self.outcome)
            if not (message.is_request and self._act(wire, message, outcome)):
                self._inbox.append((wire, message))

    # The table...

    def outcome(self, request: Message) -> Any:
        """Return the outcome of a method that is not in the table."""
        return SILENCE

    def _act(self, wire: Wire, request: Message, outcome: Any) -> bool:
        """Perform an outcome; return False for `SILENCE`."""
        if not wire.is_open:
            return True  # a function may have closed it
        if callable(outcome):
            return self._act(wire, request, _call(outcome, request))
        if outcome is SILENCE:
            return False
        if isinstance(outcome, _Later):
            act = partial(self._act, wire, request, outcome.outcome)
            if outcome.seconds > 0:
                wire.later(outcome.seconds, act)
            else:
                wire.after_turns(outcome.turns, act)
        elif isinstance(outcome, _Repeated):
            for _ in range(outcome.times):
                self._act(wire, request, outcome.outcome)
        elif isinstance(outcome, RPCError):
            request.fail(outcome.code, outcome.message, outcome.data)
        elif isinstance(outcome, bytes):
            self._put(wire, outcome)
        else:
            request.answer(outcome)
        return True


def _line(message: Any) -> bytes:
    return json.dumps(plain(message), separators=(",", ":")).encode() + b"\n"


def _call(script: Callable[[Message], Any], request: Message) -> Any:
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
