"""Clients with faults in JSON-RPC, framing, ping, progress and cancellation."""

import asyncio
import contextlib
import json
import os

from client_mutants import (
    closer,
    connect,
    faulty_use,
    incoming,
    outgoing,
    reader,
    spawner,
    use_all,
)

import mcpwire


def answers(message):
    """Return whether the message is a response of the client."""
    return "method" not in message


def asks(message):
    """Return whether the message is a request of the client, not of the handshake."""
    handshake = {"initialize", "server/discover"}
    return "id" in message and message.get("method", "initialize") not in handshake


async def use_two_at_once(target):
    """Make two calls with progress at the same time."""
    async with connect(target) as client:
        one = client.call_tool("echo", {"text": "hi"}, on_progress=print)
        two = client.call_tool("add", {"a": 1, "b": 2}, on_progress=print)
        texts = [result.text for result in await asyncio.gather(one, two)]
        assert texts == ["hi", "3"]


# Ids


@outgoing("C-RPC-01.a")
def omits_jsonrpc(message):
    del message["jsonrpc"]


@outgoing("C-RPC-03.a")
def null_id(message):
    if message.get("method") == "prompts/list":
        return [message, {**message, "id": None}]
    return None


@outgoing("C-RPC-05.a")
class ReusesId:
    previous = None

    def __call__(self, message):
        if message.get("method") == "prompts/list" and self.previous is None:
            self.previous = message
            return [message, message]
        return None


@outgoing("C-RPC-11.a")
def notification_with_id(message):
    if message.get("method") == "notifications/initialized":
        return [message, {**message, "id": "n"}]
    if message.get("method") == "tools/list":  # a stateless revision
        return [message, {**message, "method": "notifications/x", "id": "n"}]
    return None


@outgoing("C-RPC-15.a", "stdio")
def sends_batches(message):
    if message.get("method") == "tools/list":
        return [[message]]
    return None


@outgoing("C-RPC-14.a", "stdio")
def initialize_in_batch(message):
    if message.get("method") == "initialize":
        return [[message]]
    return None


@outgoing("C-RPC-06.a", "stdio", use=use_two_at_once)
class ReusesIdInFlight:
    first = None
    second = False

    def __call__(self, message):
        if message.get("method") != "tools/call" or self.second:
            return None
        self.second = self.first is not None
        self.first = self.first or message["id"]
        return [{**message, "id": self.first}, message]


@incoming("C-A15.a", "stdio", use=use_two_at_once)
class MatchesByOrder:
    first = None

    def __call__(self, message):
        if "content" not in message.get("result", {}):
            return None
        if self.first is None:
            self.first = message
            return []
        # The ids of the requests increase.
        self.first["id"], message["id"] = sorted((self.first["id"], message["id"]))
        return [self.first, message]


# Responses


@outgoing("C-RPC-07.a")
def id_as_string(message):
    if answers(message):
        message["id"] = str(message["id"])


@outgoing("C-RPC-07.b")
def id_as_double(message):
    if answers(message) and isinstance(message["id"], int):
        message["id"] = int(float(message["id"]))


@outgoing("C-A13.a")
def other_code(message):
    if "error" in message:
        message["error"]["code"] = -32602


@outgoing("C-RPC-09.a")
def code_as_string(message):
    if "error" in message:
        message["error"]["code"] = str(message["error"]["code"])


@outgoing("C-RPC-12.a")
class AnswersNotifications:
    has_answered = False

    def __call__(self, message):
        if asks(message) and not self.has_answered:
            self.has_answered = True
            error = {"code": -32601, "message": "a notification"}
            return [message, {"jsonrpc": "2.0", "id": "unknown", "error": error}]
        return None


# Unusual messages


def _is_unknown_notification(message):
    return message.get("method", "").startswith("notifications/mcpwire")


def _has_unknown_member(message):
    return "mcpwireUnknown" in (message.get("result") or {})


def stops_at(case, is_unexpected, *transports):
    """Add a client that ends when it receives an unexpected message."""

    @incoming(case, *transports)
    def stops(message):
        if is_unexpected(message):
            raise ValueError("unexpected message")


stops_at("C-A13.b", _is_unknown_notification)
stops_at("C-RPC-33.a", _has_unknown_member)
stops_at("C-F14.a", lambda message: message.get("id") == "unknown", "stdio")


@incoming("C-A14.a", "stdio")
def drops_errors(message):
    return [] if message.get("error", {}).get("message") == "no\nresult" else None


# Lines


@outgoing("C-TR-STDIO-01.a", "stdio")
def indents_requests(message):
    return [json.dumps(message, indent=1).encode()] if asks(message) else None


@outgoing("C-RPC-02.a", "stdio")
def starts_with_bom(message):
    if message.get("method") in {"initialize", "server/discover"}:
        return [b"\xef\xbb\xbf" + json.dumps(message).encode()]
    return None


@outgoing("C-RPC-02.a", "http")
def writes_latin_1(message):
    if message.get("method") == "tools/call":
        text = json.dumps(message).replace('"echo"', '"\xe9"')
        return [text.encode("latin-1")]
    return None


@reader("C-F11.a", "stdio")
class DecodesChunks:
    data = b""

    async def __call__(self, stream):
        while b"\n" not in self.data:
            if not (chunk := await stream.read(65_536)):
                return b""
            self.data += chunk.decode().encode()
        line, _, self.data = self.data.partition(b"\n")
        return line + b"\n"


