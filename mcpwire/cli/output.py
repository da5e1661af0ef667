"""Output of a command: results to stdout, everything else to stderr.

A server's text is escaped on a terminal: control characters could set the window's
title, write the clipboard, or hide and reorder text. With ``--json`` stdout gets
exactly one document, and stderr one line if there is an error.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

from mcpwire.cli.failures import OutputError, UsageError, error_document, sentence

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator


REDRAW_INTERVAL_S: Final = 0.05
"""Minimum seconds between two updates of the progress line; terminals may be slow."""

WAIT_NOTICE_S: Final = 1.0
"""Seconds after which a terminal shows the reason for a wait."""

BAR_WIDTH: Final = 20
MAX_JSON_DEPTH: Final = 10_000
"""Recursion limit for Python's JSON encoder; messages may have 1,024 levels."""


@contextlib.contextmanager
def deep_json() -> Iterator[None]:
    """Raise the recursion limit in the block, for the JSON of received messages."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_JSON_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Output:
    """The output streams of a command."""

    def __init__(self, *, is_json: bool = False, verbose: bool = False) -> None:
        self.is_json = is_json
        self.verbose = verbose
        self.is_terminal = _is_terminal(sys.stdout)
        self.width = _columns(sys.stdout) if self.is_terminal else None
        live = _is_terminal(sys.stderr) and not is_json
        self.progress = ProgressLine(sys.stderr if live else None)
        self._prompt = ""
        self._wait_timer: asyncio.TimerHandle | None = None
        may_style = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.has_styles = self.is_terminal and may_style
        self._strong = _is_terminal(sys.stderr) and may_style

    # Results

    def document(self, value: Any) -> None:
        """Print one JSON document, in ASCII."""
        import json

        with deep_json():
            text = json.dumps(value, indent=2)
        self._print(text + "\n")

    def result(self, document: Any, lines: Iterable[str]) -> None:
        """Print a result: with ``--json`` as a document, else as printable lines."""
        if self.is_json:
            self.document(document)
        else:
            self.lines(lines)

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines that are already escaped."""
        self._print("".join(f"{line}\n" for line in lines))

    def text(self, text: str) -> None:
        """Print a server's text, escaped on a terminal, with a newline at its end."""
        output = printable(text) if self.is_terminal else text
        self._print(output if output.endswith("\n") or not output else f"{output}\n")

    def raw(self, data: bytes) -> None:
        """Write bytes to stdout unchanged."""
        self.clear()
        write_bytes(data)

    def _print(self, text: str) -> None:
        self.clear()
        write_text(text)

    def bold(self, text: str) -> str:
        """Return a text in bold, for stdout."""
        return f"\x1b[1m{text}\x1b[0m" if self.has_styles else text

    def dim(self, text: str) -> str:
        """Return a text in the terminal's dim style."""
        return f"\x1b[2m{text}\x1b[0m" if self.has_styles else text

    # Messages

    def note(self, text: str) -> None:
        """Write one escaped line to stderr."""
        self.clear()
        erase = "\r\x1b[K" if self._prompt else ""
        self._write_stderr(f"{erase}{one_line(text)}\n{self._prompt}")

    def event(self, kind: str, value: Any, text: str) -> None:
        """Write an event to stderr: its text, or with ``--json`` one JSON object."""
        if self.is_json:
            import json

            text = json.dumps({kind: value})
        self.note(text)

    def detail(self, text: str) -> None:
        """Write a line to stderr if ``-v`` is set."""
        if self.verbose:
            self.note(text)

    def fail(self, error: BaseException) -> None:
        """Write an error to stderr: one sentence, or one line of JSON."""
        self.event("error", error_document(error), f"mcpwire: {sentence(error)}")

    def clear(self) -> None:
        """Erase the progress line, and cancel the line of `waiting`."""
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        self.progress.clear()

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show a line at a terminal while the block takes longer than `WAIT_NOTICE_S`.

        A message during the block, such as a login URL, replaces the line.
        """
        if self.verbose or not self.progress.is_live:  # `-v` shows more
            yield
            return
        import asyncio

        loop = asyncio.get_running_loop()
        self._wait_timer = loop.call_later(WAIT_NOTICE_S, self.progress.show_text, text)
        try:
            yield
        finally:
            self.clear()

    def _write_stderr(self, text: str) -> None:
        if sys.stderr is not None:
            try:
                sys.stderr.write(text)
                sys.stderr.flush()
            except OSError:  # a full disk, or nothing reads it: the result may go on
                discard_stream("stderr")

    # Prompts

    def show(self, lines: Iterable[str]) -> None:
        """Write lines that are already escaped to stderr."""
        self.clear()
        self._write_stderr("".join(f"{line}\n" for line in lines))

    def strong(self, text: str) -> str:
        """Return a text in bold, for stderr."""
        return f"\x1b[1m{text}\x1b[0m" if self._strong else text

    @property
    def can_prompt(self) -> bool:
        """Whether stdin and stderr are terminals."""
        return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)

    @property
    def prompt_width(self) -> int:
        """The columns of the terminal on stderr."""
        return _columns(sys.stderr)

    @contextlib.contextmanager
    def prompting(self, prompt: str) -> Iterator[None]:
        """Show a prompt during the block; notes go above it, progress is not shown."""
        self.clear()
        self._prompt = prompt
        self.progress.is_paused = True
        self._write_stderr(prompt)
        try:
            yield
        finally:
            self._prompt = ""
            self.progress.is_paused = False


class ProgressLine:
    """A line of a terminal that is rewritten during a call; nothing elsewhere."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_drawn = False
        self.is_paused = False
        self._next_draw = 0.0

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal."""
        return self._stream is not None

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        """Rewrite the line, at most once per `REDRAW_INTERVAL_S` before the end."""
        now = time.monotonic()
        is_early = now < self._next_draw and (total is None or progress < total)
        if self.is_paused or is_early:
            return
        self._next_draw = now + REDRAW_INTERVAL_S
        self._draw(progress_text(progress, total, message))

    def show_text(self, text: str) -> None:
        """Show a text, unless the line shows progress already."""
        if not self.is_paused and not self._is_drawn:
            self._draw(one_line(text))

    def _draw(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(f"\r\x1b[K{_truncate(text, _columns(self._stream) - 1)}")
            self._stream.flush()
            self._is_drawn = True

    def clear(self) -> None:
        """Erase the line."""
        if self._stream is not None and self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False


def progress_text(
    progress: float, total: float | None, message: str | None, *, with_bar: bool = True
) -> str:
    """Return progress as one line of text."""
    suffix = f"  {one_line(message)}" if message else ""
    if total is None or not total > 0:
        return f"{progress:g}{suffix}"
    share = min(max(progress / total, 0.0), 1.0)
    bar = f"[{'#' * round(share * BAR_WIDTH):.<{BAR_WIDTH}}] " if with_bar else ""
    return f"{bar}{share:4.0%}  {progress:g}/{total:g}{suffix}"


def _truncate(text: str, columns: int) -> str:
    """Truncate a line to a number of columns; wide characters take two."""
    if text.isascii():
        return text[:columns]
    from unicodedata import east_asian_width

    width = 0
    for index, character in enumerate(text):
        width += 2 if east_asian_width(character) in {"F", "W"} else 1
        if width > columns:
            return text[:index]
    return text


def _is_terminal(stream: TextIO | None) -> bool:
    # A standard stream is None if the process has no descriptor for it.
    return stream is not None and not stream.closed and stream.isatty()


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def write_text(text: str) -> None:
    """Write a text to stdout and flush; escape characters outside its encoding."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_bytes(text.encode(encoding, "backslashreplace"))


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout unchanged, and flush."""
    rest = memoryview(data)
    try:
        sys.stdout.flush()
        while rest:
            # An unbuffered stream (PYTHONUNBUFFERED) may write a part only.
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError, AttributeError) as error:
        # AttributeError: stdout is None if the process has no descriptor 1.
        reason = (getattr(error, "strerror", None) or "it is closed").lower()
        raise OutputError(f"cannot write to standard output: {reason}") from error


def discard_stream(name: str) -> None:
    """Redirect a stream to /dev/null: the interpreter's last flush must not fail."""
    null_fd = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_fd, getattr(sys, name).fileno())
    except (OSError, ValueError, AttributeError):
        setattr(sys, name, None)
    finally:
        os.close(null_fd)


