"""Metadata and header fields of stateless requests."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("stateless", defaults={"role": "client"})
