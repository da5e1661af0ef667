"""The responses of `mcp_server` to each method, in both eras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from http_bytes import json_reply
from mcp_rules import CAPABILITIES_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_server import ScriptedMcp, Session
    from mcp_streams import Stream
    from raw_server import Connection, RawRequest

LATEST: Final = "2026-07-28"
SESSION_VERSIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")

INFO: Final = {"name": "scripted", "version": "1"}

SAMPLING: Final = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "well?"}}],
        "maxTokens": 10,
    },
}

CACHEABLE: Final = {"ttlMs": 0, "cacheScope": "private"}
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"


class Call:
    """One request in progress, in the thread of its connection."""

    def __init__(
        self,
        server: ScriptedMcp,
        session: Session | None,
        request: RawRequest,
        conn: Connection,
    ) -> None:
        self.server = server
        self.session = session
        self.conn = conn
        message = request.json
        self.id = message["id"]
        self.method: str = message["method"]
        self.params: dict[str, Any] = message.get("params") or {}
        self.arguments: dict[str, Any] = self.params.get("arguments") or {}
        self.stream: Stream | None = None

    @property
    def meta(self) -> dict[str, Any]:
        return self.params.get("_meta") or {}

    def finish(self, **result: Any) -> None:
        if self.session is None:
            result = {
                "resultType": "complete",
                **result,
                "_meta": {SERVER_INFO_KEY: INFO, **result.get("_meta", {})},
            }
        self._answer({"jsonrpc": "2.0", "id": self.id, "result": result})

    def text(self, text: str, **members: Any) -> None:
        self.finish(content=[{"type": "text", "text": text}], **members)

    def fail(self, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._answer({"jsonrpc": "2.0", "id": self.id, "error": error})

    def _answer(self, message: dict[str, Any]) -> None:
        if self.stream is not None:
            self.stream.send(message, is_last=True)
        elif self.server.replies == "json":
            self.conn.send(json_reply(message))
        else:
            # Head, event and end are one write: a client reads them in one turn.
            stream = self.stream = self._new_stream()
            stream.send(message, is_last=True)
            stream.open(self.conn)

    def send(self, method: str, params: dict[str, Any], **members: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **members}
        self._opened().send(message)

    def _opened(self) -> Stream:
        if self.stream is None:
            self.stream = self._new_stream()
            self.stream.open(self.conn)
        return self.stream

    def _new_stream(self) -> Stream:
        cycles = self.server.polls if self.session is not None else 0
        stream = self.server.stream(self.session, cycles=cycles)
        stream.request_id = self.id
        return stream

    def wait_while(self, holds: Callable[[], Any], seconds: float | None) -> bool:
        """Wait while the condition holds; return False if the request is cancelled."""

        def goes_on() -> bool:
            return holds() and self.id not in self.server.cancelled

        try:
            if not self.conn.wait_while(goes_on, seconds):
                if self.session is None:
                    self.server.cancelled.append(self.id)
                    return False
                # A session server does not treat a lost connection as a cancellation.
                while goes_on():
                    self.conn.wait(0.01)
        except TimeoutError:  # the time is over
            pass
        return self.id not in self.server.cancelled


# Tools...


def echo(call: Call) -> None:
    call.text(str(call.arguments.get("text", "")))


def slow(call: Call) -> None:
    seconds = call.arguments.get("seconds")
    if call.wait_while(lambda: not call.server.is_released, seconds):
        call.text("slow")
    elif call.session is not None:
        call.conn.close()  # 2025-11-25: no response to a cancelled request


def notify(call: Call) -> None:
    steps = call.arguments.get("steps", 1)
    token = call.meta.get("progressToken")
    for step in range(1, steps + 1):
        if token is not None:
            params = {"progressToken": token, "progress": step, "total": steps}
            call.send("notifications/progress", params)
    call.send("notifications/message", {"level": "info", "data": "noted"})
    call.text("notified")


def ask(call: Call) -> None:
    if call.session is None:
        _ask_by_input(call)
        return
    server = call.server
    id = f"ask-{server.next_number()}"
    if call.arguments.get("over") == "get":
        server.push({**SAMPLING, "id": id})
    else:
        call.send(**SAMPLING, id=id)
    if call.wait_while(lambda: id not in server.answered, None):
        answer = server.answered[id]
        given = answer.get("result", {}).get("content") or answer.get("error")
        call.text(given.get("text") or given.get("message"))


def _ask_by_input(call: Call) -> None:
    given = call.params.get("inputResponses")
    if given is not None:
        call.text(given["sample"]["content"]["text"])
    elif "sampling" in call.meta[CAPABILITIES_KEY]:
        call.finish(resultType="input_required", inputRequests={"sample": SAMPLING})
    else:
        needed = {"requiredCapabilities": {"sampling": {}}}
        error = {"code": -32021, "message": "sampling is needed", "data": needed}
        answer = {"jsonrpc": "2.0", "id": call.id, "error": error}
        call.conn.send(json_reply(answer, 400))


def fail(call: Call) -> None:
    call.text("failed", isError=True)


TOOLS: Final = {
    "echo": echo,
    "slow": slow,
    "notify": notify,
    "ask": ask,
    "fail": fail,
    "mirrored": lambda call: call.text(str(call.arguments.get("region"))),
}

# Methods...


def call_tool(call: Call) -> None:
    name = call.params.get("name", "")
    tool = TOOLS.get(name)
    if tool is None:
        call.fail(-32602, f"Unknown tool: {name}")
        return
    if "inputResponses" not in call.params:
        call.server.executed.append((name, call.arguments, call.id))
    tool(call)


def discover(call: Call) -> None:
    call.finish(
        supportedVersions=[LATEST], capabilities=call.server.capabilities, **CACHEABLE
    )


def list_tools(call: Call) -> None:
    hints = CACHEABLE if call.session is None else {}
    call.finish(tools=call.server.tools, **hints)


def list_resources(call: Call) -> None:
    hints = CACHEABLE if call.session is None else {}
    call.finish(resources=[{"uri": "memo://one", "name": "one"}], **hints)


def read_resource(call: Call) -> None:
    hints = CACHEABLE if call.session is None else {}
    call.finish(contents=[{"uri": call.params["uri"], "text": "read"}], **hints)


def subscribe(call: Call) -> None:
    call.server.subscribed.append(call.params["uri"])
    call.finish()


def unsubscribe(call: Call) -> None:
    call.server.subscribed.remove(call.params["uri"])
    call.finish()


def done(call: Call) -> None:
    call.finish()


def listen(call: Call) -> None:
    requested = call.params["notifications"]
    honoured = {key: value for key, value in requested.items() if "prompts" not in key}
    params = {"_meta": {SUBSCRIPTION_KEY: call.id}, "notifications": honoured}
    call.send("notifications/subscriptions/acknowledged", params)
    assert call.stream is not None
    call.stream.filter = honoured
    call.server.hold(call.stream, call.conn, is_listed=True)
    if call.conn.has_ended:
        call.server.cancelled.append(call.id)


_SHARED: Final = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/read": read_resource,
}

_OF_SESSIONS: Final = {
    **_SHARED,
    "ping": done,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "logging/setLevel": done,
}

METHODS: Final[dict[str, dict[str, Callable[[Call], None]]]] = {
    **dict.fromkeys(SESSION_VERSIONS, _OF_SESSIONS),
    LATEST: {**_SHARED, "server/discover": discover, "subscriptions/listen": listen},
}
"""Revision -> method -> function that responds to it."""
