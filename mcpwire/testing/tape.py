r"""Tapes: recorded sessions, and the players that repeat one side of them.

A tape is a file of JSON lines, described in ``docs/tapes.md``: ``{"tape": 1}``, then
a line for each part of the session::

    {"at": 0.0021, "from": "client", "text": "{\"jsonrpc\":\"2.0\", ...}\n"}
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
from base64 import b64decode, b64encode
from fnmatch import fnmatchcase
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

import attrs

from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.testing.scripted import (
    DEFAULT_TIMEOUT_S,
    META,
    METHOD_NOT_FOUND,
    MemoryPeer,
    ScriptedClient,
)
from mcpwire.transports.http.target import is_credential
from mcpwire.wire.json import encode, encode_line, encode_sorted, loads
from mcpwire.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from mcpwire.testing.scripted import Message
    from mcpwire.testing.wire import Wire
    from mcpwire.transports.targets import Target

logger = logging.getLogger(__name__)

Side: TypeAlias = Literal["client", "server"]
Json: TypeAlias = dict[str, Any]

VERSION: Final = 1
FIRST_LINE: Final = encode_line({"tape": VERSION})
MASK: Final = "***"
MAX_PART_BYTES: Final = 1024 * 1024
"""Bytes of a line without an end that are written at once."""
MAX_SECRET_BYTES: Final = 64 * 1024

SUBSCRIPTION_ID: Final = META + "subscriptionId"
NOT_ON_TAPE: Final = -32603
HANDSHAKE: Final = ("initialize", "server/discover")

ISSUED: Final = frozenset({"nextCursor", "requestState", "taskId"})
"""Members with values that a server makes and the client returns."""

_SECRETS: Final = (
    b"access_token|refresh_token|id_token|client_secret|client_assertion|code_verifier"
    b"|registration_access_token"
)
_TOKENS: Final = re.compile(rb'("(?:%b)"\s*:\s*")(?:[^"\\]|\\.)*' % _SECRETS)
_FORM_TOKENS: Final = re.compile(
    rb"((?:^|&)(?:%b|assertion|code|device_code|password|subject_token|actor_token)=)"
    rb"[^&\s]+" % _SECRETS
)
_QUERY: Final = re.compile(r"([?#])\S+")
_URL_FIELDS: Final = frozenset({"location", "content-location", "referer"})


@attrs.frozen
class Part:
    """A part of a session.

    Attributes:
        at: Seconds since the start of the recording.
        side: The sender.
        data: Bytes of the output, or of the body.
        exchange: The number of the HTTP exchange; ``None`` over stdio.
        head: The head of an HTTP request or response, one field per line.
        is_end: Whether the output, or the body, ends with this part.
    """

    at: float
    side: Side
    data: bytes = b""
    exchange: int | None = None
    head: str = ""
    is_end: bool = False


class Recorder:
    """Writes a tape; as the `trace` of a client it records the client's sessions.

    ::

        with Recorder("time.jsonl") as recorder:
            async with mcpwire.Client("uvx mcp-server-time", trace=recorder) as client:
                await client.call_tool("get_current_time", {"timezone": "UTC"})

    Each part is written at once, so that the tape is complete also after a crash. Only
    the current user can read a new file.

    Args:
        path: The file; an existing one is replaced.
        secrets: Texts that are also replaced by ``***``.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._path = path
        self._file = open(os.open(path, flags, 0o600), "wb", buffering=0)  # noqa: SIM115, PTH123 - closed by `close`
        self._secrets = [
            form for secret in secrets if secret for form in _forms(secret)
        ]
        self._started_at = monotonic()
        self._partial: dict[tuple[Side, int | None], bytes] = {}
        self._file.write(FIRST_LINE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, event: str, data: Any) -> None:
        """Record an event of a client's `trace`."""
        match event:
            case "send" | "receive":
                # A line break is white space in JSON, but ends a message on a tape.
                line = data.replace(b"\n", b" ") + b"\n"
                self.add("client" if event == "send" else "server", line)
            case "request":
                self.add_head("client", data)
            case "response":
                self.add_head("server", data)
            case "lost":
                self.end("server")
            case "close":
                self.end("client")

    def add(self, side: Side, data: bytes, exchange: int | None = None) -> None:
        """Record bytes; they are written when a line is complete."""
        data = self._partial.pop((side, exchange), b"") + data
        lines, newline, rest = data.rpartition(b"\n")
        for text in lines.split(b"\n") if exchange is None else [lines]:
            if newline:
                self._write_data(side, text + newline, exchange)
        if len(rest) > MAX_PART_BYTES:
            rest = self._mask(rest)
            cut = len(rest) - MAX_SECRET_BYTES  # the end may be a part of a secret
            self._write_data(side, rest[:cut], exchange)
            rest = rest[cut:]
        if rest:
            self._partial[side, exchange] = rest

    def add_head(self, side: Side, head: str, exchange: int | None = None) -> None:
        """Record the head of an HTTP message: its first line, and a line per field."""
        first, *fields = head.split("\n")
        lines = [_QUERY.sub(rf"\1{MASK}", first)]
        for name, colon, value in (field.partition(":") for field in fields):
            shown = value
            if is_credential(name) or name.lower() == "mcp-session-id":
                shown = f" {MASK}"
            elif name.lower() in _URL_FIELDS:
                shown = _QUERY.sub(rf"\1{MASK}", value)
            lines.append(f"{name}{colon}{shown}")
        masked = self._mask("\n".join(lines).encode()).decode()
        self._write(side, exchange, head=masked)

    def end(self, side: Side, exchange: int | None = None) -> None:
        """Record the end of a side's output, or of a body."""
        if rest := self._partial.pop((side, exchange), b""):
            self._write_data(side, rest, exchange)
        self._write(side, exchange, is_end=True)

    def close(self) -> None:
        """Close the file; later events are ignored."""
        for side, exchange in list(self._partial):
            self._write_data(side, self._partial.pop((side, exchange)), exchange)
        self._file.close()

    def _write_data(self, side: Side, data: bytes, exchange: int | None) -> None:
        self._write(side, exchange, data=self._mask(data))

    def _mask(self, data: bytes) -> bytes:
        # A form has no quotation marks, but JSON may contain URLs.
        tokens = _TOKENS if b'"' in data else _FORM_TOKENS
        data = tokens.sub(rb"\1" + MASK.encode(), data)
        for secret in self._secrets:
            data = data.replace(secret, MASK.encode())
        return data

    def _write(self, side: Side, exchange: int | None, **members: Any) -> None:
        if self._file.closed:
            return
        at = monotonic() - self._started_at
        try:
            self._file.write(encode_part(Part(at, side, exchange=exchange, **members)))
        except OSError as error:
            self._file.close()  # further parts would leave a gap
            logger.warning("the tape %s cannot be continued: %s", self._path, error)


