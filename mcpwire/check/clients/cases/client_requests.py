"""Requests of the server: sampling, elicitation and roots."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("client-requests", defaults={"role": "client"})
