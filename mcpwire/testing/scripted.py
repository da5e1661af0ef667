"""Scripted servers for tests of clients, and a scripted client for tests of servers."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpwire import versions
from mcpwire.errors import RPCError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.testing.peer import DEFAULT_TIMEOUT_S, ScriptedPeer, to_json
from mcpwire.testing.wire import HttpWire, MemoryWire, Wire
from mcpwire.transports.targets import Stdio
from mcpwire.versions import REVISIONS, Era, find_revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from mcpwire.testing.peer import Message
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.transports.targets import Target

META: Final = "io.modelcontextprotocol/"
METHOD_NOT_FOUND: Final = -32601
INFO: Final = {"name": "scripted", "version": "1"}

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {},
    "resources": {},
    "prompts": {},
    "completions": {},
    "logging": {},
}

VERSIONS: Final = tuple(revision.name for revision in REVISIONS)

LATEST_SESSION: Final = versions.LATEST_SESSION.name
"""The default protocol version of `handshake`."""


def _is_stateless(version: str) -> bool:
    revision = find_revision(version)
    return revision is not None and revision.era is Era.STATELESS


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
        version: str = LATEST_SESSION,
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
        answers: Outcomes by method (see `mcpwire.testing.peer`); they override those
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
        sessions = [v for v in self.versions if not _is_stateless(v)]
        stateless = [v for v in self.versions if _is_stateless(v)]
        if method == "server/discover" and stateless:
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
        version: str = LATEST_SESSION,
        *,
        capabilities: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Message:
        """Send ``initialize`` (if stateless ``server/discover``); return the response.

        Raises:
            AssertionError: No response within `timeout`, or the connection has ended.
        """
        declared = to_json(capabilities) or {}
        if _is_stateless(version):
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
