"""A minimal ASGI web server: runs one request and records the sent events."""

import asyncio
import json

TIMEOUT_S = 30.0


def scope(verb="POST", path="/mcp", headers=(), **more):
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": verb,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
        **more,
    }


class Visit:
    """One request: feeds events to the application and records those it sends."""

    def __init__(self, scope, body=None):
        self.scope = scope
        self.incoming = asyncio.Queue()
        self.sent = []
        self.receive_count = 0
        self._changed = asyncio.Condition()
        self.send_error = None
        self.gate = None
        self.task = None
        if body is not None:
            self.give(body)

    def give(self, body, *, more=False):
        self.incoming.put_nowait(
            {"type": "http.request", "body": body, "more_body": more}
        )

    def leave(self):
        """Disconnect, as a client does that closes its connection."""
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self):
        self.receive_count += 1
        await self.wake()
        return await self.incoming.get()

    async def send(self, event):
        if self.gate is not None:
            await self.gate.wait()
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(event)
        await self.wake()

    async def wake(self):
        """Wake the waiters, which check their conditions again."""
        async with self._changed:
            self._changed.notify_all()

    def begin(self, app):
        self.task = asyncio.get_running_loop().create_task(
            app(self.scope, self.receive, self.send)
        )
        return self

    async def until(self, condition):
        """Wait until the condition is true for the visit."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def disconnect(self):
        """Close the connection, and wait until the application ends."""
        self.leave()
        return await self.done()

    async def done(self):
        async with asyncio.timeout(TIMEOUT_S):
            await self.task
        return self

    # The response...

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self):
        given = self.sent[0]["headers"] if self.sent else ()
        return {name.decode(): value.decode("latin-1") for name, value in given}

    @property
    def body(self):
        return b"".join(event.get("body", b"") for event in self.sent[1:])

    @property
    def is_complete(self):
        return bool(self.sent[1:]) and not self.sent[-1].get("more_body", False)

    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    def sse(self):
        """Return the messages of an event stream so far."""
        assert self.headers["content-type"] == "text/event-stream"
        # Some clients ignore events that do not name their type.
        head = "event: message\ndata: "
        blocks = self.body.decode().split("\n\n")
        return [
            json.loads(block.removeprefix(head))
            for block in blocks
            if block.startswith(head)
        ]


async def visit(app, scope, body=b""):
    return await Visit(scope, body).begin(app).done()
