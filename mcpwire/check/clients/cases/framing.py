"""Lines over stdio, and the life of the server's process."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("framing", defaults={"role": "client"})
