"""Side effects and costs of tools, and the entries of a catalog that tell both.

Nothing is asked of a server for it. Risk follows from its annotations
(`SideEffects.risk`), cost from the calls that were made (`Costs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.limits import check_timeout
from mcpwire.tools.results import json_text
from mcpwire.types import UNSET, encode
from mcpwire.types.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.tools.transforms import ToolView
    from mcpwire.types import CallToolResult
    from mcpwire.types.tools import ToolAnnotations

__all__ = [
    "BYTES_PER_TOKEN",
    "CatalogEntry",
    "Cost",
    "Costs",
    "EffectKind",
    "Risk",
    "SideEffects",
    "ToolContract",
    "catalog",
    "size_of",
]

EffectKind: TypeAlias = Literal["read_only", "mutating", "unknown"]
"""Whether a tool changes anything; unknown where its server says nothing of it."""

Risk: TypeAlias = Literal["low", "medium", "high"]
"""How much thought a call deserves."""


@attrs.frozen(kw_only=True)
class SideEffects:
    """The four hints of a tool, with the specification's defaults filled in."""

    kind: EffectKind = "unknown"
    """What the hints say: ``"unknown"`` where none of them tells."""

    is_destructive: bool = True
    """Whether what is there may be lost; never of a tool that only reads."""

    is_idempotent: bool = False
    """Whether calling it again changes nothing more; always of one that only reads."""

    is_open_world: bool = True
    """Whether it reaches beyond a closed domain, such as into the web."""

    trusted: bool = False
    """Whether the caller trusts the server that gave the hints."""

    @classmethod
    def of(
        cls, source: Tool | ToolAnnotations | None, *, trusted: bool = False
    ) -> SideEffects:
        """Read the hints of a tool, or of its annotations.

        Args:
            source: A tool, its annotations, or ``None`` where it has none.
            trusted: Whether the server is trusted to tell the truth.
        """
        hints = source.annotations if isinstance(source, Tool) else source
        if hints is None:
            return cls(trusted=trusted)
        # 2026-07-28 schema, ToolAnnotations: readOnlyHint false, destructiveHint true,
        # idempotentHint false, openWorldHint true; the two in the middle mean
        # something only where the tool does not merely read.
        is_open_world = hints.open_world_hint is not False
        if hints.read_only_hint is True:
            return cls(
                kind="read_only",
                is_destructive=False,
                is_idempotent=True,
                is_open_world=is_open_world,
                trusted=trusted,
            )
        says = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        return cls(
            kind="unknown" if says == (None, None, None) else "mutating",
            is_destructive=hints.destructive_hint is not False,
            is_idempotent=hints.idempotent_hint is True,
            is_open_world=is_open_world,
            trusted=trusted,
        )

    @property
    def risk(self) -> Risk:
        """How much thought a call deserves.

        ``"high"`` where the tool changes things and may lose what is there;
        ``"low"`` where a trusted server says that it only reads, or that it changes
        a closed domain, idempotently, without losing anything; else ``"medium"``.
        """
        if self.kind == "mutating" and self.is_destructive:
            return "high"
        # 2026-07-28 server/tools, "Tool": annotations are untrusted unless they come
        # from a trusted server, so that nobody is talked out of being asked.
        if not self.trusted or self.kind == "unknown":
            return "medium"
        harmless = self.is_idempotent and not self.is_open_world
        return "low" if self.kind == "read_only" or harmless else "medium"


BYTES_PER_TOKEN: Final = 4
"""A rule of thumb for English text and JSON; tokenizers differ."""

MAX_TOOLS: Final = 10_000
"""As many tools are remembered; the one that was learnt first goes first."""


@attrs.frozen
class Cost:
    """What one call of a tool takes, on average."""

    tokens: int
    """Tokens of its result, estimated by its bytes."""

    seconds: float
    """From sending to the answer."""

    calls: int = 0
    """How many calls that was learnt from; none: it is the value to start with."""


@attrs.define
class _Learnt:
    seconds: float
    size: float
    calls: int


class Costs:
    """What calls take, by tool.

    Args:
        seconds: What a call of an unknown tool is taken to last, in seconds.
        tokens: What the result of an unknown tool is taken to have.
        weight: How much the latest call counts, above 0 and up to 1.

    Raises:
        ValueError: An argument is out of its range; names it.
    """

    def __init__(
        self, *, seconds: float = 5.0, tokens: int = 500, weight: float = 0.2
    ) -> None:
        # `not` before the comparison, so that NaN is refused with the rest.
        if not seconds >= 0:
            raise ValueError(f"seconds must not be negative, got {seconds!r}")
        if not tokens >= 0:
            raise ValueError(f"tokens must not be negative, got {tokens!r}")
        if not 0 < weight <= 1:
            raise ValueError(f"weight must be above 0 and up to 1, got {weight!r}")
        self._start = Cost(tokens, seconds)
        self._weight = weight
        self._learnt: dict[tuple[str, str], _Learnt] = {}

    def note(self, server: str, tool: str, seconds: float, size: int) -> None:
        """Learn from one call.

        Args:
            server: The server of the tool.
            tool: The server's own name of it.
            seconds: How long it took.
            size: The bytes of its result.
        """
        known = self._learnt.get((server, tool))
        if known is None:
            if len(self._learnt) >= MAX_TOOLS:
                # Other threads may forget the same one.
                self._learnt.pop(next(iter(self._learnt)), None)
            known = self._learnt[server, tool] = _Learnt(seconds, size, 0)
        known.seconds += self._weight * (seconds - known.seconds)
        known.size += self._weight * (size - known.size)
        known.calls += 1

    def of(self, server: str, tool: str) -> Cost:
        """Return what a call takes: learnt, or the value to start with."""
        known = self._learnt.get((server, tool))
        if known is None:
            return self._start
        return Cost(round(known.size / BYTES_PER_TOKEN), known.seconds, known.calls)

    def forget(self, server: str | None = None) -> None:
        """Forget the tools of one server, or all of them."""
        for key in list(self._learnt):
            if server in {None, key[0]}:
                self._learnt.pop(key, None)


def size_of(result: CallToolResult) -> int:
    """Return roughly how many bytes of a result a model gets to see."""
    if not result.content and result.structured_content is not UNSET:
        return len(json_text(result.structured_content))
    return sum(map(_size, result.content))


def _size(block: Any) -> int:
    for part in (block, getattr(block, "resource", None)):
        for name in ("text", "data", "blob"):
            value = getattr(part, name, None)
            if isinstance(value, str):
                return len(value)
    return len(json_text(encode(block)))


VERSION: Final = "1.0.0"
"""The version of a tool's contract; servers do not number their tools."""

RETRY_PAUSE_S: Final = 1.0


@attrs.frozen(kw_only=True)
class ToolContract:
    """What a program that runs a tool may rely on, and has to keep to."""

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
