"""Scripted peers, for valid and invalid behaviour: two servers and a client.

`ScriptedPeer` is the base of all: it sends messages and bytes without any check,
receives messages (`Message`), and answers requests by a table of outcomes by method.

An outcome is a result (a dict, or a value of `mcpwire.types`), an `RPCError`, bytes to
send unchanged, `SILENCE`, a value of `later` or `repeated`, or a function of the
`Message` that returns any of them.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.errors import RPCError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.testing.wire import HttpWire, MemoryWire, Wire, cut
from mcpwire.transports.targets import Stdio
from mcpwire.versions import LATEST_SESSION, REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from mcpwire.testing.wire import Split
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.transports.targets import Target

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 10.0
"""Default time limit of a peer's waits, in seconds."""

META: Final = "io.modelcontextprotocol/"
METHOD_NOT_FOUND: Final = -32601
INFO: Final = {"name": "scripted", "version": "1"}

FEATURES: Final = ("tools", "resources", "prompts", "completions", "logging")
CAPABILITIES: Final[Mapping[str, Any]] = {name: {} for name in FEATURES}

VERSIONS: Final = tuple(revision.name for revision in REVISIONS)

STATELESS: Final = {each.name for each in REVISIONS if each.era is Era.STATELESS}


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
        def take_match() -> Message | None:
            for each in self._inbox:
                if matches(each[1]):
                    self._inbox.remove(each)
                    return each[1]
            if is_over():
                raise AssertionError(
                    f"no {expected} came before the end: {self._describe_received()}"
                )
            return None

        return await self._wait(take_match, expected, timeout)

    async def _wait(
        self, find: Callable[[], T | None], expected: str, timeout: float
    ) -> T:
        """Wait until a function returns a true value, and return it."""
        try:
            async with asyncio.timeout(timeout):
                while not (found := find()):
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
                return found
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


# Servers and a client


