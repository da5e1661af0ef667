"""Connection to the server under test, with the operations that cases use.

The same case function runs over each transport. `request` waits for the answer with its
id. `provoke` sends any data, then further requests, and returns the messages received
before their answers: a missing answer is thus observed without a timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import zlib
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self
from urllib.parse import urljoin, urlsplit

import attrs

from mcpwire.check.case import (
    Absent,
    Broken,
    EndedWithoutAnswer,
    Lenient,
    NoAnswer,
    PeerDied,
)
from mcpwire.check.peer import HttpPeer, Response, StdioPeer, Transcript
from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.protocol.http_headers import (
    NAME_MEMBERS,
    find_param_headers,
    mirror_params,
)
from mcpwire.protocol.methods import declared_extensions, is_capability_declared
from mcpwire.versions import Era, Revision
from mcpwire.wire.headers import encode_value
from mcpwire.wire.json import JSONDecodeError, encode, loads

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from mcpwire.check.peer import HeaderValue
    from mcpwire.check.schemas import MessageValidator
    from mcpwire.transports.targets import Stdio
    from mcpwire.wire.urls import Url

META: Final = "io.modelcontextprotocol/"
MAX_LINES: Final = 100_000
"""Maximum received messages per connection; more is a flood."""
MAX_OCTETS: Final = 256 * 1024 * 1024
CASE_IDS: Final = 100_000
_MAX_ID: Final = 1_000 * CASE_IDS
_MAX_PRINTED_CHARS: Final = 400
_LATE_FACTOR: Final = 10
"""Time limit of a late answer, as a multiple of the time that a barrier takes."""
_LIMIT_STEPS: Final = 10  # of a time limit; a pause of this process takes one of them
_MIN_LATE_S: Final = 0.05
_MAX_LATE_S: Final = 1.0
_MIN_RESUME_PAUSE_S: Final = 0.05  # between two attempts to resume a stream
_MAX_RESUME_PAUSES_S: Final = 10.0  # for all reconnection times before one answer


class TimeLimit:
    """Time limit like `asyncio.timeout` that tolerates pauses of this process.

    A busy machine or a slow case must not make the server appear to hang: a pause takes
    only one of ten steps of the limit, and data that arrived during it is read.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Start the time limit."""
        await self._timeout.__aenter__()
        self.restart(self._seconds)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the time limit; its own cancellation becomes `TimeoutError`."""
        self._stop()
        await self._timeout.__aexit__(kind, error, trace)

    def restart(self, seconds: float) -> None:
        """Restart the time limit with a number of seconds."""
        self._stop()
        self._step = seconds / _LIMIT_STEPS
        self._steps_left = float(_LIMIT_STEPS)
        self._schedule_step()

    def extend(self, seconds: float) -> None:
        """Extend the time limit, or shorten it by a negative number of seconds."""
        self._steps_left += seconds / self._step

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule_step(self) -> None:
        self._step_end = self._loop.time() + self._step
        self._timer = self._loop.call_at(self._step_end, self._tick)

    def _tick(self) -> None:
        self._steps_left -= 1
        was_delayed = self._loop.time() - self._step_end > self._step
        if self._steps_left > 0 or (was_delayed and self._steps_left > -1):
            self._schedule_step()
        else:
            self._timeout.reschedule(self._loop.time())


@attrs.frozen
class Message:
    """One message from the server, or one line or body that is not JSON."""

    raw: bytes
    value: Any
    """The decoded value; ``None`` with `problem`."""
    problem: str = ""
    stream: int = 0
    """The number of the HTTP exchange that received it; 0 over stdio."""
    case: str = ""
    """The id of the case that ran on receipt; "" before the first case."""

    @property
    def is_answer(self) -> bool:
        """Whether the message is a result or an error."""
        return isinstance(self.value, dict) and "method" not in self.value

    @property
    def method(self) -> str | None:
        """The method of a request or notification."""
        method = self.value.get("method") if isinstance(self.value, dict) else None
        return None if method is None else str(method)

    @property
    def params(self) -> dict[str, Any]:
        """The params of a request or notification."""
        params = self.value.get("params") if isinstance(self.value, dict) else None
        return params if isinstance(params, dict) else {}


def decode_messages(raw: bytes, stream: int, case: str) -> list[Message]:
    """Decode a line or body: one message, all of a batch, or none for blanks."""
    try:
        value = loads(raw)
    except JSONDecodeError as error:
        if not raw.strip():
            return []
        return [Message(raw, None, f"invalid JSON: {error}", stream, case)]
    values = value if isinstance(value, list) and value else [value]
    return [Message(raw, item, "", stream, case) for item in values]


