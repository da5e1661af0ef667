"""A `Relay` as a process of its own: ``python -m mcpwire.testing.faults.process``.

It starts the real server, stands between its pipes and the client's, and ends as the
server ends. Its arguments are the faults, the seed, and the server's command.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.testing import faults as known
from mcpwire.testing.faults.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.testing.faults.base import Fault
    from mcpwire.transports.targets import Stdio

__all__ = ["decode_faults", "encode_faults", "main", "relay_command"]

DRAIN_S: Final = 1.0
"""How long the client may take to read a dead server's last words."""

COMMAND_NOT_FOUND: Final = 127


def encode_faults(faults: Sequence[Fault]) -> str:
    """Return faults as one argument of a command."""
    return repr([(type(fault).__name__, _given(fault)) for fault in faults])


def _given(fault: Any) -> dict[str, Any]:
    """Return what differs from the defaults, which may have no literal (infinity)."""
    values = {
        each.name: getattr(fault, each.name) for each in attrs.fields(type(fault))
    }
    defaults = {each.name: each.default for each in attrs.fields(type(fault))}
    return {name: value for name, value in values.items() if value != defaults[name]}


def decode_faults(text: str) -> list[Fault]:
    """Return the faults that `encode_faults` was given."""
    return [getattr(known, name)(**given) for name, given in ast.literal_eval(text)]


def relay_command(target: Stdio, faults: Sequence[Fault], seed: int) -> Stdio:
    """Return the command of a relay in front of a server."""
    program = ["-P", "-m", __name__, encode_faults(faults), str(seed)]
    return attrs.evolve(
        target,
        command=sys.executable,
        args=[*program, target.command, *target.args],
    )


def _take(fd: int, flags: int) -> int:
    """Return a copy of a descriptor, and let its number lead nowhere."""
    copy = os.dup(fd)
    nothing = os.open(os.devnull, flags)
    os.dup2(nothing, fd)
    os.close(nothing)
    return copy


async def _serve(
    child: subprocess.Popen[bytes], faults: Sequence[Fault], seed: int
) -> int:
    assert child.stdin is not None
    assert child.stdout is not None
    relay = Relay(
        from_client=_take(0, os.O_RDONLY),
        to_child=os.dup(child.stdin.fileno()),
        from_child=os.dup(child.stdout.fileno()),
        to_client=_take(1, os.O_WRONLY),
        faults=faults,
        seed=seed,
    )
    child.stdin.close()
    child.stdout.close()
    code = await asyncio.to_thread(child.wait)
    await relay.drain(DRAIN_S)
    # At once: the client has seen the end of the stream, and asks why.
    if code >= 0:
        os._exit(code)
    with contextlib.suppress(OSError):  # some signals have no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return -code


def main(argv: Sequence[str]) -> int:
    """Relay until the server ends, and end as it does."""
    faults, seed, *command = argv
    try:
        child = subprocess.Popen(  # noqa: S603 - the test's own command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        return COMMAND_NOT_FOUND
    return asyncio.run(_serve(child, decode_faults(faults), int(seed)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
