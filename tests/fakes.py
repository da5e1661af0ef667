"""An in-memory server that sends exactly what a test specifies, valid or not."""

from __future__ import annotations

import asyncio
import json
import weakref
from typing import TYPE_CHECKING, Any

from loop_polling import until

from mcpwire.errors import RPCError, TransportError
from mcpwire.transports.base import is_on_loop
from mcpwire.transports.memory import MemoryChannel, memory_pair

if TYPE_CHECKING:
    from collections.abc import Callable

SILENCE = object()
"""Returned by a handler that never answers."""

CAPABILITIES = {
    "tools": {},
    "resources": {},
    "prompts": {},
    "completions": {},
    "logging": {},
}


class FakeServer:
    """Answers each method with a function of its params; unknown methods with -32601.

    A function returns a result, `SILENCE`, or an `RPCError`. Its second parameter is
    this server, which may `send` any message meanwhile.
    """

    def __init__(
        self,
        methods: dict[str, Callable[[dict[str, Any], FakeServer], Any]] | None = None,
        *,
        version: str = "2025-11-25",
        capabilities: Any = None,
        **members: Any,
    ) -> None:
        self.version = version
        self.members = {
            "capabilities": CAPABILITIES if capabilities is None else capabilities,
            **members,
        }
        self.methods = dict(methods or {})
        self.received: list[dict[str, Any]] = []
        self.current: dict[str, Any] = {}
        self.channel: MemoryChannel | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._clients: weakref.WeakKeyDictionary[
            MemoryChannel, weakref.ref[MemoryChannel]
        ] = weakref.WeakKeyDictionary()

    def open_in_memory(self, client: Any, limits: Any) -> MemoryChannel:
        near, far = memory_pair(client, self, limits=limits)
        far.receive = lambda data: self._receive_on(far, data)
        far.is_scripted = True
        self.channel, self.loop = far, asyncio.get_running_loop()
        self._clients[far] = weakref.ref(near)
        return near

    def _receive_on(self, channel: MemoryChannel, data: bytes) -> None:
        """Answer on the connection of the request, old or new."""
        newest, self.channel = self.channel, channel
        try:
            self.receive(data)
        finally:
            if self.channel is channel:  # otherwise a client connected meanwhile
                self.channel = newest

    # Its end of the wire reads and writes plain JSON, without our checks.

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Send lines, from any thread."""
        assert self.channel is not None
        assert self.loop is not None
        if is_on_loop(self.loop):
            self.channel.transmit(data)
        else:
            self.loop.call_soon_threadsafe(self.channel.transmit, data)

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def receive(self, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            self.received.append(message)
            if "id" in message and "method" in message:
                self.current = message
                self.answer(message)

    def answer(self, request: dict[str, Any]) -> None:
        outcome = self.outcome(request["method"], request.get("params", {}))
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if outcome is SILENCE:
            return
        if isinstance(outcome, RPCError):
            reply["error"] = {"code": outcome.code, "message": outcome.message}
            if outcome.data is not None:
                reply["error"]["data"] = outcome.data
        else:
            reply["result"] = outcome
        self.send(reply)

    def outcome(self, method: str, params: dict[str, Any]) -> Any:
        if method in self.methods:
            return self.methods[method](params, self)
        stateless = self.version == "2026-07-28"
        if method == "server/discover" and stateless:
            return {
                "resultType": "complete",
                "supportedVersions": [self.version],
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {
                    "io.modelcontextprotocol/serverInfo": {
                        "name": "fake",
                        "version": "1",
                    }
                },
                **self.members,
            }
        if method == "initialize" and not stateless:
            return {
                "protocolVersion": self.version,
                "serverInfo": {"name": "fake", "version": "1"},
                **self.members,
            }
        if method == "ping" and not stateless:
            return {}
        return RPCError("Method not found", code=-32601)

    def die(self, *, soon: bool = False) -> None:
        """End the connection, as a child that exits does; soon: after its lines."""
        client = self.client_end
        if client is not None:
            end = TransportError("the peer closed it", target=client.target)
            if soon:
                asyncio.get_running_loop().call_soon(client.give_up, end)
            else:
                client.give_up(end)

    @property
    def client_end(self) -> MemoryChannel | None:
        """The client's end of the newest connection, while the client has it."""
        client = self._clients.get(self.channel) if self.channel is not None else None
        return None if client is None else client()

    def requests(self, method: str) -> list[dict[str, Any]]:
        return [m["params"] for m in self.received if m.get("method") == method]

    def listen(self, params: dict[str, Any], _: Any) -> object:
        """Acknowledge a subscription: a handler of `subscriptions/listen`."""
        self.notify(
            "notifications/subscriptions/acknowledged",
            notifications=params["notifications"],
            _meta={"io.modelcontextprotocol/subscriptionId": self.current["id"]},
        )
        return SILENCE

    # Its own end ignores all incoming events.

    def notification(self, *_: Any) -> None: ...
    def request(self, *_: Any) -> None: ...
    def cancelled(self, *_: Any) -> None: ...
    def lost(self, *_: Any) -> None: ...


class ReopenableServer(FakeServer):
    """A fake server whose connection can be lost, and that accepts the next one.

    `lives` has the messages of each connection, `received` those of the newest.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lives: list[list[dict[str, Any]]] = []

    def open_in_memory(self, client: Any, limits: Any) -> MemoryChannel:
        self.received = []
        self.lives.append(self.received)
        return super().open_in_memory(client, limits)

    def die(self, *, soon: bool = True) -> None:
        super().die(soon=soon)

    async def lose(self, client: Any) -> None:
        """End the connection, and wait until the client knows that."""
        self.die()
        await until(lambda: not client.is_connected)


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}
