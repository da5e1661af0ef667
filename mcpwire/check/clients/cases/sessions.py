"""Sessions of Streamable HTTP."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("sessions", defaults={"role": "client"})
