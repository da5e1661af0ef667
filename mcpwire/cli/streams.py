"""Standard output as a command uses it: written at once, its failures told apart."""

from __future__ import annotations

import os
import sys

from mcpwire.cli.failures import OutputError

__all__ = ["abandon_stdout", "write_bytes", "write_text"]


def write_text(text: str) -> None:
    """Write a text to stdout, now; what its encoding cannot say is written out.

    Raises:
        BrokenPipeError: Whoever read it is gone, which is no failure of ours.
        OutputError: It cannot be written.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_bytes(text.encode(encoding, "backslashreplace"))


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are, now.

    Raises:
        BrokenPipeError: Whoever read it is gone.
        OutputError: It cannot be written.
    """
    left = memoryview(data)
    try:
        sys.stdout.flush()
        while left:
            # Unbuffered (PYTHONUNBUFFERED) it may take a part, and says how much.
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError, AttributeError) as error:
        # Without a descriptor 1 Python's own stdout is None, hence AttributeError.
        reason = (getattr(error, "strerror", None) or "it is closed").lower()
        raise OutputError(f"cannot write to standard output: {reason}") from error


def abandon_stdout() -> None:
    """Let nobody write there any more, the interpreter included when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        sys.stdout = None
    finally:
        os.close(nowhere)
