"""Each message of the client is valid in its revision."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("schema", defaults={"role": "client"})