def _forms(secret: str) -> set[bytes]:
    """Return a secret as it is in text, in JSON, and in a form or URL."""
    ascii_json = json.dumps(secret)[1:-1].encode()
    return {
        secret.encode(),
        encode(secret)[1:-1],
        ascii_json,
        quote(secret, "").encode(),
    }


def encode_part(part: Part) -> bytes:
    """Return a part as a line of a tape."""
    entry: Json = {"at": round(part.at, 6), "from": part.side}
    if part.exchange is not None:
        entry["exchange"] = part.exchange
    if part.head:
        entry["head"] = part.head
    if part.data:
        try:
            entry["text"] = part.data.decode()
        except UnicodeDecodeError:
            entry["base64"] = b64encode(part.data).decode()
    if part.is_end:
        entry["end"] = True
    return encode_line(entry)


def read_tape(path: str | Path) -> list[Part]:
    """Return the parts of a tape.

    Raises:
        OSError: The file cannot be read.
        ValueError: A line is not a part of a tape.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a text is a path, too
        try:
            return parse_tape(file)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def parse_tape(lines: Iterable[bytes]) -> list[Part]:
    """Return the parts of a tape; raise `ValueError` if a line is no part of one."""
    parts: list[Part] = []
    for number, line in enumerate(lines, 1):
        try:
            parts += _read_line(loads(line), is_first=number == 1)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {number}: no tape: {error}") from error
    if not parts:
        raise ValueError("the tape is empty")
    return parts


def _read_line(entry: Json, *, is_first: bool) -> list[Part]:
    if is_first:
        if entry["tape"] != VERSION:
            raise ValueError(f"version {entry['tape']!r} is not supported")
        return []
    side = entry["from"]
    if side not in {"client", "server"}:
        raise ValueError(f"'from' must be 'client' or 'server', got {side!r}")
    exchange = entry.get("exchange")
    if not isinstance(exchange, (int, type(None))):
        raise TypeError(f"'exchange' must be an integer, got {exchange!r}")
    is_text = "base64" not in entry
    part = Part(
        at=float(entry["at"]),
        side=side,
        data=str(entry.get("text", "")).encode()
        if is_text
        else b64decode(entry["base64"]),
        exchange=exchange,
        head=str(entry.get("head", "")),
        is_end=entry.get("end") is True,
    )
    return [part]


@attrs.frozen
class TapeMessage:
    """A message of a tape.

    Attributes:
        side: The sender.
        content: The message, or the line if it is not a JSON object.
        exchange: The number of the HTTP exchange that carried it.
        is_after_end: Whether the client had ended its output before.
    """

    side: Side
    content: Json | bytes
    exchange: int | None = None
    is_after_end: bool = False


def read_messages(parts: Iterable[Part]) -> Iterator[TapeMessage]:
    """Return the messages of both sides in the order of their ends.

    Over HTTP other bodies, such as those of a login, are left out, and so are requests
    that need one. A response without a message is an error without an id.
    """
    parts = list(parts)
    refused = {part.exchange for part in parts if " 401" in part.head.split("\n")[0]}
    decoders: dict[tuple[Side, int | None], Callable[[Part], list[bytes]]] = {}
    has_ended = False
    for part in parts:
        if part.exchange is not None and part.exchange in refused:
            continue
        key = part.side, part.exchange
        if part.head or key not in decoders:
            decoders[key] = _decoder(part)
        for text in decoders[key](part):
            for content in _decode(text):
                if part.exchange is None or _is_message(content):
                    yield TapeMessage(part.side, content, part.exchange, has_ended)
        if part.side == "client":
            has_ended = part.is_end and part.exchange is None


def _decode(text: bytes) -> list[Json] | list[bytes]:
    """Return the message of a text, those of a batch, or the text if it is no JSON."""
    try:
        value = loads(text)
    except ValueError:
        value = None
    items = value if isinstance(value, list) and value else [value]
    if all(isinstance(item, dict) for item in items):
        return items
    return [text] if text.strip() else []


def _decoder(first: Part) -> Callable[[Part], list[bytes]]:
    """Return the decoder of an output: of lines, an event stream, or a whole body."""
    if first.exchange is None:
        return _Body(splits_lines=True).feed
    if re.search(r"(?im)^content-type:\s*text/event-stream", first.head):
        events = SSEDecoder(DEFAULT_LIMITS.message)
        return lambda part: [event.data for event in events.feed(part.data)]
    body = _Body(splits_lines=False)
    status = first.head.partition("\n")[0] or "none"
    if first.side == "client" or " 202" in status:
        return body.feed
    return lambda part: [_as_answer(text, status) for text in body.feed(part)]


def _as_answer(text: bytes, status: str) -> bytes:
    """Return the body of a response, or an error if it has no message."""
    if any(map(_is_message, _decode(text))):
        return text
    error = {"code": NOT_ON_TAPE, "message": f"no message in the response: {status}"}
    return encode({"jsonrpc": "2.0", "id": None, "error": error})


def _is_message(content: object) -> bool:
    return isinstance(content, dict) and bool({"jsonrpc", "method", "id"} & {*content})


class _Body:
    """Collects bytes up to the end of a line, or up to the end of the output."""

    def __init__(self, *, splits_lines: bool) -> None:
        self._splits_lines = splits_lines
        self._data = b""

    def feed(self, part: Part) -> list[bytes]:
        self._data += part.data
        texts: list[bytes] = []
        if self._splits_lines:
            *texts, self._data = self._data.split(b"\n")
        if part.is_end:
            texts.append(self._data)
            self._data = b""
        return texts


@attrs.define(eq=False)
class _Cue:
    """A message of the client, and what the server sent because of it.

    `steps` are the messages of the server, each with the cue for its ids.
    """

    key: bytes
    message: Json
    steps: list[tuple[Json | bytes, _Cue]] = attrs.Factory(list)
    next_step: int = 0
    current: Json | None = None
    """The message of the present client that was matched last."""

    def is_expecting(self, content: Json) -> bool:
        """Return whether the present client has asked for a message of the server."""
        if self.current is None:
            return False  # it has not subscribed
        is_progress = _progress_token(content) is not None
        return not is_progress or _token_of(self.current) is not None


class Player:
    """The server of a tape: it answers each message as the recorded server did.

    A request is matched with the next recorded one that has the same method and params,
    `_meta` aside; ``initialize``, ``server/discover`` and notifications by their method
    alone. If all such requests were played, the last one is played again. Ids and
    progress tokens are those of the present client. After a request of the server the
    player waits for the client's response to it.

    Attributes:
        unexpected: Requests of the client that are not on the tape; they are answered
            with an error.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self.unexpected: list[Json] = []
        self._cues: list[_Cue] = []
        self._waiting: dict[bytes, _Cue] = {}
        owners: dict[Any, _Cue] = {}
        for message in read_messages(parts):
            content = message.content
            if message.side == "server":
                self._add_step(message, owners)
            elif isinstance(content, dict) and "method" in content:
                cue = _Cue(_key(content), content)
                self._cues.append(cue)
                if "id" in content:
                    # Several clients may use the same ids at the same time.
                    for name in (*_names(content), None):
                        owners[message.exchange, name] = owners[None, name] = cue

    @property
    def unplayed(self) -> list[Json]:
        """The recorded requests that the client has not sent."""
        return [
            cue.message
            for cue in self._cues
            if cue.current is None and "id" in cue.message
        ]

    def receive(self, message: Any) -> list[bytes]:
        """Return the server's lines that follow a message of the client."""
        if not isinstance(message, dict):
            return []
        if "method" not in message:
            cue = self._waiting.pop(encode(message.get("id")), None)
            return [] if cue is None else self._play(cue)
        key = _key(message)
        cues = [cue for cue in self._cues if cue.key == key]
        if not cues:
            return self._refuse(message)
        cue = next((cue for cue in cues if cue.current is None), cues[-1])
        cue.current, cue.next_step = message, 0
        if not cue.steps and message["method"] in HANDSHAKE:
            return self._refuse(message)  # a client would wait, and then fall back
        return self._play(cue)

    def _refuse(self, message: Json) -> list[bytes]:
        if "id" not in message:
            return []
        if message["method"] in HANDSHAKE:
            code, text = METHOD_NOT_FOUND, "the tape has a session of the other era"
        else:
            self.unexpected.append(message)
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            name = params.get("name") or params.get("uri") or ""
            what = f"{message['method']} {name}".strip()
            text = f"the tape has no request {what!r} with these params"
            code = NOT_ON_TAPE
        error = {"code": code, "message": text}
        return [encode_line({"jsonrpc": "2.0", "id": message["id"], "error": error})]

    def _add_step(self, message: TapeMessage, owners: Mapping[Any, _Cue]) -> None:
        """Add a message of the server to the cue that it follows."""
        if not self._cues:
            return  # sent before any message of the client
        content, latest, exchange = message.content, self._cues[-1], message.exchange
        owner = None
        if isinstance(content, dict) and (name := _owner_name(content)) is not None:
            owner = owners.get((exchange, name)) or owners.get((None, name))
        if owner is None and exchange is not None:
            owner = owners.get((exchange, None))
        if owner is None and isinstance(content, dict) and "method" not in content:
            if exchange is not None:
                return  # such as an answer to GET or DELETE
            content = encode(content)  # such as an error without an id
        owner = owner or latest
        # Messages of a subscription follow what the client did meanwhile.
        is_stream = owner.message["method"] == "subscriptions/listen"
        if not (is_stream and message.is_after_end):
            (latest if is_stream else owner).steps.append((content, owner))

    def _play(self, cue: _Cue) -> list[bytes]:
        """Return the next lines, up to a request that the client must answer."""
        lines: list[bytes] = []
        while cue.next_step < len(cue.steps):
            content, owner = cue.steps[cue.next_step]
            cue.next_step += 1
            if isinstance(content, bytes):
                lines.append(content + b"\n")
            elif owner.is_expecting(content):
                lines.append(encode_line(_with_ids(content, owner)))
                if "method" in content and "id" in content:
                    self._waiting[encode(content["id"])] = cue
                    break
        return lines


