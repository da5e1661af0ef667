"""Measures the way of a request: queued, written, first byte, complete, decoded.

Times are those at which this process learns of something, in milliseconds since the
call was made: ``queued`` when its message was handed to the connection, ``written``
when the operating system had taken the last of its bytes, ``first byte`` when the
beginning of the answer was read, ``complete`` when its end was, ``decoded`` when the
typed result was there. A call of several rounds has a line for each. Over HTTP the
answer begins with its head, and nobody tells when the request was ``written``.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.cli.output import Output

__all__ = ["Timing"]

POINTS: Final = ("queued", "written", "first byte", "complete", "decoded")
"""In the order in which they come."""


class Timing:
    """Notes when what happened; whatever takes time is done afterwards."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._started = self._ended = 0.0
        self._is_on = False
        self._total = 0
        self._sent: list[tuple[float, int, bytes]] = []
        self._written: list[tuple[float, int]] = []
        self._answers: list[tuple[float, float, bytes]] = []
        self._chunk_at = self._line_at = 0.0
        self._is_torn = False

    def trace(self, event: str, data: Any) -> None:
        """Take one event of the connection (`mcpwire.transports.base.Trace`)."""
        now = time.perf_counter()
        if event == "open":
            self._total = 0
        elif event == "send":
            self._total += len(data) + 1
            if self._is_on:
                self._sent.append((now, self._total, data))
        elif event == "written":
            if self._is_on:
                self._written.append((now, data))
        elif event == "response":  # over HTTP, where its body is told as a whole
            self._chunk_at = self._line_at = now
        elif event == "read":
            self._note_read(now, data)
        elif event == "receive":
            if self._is_on and (b'"result"' in data or b'"error"' in data):
                self._answers.append((self._line_at, now, data))
            self._line_at = self._chunk_at

    def _note_read(self, now: float, data: bytes) -> None:
        self._chunk_at = now
        if not self._is_torn:
            self._line_at = now
        self._is_torn = not data.endswith(b"\n")

    def start(self) -> None:
        """The call is made now."""
        self._is_on = True
        self._started = time.perf_counter()

    def stop(self) -> None:
        """The typed result is there."""
        self._ended = time.perf_counter()

    def report(self, output: Output) -> None:
        """Say what was measured."""
        self._is_on = False
        found = self.rounds()
        for number, points in enumerate(found, 1):
            which = f" of round {number}" if len(found) > 1 else ""
            said = ", ".join(
                f"{name} {points[name]:.3f} ms" for name in POINTS if name in points
            )
            value = {"method": self._method, "milliseconds": points}
            output.tell("timing", value, f"timing{which}: {said}")

    def rounds(self) -> list[dict[str, float]]:
        """Return what was measured of each request, in milliseconds."""
        found: dict[int, dict[str, float]] = {}
        for at, end, line in self._sent:
            message = _message(line)
            id = message.get("id")
            if type(id) is not int or message.get("method") != self._method:
                continue
            found[id] = {"queued": self._since(at)}
            written = next((at for at, count in self._written if count >= end), None)
            if written is not None:
                found[id]["written"] = self._since(written)
        for begun, at, line in self._answers:
            id = _message(line).get("id")
            if type(id) is int and id in found:
                found[id] |= {
                    "first byte": self._since(begun),
                    "complete": self._since(at),
                }
        rounds = list(found.values())
        if self._ended and rounds and "complete" in rounds[-1]:
            rounds[-1]["decoded"] = self._since(self._ended)
        return rounds

    def _since(self, at: float) -> float:
        return round((at - self._started) * 1000, 3)


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
