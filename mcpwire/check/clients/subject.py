"""A client under test, and the server that it connects to.

A case changes the server, runs the client, and looks at what the client sent::

    async def case(client: ClientSubject) -> None:
        client.answers["tools/list"] = send_unknown_notification_first
        await client.run()
        client.need_request("tools/list")

Unless a case changes it, the server is correct in its revision. It has a few tools,
resources and prompts (`items`), and answers each request of the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import attrs

from mcpwire.check.case import Absent, Broken, NoAnswer, PeerDied, Unobserved
from mcpwire.check.clients.http import EVENTS, HttpEndpoint, HttpRequest, event
from mcpwire.check.clients.items import correct_result
from mcpwire.check.clients.relay import HEAD_SIZE, frame
from mcpwire.check.peer import MAX_MESSAGE_BYTES, Transcript
from mcpwire.check.subject import META, Message, TimeLimit, decode_messages, printable
from mcpwire.errors import RPCError, last_error_line
from mcpwire.protocol.methods import is_capability_declared
from mcpwire.transports.process import StderrTail, describe_exit, spawn
from mcpwire.transports.targets import Stdio, insert_target
from mcpwire.versions import Era
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpwire.check.case import Transport
    from mcpwire.versions import Revision

ENDPOINT: Final = "/mcp"
UNDISTURBED: Final = "the client sends and ends as with a correct server"
HANDSHAKE: Final = frozenset({"initialize", "server/discover"})
SETTING_UP: Final = HANDSHAKE | {"subscriptions/listen"}
"""Requests that are no operation with a result of its own."""
_RELAY: Final = Path(__file__).with_name("relay.py")
_OUTPUT_TAIL: Final = 16_384
_CLOSE_GRACE_S: Final = 1.0
_CANCEL_GRACE_S: Final = 10.0
_FIRST_IDLE_S: Final = 3.0
"""Shortest time without a message after which a client counts as staying running."""
_IDLE_S: Final = 1.0
"""Shortest time without a message after which a client that stays running is done."""
_REPEATS_FACTOR: Final = 2
"""Idle times with repetitions only, after which these keep the first run no longer."""
MAX_REPEATS: Final = 300
"""Repetitions of a request after which it counts as endless; an SDK reads 250 pages."""
_UNCOMPARED: Final = frozenset(
    {"ping", "notifications/cancelled", "notifications/progress"}
)
"""Methods that a client may send at any time, also while it is idle."""

Handler: TypeAlias = "Callable[[Exchange], Awaitable[None]]"
"""Handles a request of the client in place of the correct server."""


class PipeConnection:
    """One process that the client started as its server.

    Attributes:
        messages: The received messages, and lines that are not JSON.
        input_ended: Set at the end of its stdin.
        terminated: Whether the client sent it SIGTERM.
        ended: Set when the process has ended.
    """

    def __init__(self, writer: asyncio.StreamWriter, transcript: Transcript) -> None:
        self.messages: list[Message] = []
        self.received = bytearray()
        self.input_ended = asyncio.Event()
        self.terminated = False
        self.ended = asyncio.Event()
        self._writer = writer
        self._transcript = transcript
        self._writing = asyncio.Lock()

    async def write(self, *parts: bytes, pause_s: float = 0.0) -> None:
        """Write octets to the process's stdout, with pauses between the parts."""
        async with self._writing:  # other answers are not written between the parts
            for index, data in enumerate(parts):
                if index:
                    await asyncio.sleep(pause_s)
                self._transcript.add("sent", data)
                await self._send(b"O", data)

    async def write_stderr(self, data: bytes) -> None:
        """Write octets to the process's stderr."""
        await self._send(b"R", data)

    async def close_output(self) -> None:
        """Close the process's stdout; the process stays running."""
        await self._send(b"C")

    async def exit(self, code: int = 0) -> None:
        """End the process."""
        await self._send(b"X", bytes([code]))

    def kill(self) -> None:
        """End the process if it still runs: it ends with its connection."""
        self._writer.transport.abort()

    async def _send(self, kind: bytes, data: bytes = b"") -> None:
        if not self._writer.is_closing():
            with contextlib.suppress(ConnectionError):  # the client may end its server
                self._writer.write(frame(kind, data))
                await self._writer.drain()


