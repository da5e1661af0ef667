"""Authorization over HTTP: discovery, login and tokens."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("authorization", defaults={"role": "client"})
