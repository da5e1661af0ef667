"""Streams and files as a command uses them: at once, their failures told apart."""

from __future__ import annotations

import os
import sys

from mcpwire.cli.failures import OutputError, UsageError

__all__ = [
    "abandon_stdout",
    "check_writable",
    "read_file",
    "read_input",
    "save",
    "write_bytes",
    "write_text",
]


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


def read_file(path: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: It cannot be read, or is no text.
    """
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - no Path needed
            return file.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {_reason(error)}") from error


def read_input() -> str:
    """Return the text that comes by stdin.

    Raises:
        UsageError: It cannot be read, or is no text.
    """
    if sys.stdin is None:  # as Python has it without a descriptor 0
        raise UsageError("cannot read standard input: it is closed")
    try:
        return sys.stdin.buffer.read().decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read standard input: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 text (byte {error.start})"
    return (getattr(error, "strerror", None) or str(error)).lower()


def check_writable(path: str) -> None:
    """Check that a file can be made there, before anything is done for it.

    Raises:
        UsageError: It cannot.
    """
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - no Path needed
    if os.path.isdir(path):  # noqa: PTH112 - as above
        raise UsageError(f"cannot write {path!r}: it is a directory")
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise UsageError(f"cannot write {path!r}: there is no directory {folder!r}")


def save(path: str, data: bytes) -> None:
    """Write a file.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        with open(path, "wb") as file:  # noqa: PTH123 - no Path needed
            file.write(data)
    except OSError as error:
        raise UsageError(f"cannot write {path!r}: {_reason(error)}") from error
