"""Floor of blocking clients: the least code for a blocking call in Python.

Without mcpwire and without an event loop. Over stdio `Popen`, `os.write` and `os.read`
of 64 KiB; over HTTP one socket, `sendall` and a `recv` of 64 KiB. There are no timeout,
HTTP parser and threads, and each read must return exactly one response. The difference
to a client's cost is the client's own cost. The variants for threads are separate: a
lock takes a twelfth of the time of a call on one core.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import orjson
from floor import READ_SIZE, check
from floor_http import head, params
from harness.placement import pin_cores
from leg import parse_leg
from null.server import run_null_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leg import Leg

    Call = Callable[[], Any]


def connect(argument: str) -> Any:
    """Return a context manager for calls on a leg by one thread."""
    leg = parse_leg(argument)
    return open_pipes(leg) if leg.is_stdio else open_socket(leg)


@contextmanager
def open_pipes(leg: Leg) -> Iterator[Call]:
    """Yield a function that writes a request to a child and reads the response."""
    call_params = params(modern=leg.is_modern)
    with subprocess.Popen(
        [leg.server, leg.era], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
        last_id = 0
        pin_cores(process.pid, leg.placement)

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": call_params,
            }
            os.write(stdin, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            return orjson.loads(os.read(stdout, READ_SIZE))["result"]

        check(call())
        yield call
        process.kill()


@contextmanager
def open_socket(leg: Leg) -> Iterator[Call]:
    """Start a null server; yield a function that calls it on one connection."""
    with run_null_server(leg.server, leg.era, f"--{leg.shape}") as null:
        pin_cores(null.pid, leg.placement)
        with connection(leg, null.port) as call:
            check(call())
            yield call


@contextmanager
def connection(leg: Leg, port: int) -> Iterator[Call]:
    """Connect; yield a call whose response is the first to the last brace of a read."""
    modern = leg.is_modern
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = head(port, modern=modern)
        last_id = 0

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": params(modern=modern),
            }
            data = orjson.dumps(message)
            connection.sendall(b"%b%d\r\n\r\n%b" % (fields, len(data), data))
            response = connection.recv(READ_SIZE)
            body = response[response.index(b"{") : response.rindex(b"}") + 1]
            return orjson.loads(body)["result"]

        yield call


# Variants for threads...


def shared(argument: str) -> Any:
    """Return a context manager for calls on a leg by many threads."""
    leg = parse_leg(argument)
    return share_pipes(leg) if leg.is_stdio else pool_connections(leg)


@contextmanager
def share_pipes(leg: Leg) -> Iterator[Call]:
    """Yield a call that holds a lock while it uses the pipes."""
    lock = Lock()
    with open_pipes(leg) as call_unlocked:

        def call() -> Any:
            with lock:
                return call_unlocked()

        yield call


@contextmanager
def pool_connections(leg: Leg) -> Iterator[Call]:
    """Yield a call that uses an idle connection or opens a new one."""
    with (
        run_null_server(leg.server, leg.era, f"--{leg.shape}") as null,
        ExitStack() as stack,
    ):
        pin_cores(null.pid, leg.placement)
        idle: list[Call] = []

        def call() -> Any:
            try:
                call_connection = idle.pop()
            except IndexError:
                call_connection = stack.enter_context(connection(leg, null.port))
            result = call_connection()
            idle.append(call_connection)
            return result

        check(call())
        yield call
