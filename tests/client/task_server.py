"""An in-memory server whose tasks have scripted states, poll by poll."""

from fakes import FakeServer

import mcpwire
from mcpwire.protocol.methods import TASKS

COMPLETE = {"resultType": "complete"}
TASK = {
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


def task_state(status, **members):
    return {**TASK, "status": status, **members}


def needs(**questions):
    return task_state("input_required", inputRequests=questions)


DONE = task_state("completed", result=RESULT)
CANCELLED = task_state("cancelled")


class TaskServer(FakeServer):
    """Makes each tool call a task with the states of `shown`; the last one stays.

    A state may be a result, an error, or `fakes.SILENCE`.
    """

    def __init__(self, *shown, created=None, declares=True, **options):
        self.shown = list(shown)
        self.begun = {"resultType": "task", **(created or task_state("working"))}
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
        methods = [message.get("method") for message in self.received]
        return methods[methods.index("tools/call") :]

    def params_of(self, method):
        """Return the params of each message with that method, without `_meta`."""
        return [
            {key: value for key, value in message["params"].items() if key != "_meta"}
            for message in self.received
            if message.get("method") == method
        ]


def client(server, **options):
    options.setdefault("extensions", [TASKS])
    return mcpwire.Client(server, **options)