def _key(message: Json) -> bytes:
    """Return what a message of a client is matched by."""
    method, params = message["method"], message.get("params")
    by_method = "id" not in message or method in HANDSHAKE
    if by_method or not isinstance(params, dict):
        params = None
    else:
        params = {name: value for name, value in params.items() if name != "_meta"}
    return encode_sorted([method, params or None])


def _meta(message: Json, member: str) -> Json:
    container = message.get(member)
    meta = container.get("_meta") if isinstance(container, dict) else None
    return meta if isinstance(meta, dict) else {}


def _token_of(request: Json) -> Any:
    return _meta(request, "params").get("progressToken")


def _names(request: Json) -> list[tuple[str, bytes]]:
    """Return the names by which the server's messages refer to a request."""
    names = [("id", encode(request["id"]))]
    if (token := _token_of(request)) is not None:
        names.append(("token", encode(token)))
    return names


def _progress_token(message: Json) -> Any:
    if message.get("method") != "notifications/progress":
        return None
    params = message.get("params")
    return params.get("progressToken") if isinstance(params, dict) else None


def _owner_name(message: Json) -> tuple[str, bytes] | None:
    """Return the name of the request that a message of the server belongs to."""
    if "method" not in message:
        return "id", encode(message.get("id"))
    if (id := _meta(message, "params").get(SUBSCRIPTION_ID)) is not None:
        return "id", encode(id)
    token = _progress_token(message)
    return None if token is None else ("token", encode(token))


