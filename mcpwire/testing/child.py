"""The program of a `scripted_command`: runs its script with these functions.

It imports only the standard library, so that a child starts in about ten milliseconds.
"""

import json
import os
import signal  # noqa: F401 - for the lines
import sys
import time  # noqa: F401 - for the lines
from typing import Any, NoReturn

STATELESS = "2026-07-28"
STDOUT_FD = 1
METHOD_NOT_FOUND = -32601


def raw(data: bytes) -> None:
    """Write these bytes to stdout unchanged and unbuffered."""
    while data:
        data = data[os.write(STDOUT_FD, data) :]


def send(message: Any) -> None:
    """Write any JSON value as one line."""
    raw((json.dumps(message) + "\n").encode())


def recv() -> Any:
    """Return the next message; at the end of the input exit with code 0."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def answer(request: Any, result: Any) -> None:
    """Answer a request."""
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def fail(request: Any, code: int, message: str) -> None:
    """Answer a request with an error."""
    error = {"code": code, "message": message}
    send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def notify(method: str, params: Any = None) -> None:
    """Send a notification."""
    send({"jsonrpc": "2.0", "method": method, "params": params or {}})


def ask(id: Any, method: str, params: Any = None) -> None:
    """Send a request; `recv` returns its response."""
    send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})


def text(value: str) -> dict[str, Any]:
    """Return a tool's result with one block of text."""
    return {"content": [{"type": "text", "text": value}]}


def handshake(version: str = "2025-11-25", capabilities: Any = None) -> None:
    """Perform the handshake for that protocol version; refuse all other requests."""
    result: dict[str, Any] = {"capabilities": capabilities or {"tools": {}}}
    while True:
        message = recv()
        method = message.get("method")
        if method == "notifications/initialized":
            return
        if method == "server/discover" and version == STATELESS:
            result |= {"supportedVersions": [version], "resultType": "complete"}
            answer(message, {**result, "ttlMs": 0, "cacheScope": "private"})
            return
        if method == "initialize" and version != STATELESS:
            info = {"name": "scripted", "version": "1"}
            answer(message, {**result, "protocolVersion": version, "serverInfo": info})
        elif "id" in message:
            fail(message, METHOD_NOT_FOUND, f"Method not found: {method}")


def serve(answers: Any) -> NoReturn:
    """Answer requests until the input ends, by method: a result or a function."""
    while True:
        message = recv()
        if "id" not in message or "method" not in message:
            continue
        if message["method"] in answers:
            result = answers[message["method"]]
            answer(message, result(message) if callable(result) else result)
        else:
            fail(message, METHOD_NOT_FOUND, f"Method not found: {message['method']}")


def run(argv: list[str]) -> None:
    """Run the script in the first argument, with the others in ``sys.argv``."""
    lines = compile(argv.pop(1), "<script>", "exec")
    names = {**globals(), "__name__": "script"}
    exec(lines, names)  # noqa: S102 - the lines are the test's own


if __name__ == "__main__":
    sys.path.insert(0, "")
    run(sys.argv)
