"""Lists and uses of tools, resources and prompts."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("items", defaults={"role": "client"})
