"""JSON-RPC messages: ids, errors and unknown methods."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("jsonrpc", defaults={"role": "client"})