def text(value: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return a tool's result with one block of text."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": value}]}
    return {**result, "isError": True} if is_error else result


class MemoryPeer(ScriptedPeer):
    """The server's end of an in-memory connection, driven by a test: a client's target.

    ::

        peer = MemoryPeer()
        client = mcpwire.Client(peer)
        connecting = asyncio.create_task(client.connect())
        await peer.handshake("2025-11-25")
        await connecting

    The client's decoder receives the sent bytes unchanged. There may be any number of
    connections, also at the same time: an answer is sent on the connection of its
    request, any other message on the newest.

    Attributes:
        connections: The number of connections so far.
        refusal: An error to raise instead of opening a connection, or ``None``.
    """

    connections = 0
    refusal: Exception | None = None

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Open a connection and return the client's end; called by clients."""
        if self.refusal is not None:
            raise self.refusal
        wire = MemoryWire(self, client, limits, f"{type(self).__name__} in memory")
        self._set_wire(wire)
        self.connections += 1
        self._notify_waiters()
        return wire.client_end

    async def connected(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until there is a connection.

        Raises:
            AssertionError: There is none within `timeout`.
        """
        await self._wait(lambda: self.is_open, "connection", timeout)

    async def handshake(
        self,
        version: str = LATEST_SESSION.name,
        *,
        capabilities: Any = CAPABILITIES,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Answer a client's handshake so that it agrees on that protocol version.

        Raises:
            AssertionError: The handshake did not end within `timeout`.
        """
        script = ScriptedServer(versions=(version,), capabilities=capabilities)
        while True:
            message = await self.receive(timeout=timeout)
            if message.method == "notifications/initialized":
                return
            if message.is_request:
                outcome = script.outcome(message)
                self._perform(self._need_wire(), message, outcome)
                if message.method == "server/discover" and isinstance(outcome, dict):
                    return

    def _is_over(self) -> bool:
        return False  # a client may connect again


class ScriptedServer(MemoryPeer):
    """A server that sends exactly what a test scripts: a target for a client.

    ::

        server = ScriptedServer({"tools/call": text("hi")})
        async with mcpwire.Client(server) as client:
            assert (await client.call_tool("any")).text == "hi"

    It performs the handshake, answers ``ping``, and answers -32601 to all methods that
    are not in its table. Methods of `ScriptedPeer` send any message at any time.

    Args:
        answers: Outcomes by method (see the module's text); they override those
            of the handshake.
        versions: The supported protocol versions, one or several; default: all. A
            client that requests another one for a session gets the last.
        capabilities: The declared server capabilities; default: all features.
        members: Further members of the handshake's results.
        split: The split of each message into parts (see `mcpwire.testing.wire`).
        turns: Turns of the loop before each part, at least one.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        versions: str | Iterable[str] = VERSIONS,
        capabilities: Any = CAPABILITIES,
        members: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(answers, **options)
        self.versions = (versions,) if isinstance(versions, str) else tuple(versions)
        self.members = {"capabilities": to_json(capabilities), **(members or {})}

    def outcome(self, request: Message) -> Any:
        """Return the outcome of a method that is not in the table."""
        method, params = request.method, request.params
        sessions = [version for version in self.versions if version not in STATELESS]
        if method == "server/discover" and not STATELESS.isdisjoint(self.versions):
            return {
                "resultType": "complete",
                "supportedVersions": list(self.versions),
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {META + "serverInfo": INFO},
                **self.members,
            }
        if method == "initialize" and sessions:
            requested = (
                params.get("protocolVersion") if isinstance(params, dict) else None
            )
            return {
                "protocolVersion": requested if requested in sessions else sessions[-1],
                "serverInfo": INFO,
                **self.members,
            }
        if method == "ping" and sessions:
            return {}
        return RPCError(f"method not found: {method}", code=METHOD_NOT_FOUND)


class ScriptedClient(ScriptedPeer):
    """A client that sends exactly what a test scripts, to any server.

    ::

        async with ScriptedClient("my-server --stdio") as client:
            await client.handshake()
            answer = await client.request("tools/list")
            client.send({"not": "a request"}, split=1)

    Over stdio the server is a real process, started and ended as by `mcpwire.Client`.
    Over HTTP each message is a POST with the headers of `mcpwire.Client`; there `split`
    has no effect.

    Args:
        target: A URL, an `Http`, a command line, a `Stdio` or a server object, as for
            `mcpwire.Client`.
        answers: Outcomes of the server's requests, by method; `receive` returns all
            other requests.
        limits: The limits of the connection, such as the grace periods of closing.
        split: The split of each message into parts (see `mcpwire.testing.wire`).
        turns: Turns of the loop before each part, at least one.

    Attributes:
        meta: The `_meta` that `ask` and `request` add to params without one;
            `handshake` with a stateless revision sets it.
    """

    def __init__(
        self,
        target: Target,
        answers: Mapping[str, Any] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        **options: Any,
    ) -> None:
        super().__init__(answers, **options)
        self._target = target
        self._limits = limits
        self.meta: dict[str, Any] = {}

    async def connect(self) -> None:
        """Open the connection without a handshake.

        Raises:
            ConnectError: The server could not be started.
        """
        from mcpwire.transports.targets import make_opener

        await self.aclose()
        opening = make_opener(self._target, self._limits)
        wire = Wire(self) if opening.memory is None else HttpWire(self)
        self._set_wire(wire)
        channel: Any = opening.open(wire)
        wire.attach(channel)

    async def aclose(self) -> None:
        """Close the connection and end the server within the graces of `Limits`."""
        if self._wire is not None:
            await self._wire.aclose()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server's process; ``None`` while there is none."""
        return getattr(self._channel, "exit_code", None)

    @property
    def stderr_tail(self) -> str:
        """The last part of the stderr output of the server's process."""
        return getattr(self._channel, "stderr_tail", "")

    @property
    def _channel(self) -> Any:
        return self._wire.channel if self._wire is not None else None

    async def handshake(
        self,
        version: str = LATEST_SESSION.name,
        *,
        capabilities: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Message:
        """Send ``initialize`` (if stateless ``server/discover``); return the response.

        Raises:
            AssertionError: No response within `timeout`, or the connection has ended.
        """
        declared = to_json(capabilities) or {}
        if version in STATELESS:
            self.meta = {
                META + "protocolVersion": version,
                META + "clientCapabilities": declared,
                META + "clientInfo": INFO,
            }
            return await self.request("server/discover", timeout=timeout)
        params = {
            "protocolVersion": version,
            "capabilities": declared,
            "clientInfo": INFO,
        }
        answer = await self.request("initialize", params, timeout=timeout)
        if answer.error is None:
            self.notify("notifications/initialized")
        return answer

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request, with `meta` added if its params have no `_meta`."""
        if self.meta:
            params = {"_meta": self.meta, **(to_json(params) or {})}
        return super().ask(method, params, id=id)


def scripted_command(
    script: str, *args: str, imports: bool = False, **options: Any
) -> Stdio:
    """Return the command of a server that runs a script of Python lines.

    ::

        target = scripted_command('''
            handshake()
            request = recv()
            send("no message")
            answer(request, text("hi"))
        ''')

    The script can use ``recv()``, ``send(message)``, ``raw(data)``, ``text(value)``,
    ``answer(request, result)``, ``fail(request, code, message)``,
    ``notify(method, params)``, ``ask(id, method, params)``, ``handshake(version)``,
    ``serve(answers)`` (see `mcpwire.testing.child`) and the modules json, os, signal,
    sys and time. ``recv`` ends the process when the input ends.

    Args:
        script: The lines; their common indentation is removed.
        args: The script's ``sys.argv[1:]``.
        imports: Whether installed packages can be imported, which costs some
            milliseconds at the start.
        options: Options of `Stdio`: `env`, `inherit_env`, `cwd`, `stderr`.
    """
    program = str(Path(__file__).with_name("child.py"))
    flags = ["-P"] if imports else ["-P", "-S"]
    lines = textwrap.dedent(script).strip("\n")
    return Stdio(sys.executable, [*flags, program, lines, *args], **options)