class MessageLog:
    """Received messages, in order of arrival.

    Messages of earlier cases are compressed, and decoded on each iteration: there may
    be thousands on a connection, and the last cases read all of them.
    """

    def __init__(self) -> None:
        self._compressed: list[bytes] = []
        self._compressed_count = 0
        self._current: list[Message] = []

    def __len__(self) -> int:
        return self._compressed_count + len(self._current)

    def __iter__(self) -> Iterator[Message]:
        for data in self._compressed:
            lines = zlib.decompress(data)
            end = 0
            while end < len(lines):
                begin = lines.index(b"\n", end) + 1
                size, stream, case = loads(lines[end:begin])
                end = begin + size
                yield from decode_messages(lines[begin:end], stream, case)
        yield from self._current

    def __getitem__(self, index_range: slice) -> list[Message]:
        """Return the messages from a start index; fast within the current case."""
        start = index_range.start - self._compressed_count
        return self._current[start:] if start >= 0 else list(self)[index_range]

    def append(self, message: Message) -> None:
        """Append a message."""
        self._current.append(message)

    def compress(self) -> None:
        """Compress all messages."""
        compressor, data = zlib.compressobj(), b""
        # All messages of a batch have one `raw`; equal single bytes are one object.
        by_raw = {id(m.raw if len(m.raw) > 1 else m): m for m in self._current}
        for message in by_raw.values():
            head = encode([len(message.raw), message.stream, message.case])
            data += compressor.compress(head + b"\n") + compressor.compress(message.raw)
        if self._current:
            self._compressed.append(data + compressor.flush())
            self._compressed_count += len(self._current)
            self._current = []

    def continue_from(self, earlier: MessageLog) -> None:
        """Prepend the messages of an earlier connection."""
        earlier.compress()
        self._compressed[:0] = earlier._compressed
        self._compressed_count += earlier._compressed_count


@attrs.frozen
class Answer:
    """The answer to one request."""

    message: Message
    response: Response | None = None
    """The response to the HTTP request; a resumed stream may carry the message."""

    @property
    def value(self) -> dict[str, Any]:
        """The whole message."""
        return self.message.value  # type: ignore[no-any-return]

    @property
    def result(self) -> dict[str, Any] | None:
        """The result; ``None`` in an error."""
        result = self.value.get("result")
        return result if isinstance(result, dict) else None

    @property
    def has_failed(self) -> bool:
        """Whether the answer is an error, or a tool result with ``isError``."""
        return self.result is None or self.result.get("isError") is True

    @property
    def error(self) -> dict[str, Any] | None:
        """The error; ``None`` in a result."""
        error = self.value.get("error")
        return error if isinstance(error, dict) else None

    @property
    def code(self) -> int | None:
        """The code of the error."""
        return (self.error or {}).get("code")

    @property
    def status(self) -> int | None:
        """The status of the HTTP response."""
        return self.response.status if self.response else None

    def __str__(self) -> str:
        status = f"HTTP {self.status}, " if self.response else ""
        return status + printable(self.message.raw)


@attrs.frozen
class Reaction:
    """The response of a server to data that need not be a message."""

    messages: list[Message]
    """Received messages; over stdio without answers to barriers and earlier cases."""
    response: Response | None = None
    has_ended: bool = False
    """Whether the process has ended."""

    @property
    def is_answered(self) -> bool:
        """Whether the messages include an answer, or data that is not JSON."""
        return any(each.is_answer or each.problem for each in self.messages)

    @property
    def errors(self) -> list[Message]:
        """The error answers among the messages."""
        return [
            each for each in self.messages if each.is_answer and "error" in each.value
        ]

    @property
    def codes(self) -> list[Any]:
        """The codes of the error answers."""
        return [(each.value["error"] or {}).get("code") for each in self.errors]

    @property
    def status(self) -> int | None:
        """The status of the HTTP response."""
        return self.response.status if self.response else None

    def __str__(self) -> str:
        parts = [f"HTTP {self.status}"] if self.response else []
        parts += [printable(each.raw) for each in self.messages[:3]]
        if self.response and not self.messages and self.response.body:
            parts.append(printable(bytes(self.response.body)))
        if self.has_ended:
            parts.append("the process ended")
        return ", ".join(parts) or "nothing"


