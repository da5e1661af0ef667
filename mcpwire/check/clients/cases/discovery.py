"""Choice of the protocol version and of its era."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("discovery", defaults={"role": "client"})