class Exchange:
    """A request of the client, and the operations that answer it.

    Attributes:
        message: The request.
        client: The client under test.
        http: The HTTP request that carries it; ``None`` over stdio.
        pipe: The process that got it; ``None`` over HTTP.
    """

    def __init__(
        self,
        client: ClientSubject,
        message: Message,
        source: PipeConnection | HttpRequest,
    ) -> None:
        self.client = client
        self.message = message
        self.http = source if isinstance(source, HttpRequest) else None
        self.pipe = source if isinstance(source, PipeConnection) else None

    @property
    def id(self) -> Any:
        """The id of the request."""
        return self.message.value.get("id")

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request."""
        return self.message.params

    async def send(self, message: Any) -> None:
        """Send a message before the answer; over HTTP as an event of its stream."""
        if self.http is not None:
            await self.write(event(message))
        else:
            await self.write(encode(message) + b"\n")

    async def write(self, data: bytes) -> None:
        """Send octets unchanged: over stdio, or on the event stream of the request."""
        if self.pipe is not None:
            await self.pipe.write(data)
            return
        assert self.http is not None
        if not self.http.status:
            await self.http.start_stream(self.client.response_fields(self.message))
        await self.http.write(data)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification before the answer."""
        await self.send(make_message(method, params))

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, id: Any = None
    ) -> Message:
        """Send a request of the server and return the client's response.

        Raises:
            NoAnswer: No response in time.
        """
        id = self.client.next_id() if id is None else id
        answered = self.client.expect_response(id)
        await self.send({**make_message(method, params), "id": id})
        try:
            async with TimeLimit(self.client.bound_s):
                return await answered
        except TimeoutError:
            raise NoAnswer(
                f"a response to the server's request {method}", "none came in time"
            ) from None

    async def need_ping(self) -> None:
        """Send a ping; a client that answers none lacks what the case tests."""
        try:
            await self.ask("ping")
        except NoAnswer:
            self.client.raise_absent("response to a ping")

    async def correct(
        self, change: Callable[[Any], object] | None = None, **params: Any
    ) -> None:
        """Send the answer of a correct server.

        Args:
            change: Returns a changed result.
            params: Params in place of those of the request.
        """
        method = self.message.method or ""
        try:
            result = correct_result(self.client, method, {**self.params, **params})
        except RPCError as error:
            await self.fail(error.code, error.message, error.data)
            return
        if method == "subscriptions/listen":
            await self._keep_open()
            return
        await self.answer(result if change is None else change(result))

    async def _keep_open(self) -> None:
        """Acknowledge a subscription and leave it open."""
        wanted = self.params.get("notifications") or {}
        await self.notify(
            "notifications/subscriptions/acknowledged",
            {"_meta": {META + "subscriptionId": self.id}, "notifications": wanted},
        )

    async def answer(self, result: Any) -> None:
        """Answer with a result."""
        await self.finish({"jsonrpc": "2.0", "id": self.id, "result": result})

    async def fail(self, code: int, text: str, data: Any = None) -> None:
        """Answer with an error."""
        error = {"code": code, "message": text}
        error |= {} if data is None else {"data": data}
        await self.finish({"jsonrpc": "2.0", "id": self.id, "error": error})

    async def finish(self, message: Any, *, status: int = 0) -> None:
        """Send the last message; over HTTP it ends the response."""
        if self.http is None:
            await self.send(message)
        elif self.http.status:
            await self.send(message)
            await self.http.end()
        elif self.client.send_result is not None and "result" in message:
            await self.client.send_result(self, message)
        else:
            code = (message.get("error") or {}).get("code")
            statuses = _STATUS if self.client.is_stateless else {}
            default = statuses.get(code, 200)
            fields = self.client.response_fields(self.message)
            await self.http.respond(status or default, message, fields)


_STATUS: Final[dict[Any, int]] = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
"""Code of an error -> HTTP status, in the stateless revisions."""


