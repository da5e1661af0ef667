"""A server that does nothing: whatever it is asked, the answer is an error.

`run.py --control` puts it to the suite in place of `server.py`, to see how much of the
suite is passed by who knows nothing of the protocol.
"""

from __future__ import annotations

import argparse
import http.server
import json
import sys


class Refusal(http.server.BaseHTTPRequestHandler):
    """Answers each request with the same JSON-RPC error."""

    protocol_version = "HTTP/1.1"

    def refuse(self) -> None:
        """Answer with an error, and with the request's id where that is to be found."""
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

    do_GET = do_POST = do_DELETE = refuse  # noqa: N815 - the names http.server wants

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=3001)
    address = ("127.0.0.1", parser.parse_args().port)
    http.server.ThreadingHTTPServer(address, Refusal).serve_forever()


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