def read_file(path: str) -> str:
    """Return the text of a file."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - no Path needed
            return file.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {_reason(error)}") from error


def read_input() -> str:
    """Return the text from stdin."""
    if sys.stdin is None:  # the process has no descriptor 0
        raise UsageError("cannot read standard input: it is closed")
    try:
        return sys.stdin.buffer.read().decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read standard input: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start})"
    return (getattr(error, "strerror", None) or str(error)).lower()


def read_source(word: str) -> str:
    """Return the text of the file that `@FILE` names, or of stdin for `-` or `@-`."""
    return read_input() if word in {"-", "@-"} else read_file(word[1:])


def check_writable(path: str) -> None:
    """Check before the work that a file can be written at the path."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - no Path needed
    if os.path.isdir(path):  # noqa: PTH112 - as above
        raise UsageError(f"cannot write {path!r}: it is a directory")
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise UsageError(
            f"cannot write {path!r}: the directory {folder!r} does not exist"
        )
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):  # noqa: PTH110 - as above
        raise UsageError(f"cannot write {path!r}: permission denied")


@contextlib.contextmanager
def writing_to(path: str) -> Iterator[None]:
    """Convert an `OSError` of the block to a usage error that names the path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path!r}: {_reason(error)}") from error


def write_file(path: str, data: bytes) -> None:
    """Write bytes to a file."""
    with writing_to(path), open(path, "wb") as file:  # noqa: PTH123 - no Path needed
        file.write(data)


# --- escaping of a server's text


# `str.isprintable` is false for controls, format characters (bidi included), line
# separators and surrogates, as required, but also for these harmless characters:
# spaces of other widths, and the joiners that emoji and several scripts need.
_HARMLESS: Final = frozenset(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u200c\u200d\u202f\u205f\u3000"
)


def one_line(text: str) -> str:
    """Return the text as one line, with invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in _HARMLESS else c.encode("unicode_escape").decode()
        for c in text
    )