def make_message(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a notification, or a request without its id."""
    members = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "method": method, **members}


@attrs.frozen
class Ending:
    """The end of a run of the client."""

    code: int | None
    """The exit code, negative for a signal; ``None``: stopped by the check."""
    text: str
    """The last line of its error output."""

    def __str__(self) -> str:
        end = "was still running" if self.code is None else describe_exit(self.code)
        return f"the client {end}" + (f": {self.text}" if self.text else "")


@attrs.define
class ClientFacts:
    """What a client declared and sent to a correct server."""

    capabilities: dict[str, Any] = attrs.field(factory=dict)
    info: dict[str, Any] = attrs.field(factory=dict)
    sent: Counter[str] = attrs.field(factory=Counter)
    """The number of messages by method; the name of a called tool follows a space."""
    ending: Ending | None = None
    pause_s: float = 0.0
    """The longest time before a message that is no repetition."""
    run: ClientSubject | None = None
    """The run against the correct server."""
    logins: dict[str, asyncio.Task[Any]] = attrs.field(factory=dict)
    """The runs against a server that requires a token, which several cases look at."""

    def declares(self, need: str) -> bool:
        """Return whether the client has a feature; see `Case.needs`."""
        kind, is_sent, method = need.partition(":")
        if is_sent:
            requests = self.run.requests if self.run is not None else []
            methods = {key.partition(" ")[0] for key in self.sent}
            return method in methods | {request.method for request in requests}
        return is_capability_declared(self.capabilities, kind)


ClientFunction: TypeAlias = "Callable[[str | Stdio], Awaitable[object]]"
"""A client as a coroutine function, which gets the URL or the command of its server."""


class ClientSubject:
    """One run of the client against a server that the case may change.

    Attributes:
        revision: The only revision that the server supports.
        transport: ``stdio`` or ``http``.
        facts: What the client declared and sent to a correct server.
        bound_s: Time limit of one answer in seconds.
        answers: Method -> handler of its requests, in place of the correct server.
        first: Handler of the first request after the handshake.
        on_http: Called with each HTTP request; returns whether it has answered it.
        on_connect: Called with each new process over stdio.
        response_headers: Further header fields of HTTP responses.
        send_result: Sends each message with a result over HTTP; ``None``: as JSON.
        accepted_status: The status of HTTP responses to notifications.
        session_id: The session id that the server issues, over HTTP.
        capabilities: The capabilities that the server declares; ``None``: all.
        keeps_processes: Whether processes outlive the end of their stdin.
        idle_s: Time without a request after which the run ends, also if the client
            ends by itself with a correct server; ``None``: the usual time.
        pause_s: The longest time before a message that is no repetition.
        calls: The number of messages by `call_of`, and of other HTTP requests.
        messages: All received messages, in order.
        requests: All HTTP requests, in order.
        connections: All processes, over stdio.
        left_processes: Those that had not ended when the client ended.
        random: Random numbers with the seed of the case.
    """

    def __init__(
        self,
        client: Sequence[str] | ClientFunction,
        revision: Revision,
        transport: Transport,
        *,
        facts: ClientFacts | None = None,
        seed: str = "0",
        bound_s: float = 5.0,
        run_s: float = 60.0,
    ) -> None:
        self._client = client
        self.revision = revision
        self.transport = transport
        self.facts = facts or ClientFacts()
        self.bound_s = bound_s
        self.run_s = run_s
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.transcript = Transcript()
        self.answers: dict[str, Handler] = {}
        self.first: Handler | None = None
        self.on_http: Callable[[HttpRequest], Awaitable[bool]] | None = None
        self.on_connect: Callable[[PipeConnection], Awaitable[None]] | None = None
        self.response_headers: dict[str, str] = {}
        self.send_result: Callable[[Exchange, Any], Awaitable[None]] | None = None
        self.accepted_status = 202
        self.session_id = f"session-{self.random.randrange(1 << 40):x}"
        self.capabilities: dict[str, Any] | None = None
        self.keeps_processes = False
        self.idle_s: float | None = None
        self.pause_s = 0.0
        self.calls: Counter[str] = Counter()
        self.messages: list[Message] = []
        self.requests: list[HttpRequest] = []
        self.connections: list[PipeConnection] = []
        self.left_processes: list[PipeConnection] = []
        self.streams: list[HttpRequest] = []
        self.ending: Ending | None = None
        self._responses: dict[tuple[str, Any], asyncio.Future[Message]] = {}
        self._finding: BaseException | None = None
        self._news_at: float | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_requests = 0
        self._is_first = True
        self._is_stopping = False
        self._was_idle = False
        self._last_id = 0
        self._endpoint: HttpEndpoint | None = None

    # --- running the client -----------------------------------------------------------

    def again(self) -> ClientSubject:
        """Return another run of the client, against a correct server."""
        return ClientSubject(
            self._client,
            self.revision,
            self.transport,
            facts=self.facts,
            bound_s=self.bound_s,
            run_s=self.run_s,
        )

    @property
    def is_stateless(self) -> bool:
        """Whether the revision has no sessions."""
        return self.revision.era is Era.STATELESS

    async def run(self, *, must_end: bool = False) -> Ending:
        """Run the client until it ends, or if it stays running until it is idle.

        Args:
            must_end: Whether a client that ends with a correct server must do so.

        Raises:
            NoAnswer: A client that must end did not do so in time.
            PeerDied: A signal ended the client.
        """
        if self.transport == "http":
            self._endpoint = HttpEndpoint(self._handle_http, self.transcript)
            await self._endpoint.open()
            target = [self._endpoint.origin + ENDPOINT]
        else:
            server = await asyncio.start_server(self._serve_pipe, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            target = [sys.executable, "-P", "-S", str(_RELAY), str(port)]
        try:
            self.ending = await self._run_client(target)
        finally:
            if self._endpoint is not None:
                await self._endpoint.close()
            else:
                server.close()
                for connection in self.connections:
                    connection.kill()
                await asyncio.gather(*(c.ended.wait() for c in self.connections))
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._finding is not None:
            raise self._finding
        code, usual = self.ending.code, self.facts.ending
        if code is not None and code < 0:
            raise PeerDied("the client ends by itself", str(self.ending))
        is_late = code is None and usual is not None and usual.code is not None
        if must_end and is_late and not self._was_idle:
            raise NoAnswer(
                "the client ends, as with a correct server",
                f"it was still running after {self.run_s:g} s",
            )
        return self.ending

    async def _run_client(self, target: list[str]) -> Ending:
        if callable(self._client):
            return await self._run_function(self._client, target)
        command, *arguments = insert_target(self._client, target)
        tail = StderrTail(_OUTPUT_TAIL)
        child = spawn(Stdio(command, arguments, inherit_env=True), tail)
        os.close(child.stdin)
        child.stdin = -1
        output = asyncio.create_task(self._read_output(child))
        ended = asyncio.create_task(child.exited.wait())
        try:
            has_ended = await self._wait_end(ended)
            await self._find_left_processes()
        finally:
            self._is_stopping = True
            await child.stop(close_grace=0.0, terminate_grace=_CLOSE_GRACE_S)
            ended.cancel()
            # A process that has left the client's group may keep its stdout open.
            output.cancel()
            await asyncio.gather(output, return_exceptions=True)
        text = last_error_line(child.stderr.text) or ""
        return Ending(child.exit_code if has_ended else None, text)

    async def _read_output(self, child: Any) -> None:
        """Read and discard the client's stdout, so that its pipe never fills."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(1 << 16, loop)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader),
            os.fdopen(child.stdout, "rb", 0),
        )
        child.stdout = -1
        try:
            while await reader.read(1 << 16):
                pass
        finally:
            transport.close()

    async def _run_function(
        self, function: ClientFunction, target: list[str]
    ) -> Ending:
        is_url = self.transport == "http"
        where = target[0] if is_url else Stdio(target[0], target[1:])
        work = asyncio.ensure_future(function(where))
        try:
            has_ended = await self._wait_end(work)
            await self._find_left_processes()
        finally:
            work.cancel()
            await asyncio.wait({work}, timeout=_CANCEL_GRACE_S)
        if not work.done():
            expected = "a client function that ends when it is cancelled"
            actual = f"it was still running after {_CANCEL_GRACE_S:g} s"
            raise NoAnswer(expected, actual)
        if not has_ended:
            await asyncio.gather(work, return_exceptions=True)  # its error is seen
            return Ending(None, "")
        if work.cancelled():
            return Ending(1, "CancelledError")
        error = work.exception()
        text = "" if error is None else f"{type(error).__name__}: {error}"
        return Ending(0 if error is None else 1, text)

    async def _find_left_processes(self) -> None:
        """Find processes that outlive the client, if they do not end by themselves."""
        if self.keeps_processes:
            try:
                async with TimeLimit(self.bound_s):
                    await asyncio.gather(*(c.ended.wait() for c in self.connections))
            except TimeoutError:
                running = [c for c in self.connections if not c.ended.is_set()]
                self.left_processes = running

    async def _wait_end(self, ended: asyncio.Future[Any]) -> bool:
        """Wait until the client has ended or is idle; return whether it has ended."""
        known = self.facts.ending
        stays = known is not None and known.code is None
        try:
            async with TimeLimit(self.run_s):
                while not ended.done() and self._finding is None:
                    self._changed.clear()
                    changed = asyncio.create_task(self._changed.wait())
                    has_begun = self.messages or self.requests
                    may_be_idle = has_begun and (
                        stays or known is None or self.idle_s is not None
                    )
                    try:
                        done, _ = await asyncio.wait(
                            {ended, changed},
                            timeout=self._idle_s if may_be_idle else None,
                            return_when=asyncio.FIRST_COMPLETED,
                        )
                    finally:
                        changed.cancel()
                    if not done and not self._open_requests:
                        self._was_idle = True
                        return False
        except TimeoutError:
            return False
        return ended.done()

    @property
    def _idle_s(self) -> float:
        if self.idle_s is not None:
            return self.idle_s
        if self.facts.ending is None:
            return max(_FIRST_IDLE_S, self.bound_s)
        return max(_IDLE_S, 2 * self.facts.pause_s)

    # --- stdio ------------------------------------------------------------------------

    async def _serve_pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = PipeConnection(writer, self.transcript)
        self.connections.append(connection)
        self._start(self._connected(connection))
        lines = LineDecoder(MAX_MESSAGE_BYTES)
        try:
            while True:
                head = await reader.readexactly(HEAD_SIZE)
                data = await reader.readexactly(int.from_bytes(head[1:], "big"))
                self._handle_frame(head[:1], data, connection, lines)
                if head[:1] in {b"E", b"S"} and not self.keeps_processes:
                    await connection.exit()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            connection.ended.set()
            self._changed.set()
            writer.close()

    def _handle_frame(
        self, kind: bytes, data: bytes, connection: PipeConnection, lines: LineDecoder
    ) -> None:
        """Handle a frame of the relay."""
        match kind:
            case b"I":
                self.transcript.add("received", data)
                connection.received += data
                for line in lines.feed(data):
                    self._handle_line(bytes(line), connection)
            case b"E":
                for line in lines.finish():
                    self._handle_line(bytes(line), connection)
                connection.input_ended.set()
            case b"S":
                connection.terminated = not self._is_stopping
        if kind != b"I":  # its messages are counted one by one
            self._changed.set()

    async def _connected(self, connection: PipeConnection) -> None:
        if self.on_connect is not None:
            await self.on_connect(connection)

    def _handle_line(self, line: bytes, connection: PipeConnection) -> None:
        messages = decode_messages(line, 0, "")
        connection.messages += messages
        for message in messages:
            self._note_message(message)
            if self._receive(message):
                exchange = Exchange(self, message, connection)
                self._start(self._handle(exchange))

    # --- HTTP -------------------------------------------------------------------------

    async def _handle_http(self, request: HttpRequest) -> None:
        self.add_request(request)
        try:
            if self.on_http is not None and await self.on_http(request):
                return
            await self._answer_http(request)
        except Exception as error:  # noqa: BLE001 - it ends the case
            self._end_case(error)

    def add_request(self, request: HttpRequest) -> None:
        """Record an HTTP request, also one to another server of the case."""
        self.requests.append(request)
        if request.method == "POST" and request.path == ENDPOINT:
            for message in decode_messages(request.body, request.number, ""):
                self._note_message(message)
        else:
            body = request.body.decode("utf-8", "replace")
            self._note_call(f"{request.method} {request.path} {body}".rstrip())

    async def _answer_http(self, request: HttpRequest) -> None:
        """Answer an HTTP request as a correct server does."""
        if request.path != ENDPOINT:
            await request.respond(404)
        elif request.method == "POST":
            await self.answer_post(request)
        elif self.is_stateless or request.method not in {"GET", "DELETE"}:
            await request.respond(405, fields={"Allow": "POST"})
        elif request.method == "GET" and request.accepts(EVENTS):
            await request.start_stream()
            self.streams.append(request)
        else:
            await request.respond(204 if request.method == "DELETE" else 406)

    async def answer_post(self, request: HttpRequest) -> None:
        """Answer a POST as a correct server does."""
        messages = decode_messages(request.body, request.number, "")
        pending = [message for message in messages if self._receive(message)]
        if any(message.problem for message in messages) or not messages:
            await request.respond(400, _PARSE_ERROR)
        elif not pending:
            await request.respond(self.accepted_status)
        elif self._lacks_session(request, pending[0]):
            await request.respond(400, {**_NO_SESSION, "id": pending[0].value["id"]})
        else:
            for message in pending:
                await self._handle(Exchange(self, message, request))

    def _lacks_session(self, request: HttpRequest, message: Message) -> bool:
        """Return whether a server with sessions refuses the request."""
        if self.is_stateless or not self.session_id or message.method == "initialize":
            return False
        if message.method == "server/discover" and message.method in self.answers:
            return False  # the case answers it, with or without a session
        return request.value("mcp-session-id") is None

    def response_fields(self, message: Message) -> dict[str, str]:
        """Return the header fields of the response to a request."""
        is_first = message.method == "initialize" and not self.is_stateless
        session = {"Mcp-Session-Id": self.session_id} if is_first else {}
        return {**session, **self.response_headers}

    # --- messages ---------------------------------------------------------------------

    def _receive(self, message: Message) -> bool:
        """Record a message; return whether it is a request."""
        self.messages.append(message)
        value = message.value
        if not isinstance(value, dict):
            return False
        if message.method is not None:
            return "id" in value
        waiting = self._responses.pop(id_key(value.get("id")), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        return False

    def _note_message(self, message: Message) -> None:
        """Note that the client is not idle; pings for ever do not count."""
        if message.method is None:
            self._changed.set()
        elif message.method not in _UNCOMPARED:
            self._note_call(call_of(message))

    def _note_call(self, call: str) -> None:
        """Count a message or request; a repetition is no sign that more follows."""
        self.calls[call] += 1
        count, usual = self.calls[call], self.facts.run
        if usual is not None and count > MAX_REPEATS * max(usual.calls[call], 1):
            expected = f"at most {MAX_REPEATS} repetitions of a request"
            self._end_case(Broken(expected, f"{count} times {call}"))
        now = monotonic()
        seconds = 0.0 if self._news_at is None else now - self._news_at
        if count == 1:
            self.pause_s = max(self.pause_s, seconds)
            self._news_at = now
        known = self.facts.ending
        is_polling = known is None and seconds > _REPEATS_FACTOR * self._idle_s
        is_polling |= known is not None and known.code is None
        if count == 1 or not is_polling:
            self._changed.set()

    async def _handle(self, exchange: Exchange) -> None:
        method = exchange.message.method or ""
        handler = self.answers.get(method)
        if method not in SETTING_UP | {"ping"} and self._is_first:
            self._is_first = False
            handler = self.first or handler
        self._open_requests += 1
        try:
            await (handler(exchange) if handler else exchange.correct())
        except Exception as error:  # noqa: BLE001 - it ends the case
            self._end_case(error)
        finally:
            self._open_requests -= 1

    def change_result(self, method: str, change: Callable[[Any], object]) -> None:
        """Let the server change its results of a method."""
        self.answers[method] = lambda exchange: exchange.correct(change)

    def _end_case(self, error: Exception) -> None:
        self._finding = self._finding or error
        self._changed.set()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def next_id(self) -> int:
        """Return an unused id for a request of the server."""
        self._last_id += 1
        return self._last_id

    def expect_response(self, id: Any) -> asyncio.Future[Message]:
        """Return a future of the client's response with an id of that JSON type."""
        future = asyncio.get_running_loop().create_future()
        self._responses[id_key(id)] = future
        return future

    # --- findings ---------------------------------------------------------------------

    def sent(self, method: str) -> list[Message]:
        """Return the received requests or notifications of a method."""
        return [message for message in self.messages if message.method == method]

    def operations(self) -> Counter[str]:
        """Return the number of messages by method, with the names of tools.

        Methods that a client may send at any time do not count.
        """
        counts: Counter[str] = Counter()
        for message in self.messages:
            if message.method is not None and message.method not in _UNCOMPARED:
                name = message.params.get("name") or message.params.get("uri")
                counts[" ".join(filter(None, (message.method, str(name or ""))))] += 1
        return counts

    async def run_undisturbed(self, expected: str = UNDISTURBED) -> None:
        """Run the client; it must send and end as with a correct server.

        Raises:
            Finding: It left out a request, or ended in another way.
        """
        await self.run(must_end=True)
        self.need_undisturbed(expected)

    def need_undisturbed(self, expected: str = UNDISTURBED) -> None:
        """Raise a finding if the client left out a request, or ended another way."""
        assert self.ending is not None, "the client has run"
        ending = self.ending
        usual, operations = self.facts.sent, self.operations()
        if ending.code is None:  # how often it sends a message depends on the time
            usual, operations = Counter(set(usual)), Counter(set(operations))
        missing = [
            key for key in usual - operations if key.partition(" ")[0] not in HANDSHAKE
        ]
        if missing:
            self.raise_broken(expected, f"no {', '.join(missing)}; {ending}")
        if self.has_failed:
            self.raise_broken(expected, str(ending))

    @property
    def has_failed(self) -> bool:
        """Whether the client ended with an error, and not with a correct server."""
        usual, ending = self.facts.ending, self.ending
        succeeds = usual is not None and usual.code == 0
        return succeeds and ending is not None and ending.code not in {0, None}

    def need_request(self, method: str, expected: str) -> Message:
        """Return the first message of a method.

        Raises:
            Broken: There is none.
        """
        if not (found := self.sent(method)):
            self.raise_broken(expected, f"no {method}; {self.ending}")
        return found[0]

    def need_first_request(self) -> None:
        """Raise `Unobserved` if no request after the handshake reached the server."""
        if self._is_first:
            raise Unobserved("a request after the handshake", f"none; {self.ending}")

    def raise_broken(self, expected: str, actual: object) -> NoReturn:
        """Raise the finding that the client breaks the rule."""
        raise Broken(expected, printable(actual))

    def raise_absent(self, what: str) -> NoReturn:
        """Raise that the client lacks the feature under test."""
        raise Absent(what)


_PARSE_ERROR: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32700, "message": "Parse error"},
}
_NO_SESSION: Final = {
    "jsonrpc": "2.0",
    "error": {"code": -32600, "message": "Bad Request: no session id"},
}


def call_of(message: Message) -> str:
    """Return a request without metadata and without the members of an input round."""
    own = {"_meta", "requestState", "inputResponses"}
    params = {k: v for k, v in message.params.items() if k not in own}
    return f"{message.method} {printable(params)}"


def id_key(id: Any) -> tuple[str, Any]:
    """Return a key for an id for which 1, 1.0, true and "1" differ."""
    if isinstance(id, (dict, list)):
        return "json", printable(id)
    return type(id).__name__, id
