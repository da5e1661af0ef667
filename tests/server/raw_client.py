"""A raw client: it sends the given messages and keeps the lines it receives."""

import asyncio
import json

from mcpwire.server.connection import ServerConnection
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.transports.duplex import Duplex
from mcpwire.types import Implementation

TIMEOUT_S = 30.0

CLIENT = {"name": "hand", "version": "1"}
SERVER = {"name": "under-test", "version": "2"}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
LOG_KEY = "io.modelcontextprotocol/logLevel"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: CLIENT}
STAMP = {"resultType": "complete", "_meta": {SERVER_KEY: SERVER}}

ALL = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
SESSIONS = ALL[1:]


def session(version="2025-11-25"):
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}


def request(id, method, params=None, meta=None, **more):
    """Return a request; with `meta` it is a stateless one."""
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None or meta is not None:
        message["params"] = dict(params or {})
    if meta is not None:
        message["params"]["_meta"] = meta
    return {**message, **more}


def modern(id, method, params=None, **meta):
    return request(id, method, params, {**META, **meta})


def notice(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def success(id, result):
    return {"jsonrpc": "2.0", "id": id, "result": result}


def failure(id, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": error}


def server(methods=None, capabilities=None, **options):
    """Return a dispatcher with just these handlers."""
    return Dispatcher(
        Implementation(**SERVER),
        capabilities=capabilities or {},
        methods=methods or {},
        **options,
    )


class Hand(Duplex):
    """The server's end of a connection; the test is the client's end."""

    def __init__(self, dispatcher, version=None):
        self.connection = ServerConnection(dispatcher)
        super().__init__(self.connection, role="server", limits=dispatcher.limits)
        self.connection.attach(self)
        self.lines = []
        self._seen = 0
        self._came = asyncio.Event()
        if version is not None:
            self.send(request("init", "initialize", session(version)))
            self.send(notice("notifications/initialized"))
            assert self.take()["result"]["protocolVersion"] == version

    def _write(self, data):
        self._written += len(data)
        self.lines += [json.loads(line) for line in data.splitlines()]
        self._came.set()

    def send(self, *messages):
        """Send messages, each on its line, in one piece."""
        lines = [json.dumps(message) + "\n" for message in messages]
        self.receive("".join(lines).encode())

    def take(self):
        """Return the next line, which must be there already."""
        self._seen += 1
        return self.lines[self._seen - 1]

    def rest(self):
        """Return the lines that were not taken yet."""
        lines, self._seen = self.lines[self._seen :], len(self.lines)
        return lines

    async def next(self):
        """Wait for the next line and return it."""
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.lines) == self._seen:
                self._came.clear()
                await self._came.wait()
        return self.take()

    async def ask(self, *messages):
        """Send messages and return as many lines as there are messages."""
        self.send(*messages)
        await asyncio.sleep(0)  # over any transport an answer takes a loop iteration
        return [await self.next() for _ in messages]

    async def settled(self):
        """Wait until no handler runs, and return the lines that were not taken yet."""
        await self.connection.settle(TIMEOUT_S)
        return self.rest()
