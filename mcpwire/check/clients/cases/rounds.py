"""Input rounds and subscriptions of the stateless revisions."""

from __future__ import annotations

from typing import Final

from mcpwire.check.case import Family

FAMILY: Final = Family("rounds", defaults={"role": "client"})
