"""The blocking floor: the least code for a call over stdio in Python, without a loop.

Free of mcpwire: `Popen`, `os.write`, `os.read` of 64 KiB that waits
in the kernel, orjson. It has no deadline, no threads, no second answer in one read, no
answer in two; a client's cost above it is what the client adds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from floor import ARGUMENTS, READ_SIZE, STAMP, check
from harness import blocking

Call = Callable[[], Any]


def place(pid: int, *, apart: bool) -> None:
    """Put this process and the server on two cores, or both on one."""
    blocking.place(pid, "apart" if apart else "together")


@contextmanager
def bare(
    server: str, option: str, params: dict[str, Any], *, apart: bool = True
) -> Iterator[Call]:
    """Start the server and call its tool, over and over."""
    with subprocess.Popen(
        [server, option], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
        last_id = 0
        place(process.pid, apart=apart)

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": params,
            }
            os.write(stdin, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            return orjson.loads(os.read(stdout, READ_SIZE))["result"]

        check(call())
        yield call
        process.kill()


def legacy(server: str) -> Any:
    """Call a tool as the session era does: nothing but name and arguments."""
    return bare(server, "--legacy", {"name": "echo", "arguments": ARGUMENTS})


def one_core(server: str) -> Any:
    """Do the same beside the server on one core."""
    params = {"name": "echo", "arguments": ARGUMENTS}
    return bare(server, "--legacy", params, apart=False)


def modern(server: str) -> Any:
    """Call a tool as 2026-07-28 does: each request carries its metadata."""
    params = {"name": "echo", "arguments": ARGUMENTS, "_meta": STAMP}
    return bare(server, "--modern", params)
