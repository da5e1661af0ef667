"""Gateway to the server under test by the official conformance suite.

The suite runs the scenarios of `server.py` against the gateway; the server behind it is
a process of its own, over stdio or HTTP, and its names are unchanged.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import mcpwire

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).parent / "server.py"
HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
POLL_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=3001)
    parser.add_argument("--upstream", choices=["http", "stdio"], default="http")
    options = parser.parse_args()
    if options.upstream == "stdio":
        serve(mcpwire.Stdio(sys.executable, [str(SERVER), "--stdio"]), options.port)
        return
    with run_http_server() as url:
        serve(mcpwire.Http(url), options.port)


def serve(target: mcpwire.Stdio | mcpwire.Http, port: int) -> None:
    """Serve a gateway to the one server until the process is stopped."""
    names = mcpwire.NamePolicy.bare()
    gateway = mcpwire.Gateway({"fixture": target}, names=names, on_error="raise")
    gateway.run(http=f"{HOST}:{port}")


@contextmanager
def run_http_server() -> Iterator[str]:
    """Run the server on a free port; yield its URL."""
    with socket.socket() as reserving_socket:
        reserving_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving_socket.bind((HOST, 0))
        port = reserving_socket.getsockname()[1]
        process = subprocess.Popen([sys.executable, str(SERVER), "--port", str(port)])
        try:
            wait_for_port(process, port)
            yield f"http://{HOST}:{port}/mcp"
        finally:
            process.terminate()
            process.wait()


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the port accepts a connection.

    Raises:
        RuntimeError: The port did not open in time, or the process ended.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(POLL_S)  # no event reports that a port is open
        else:
            return
    raise RuntimeError(f"the server did not come up on port {port}")


if __name__ == "__main__":
    main()