def stops_at_line(case, is_unexpected):
    """Add a client that ends when it reads an unexpected line."""

    @reader(case, "stdio")
    async def stops(stream):
        line = await stream.readline()
        if line and is_unexpected(line):
            raise ValueError("unexpected line")
        return line


def _is_no_message(line):
    try:
        return bool(line.strip()) and "jsonrpc" not in json.loads(line)
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True


def _is_not_utf8(line):
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


stops_at_line("C-RPC-13.a", lambda line: line.startswith(b"["))
stops_at_line("C-F12.a", lambda line: not line.strip())
stops_at_line("C-F12.b", _is_no_message)
stops_at_line("C-F13.a", _is_not_utf8)
stops_at_line("C-F13.b", lambda line: line.startswith(b"\xef\xbb\xbf"))
stops_at_line(
    "C-F13.c", lambda line: len(line.decode(errors="replace").splitlines()) > 1
)
stops_at_line("C-A16.a", lambda line: len(line) > 65_536)


@reader("C-F11.b", "stdio")
async def reads_one_line_a_chunk(stream):
    lines = (await stream.read(65_536)).splitlines()
    if len(lines) > 1:
        raise ValueError("unexpected second line")
    return b"".join(lines)


# The process


@spawner("C-TR-STDIO-05.a", "stdio")
class EndsAtStderr:
    has_ended = False

    async def __call__(self, *command, **options):
        if self.has_ended:
            raise ConnectionError("the server wrote to stderr")
        process = await asyncio.create_subprocess_exec(*command, stderr=-1, **options)
        self.watching = asyncio.create_task(self.watch(process))
        return process

    async def watch(self, process):
        if await process.stderr.read(1):
            self.has_ended = True
            process.kill()


@spawner("C-A16.b", "stdio")
async def reads_no_stderr(*command, **options):
    unread, stderr = os.pipe()
    process = await asyncio.create_subprocess_exec(*command, stderr=stderr, **options)
    os.close(stderr)

    async def close():
        await process.wait()
        os.close(unread)

    process.close = asyncio.create_task(close())
    return process


@closer("C-LIFE-12.a", "stdio")
@closer("C-TR-STDIO-12.a", "stdio")
async def terminates_first(process):
    process.terminate()
    await process.wait()


@spawner("C-LIFE-12.b", "stdio")
@spawner("C-TR-STDIO-12.b", "stdio")
async def ends_only_the_shell(*command, **options):
    shell = ("sh", "-c", '"$@"; true', "sh")
    return await asyncio.create_subprocess_exec(*shell, *command, **options)


async def waits_after_an_error(target):
    """Use the server; after an error wait forever."""
    try:
        await use_all(target, recovery=mcpwire.Recovery(restart=False))
    except mcpwire.MCPError:
        await asyncio.Event().wait()


for case in ("C-F02.a", "C-F04.a", "C-F05.a"):
    faulty_use(case, "stdio")(waits_after_an_error)


# Ping, progress and cancellation


@outgoing("C-PING-01.a")
def answers_pong(message):
    if message.get("result") == {}:
        message["result"] = "pong"


def adds_token(case, token, *transports, use=None):
    """Add a client whose calls have a progress token."""

    @outgoing(case, *transports, use=use)
    def with_token(message):
        if message.get("method") == "tools/call":
            message["params"].setdefault("_meta", {})["progressToken"] = token


adds_token("C-PROG-01.a", 1.5)
adds_token("C-PROG-01.b", "a token", "stdio", use=use_two_at_once)


def cancels(case, method, id):
    """Add a client that cancels a request of some id after a message."""

    @outgoing(case)
    class Cancels:
        initialize = None

        def __call__(self, message):
            if message.get("method") == "initialize":
                self.initialize = message["id"]
            if message.get("method") != method:
                return None
            params = {"requestId": id or self.initialize}
            cancelled = "notifications/cancelled"
            return [message, {"jsonrpc": "2.0", "method": cancelled, "params": params}]


cancels("C-LIFE-16.a", "notifications/initialized", None)
cancels("C-CAN-01.a", "tools/call", "unknown")
cancels("C-CAN-02.a", "tools/call", "unknown")


def _is(method):
    return lambda message: message.get("method") == method


stops_at("C-A17.a", _is("notifications/progress"))


async def gives_up_the_list(target):
    """Cancel a list that does not come soon."""
    async with connect(target) as client:
        with contextlib.suppress(mcpwire.RequestTimeout):
            await client.request("tools/list", timeout=0.3)
        await client.call_tool("echo", {"text": "hi"})
        await client.call_tool("echo", {"text": "hi again"})


@incoming("C-CAN-07.a", "stdio", use=gives_up_the_list)
def stops_at_a_list(message):
    if "tools" in message.get("result", {}):
        raise ValueError("unexpected list")


@faulty_use("C-TR-STDIO-14.a", "stdio")
async def restarts_no_server(target):
    await use_all(target, recovery=mcpwire.Recovery(restart=False))


stops_at("C-CAN-06.a", _is("notifications/cancelled"))
stops_at("C-CAN-08.a", _is("notifications/cancelled"))
