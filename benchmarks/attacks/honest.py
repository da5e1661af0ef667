"""The honest client: a process of its own, which reports each call as a line of JSON.

    python -m attacks.honest PORT TOOL

One kept connection calls a tool of its session every 50 ms; once a second another
connection is opened for a session of its own, one call in it, and its end. The end of
stdin ends it. With TOKEN in the environment both show a bearer token, the second one a
fresh one each time.
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
    """Write one line."""
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
        """Return the answer to a request, which was taken.

        Raises:
            OSError: The connection failed.
            ConnectionError: It was refused with a status.
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
        """Call the tool."""
        if not self.send(wire.call(tool, text="hi")).is_result:
            raise ConnectionError("the call failed")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def reason(error: Exception) -> str:
    """Return a failure in short."""
    return str(error) if "status" in str(error) else type(error).__name__


def keep_calling(port: int, tool: str, token: str) -> None:
    """Call on the kept connection, and go on with another one where that fails."""
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
    """Come as a newcomer each second."""
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
    """Do both until stdin ends."""
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
