"""In-memory servers for groups: servers that die, respond late or are unreachable."""

from typing import Any

from fakes import FakeServer, text

from mcpwire.errors import ConnectError

STATELESS = "2026-07-28"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}
BOUND_S = 30.0


class ScriptedServer(FakeServer):
    """A server that counts connections, can die, and responds late to held methods."""

    def __init__(self, name: str = "", *held: str, **methods: Any) -> None:
        super().__init__(
            {
                "tools/call": lambda *_: text(name),
                "tools/list": lambda *_: {
                    "tools": [{"name": "x", "inputSchema": {"type": "object"}}]
                },
                "resources/subscribe": lambda *_: {},
                "resources/unsubscribe": lambda *_: {},
                **methods,
            },
            capabilities=CAPABILITIES,
        )
        self.held = set(held)
        self.waiting: list[dict[str, Any]] = []
        self.connections = 0
        self.most_waiting = 0
        self.broken = 0
        self.error: Exception | None = None

    def open_in_memory(self, client: Any, limits: Any) -> Any:
        if self.error is not None:
            raise self.error
        if self.broken:
            self.broken -= 1
            raise ConnectError("nobody is there", target="x")
        self.connections += 1
        return super().open_in_memory(client, limits)

    def answer(self, request: dict[str, Any]) -> None:
        if request["method"] in self.held:
            self.waiting.append(request)
            self.most_waiting = max(self.most_waiting, len(self.waiting))
        else:
            super().answer(request)

    def release(self, *methods: str) -> None:
        self.held -= set(methods) if methods else self.held
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self.answer(request)


class Unreachable:
    """A server that cannot be connected to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def open_in_memory(self, *_: Any) -> Any:
        raise self.error or ConnectError("nobody is there", target="x")
