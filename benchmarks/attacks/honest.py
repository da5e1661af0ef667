"""Honest client: a process that reports each of its calls as a line of JSON.

    python -m attacks.honest PORT TOOL

One persistent connection calls a tool in its session every 50 ms. Once a second a new
connection opens a session, makes one call and deletes the session. The process exits
at the end of stdin. With TOKEN in the environment both send a bearer token; each new
connection sends a different one.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
from typing import Any

from attacks import wire

CALL_INTERVAL_S, SESSION_INTERVAL_S = 0.05, 1.0
TIMEOUT_S = 10.0

stopping = threading.Event()
write_lock = threading.Lock()


def write_report(**fields: Any) -> None:
    """Write one line of JSON to stdout."""
    with write_lock:
        print(json.dumps(fields), flush=True)


class Client:
    """One connection and its session."""

    def __init__(self, port: int, token: str = "") -> None:
        self.connection = http.client.HTTPConnection(
            "127.0.0.1", port, TIMEOUT_S, source_address=(wire.HONEST, 0)
        )
        self.fields = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if token:
            self.fields["authorization"] = f"Bearer {token}"

    def send(self, body: bytes | None, verb: str = "POST") -> wire.Answer:
        """Send a request; return its successful response.

        Raises:
            OSError: The connection failed.
            ConnectionError: The response has a status of 300 or above.
        """
        self.connection.request(verb, "/mcp", body, self.fields)
        response = self.connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        answer = wire.Answer(response.status, fields, response.read())
        if answer.status >= 300:
            raise ConnectionError(f"status {answer.status}")
        return answer

    def open(self) -> None:
        """Open the session."""
        self.fields.pop("mcp-session-id", None)
        answer = self.send(wire.initialize({}))
        self.fields.update(wire.in_session(answer.session))
        self.send(wire.message("notifications/initialized", is_request=False))

    def call(self, tool: str) -> None:
        """Call the tool; raise `ConnectionError` unless it returns a result."""
        if not self.send(wire.call(tool, text="hi")).is_result:
            raise ConnectionError("the call failed")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def failure_reason(error: Exception) -> str:
    """Return the status in an error's text, or else the name of its type."""
    return str(error) if "status" in str(error) else type(error).__name__


def keep_calling(port: int, tool: str, token: str) -> None:
    """Call on the persistent connection until the end; reconnect after a failure."""
    client, is_open = Client(port, token), False
    next_call = time.monotonic()
    while not stopping.wait(max(0.0, next_call - time.monotonic())):
        start = time.monotonic()
        try:
            if not is_open:
                client.open()
                is_open, start = True, time.monotonic()
            client.call(tool)
            write_report(
                kind="persistent", at=start, ms=(time.monotonic() - start) * 1e3
            )
        except (OSError, http.client.HTTPException) as error:
            write_report(kind="persistent", at=start, error=failure_reason(error))
            is_open = is_open and failure_reason(error) != "status 404"
            client.close()
        next_call = max(next_call + CALL_INTERVAL_S, time.monotonic())
    client.close()


def open_new_sessions(port: int, tool: str, token: str) -> None:
    """Open a new connection and session each second until the end."""
    number = 0
    next_session = time.monotonic() + SESSION_INTERVAL_S / 2
    while not stopping.wait(max(0.0, next_session - time.monotonic())):
        number += 1
        client = Client(port, f"{token}-{number}" if token else "")
        start = time.monotonic()
        try:
            client.open()
            client.call(tool)
            write_report(kind="new", at=start, ms=(time.monotonic() - start) * 1e3)
            client.send(None, "DELETE")
        except (OSError, http.client.HTTPException) as error:
            write_report(kind="new", at=start, error=failure_reason(error))
        client.close()
        next_session = max(next_session + SESSION_INTERVAL_S, time.monotonic())


def main(port: str, tool: str) -> None:
    """Run both loops until stdin ends."""
    token = os.environ.get("TOKEN", "")
    threads = [
        threading.Thread(target=target, args=(int(port), tool, token))
        for target in (keep_calling, open_new_sessions)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
