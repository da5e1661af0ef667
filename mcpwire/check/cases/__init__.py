"""All cases, family by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import (
    asking,
    caching,
    changes,
    completions,
    discovery,
    framing,
    fuzz,
    input_rounds,
    jsonrpc,
    lifecycle,
    meta,
    paging,
    prompts,
    resources,
    schema,
    skills,
    subscriptions,
    task_extension,
    tasks,
    tools,
)

if TYPE_CHECKING:
    from mcpwire.check.case import Case, Family

__all__ = ["CASES", "FAMILIES"]

FAMILIES: Final[tuple[Family, ...]] = (
    jsonrpc.FAMILY,
    framing.FAMILY,
    lifecycle.FAMILY,
    discovery.FAMILY,
    schema.FAMILY,
    tools.FAMILY,
    resources.FAMILY,
    prompts.FAMILY,
    completions.FAMILY,
    paging.FAMILY,
    caching.FAMILY,
    changes.FAMILY,
    subscriptions.FAMILY,
    asking.FAMILY,
    input_rounds.FAMILY,
    tasks.FAMILY,
    task_extension.FAMILY,
    skills.FAMILY,
    meta.FAMILY,
    fuzz.FAMILY,
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