@attrs.define
class Facts:
    """Declared capabilities and listed items of a server, and data for the cases."""

    revision: Revision
    handshake: dict[str, Any] = attrs.field(factory=dict)
    """The result of `initialize`, or of `server/discover`."""
    tools: list[dict[str, Any]] = attrs.field(factory=list)
    resources: list[dict[str, Any]] = attrs.field(factory=list)
    templates: list[dict[str, Any]] = attrs.field(factory=list)
    prompts: list[dict[str, Any]] = attrs.field(factory=list)
    roles: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Role -> the tool that has the role."""
    callable_tools: list[dict[str, Any]] = attrs.field(factory=list)
    """The tools that may be called."""
    barrier: str = "ping"
    """The method of the requests that `barrier` sends; the server answers it."""
    slow_items: set[str] = attrs.field(factory=set)
    """Names of tools, and ``prompt NAME`` of prompts, that are too slow for cases which
    use all of them."""
    tokens: dict[str, str] = attrs.field(factory=dict)
    """Kind -> access token; see `Options.tokens`."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that the server declares."""
        capabilities = self.handshake.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    @property
    def server_info(self) -> dict[str, Any]:
        """Name and version of the server."""
        meta = self.handshake.get("_meta")
        info = self.handshake.get("serverInfo") or (
            meta.get(META + "serverInfo") if isinstance(meta, dict) else None
        )
        return info if isinstance(info, dict) else {}

    def declares(self, path: str) -> bool:
        """Return whether a capability such as ``resources.subscribe`` is declared."""
        return is_capability_declared(self.capabilities, path)

    def has_extension(self, id: str) -> bool:
        """Return whether an extension is declared."""
        return id in declared_extensions(self.capabilities)


