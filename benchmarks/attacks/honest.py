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

EVERY_S, NEW_EVERY_S = 0.05, 1.0
TIMEOUT_S = 10.0

ended = threading.Event()
writing = threading.Lock()


def tell(**said: Any) -> None:
    """Write one line of JSON to stdout."""
    with writing:
        print(json.dumps(said), flush=True)


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


def reason(error: Exception) -> str:
    """Return the status in an error's text, or else the name of its type."""
    return str(error) if "status" in str(error) else type(error).__name__


def keep_calling(port: int, tool: str, token: str) -> None:
    """Call on the persistent connection until the end; reconnect after a failure."""
    client, is_open = Client(port, token), False
    due = time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        began = time.monotonic()
        try:
            if not is_open:
                client.open()
                is_open, began = True, time.monotonic()
            client.call(tool)
            tell(kind="kept", at=began, ms=(time.monotonic() - began) * 1e3)
        except (OSError, http.client.HTTPException) as error:
            tell(kind="kept", at=began, error=reason(error))
            is_open = is_open and reason(error) != "status 404"
            client.close()
        due = max(due + EVERY_S, time.monotonic())
    client.close()


def keep_coming(port: int, tool: str, token: str) -> None:
    """Open a new connection and session each second until the end."""
    number = 0
    due = time.monotonic() + NEW_EVERY_S / 2
    while not ended.wait(max(0.0, due - time.monotonic())):
        number += 1
        client = Client(port, f"{token}-{number}" if token else "")
        began = time.monotonic()
        try:
            client.open()
            client.call(tool)
            tell(kind="new", at=began, ms=(time.monotonic() - began) * 1e3)
            client.send(None, "DELETE")
        except (OSError, http.client.HTTPException) as error:
            tell(kind="new", at=began, error=reason(error))
        client.close()
        due = max(due + NEW_EVERY_S, time.monotonic())


def main(port: str, tool: str) -> None:
    """Run both loops until stdin ends."""
    token = os.environ.get("TOKEN", "")
    threads = [
        threading.Thread(target=each, args=(int(port), tool, token))
        for each in (keep_calling, keep_coming)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
