"""A web server in a few lines: it gives an application one request, shows events."""

import asyncio
import json

PATIENCE = 30.0


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
    """One request: what the application receives is put in, what it sends is kept."""

    def __init__(self, scope, body=None):
        self.scope = scope
        self.incoming = asyncio.Queue()
        self.sent = []
        self.asked = 0
        self._news = asyncio.Condition()
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
        """Go away, as a client does that closes its connection."""
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self):
        self.asked += 1
        await self.tell()
        return await self.incoming.get()

    async def send(self, event):
        if self.gate is not None:
            await self.gate.wait()
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(event)
        await self.tell()

    async def tell(self):
        """Wake those that wait until something is so."""
        async with self._news:
            self._news.notify_all()

    def begin(self, app):
        self.task = asyncio.get_running_loop().create_task(
            app(self.scope, self.receive, self.send)
        )
        return self

    async def until(self, is_so):
        """Wait until the events so far fulfil a condition."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: is_so(self))

    async def left(self):
        """Close the connection, and wait for the end of what serves it."""
        self.leave()
        return await self.done()

    async def done(self):
        async with asyncio.timeout(PATIENCE):
            await self.task
        return self

    # What came back...

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
        # Some clients pass over events that do not name their type.
        head = "event: message\ndata: "
        blocks = self.body.decode().split("\n\n")
        return [
            json.loads(block.removeprefix(head))
            for block in blocks
            if block.startswith(head)
        ]


async def visit(app, scope, body=b""):
    """Send one whole request and return what came back."""
    return await Visit(scope, body).begin(app).done()
