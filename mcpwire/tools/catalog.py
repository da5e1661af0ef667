"""Tools as entries of a catalog: what a planner, a policy or a person wants to know.

Nothing is asked of a server for it. Risk follows from what the server says of side
effects (`SideEffects.risk`), cost from the calls that were made (`Costs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mcpwire.limits import check_timeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.protocol.many.costs import Cost, Costs
    from mcpwire.protocol.many.effects import Risk, SideEffects
    from mcpwire.tools.view import ToolView

__all__ = ["CatalogEntry", "ToolContract", "catalog"]

VERSION: Final = "1.0.0"
"""The version of a tool's contract; servers do not number their tools."""

RETRY_PAUSE_S: Final = 1.0


@attrs.frozen(kw_only=True)
class ToolContract:
    """What whoever runs a tool may rely on, and has to keep to."""

    required: tuple[str, ...]
    """Arguments without which there is no call."""

    output: Literal["json", "text"]
    """What comes out: data by a schema, or whatever the tool says."""

    side_effects: SideEffects
    timeout: float | None
    """Seconds that a call may take; ``None``: no limit."""

    max_retries: int
    """How often a call may be made again: once where a trusted server says that this
    changes nothing more, else never."""

    retry_pause: float = RETRY_PAUSE_S
    """Seconds before that."""

    version: str = VERSION


@attrs.frozen(kw_only=True)
class CatalogEntry:
    """One tool of a catalog."""

    name: str
    """What it is called in its tool set."""

    server: str
    tool: str
    """What its server calls it."""

    title: str
    description: str
    hint: str
    """What to choose it by, never empty."""

    tags: tuple[str, ...]
    """``"mcp"``, its server, and its group."""

    required: tuple[str, ...]
    """Arguments without which there is no call."""

    side_effects: SideEffects
    risk: Risk
    """``"low"``, ``"medium"`` or ``"high"``; see `SideEffects.risk`."""

    cost: Cost
    """Tokens and seconds of one call, learnt from those that were made."""

    needs_confirmation: bool
    """Whether somebody has to confirm each call."""

    contract: ToolContract

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as what can be written as JSON."""
        return attrs.asdict(self, value_serializer=_plain)


def catalog(
    tools: Iterable[ToolView], costs: Costs, *, timeout: float | None = 30.0
) -> list[CatalogEntry]:
    """Return an entry for each tool, in their order.

    Args:
        tools: A tool set, or some of its views.
        costs: What calls took.
        timeout: Seconds that a call may take, for the contracts.

    Raises:
        ValueError: The timeout is zero, negative or NaN.
    """
    seconds = check_timeout(timeout)
    return [_entry(view, costs.of(view.server, view.tool), seconds) for view in tools]


def _entry(view: ToolView, cost: Cost, timeout: float | None) -> CatalogEntry:
    effects = view.side_effects
    named = view.input_schema.get("required")
    required = tuple(
        name
        for name in (named if isinstance(named, list) else ())
        if isinstance(name, str)
    )
    return CatalogEntry(
        name=view.name,
        server=view.server,
        tool=view.tool,
        title=view.title,
        description=view.description,
        hint=view.description
        or f"MCP tool {view.tool!r} of the server {view.server!r}",
        tags=tuple(dict.fromkeys(("mcp", view.server, view.group))),
        required=required,
        side_effects=effects,
        risk=effects.risk,
        cost=cost,
        needs_confirmation=view.needs_confirmation,
        contract=ToolContract(
            required=required,
            output="text" if view.definition.output_schema is None else "json",
            side_effects=effects,
            timeout=timeout,
            max_retries=1 if effects.is_idempotent and effects.trusted else 0,
        ),
    )


def _plain(_instance: object, _attribute: object, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