class Subject:
    """One connection to the server under test.

    Attributes:
        revision: The revision of the connection.
        facts: Capabilities and items of the server; empty before the survey.
        random: Random numbers with the seed of the case.
        bound_s: Time limit of one answer in seconds.
        start_s: Extra seconds until the first message: the process may be starting.
        received: All received messages, in order of arrival.
        request_handlers: Method of a server's request -> function from params to
            result; the others get the error "method not found" (a ping gets ``{}``).
        session_id: The value of `Mcp-Session-Id`, over HTTP.
        stream: The event stream of HTTP+SSE, which carries all server messages.
        validator: Validator of all received messages.
        expect_count: The number of `expect` calls of the case.
        limit: Time limit of the case, excluding process starts.
    """

    def __init__(
        self,
        target: Stdio | Url,
        revision: Revision,
        *,
        validator: MessageValidator,
        facts: Facts | None = None,
        headers: Mapping[str, str] | None = None,
        seed: str = "0",
        bound_s: float = 5.0,
        start_s: float = 0.0,
        tls: ssl.SSLContext | None = None,
        is_sse: bool = False,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self.target = target
        self.revision = revision
        self.facts = facts or Facts(revision)
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.bound_s = bound_s
        self.start_s = start_s
        self.capabilities = capabilities or {}
        self.received = MessageLog()
        self._answers: dict[Any, list[Message]] = {}
        self.request_handlers: dict[
            str, Callable[[dict[str, Any]], dict[str, Any]]
        ] = {}
        self.session_id: str | None = None
        self.transcript = Transcript()
        self._headers = dict(headers or {})
        self._tls = tls
        self._is_sse = is_sse
        self.stream: Response | None = None
        self.validator = validator
        self._changed = asyncio.Event()
        self._line_count = 0
        self._octet_count = 0
        self._first_id = self.random.randrange(1_000, CASE_IDS)
        self._ids = count(self._first_id)
        self._case_ids: range | None = None
        self._case = ""
        self.expect_count = 0
        self.limit: TimeLimit | None = None
        self._request_methods: dict[Any, str] = {}
        self._other_revision_ids: set[Any] = set()
        self._reply_tasks: set[asyncio.Task[None]] = set()
        self._other_subjects: list[Subject] = []
        self.stdio: StdioPeer | None = None
        self.http: HttpPeer | None = None

    # --- the connection ---------------------------------------------------------------

    @property
    def last_sent(self) -> bytes:
        """The last data sent, on this connection or one opened with `open_another`."""
        return self.transcript.last_sent

    @last_sent.setter
    def last_sent(self, data: bytes) -> None:
        self.transcript.last_sent = data

    @property
    def is_modern(self) -> bool:
        """Whether each request carries the version and capabilities in its `_meta`."""
        return self.revision.era is Era.STATELESS

    async def open(self) -> None:
        """Start the process; over HTTP+SSE open the stream, else do nothing."""
        from mcpwire.transports.targets import Stdio

        if isinstance(self.target, Stdio):
            peer = StdioPeer(
                self.target, self.transcript, self._receive, self._changed.set
            )
            await peer.open()
            self.stdio = peer
        else:
            self.http = HttpPeer(
                self.target,
                self._headers,
                self.transcript,
                self._receive,
                self._changed.set,
                tls=self._tls,
            )
            if self._is_sse:
                await self._open_stream()

    async def _open_stream(self) -> None:
        """Open the stream of HTTP+SSE; wait for the `endpoint` event.

        Raises:
            NoAnswer: The first event is not an `endpoint` event.
        """
        fields: dict[str, HeaderValue] = {"Accept": "text/event-stream"}
        stream = await self.need_http().exchange("GET", fields, None)
        self.stream = stream
        await self.wait_until(
            lambda: stream.events or stream.ended.is_set(), self.bound_s
        )
        if not stream.events or stream.events[0].event != "endpoint":
            raise NoAnswer("an endpoint event", self._describe_response(stream))

    @property
    def post_target(self) -> str | None:
        """The request target for POSTs; ``None``: the target of the URL."""
        if self.stream is None or not self.stream.events:
            return None
        data = self.stream.events[0].data.decode("utf-8", "replace")
        try:
            parts = urlsplit(urljoin(str(self.target), data))
        except ValueError as error:
            raise Broken("a URI in the endpoint event", printable(f"{error}")) from None
        return parts.path + (f"?{parts.query}" if parts.query else "")

    async def handshake(self) -> Answer:
        """Send `initialize` and `notifications/initialized`, or `server/discover`."""
        if self.is_modern:
            return await self.request("server/discover")
        answer = await self.request("initialize", self.initialize_params())
        if answer.response is not None:
            self.session_id = answer.response.fields.get("mcp-session-id")
        if answer.result is not None:
            await self.notify("notifications/initialized")
        return answer

    def initialize_params(self) -> dict[str, Any]:
        """Return the params of `initialize`."""
        return {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "mcpwire-check", "version": "1"},
        }

    async def open_another(
        self, *, handshake: bool = True, capabilities: dict[str, Any] | None = None
    ) -> Subject:
        """Open another connection to the server; the end of the case closes it."""
        other = Subject(
            self.target,
            self.revision,
            facts=self.facts,
            headers=self._headers,
            validator=self.validator,
            seed=str(self.random.random()),
            bound_s=self.bound_s,
            start_s=self.start_s,
            tls=self._tls,
            is_sse=self._is_sse,
            capabilities=self.capabilities if capabilities is None else capabilities,
        )
        other.transcript, other._case = self.transcript, self._case
        self._other_subjects.append(other)
        began = monotonic()
        if self.limit is not None:
            self.limit.extend(self.start_s)
        await other.open()
        if handshake:
            await other.handshake()
            if self.limit is not None:
                self.limit.extend(monotonic() - began - self.start_s)
        return other

    async def close_others(self) -> None:
        """Close the connections opened with `open_another`."""
        others, self._other_subjects = self._other_subjects, []
        await asyncio.gather(*(other.close() for other in others))

    async def close(self) -> None:
        """Close this connection, its session and those opened with `open_another`."""
        await self.close_others()
        for task in self._reply_tasks:
            task.cancel()
        if self.stdio is not None:
            await self.stdio.close()
        if self.http is not None:
            if self.session_id is not None:
                with contextlib.suppress(PeerDied, TimeoutError):
                    async with asyncio.timeout(1.0):
                        response = await self.http.exchange(
                            "DELETE", self.http_headers(None), None
                        )
                        await response.ended.wait()
            await self.http.close()

    # --- messages ---------------------------------------------------------------------

    def begin_case(self, number: int, case: str) -> None:
        """Start a case: discard its predecessor's state, set the range of request ids.

        The number of the case determines the range, so that its ids are equal in a
        whole run and in a run of the case alone.
        """
        self.transcript.clear()
        self.received.compress()
        self._answers.clear()
        self._case = case
        self.expect_count = 0
        first = CASE_IDS * (1 + number)
        self._case_ids = range(first, first + CASE_IDS)
        self._ids = count(first)

    def next_id(self) -> int:
        """Return an unused request id."""
        return next(self._ids)

    def message(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = None
    ) -> dict[str, Any]:
        """Return a request (with `id`) or notification in the form of the revision."""
        value: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            value["id"] = id
        if self.is_modern and id is not None:
            params = dict(params or {})
            params["_meta"] = {**self.meta(), **params.get("_meta", {})}
        if params is not None:
            value["params"] = dict(params)
        return value

    def any_request(self) -> dict[str, Any]:
        """Return a request that any server answers."""
        return self.message(self.facts.barrier, id=self.next_id())

    def meta(self) -> dict[str, Any]:
        """Return the `_meta` of each request of 2026-07-28."""
        return {
            META + "protocolVersion": self.revision.name,
            META + "clientCapabilities": self.capabilities,
            META + "clientInfo": {"name": "mcpwire-check", "version": "1"},
        }

    def http_headers(self, message: Any) -> dict[str, HeaderValue]:
        """Return the header fields that a client sends with a message as the body."""
        fields: dict[str, HeaderValue] = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        method = message.get("method") if isinstance(message, dict) else None
        is_initialize = method == "initialize" and not self.is_modern
        if not is_initialize and self.revision.name >= "2025-06-18":
            fields["MCP-Protocol-Version"] = self.revision.name
        if self.session_id is not None:
            fields["Mcp-Session-Id"] = self.session_id
        if self.is_modern and method is not None:
            fields["Mcp-Method"] = str(method)
            params = message.get("params")
            if isinstance(params, dict):
                fields |= self._mirrored_headers(str(method), params)
        return fields

    def _mirrored_headers(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        """Return `Mcp-Name` and the header fields of mirrored arguments."""
        headers: dict[str, str] = {}
        name = params.get(NAME_MEMBERS.get(method, ""))
        if isinstance(name, str):
            headers["Mcp-Name"] = encode_value(name)
        tools = self.facts.tools if method == "tools/call" else ()
        for tool in tools:
            arguments = params.get("arguments")
            if tool.get("name") == name and isinstance(arguments, dict):
                with contextlib.suppress(MCPError):
                    param_headers = find_param_headers(tool.get("inputSchema"))
                    headers |= dict(mirror_params(param_headers, arguments))
        return headers

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: Any = None,
        headers: Mapping[str, HeaderValue] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request and wait for its result or error.

        Raises:
            NoAnswer: No answer within the time limit.
            PeerDied: The process ended, or the server refuses connections.
        """
        id = self.next_id() if id is None else id
        response = await self.send(self.message(method, params, id=id), headers=headers)
        return await self.wait_answer(id, response, timeout=timeout)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> Response | None:
        """Send a notification; over HTTP wait for the response."""
        response = await self.send(self.message(method, params))
        if response is not None:
            await self.wait_ended(response)
        return response

    async def send(
        self, message: Any, *, headers: Mapping[str, HeaderValue] | None = None
    ) -> Response | None:
        """Send a message, or unchanged octets; over stdio add a newline.

        Raises:
            NoAnswer: The server does not read the data within the time limit.
            PeerDied: The process ended, or the server refuses connections.
        """
        data = message if isinstance(message, bytes) else encode(message)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._record_request(message)
        self.last_sent = data
        if self.stdio is not None:
            if self.stdio.has_exited:
                raise self.stdio.exit_finding()
            try:
                async with TimeLimit(self._answer_timeout(None)):
                    await self.stdio.write(data + b"\n")
            except TimeoutError:
                raise NoAnswer(
                    "the server reads its input", "it has stopped reading"
                ) from None
            return None
        self.last_sent = self._with_fields("POST", headers, data)
        fields = {**self.http_headers(message), **(headers or {})}
        response = await self.need_http().exchange(
            "POST", fields, data, target=self.post_target
        )
        if self.stream is None:
            return response
        await self.wait_ended(response)
        if response.status < 400:
            return None  # the stream carries the answer
        if response.has_message:
            body = bytes(response.body)
            for each in decode_messages(body, response.number, self._case):
                self._add_message(each)
        return response

    def _record_request(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(META + "protocolVersion") if isinstance(meta, dict) else None
        with contextlib.suppress(TypeError):
            self._request_methods[_typed_key(message["id"])] = str(message["method"])
            if self.is_modern and (
                version != self.revision.name or message["method"] == "initialize"
            ):
                self._other_revision_ids.add(_typed_key(message["id"]))

    async def wait_answer(
        self, id: Any, response: Response | None = None, *, timeout: float | None = None
    ) -> Answer:
        """Wait for the answer with an id of the same value and JSON type."""
        bound = self._answer_timeout(timeout)
        last = response
        deadline = monotonic() + bound + _MAX_RESUME_PAUSES_S
        try:
            async with TimeLimit(bound) as limit:
                while not (answers := self.answers_to(id)):
                    if last is not None and last.ended.is_set():
                        pause = self._resume_pause(last)
                        if pause > _MIN_RESUME_PAUSE_S:
                            limit.restart(min(pause + bound, deadline - monotonic()))
                        await asyncio.sleep(pause)
                        last = await self.resume(last)
                    await self._wait_for_data()
        except TimeoutError:
            raise NoAnswer(
                f"an answer with the id {id!r} within {bound:g} s",
                self._describe_response(response),
            ) from None
        return Answer(answers[0], response)

    def _answer_timeout(self, timeout: float | None) -> float:
        bound = self.bound_s if timeout is None else timeout
        return bound if self.received else bound + self.start_s

    def _resume_pause(self, response: Response) -> float:
        """Return the seconds to wait before resuming a stream that ended early.

        Raises:
            EndedWithoutAnswer: The stream cannot be resumed.
        """
        if not response.last_event_id or response.status != 200:
            raise EndedWithoutAnswer("an answer", self._describe_end(response))
        return max(_MIN_RESUME_PAUSE_S, (response.retry_ms or 0) / 1000)

    async def resume(self, response: Response) -> Response:
        """Resume an ended stream by a GET with `Last-Event-ID`."""
        fields: dict[str, HeaderValue] = {
            **self.http_headers(None),
            "Last-Event-ID": response.last_event_id,
            "Content-Type": None,
        }
        return await self.need_http().exchange("GET", fields, None)

    def answers_to(self, id: Any) -> list[Message]:
        """Return the received answers with an id of the same value and JSON type."""
        return self._answers.get(_typed_key(id), [])

    def clear_received(self) -> None:
        """Discard all received messages."""
        self.received = MessageLog()
        self._answers.clear()

    def continue_from(self, earlier: Subject) -> None:
        """Take over the messages of an earlier connection, for cases that read all."""
        self.received.continue_from(earlier.received)
        self._request_methods = {**earlier._request_methods, **self._request_methods}
        self._other_revision_ids |= earlier._other_revision_ids

    def case_of(self, actual: str) -> str | None:
        """Return the id of the case that received the message in a finding.

        "": received before the first case; ``None``: not a received message.
        """
        invalid = self.validator.invalid_messages(self.revision.name)
        case_ids = (
            m.case for m in (*self.received, *invalid) if printable(m.raw) == actual
        )
        return next(case_ids, None)

    def _describe_response(self, response: Response | None) -> str:
        if response is not None and not response.head_received.is_set():
            return "no response"
        return f"HTTP {response.status}, and no answer" if response else "no answer"

    def _describe_end(self, response: Response) -> str:
        body = printable(bytes(response.body)) if response.body else "no body"
        problem = f", {response.problem}" if response.problem else ""
        return f"HTTP {response.status}, {body}{problem}"

    async def _wait_for_data(self) -> None:
        """Wait for further received data, or the end of a response.

        Raises:
            PeerDied: The stdout or HTTP+SSE stream has ended, or the server floods.
        """
        if self._floods:
            latest = self.received[len(self.received) - 1 :]
            example = printable(latest[0].raw) if latest else "blank lines"
            amount = f"{MAX_LINES:,} lines"
            if self._line_count <= MAX_LINES:
                amount = f"{MAX_OCTETS >> 20} MiB"
            raise PeerDied("no flood of messages", f"{amount}, such as {example}")
        if self.stdio is not None and self.stdio.output_ended:
            await self.stdio.wait_exit(1.0)
            raise self.stdio.exit_finding()
        if self.stream is not None and self.stream.ended.is_set():
            raise PeerDied("an open event stream", "the server closed it")
        self._changed.clear()
        await self._changed.wait()

    async def wait_until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Wait until a condition holds; return whether it does within the timeout."""
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(timeout):
                while not condition():
                    await self._wait_for_data()
        return bool(condition())

    async def wait_for(
        self,
        matches: Callable[[Message], bool],
        expected: str,
        *,
        timeout: float | None = None,
        after: int = 0,
    ) -> Message:
        """Wait for a message; `after`: the number of `received` messages to skip.

        Raises:
            NoAnswer: No such message within the time limit.
        """
        bound = self._answer_timeout(timeout)
        try:
            async with TimeLimit(bound):
                while True:
                    for message in self.received[after:]:
                        if matches(message):
                            return message
                    after = len(self.received)
                    await self._wait_for_data()
        except TimeoutError:
            raise NoAnswer(f"{expected} within {bound:g} s", "not received") from None

    async def provoke(
        self,
        data: Any,
        *,
        headers: Mapping[str, HeaderValue] | None = None,
        waits: bool = False,
    ) -> Reaction:
        """Send any data; return the messages or HTTP response that follow.

        Over stdio, two barriers follow the data: their answers prove that the server
        has read it. Over HTTP, wait for the end of the response. `waits`: send the data
        to an idle server and wait briefly for an answer, which others may suppress.
        """
        if waits and self.stdio is not None:
            await self.stdio.wait_idle()
        before = len(self.received)
        try:
            response = await self.send(data, headers=headers)
            if response is not None:
                await self.wait_ended(response)
                return Reaction(self.received[before:], response)
            if waits:
                await self._wait_briefly(before)
            await self.barrier()
            await self.barrier()
        except PeerDied:
            if self.stdio is None:
                raise
            return Reaction(self._relevant_messages(before), None, has_ended=True)
        return Reaction(self._relevant_messages(before))

    def _relevant_messages(self, before: int) -> list[Message]:
        return [
            each
            for each in self.received[before:]
            if not self._is_unrelated_answer(each)
        ]

    def _is_unrelated_answer(self, message: Message) -> bool:
        """Return whether a message answers a barrier or an earlier case."""
        if not message.is_answer or not isinstance(message.value, dict):
            return False
        id = message.value.get("id")
        if isinstance(id, str):
            return id in self._barriers
        if self._case_ids is None or type(id) is not int:
            return False
        return self._first_id <= id < _MAX_ID and id not in self._case_ids

    _barriers: frozenset[str] = frozenset()
    _barrier_s = 0.0
    """How long the last barrier took, in seconds."""

    async def wait_late_answer(self, reaction: Reaction) -> Reaction:
        """Wait briefly for a late answer: a multi-threaded server may reorder answers.

        The answers to both barriers of `provoke` may overtake it.
        """
        if self.stdio is None or reaction.has_ended or reaction.is_answered:
            return reaction
        before = len(self.received)
        with contextlib.suppress(PeerDied):
            await self.barrier()
            await self._wait_briefly(before)
            return Reaction(reaction.messages + self._relevant_messages(before))
        return Reaction(self._relevant_messages(before), has_ended=True)

    async def _wait_briefly(self, before: int) -> None:
        """Wait for an answer, several times as long as the last barrier.

        While the process is busy, wait longer, up to `_MAX_LATE_S` in all.
        """
        bound = min(max(_MIN_LATE_S, _LATE_FACTOR * self._barrier_s), _MAX_LATE_S)

        def wait() -> Awaitable[bool]:
            return self.wait_until(
                lambda: Reaction(self._relevant_messages(before)).is_answered, bound
            )

        if self.stdio is None:
            await wait()
        else:
            await self.stdio.wait_while_busy(wait, round(_MAX_LATE_S / bound))

    async def barrier(self, timeout: float | None = None) -> None:
        """Send a request and wait for its answer: then all earlier data was read.

        Raises:
            NoAnswer: The server does not answer within the time limit.
        """
        id = f"barrier-{self.next_id()}"
        self._barriers |= {id}
        last_sent, began = self.last_sent, monotonic()
        try:
            await self.request(self.facts.barrier, id=id, timeout=timeout)
            self._barrier_s = monotonic() - began
        except NoAnswer as error:
            raise type(error)("an answer to the next request", error.actual) from None
        finally:
            self.last_sent = last_sent

    async def wait_ended(self, response: Response) -> None:
        """Wait for the end of a response.

        Raises:
            NoAnswer: It does not end within the time limit.
        """
        try:
            async with TimeLimit(self.bound_s):
                await response.ended.wait()
        except TimeoutError:
            raise NoAnswer(
                f"a complete response within {self.bound_s:g} s",
                self._describe_response(response),
            ) from None

    # --- HTTP -------------------------------------------------------------------------

    def need_http(self) -> HttpPeer:
        """Return the HTTP connection; raise `Absent` over stdio."""
        if self.http is None:
            raise Absent("HTTP")
        return self.http

    def need_stdio(self) -> StdioPeer:
        """Return the process; raise `Absent` over HTTP."""
        if self.stdio is None:
            raise Absent("stdio")
        return self.stdio

    async def exchange(
        self,
        method: str,
        headers: Mapping[str, HeaderValue] | None = None,
        body: bytes | dict[str, Any] | None = None,
        *,
        target: str | None = None,
        complete: bool = True,
    ) -> Response:
        """Send any HTTP request; wait for the response; not `complete`: its head."""
        fields = {**self.http_headers(body), **(headers or {})}
        if body is None:
            fields.pop("Content-Type", None)
        data = encode(body) if isinstance(body, dict) else body
        self.last_sent = self._with_fields(method, headers, data)
        response = await self.need_http().exchange(method, fields, data, target=target)
        if complete:
            await self.wait_ended(response)
            return response
        try:
            async with TimeLimit(self.bound_s):
                await response.head_received.wait()
        except TimeoutError:
            raise NoAnswer(f"a response within {self.bound_s:g} s", "nothing") from None
        return response

    def _with_fields(
        self, method: str, headers: Mapping[str, HeaderValue] | None, body: bytes | None
    ) -> bytes:
        """Return the body, preceded by the method and fields that the case set."""
        parts = [method.encode()] if headers or body is None else []
        for name, value in (headers or {}).items():
            values = (value,) if isinstance(value, str) else value or ()
            fields = [f"{name}: {each}" for each in values] or [f"without {name}"]
            # Mask each field alone: in a joined line, a credential would not end.
            parts += [self.transcript.masked(field.encode()) for field in fields]
        return b", ".join([*parts, *filter(None, (body,))])

    async def exchange_raw(self, data: bytes) -> Response:
        """Send octets on a new connection and wait for the response."""
        self.last_sent = data
        response = await self.need_http().send_raw(data)
        await self.wait_ended(response)
        return response

    # --- received data ----------------------------------------------------------------

    @property
    def _floods(self) -> bool:
        return self._line_count > MAX_LINES or self._octet_count > MAX_OCTETS

    def _receive(self, raw: bytes, stream: int = 0) -> None:
        if self.stream is not None and stream != self.stream.number:
            return  # over HTTP+SSE the response to a POST has no message
        self._line_count += 1
        self._octet_count += len(raw)
        if self._floods:
            self._changed.set()
            return
        for message in decode_messages(raw, stream, self._case):
            self._add_message(message)

    def _add_message(self, message: Message) -> None:
        self.received.append(message)
        if message.is_answer:
            with contextlib.suppress(TypeError):  # the id is an object or array
                id = _typed_key(message.value.get("id"))
                self._answers.setdefault(id, []).append(message)
        if self.is_of_revision(message):
            self.validator.validate(
                self.revision.name, message, self.method_of(message)
            )
        if message.method is not None and "id" in message.value:
            task = asyncio.get_running_loop().create_task(
                self._reply_to_request(message)
            )
            self._reply_tasks.add(task)
            task.add_done_callback(self._reply_tasks.discard)
        self._changed.set()

    def is_of_revision(self, message: Message) -> bool:
        """Return whether the rules of the revision apply to a message.

        They do not apply to answers to requests of other or unknown revisions, nor to
        answers with an id that is not valid: such an id repeats the id of our request.
        """
        if not message.is_answer or not isinstance(message.value, dict):
            return True
        id = message.value.get("id")
        if id is not None and type(id) not in {str, int}:
            return False
        return _typed_key(id) not in self._other_revision_ids

    def method_of(self, message: Message) -> str | None:
        """Return the method of the request that a message answers."""
        if not message.is_answer or not isinstance(message.value, dict):
            return None
        with contextlib.suppress(TypeError):
            return self._request_methods.get(_typed_key(message.value.get("id")))
        return None

    async def _reply_to_request(self, message: Message) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.value["id"]}
        if (handler := self.request_handlers.get(message.method or "")) is not None:
            answer["result"] = handler(message.params)
        elif message.method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "method not found"}
        while self.stdio is not None and not self.stdio.line_ended.is_set():
            await self.stdio.line_ended.wait()
        last_sent = self.last_sent
        with contextlib.suppress(PeerDied, NoAnswer):
            await self.send(answer)
        self.last_sent = last_sent

    # --- findings ---------------------------------------------------------------------

    def expect(self, holds: object, expected: str, actual: object) -> None:
        """Raise `Broken` unless a condition holds."""
        self.expect_count += 1
        if not holds:
            self.raise_broken(expected, actual)

    def expect_none(self, messages: Sequence[Message], expected: str) -> None:
        """Raise `Broken` with the first of the messages if there are any."""
        self.expect(not messages, expected, messages[0].raw if messages else "")

    def expect_one_answer(self, id: Any, expected: str = "one answer") -> None:
        """Raise `Broken` unless exactly one answer with the id was received."""
        count = len(self.answers_to(id))
        self.expect(count == 1, expected, f"{count} answers")

    def expect_refused(self, status: int, actual: object = None) -> None:
        """Raise `Broken` unless a status is a client error (400 to 499)."""
        expected = "a status from 400 to 499"
        self.expect(400 <= status < 500, expected, actual or status)

    def raise_broken(self, expected: str, actual: object) -> NoReturn:
        """Raise `Broken`: the server breaks the rule."""
        raise Broken(expected, printable(actual))

    def raise_lenient(self, expected: str, actual: object) -> NoReturn:
        """Raise `Lenient`: the server accepts input that it must refuse."""
        raise Lenient(expected, printable(actual))

    def raise_absent(self, feature: str) -> NoReturn:
        """Raise `Absent`: the server lacks the feature under test."""
        raise Absent(feature)

    def need_expectation(self, feature: str) -> None:
        """Raise `Absent` if the case has not called `expect`."""
        if not self.expect_count:
            raise Absent(feature)

    def expect_error(self, answer: Answer, code: int) -> None:
        """Raise `Broken` unless an answer is an error with the code."""
        self.expect(answer.code == code, f"an error {code}", answer)

    def need_list(self) -> str:
        """Return a list method of a declared capability, or raise `Absent`."""
        for word in ("tools", "prompts", "resources"):
            if self.facts.declares(word):
                return f"{word}/list"
        raise Absent("tools, prompts or resources")

    def need_tool(self, role: str) -> dict[str, Any]:
        """Return the tool of a role, or raise `Absent`."""
        if role not in self.facts.roles:
            raise Absent(f"callable tool for the role {role!r}")
        return self.facts.roles[role]


def _typed_key(id: Any) -> Any:
    """Return a key for an id for which 1, 1.0, true and "1" differ."""
    return type(id).__name__, id


def printable(value: object) -> str:
    """Return a value as one printable line of at most 400 characters."""
    if isinstance(value, bytes):
        text = value[: 4 * _MAX_PRINTED_CHARS].decode("utf-8", "backslashreplace")
    elif isinstance(value, (dict, list)):
        try:
            text = encode(value).decode()
        except LocalProtocolError:  # a lone surrogate, NaN or infinity
            text = repr(value)
    else:
        text = str(value)
    shortened = text[: _MAX_PRINTED_CHARS + 1]
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shortened)
    return (
        text
        if len(text) <= _MAX_PRINTED_CHARS
        else text[: _MAX_PRINTED_CHARS - 3] + "..."
    )
