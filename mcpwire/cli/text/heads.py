"""Writes the head of a request or a response as curl does: ``>`` out, ``<`` in."""

from __future__ import annotations

from typing import Final

__all__ = ["MARKS", "head_lines"]

MARKS: Final = {"request": ">", "response": "<"}
"""The events of the client's trace that are heads, and how each line of one begins."""


def head_lines(event: str, head: str) -> list[str]:
    """Return the lines of a head; control characters are left to whoever prints."""
    mark = MARKS[event]
    lines = [line.removesuffix("\r") for line in head.split("\n")]
    return [f"{mark} {line}" for line in lines if line]
