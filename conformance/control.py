"""Control program: a server that returns only errors, a client that reports success.

`run.py --control` runs it in place of `server.py` and `client.py`, to count the
scenarios that pass without an implementation of the protocol.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys


class Refusal(http.server.BaseHTTPRequestHandler):
    """A handler that returns the same JSON-RPC error to each request."""

    protocol_version = "HTTP/1.1"

    def refuse(self) -> None:
        """Return an error, with the request's id if it can be parsed."""
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            id = json.loads(text)["id"]
        except (ValueError, KeyError, TypeError):
            id = None
        error = {"code": -32603, "message": "nothing is done here"}
        body = json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = refuse  # noqa: N815 - names of http.server

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log."""


if __name__ == "__main__":
    if "--port" in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        address = ("127.0.0.1", int(sys.argv[-1]))
        http.server.ThreadingHTTPServer(address, Refusal).serve_forever()
    print(f"played {os.environ['MCP_CONFORMANCE_SCENARIO']}")
