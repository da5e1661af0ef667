"""The person at the terminal: lines are asked for one by one, without blocking.

The terminal itself edits a line and hands it over whole, so nothing of it is changed
that would have to be put right again, however the command ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

from mcpwire.cli.text.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Signals
    from mcpwire.types import ElicitAction

__all__ = ["Left", "Person"]

READ_BYTES: Final = 65_536


class Left(Exception):
    """The person answered the whole question at once.

    Attributes:
        action: ``decline`` or ``cancel``.
    """

    def __init__(self, action: ElicitAction) -> None:
        super().__init__(action)
        self.action = action


class Person:
    """Who sits at the terminal."""

    def __init__(self, output: Output, signals: Signals) -> None:
        self._output = output
        self._signals = signals
        self._typed = b""

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal to ask and to be answered on."""
        from mcpwire.transports.duplex import can_watch

        return all(
            stream is not None and not stream.closed and stream.isatty()
            for stream in (sys.stdin, sys.stderr)
        ) and can_watch(asyncio.get_running_loop())

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._output.asking_width

    def strong(self, text: str) -> str:
        """Return a text as the terminal shows what is to be noticed."""
        return self._output.strong(text)

    def show(self, lines: Iterable[str]) -> None:
        """Show lines that are printable already."""
        self._output.page(lines)

    def forget(self) -> None:
        """Forget what was typed before it was asked for: it answers nothing."""
        import termios

        self._typed = b""
        try:
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except termios.error:  # pragma: no cover - the terminal has gone
            return

    async def ask(self, prompt: str) -> str:
        """Return the line that is typed behind a prompt, without white space around.

        Raises:
            Left: Ctrl-C or Ctrl-D: the question is left unanswered.
        """
        while True:
            line = await self._line(prompt)
            try:
                text = line.decode().strip()
            except UnicodeDecodeError:
                self.show(["  That is no UTF-8 text."])
                continue
            if one_line(text) == text:
                return text
            self.show(["  That has control characters in it, such as those of arrows."])

    async def _line(self, prompt: str) -> bytes:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()
        fd = sys.stdin.fileno()
        ended = False
        with self._output.prompting(prompt):
            loop.add_reader(fd, self._readable, fd, line)
            try:
                with self._signals.interrupts(lambda: _set(line, b"")):
                    self._take(line)
                    found = await line
                    ended = found.endswith(b"\n")
            finally:
                loop.remove_reader(fd)
                if not ended:
                    self.show([""])
        if not ended:
            self.show(["Cancelled. The call goes on; Ctrl-C now ends that."])
            raise Left("cancel")
        self._signals.stay()
        return found

    def _readable(self, fd: int, line: asyncio.Future[bytes]) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except OSError:  # the terminal has gone
            data = b""
        self._typed += data
        if data:
            self._take(line)
        else:
            _set(line, b"")

    def _take(self, line: asyncio.Future[bytes]) -> None:
        typed, newline, rest = self._typed.partition(b"\n")
        if newline and not line.done():
            self._typed = rest
            line.set_result(typed + newline)


def _set(line: asyncio.Future[bytes], value: bytes) -> None:
    if not line.done():
        line.set_result(value)
