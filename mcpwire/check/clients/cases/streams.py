"""Event streams: reading and resuming them."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("streams", defaults={"role": "client"})
