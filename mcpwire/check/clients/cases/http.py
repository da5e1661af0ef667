"""Requests and responses of Streamable HTTP."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("http", defaults={"role": "client"})
