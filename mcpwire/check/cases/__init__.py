"""All cases, family by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import discovery, framing, jsonrpc, lifecycle, schema

if TYPE_CHECKING:
    from mcpwire.check.case import Case, Family

__all__ = ["CASES", "FAMILIES"]

FAMILIES: Final[tuple[Family, ...]] = (
    jsonrpc.FAMILY,
    framing.FAMILY,
    lifecycle.FAMILY,
    discovery.FAMILY,
    schema.FAMILY,
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