def printable(text: str) -> str:
    """Return the text with invisible characters except newlines and tabs escaped."""
    if text.isprintable():
        return text
    return "\n".join(
        line if line.isprintable() else "\t".join(map(one_line, line.split("\t")))
        for line in text.split("\n")
    )


def shorten(text: str, limit: int) -> str:
    """Truncate a text to `limit` characters, "..." at its end included."""
    return text if len(text) <= limit else f"{text[: max(limit - 3, 0)]}..."


# --- quotes of a server's text


QUOTE_MARK: Final = "| "
MIN_WIDTH: Final = 20

MAX_LINES: Final = 30
"""Limit of quoted lines; more would scroll the server's name off the screen."""

MAX_CHARACTERS: Final = 4_000


def plain(text: str) -> str:
    """Return the text as one escaped line in which terminals do not detect links.

    2025-11-25 client/elicitation, "Safe URL Handling": URLs SHOULD NOT be clickable in
    any field other than the URL's own.
    """
    return one_line(text).replace("://", "[://]")


def quote_lines(text: str, width: int, indent: str = "  ") -> list[str]:
    """Return the text as escaped lines of at most `width` columns, each with a mark."""
    from textwrap import wrap

    head = f"{indent}{QUOTE_MARK}"
    lines: list[str] = []
    for line in shorten(text, MAX_CHARACTERS).strip().splitlines():
        escaped = plain(line)
        # Characters outside ASCII may take two columns each.
        room = (width - len(head)) // (1 if escaped.isascii() else 2)
        lines += wrap(escaped, max(room, MIN_WIDTH)) or [""]
    if len(lines) > MAX_LINES:
        omitted = len(lines) - MAX_LINES
        lines[MAX_LINES:] = [f"({omitted} more lines)"]
    return [f"{head}{line}" for line in lines]
