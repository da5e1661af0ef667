"""An in-memory server that sends a request during each call, and its handlers."""

import asyncio

from fakes import SILENCE, FakeServer, text

from mcpwire.types import CreateMessageResult, TextContent

FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "default": 30, "maximum": 120},
        },
        "required": ["name"],
    },
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}],
    "maxTokens": 10,
}
STATELESS = "2026-07-28"


def sampled(answer):
    return CreateMessageResult("assistant", TextContent(answer), "m")


def model(answer):
    """Return a sampling handler that answers with a text."""
    return lambda _: sampled(answer)


class Hanging:
    """A handler that never answers; `running` and `ended` are events."""

    def __init__(self):
        self.running, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, _):
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


class Asking(FakeServer):
    """Sends one request during a call, in its revision's form; keeps the response."""

    def __init__(self, method, params, version="2025-11-25", **members):
        super().__init__({"tools/call": self.call}, version=version, **members)
        self.question = {"method": method, "params": params}
        self.waiting = None

    def call(self, params, _):
        if self.version == STATELESS:
            if "inputResponses" in params:
                self.answered = {"result": params["inputResponses"]["q"]}
                return {"resultType": "complete", **text("done")}
            return {
                "resultType": "input_required",
                "inputRequests": {"q": self.question},
                "requestState": "s",
            }
        self.waiting = self.current["id"]
        self.send({"jsonrpc": "2.0", "id": "q-1", **self.question})
        return SILENCE

    def receive(self, data):
        super().receive(data)
        last = self.received[-1]
        if last.get("id") == "q-1" and self.waiting is not None:
            self.answered = {k: last[k] for k in ("result", "error") if k in last}
            self.send({"jsonrpc": "2.0", "id": self.waiting, "result": text("done")})
