"""Ping, progress and cancellation."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("utilities", defaults={"role": "client"})