def _with_ids(message: Json, cue: _Cue) -> Json:
    """Return a recorded message with the ids of the present client."""
    assert cue.current is not None
    current_id = cue.current.get("id")
    message = dict(message)
    if "method" not in message:
        message["id"] = current_id
    for member in ("params", "result"):
        if SUBSCRIPTION_ID in (meta := _meta(message, member)):
            meta = {**meta, SUBSCRIPTION_ID: current_id}
            message[member] = {**message[member], "_meta": meta}
    if _progress_token(message) is not None:
        token = _token_of(cue.current)
        message["params"] = {**message["params"], "progressToken": token}
    return message


class Tape(MemoryPeer):
    """A recorded session as the target of a client: it plays the server.

    ::

        tape = Tape("time.jsonl")
        async with mcpwire.Client(tape) as client:
            await client.call_tool("get_current_time", {"timezone": "UTC"})
        assert not tape.unplayed

    For the matching of requests see `Player`. Methods of `ScriptedPeer` send further
    messages.

    Args:
        path: The tape, of any transport.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a tape.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.player = Player(read_tape(path))

    @property
    def unexpected(self) -> list[Json]:
        """The requests of the client that are not on the tape."""
        return self.player.unexpected

    @property
    def unplayed(self) -> list[Json]:
        """The recorded requests that the client has not sent."""
        return self.player.unplayed

    def _process(self, wire: Wire, message: Message) -> bool:
        for line in self.player.receive(message.raw):
            self._send_parts(wire, line)
        return True


def play_exactly(
    parts: Iterable[Part],
    read: Callable[[int], bytes],
    write: Callable[[bytes], object],
) -> str:
    """Play the server of a tape to a client that must send the recorded bytes.

    Args:
        parts: A tape of a server over stdio.
        read: Returns at most so many bytes of the client, and none at its end.
        write: Sends bytes to the client.

    Returns:
        The first difference in the client's bytes; an empty text if there is none.

    Raises:
        ValueError: The tape is of a server over HTTP.
    """
    for number, part in enumerate(parts, 2):
        if part.exchange is not None or part.head:
            raise ValueError("only a tape of a server over stdio can be played exactly")
        if part.side == "server":
            write(part.data)
            continue
        data, size = b"", len(part.data) or int(part.is_end)
        while len(data) < size and (chunk := read(size - len(data))):
            data += chunk
        if data != part.data:
            return f"line {number} of the tape: expected {part.data!r}, got {data!r}"
    return ""


@attrs.frozen
class Difference:
    """An answer of a server that differs from the recorded one.

    Attributes:
        request: The request.
        path: The member of the answer, such as ``result.content.0.text``; empty: there
            was no answer.
        expected: The recorded value; ``None`` if there was none.
        actual: The value of the server; ``None`` if there is none.
    """

    request: Json
    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        name = f"{self.request['method']} (id {self.request['id']!r})"
        expected, actual = _shortened(self.expected), _shortened(self.actual)
        return f"{name}: {self.path or 'answer'}: expected {expected}, got {actual}"


def _shortened(value: Any) -> str:
    text = encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}..."


async def replay(
    path: str | Path,
    target: Target,
    *,
    ignore: Iterable[str] = (),
    timeout: float = DEFAULT_TIMEOUT_S,
) -> list[Difference]:
    """Send the client's messages of a tape to a server; compare its answers.

    Each message is sent when the server has sent the responses and requests that
    precede it on the tape. Notifications of the server and `_meta` are not compared.
    Cursors, task ids and request states may differ; the client sends those of the
    present server.

    Args:
        path: The tape, of any transport.
        target: The server, over any transport.
        ignore: Members that may differ, as patterns: ``result.content.*.text``.
        timeout: Time limit for each answer, in seconds.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a tape, or has no answers.
        ConnectError: The server cannot be reached.
    """
    messages = list(read_messages(read_tape(path)))
    if all(message.side == "client" for message in messages):
        raise ValueError(f"{path}: the tape has no answers to compare")
    patterns = tuple(ignore)
    async with ScriptedClient(target) as client:
        replaying = _Replay(client, timeout)
        for message in messages:
            if message.side == "client":
                await replaying.send(message.content)
                continue
            if message.is_after_end:
                replaying.hang_up()
            if isinstance(message.content, dict) and "id" in message.content:
                await replaying.expect(message.content)
        replaying.hang_up()
        with contextlib.suppress(AssertionError):  # the server ends its output late
            await client.closed(timeout=timeout)
    return [
        difference
        for difference in replaying.differences
        if not any(fnmatchcase(difference.path, pattern) for pattern in patterns)
    ]


class _Replay:
    """The client of a tape, and what the present server answered."""

    def __init__(self, client: ScriptedClient, timeout: float) -> None:
        self.differences: list[Difference] = []
        self._client = client
        self._timeout = timeout
        self._kept: list[Json] = []  # received, and not yet expected
        self._requests: dict[bytes, Json] = {}
        self._ids: dict[bytes, Any] = {}  # the server's: recorded to present
        self._issued: dict[str, str] = {}  # `ISSUED` members: recorded to present
        self._has_ended = False

    def hang_up(self) -> None:
        """End the output of the client, unless the server has ended."""
        if self._client.is_open and not self._has_ended:
            self._client.hang_up()
        self._has_ended = True

    async def send(self, content: Json | bytes) -> None:
        """Send a recorded message to the present server, unless that has ended."""
        is_first = isinstance(content, dict) and content.get("method") == "initialize"
        if self._has_ended or (is_first and self._requests):
            await self._client.connect()  # the next session of the tape
            self._has_ended = False
        with contextlib.suppress(ConnectionError):
            self._send(content)

    def _send(self, content: Json | bytes) -> None:
        if isinstance(content, bytes):
            self._client.send_bytes(content + b"\n")
            return
        key = encode(content.get("id"))
        if "method" not in content:
            content = {**content, "id": self._ids.get(key, content.get("id"))}
        elif "id" in content:
            self._requests[key] = content
        self._client.send(_with_issued(content, self._issued))

    async def expect(self, content: Json) -> None:
        """Wait for what the recorded server sent; compare it if it is a response."""
        key = encode(content["id"])
        if "method" in content:
            if request := await self._take("method", content["method"]):
                self._ids[key] = request["id"]
        elif key in self._requests:
            request, answer = self._requests[key], await self._take("id", content["id"])
            if answer is None:
                self.differences.append(Difference(request, "", content, None))
                return
            for found in _differences(content, answer, self._issued):
                self.differences.append(Difference(request, *found))

    async def _take(self, member: str, value: Any) -> Json | None:
        """Return the response with an id, or the request of a method, if one comes."""

        def matches(message: Json) -> bool:
            is_answer = "method" not in message
            return is_answer == (member == "id") and message.get(member) == value

        try:
            async with asyncio.timeout(self._timeout):
                while not (found := next(filter(matches, self._kept), None)):
                    message = await self._client.receive(timeout=self._timeout)
                    if isinstance(message.raw, dict) and "id" in message.raw:
                        self._kept.append(message.raw)
        except (AssertionError, TimeoutError):
            return None
        self._kept.remove(found)
        return found


def _with_issued(value: Any, issued: Mapping[str, str]) -> Any:
    """Replace recorded values of the server by those of the present one."""
    if isinstance(value, dict):
        return {name: _with_issued(item, issued) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_issued(item, issued) for item in value]
    return issued.get(value, value) if isinstance(value, str) else value


def _differences(
    expected: Any, actual: Any, issued: dict[str, str], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Find the members that differ, each with its path; `_meta` is left out.

    Values of `ISSUED` members are added to `issued` instead.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = [name for name in {**expected, **actual} if name != "_meta"]
        pairs = [(name, expected.get(name), actual.get(name)) for name in names]
    elif isinstance(expected, list) and isinstance(actual, list):
        pairs = [
            (str(index), *pair)
            for index, pair in enumerate(zip_longest(expected, actual))
        ]
    else:
        is_text = isinstance(expected, str) and isinstance(actual, str)
        if is_text and path.rpartition(".")[2] in ISSUED:
            issued[expected] = actual
        elif expected != actual:
            yield path, expected, actual
        return
    for name, left, right in pairs:
        inner = f"{path}.{name}" if path else name
        yield from _differences(left, right, issued, inner)
