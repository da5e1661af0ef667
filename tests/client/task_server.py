"""A server in memory whose tasks stand as a test says, look after look."""

from fakes import FakeServer

import mcpwire
from mcpwire.protocol.methods import TASKS

COMPLETE = {"resultType": "complete"}
STANDING = {
    "taskId": "t-1",
    "createdAt": "2026-08-01T10:00:00Z",
    "lastUpdatedAt": "2026-08-01T10:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 10,
}
FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "Who?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
        },
    },
}
RESULT = {**COMPLETE, "content": [{"type": "text", "text": "done"}]}


def standing(status, **members):
    return {**STANDING, "status": status, **members}


def needs(**questions):
    return standing("input_required", inputRequests=questions)


DONE = standing("completed", result=RESULT)
CANCELLED = standing("cancelled")


class TaskServer(FakeServer):
    """Makes each tool call a task that stands as `shown` says, the last for ever.

    What is shown may be a result, an error, or `fakes.SILENCE`.
    """

    def __init__(self, *shown, created=None, declares=True, **options):
        self.shown = list(shown)
        self.begun = {"resultType": "task", **(created or standing("working"))}
        extensions = {TASKS: {}} if declares else {}
        options.setdefault("version", "2026-07-28")
        options.setdefault(
            "capabilities", {"tools": {}, "prompts": {}, "extensions": extensions}
        )
        methods = {
            "tools/call": lambda *_: self.begun,
            "tasks/get": self.get,
            "tasks/update": lambda *_: COMPLETE,
            "tasks/cancel": lambda *_: COMPLETE,
        }
        super().__init__(methods, **options)

    def get(self, *_):
        shown = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return {**COMPLETE, **shown} if type(shown) is dict else shown

    @property
    def methods_received(self):
        """The method of each message so far, from the call on."""
        methods = [message.get("method") for message in self.received]
        return methods[methods.index("tools/call") :]

    def told(self, method):
        """Return the params of each message of that method, without `_meta`."""
        return [
            {key: value for key, value in message["params"].items() if key != "_meta"}
            for message in self.received
            if message.get("method") == method
        ]


def client(server, **options):
    """Return a client that can have tasks."""
    options.setdefault("extensions", [TASKS])
    return mcpwire.Client(server, **options)
