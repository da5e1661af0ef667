"""A terminal for commands: what is written to it is kept, lines can be typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from cli_servers import MCPWIRE, PATIENCE


class Terminal:
    """A terminal of some width, and all that was written to it."""

    def __init__(self, columns: int) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(
            self._theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0)
        )
        # What is written is to be seen as it is: no carriage return before newlines.
        settings = termios.tcgetattr(self._theirs)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(self._theirs, termios.TCSANOW, settings)
        self.written = b""
        self._seen = 0
        self.process = None

    def start(self, *words, env=None, stdin=None, stdout=None, controls=False):
        """Start a command with this as its terminal, if wanted its controlling one."""
        self.process = subprocess.Popen(
            [*MCPWIRE, *words],
            stdin=self._theirs if stdin is None else stdin,
            stdout=self._theirs if stdout is None else stdout,
            stderr=self._theirs,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **(env or {})},
            preexec_fn=self._take_control if controls else None,  # noqa: PLW1509 - there are no threads here
        )
        return self

    def _take_control(self) -> None:
        os.setsid()
        fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)

    def read_until(self, pattern: str) -> None:
        """Read until that was written after what was read before."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern.encode(), self.written[self._seen :])
            if found:
                self._seen += found.end()
                return
            assert self._read(deadline), self.written.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        """Type something."""
        self.type_bytes(text.encode())

    def type_bytes(self, data: bytes) -> None:
        """Type what may be no text."""
        os.write(self._ours, data)

    def answer(self, *lines: str, prompt: str = "> $") -> None:
        """Type each line once it is asked for."""
        for line in lines:
            self.read_until(prompt)
            self.type(line if line == "\x04" else f"{line}\n")

    @property
    def text(self) -> str:
        """All that was written, without carriage returns and styles."""
        return re.sub(
            "\r|\x1b\\[[0-9;]*[mK]", "", self.written.decode("utf-8", "replace")
        )

    def finish(self) -> int:
        """Read to the end of the process; return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self._read(min(deadline, time.monotonic() + 0.05))
            assert time.monotonic() < deadline
        while self._read(time.monotonic()):
            pass
        return self.process.returncode

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._ours], [], [], left)[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # so Linux tells the end
            return False
        self.written += data
        return bool(data)

    def close(self) -> None:
        """End the command if it still runs, and the terminal."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def run(terminal, *words, **options):
    """Return exit code and text of a command on a terminal."""
    code, text = terminal.start(*words, **options).finish(), terminal.written.decode()
    # A busy machine may need longer to start a server than nothing is said of.
    return code, re.sub("\r\x1b\\[Kconnecting[^\r]*\r\x1b\\[K", "", text)
