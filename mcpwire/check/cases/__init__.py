"""All cases, family by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import (
    caching,
    completions,
    jsonrpc,
    paging,
    prompts,
    resources,
    schema,
    tools,
)

if TYPE_CHECKING:
    from mcpwire.check.case import Case, Family

__all__ = ["CASES", "FAMILIES"]

FAMILIES: Final[tuple[Family, ...]] = (
    jsonrpc.FAMILY,
    schema.FAMILY,
    tools.FAMILY,
    resources.FAMILY,
    prompts.FAMILY,
    completions.FAMILY,
    paging.FAMILY,
    caching.FAMILY,
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
