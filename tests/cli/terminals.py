"""A terminal for commands: records the output and types lines."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from cli_servers import MCPWIRE, TIMEOUT_S


class Terminal:
    def __init__(self, columns: int) -> None:
        self._parent_fd, self._child_fd = pty.openpty()
        fcntl.ioctl(
            self._child_fd, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0)
        )
        # Output is recorded unchanged: no carriage return before newlines.
        settings = termios.tcgetattr(self._child_fd)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(self._child_fd, termios.TCSANOW, settings)
        self.written = b""
        self._seen = 0
        self.process = None

    def start(self, *words, env=None, stdin=None, stdout=None, controls=False):
        """Start a command on this terminal; `controls` makes it the controlling one."""
        self.process = subprocess.Popen(
            [*MCPWIRE, *words],
            stdin=self._child_fd if stdin is None else stdin,
            stdout=self._child_fd if stdout is None else stdout,
            stderr=self._child_fd,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **(env or {})},
            preexec_fn=self._take_control if controls else None,  # noqa: PLW1509 - there are no threads here
        )
        return self

    def _take_control(self) -> None:
        os.setsid()
        fcntl.ioctl(self._child_fd, termios.TIOCSCTTY, 0)

    def read_until(self, pattern: str) -> None:
        """Read until the pattern appears after the last match."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = re.search(pattern.encode(), self.written[self._seen :])
            if found:
                self._seen += found.end()
                return
            assert self._read(deadline), self.written.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        self.type_bytes(text.encode())

    def type_bytes(self, data: bytes) -> None:
        """Type bytes that need not be UTF-8."""
        os.write(self._parent_fd, data)

    def answer(self, *lines: str, prompt: str = "> $") -> None:
        for line in lines:
            self.read_until(prompt)
            self.type(line if line == "\x04" else f"{line}\n")

    @property
    def text(self) -> str:
        """The output without carriage returns and styles."""
        return re.sub(
            "\r|\x1b\\[[0-9;]*[mK]", "", self.written.decode("utf-8", "replace")
        )

    def finish(self) -> int:
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            self._read(min(deadline, time.monotonic() + 0.05))
            assert time.monotonic() < deadline
        while self._read(time.monotonic()):
            pass
        return self.process.returncode

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._parent_fd], [], [], left)[0]:
            return False
        try:
            data = os.read(self._parent_fd, 65_536)
        except OSError:  # Linux reports the end like this
            return False
        self.written += data
        return bool(data)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._parent_fd)
        os.close(self._child_fd)


def run(terminal, *words, **options):
    code, text = terminal.start(*words, **options).finish(), terminal.written.decode()
    # A busy machine may start a server slowly enough for a "connecting" line.
    return code, re.sub("\r\x1b\\[Kconnecting[^\r]*\r\x1b\\[K", "", text)
