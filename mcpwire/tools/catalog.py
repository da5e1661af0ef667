"""Side effects and costs of tools, and catalog entries with both.

No request is sent for it. Risk follows from annotations (`SideEffects.risk`), cost from
earlier calls (`Costs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.limits import check_timeout
from mcpwire.protocol.json_schema import required_of
from mcpwire.tools.results import json_text
from mcpwire.types import UNSET, encode
from mcpwire.types.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.tools.transforms import ToolView
    from mcpwire.types import CallToolResult
    from mcpwire.types.tools import ToolAnnotations

EffectKind: TypeAlias = Literal["read_only", "mutating", "unknown"]
"""Whether a tool changes anything; unknown without a hint of its server."""

Risk: TypeAlias = Literal["low", "medium", "high"]
"""The risk of a call."""


@attrs.frozen(kw_only=True)
class SideEffects:
    """The four hints of a tool, with the specification's defaults filled in."""

    kind: EffectKind = "unknown"
    """The meaning of the hints; ``"unknown"`` without any."""

    is_destructive: bool = True
    """Whether data may be lost; false for a tool that only reads."""

    is_idempotent: bool = False
    """Whether a repeated call changes nothing more; true for one that only reads."""

    is_open_world: bool = True
    """Whether it works on an open domain, such as the web."""

    trusted: bool = False
    """Whether the caller trusts the server."""

    @classmethod
    def of(
        cls, source: Tool | ToolAnnotations | None, *, trusted: bool = False
    ) -> SideEffects:
        """Return the side effects that a tool's annotations declare.

        Args:
            source: A tool, its annotations, or ``None`` for no annotations.
            trusted: Whether the caller trusts the server.
        """
        hints = source.annotations if isinstance(source, Tool) else source
        if hints is None:
            return cls(trusted=trusted)
        # 2026-07-28 schema, ToolAnnotations: readOnlyHint false, destructiveHint true,
        # idempotentHint false, openWorldHint true; the two in the middle only have a
        # meaning if the tool does not only read.
        declared = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        only_reads = hints.read_only_hint is True
        changes: EffectKind = (
            "unknown" if declared == (None, None, None) else "mutating"
        )
        return cls(
            kind="read_only" if only_reads else changes,
            is_destructive=not only_reads and hints.destructive_hint is not False,
            is_idempotent=only_reads or hints.idempotent_hint is True,
            is_open_world=hints.open_world_hint is not False,
            trusted=trusted,
        )

    @property
    def risk(self) -> Risk:
        """The risk of a call.

        ``"high"``: the tool makes changes and may destroy data. ``"low"``: a trusted
        server declares that it only reads, or that it changes a closed domain
        idempotently without destroying data. ``"medium"``: any other tool.
        """
        if self.kind == "mutating" and self.is_destructive:
            return "high"
        # 2026-07-28 server/tools, "Tool": annotations are untrusted unless they come
        # from a trusted server: they must not suppress a confirmation.
        if not self.trusted or self.kind == "unknown":
            return "medium"
        harmless = self.is_idempotent and not self.is_open_world
        return "low" if self.kind == "read_only" or harmless else "medium"


BYTES_PER_TOKEN: Final = 4
"""A rule of thumb for English text and JSON; tokenizers differ."""

MAX_TOOLS: Final = 10_000
"""How many tools have a recorded cost; beyond it the oldest record is dropped."""


@attrs.frozen
class Cost:
    """The average cost of one call of a tool."""

    tokens: int
    """Tokens of the result, estimated from its bytes."""

    seconds: float
    """Seconds from the request to the answer."""

    calls: int = 0
    """The number of recorded calls; 0: these are the initial values."""


@attrs.define
class _Average:
    seconds: float
    size: float
    calls: int


class Costs:
    """The average costs of calls, by tool.

    Args:
        seconds: The initial duration for a tool without calls, in seconds.
        tokens: The initial size of its result.
        weight: The weight of the latest call, above 0 and up to 1.

    Raises:
        ValueError: An argument is out of its range; names it.
    """

    def __init__(
        self, *, seconds: float = 5.0, tokens: int = 500, weight: float = 0.2
    ) -> None:
        # `not` before the comparison refuses NaN, too.
        if not seconds >= 0:
            raise ValueError(f"seconds must not be negative, got {seconds!r}")
        if not tokens >= 0:
            raise ValueError(f"tokens must not be negative, got {tokens!r}")
        if not 0 < weight <= 1:
            raise ValueError(f"weight must be above 0 and up to 1, got {weight!r}")
        self._initial = Cost(tokens, seconds)
        self._weight = weight
        self._averages: dict[tuple[str, str], _Average] = {}

    def note(self, server: str, tool: str, seconds: float, size: int) -> None:
        """Record one call.

        Args:
            server: The server of the tool.
            tool: The server's name of the tool.
            seconds: The duration of the call.
            size: The size of the result, in bytes.
        """
        average = self._averages.get((server, tool))
        if average is None:
            if len(self._averages) >= MAX_TOOLS:
                # Another thread may have removed the same one.
                self._averages.pop(next(iter(self._averages)), None)
            average = self._averages[server, tool] = _Average(seconds, size, 0)
        average.seconds += self._weight * (seconds - average.seconds)
        average.size += self._weight * (size - average.size)
        average.calls += 1

    def of(self, server: str, tool: str) -> Cost:
        """Return the recorded cost of a call, or the initial one."""
        average = self._averages.get((server, tool))
        if average is None:
            return self._initial
        return Cost(
            round(average.size / BYTES_PER_TOKEN), average.seconds, average.calls
        )

    def forget(self, server: str | None = None) -> None:
        """Drop the records of one server's tools, or all records."""
        for key in list(self._averages):
            if server in {None, key[0]}:
                self._averages.pop(key, None)


def result_size(result: CallToolResult) -> int:
    """Return approximately how many bytes of a result a model receives."""
    if not result.content and result.structured_content is not UNSET:
        return len(json_text(result.structured_content))
    return sum(map(_block_size, result.content))


def _block_size(block: Any) -> int:
    for part in (block, getattr(block, "resource", None)):
        for name in ("text", "data", "blob"):
            value = getattr(part, name, None)
            if isinstance(value, str):
                return len(value)
    return len(json_text(encode(block)))


VERSION: Final = "1.0.0"
"""The version of a tool's contract; tools have no version in the protocol."""

RETRY_PAUSE_S: Final = 1.0


@attrs.frozen(kw_only=True)
class ToolContract:
    """What a program that calls a tool can rely on and has to observe."""

    required: tuple[str, ...]
    """The required arguments."""

    output: Literal["json", "text"]
    """The kind of result: data with a schema, or text."""

    side_effects: SideEffects
    timeout: float | None
    """The timeout of a call, in seconds; ``None``: no limit."""

    max_retries: int
    """How often a call may be repeated: once if a trusted server declares it
    idempotent, else never."""

    retry_pause: float = RETRY_PAUSE_S
    """Seconds before the retry."""

    version: str = VERSION


@attrs.frozen(kw_only=True)
class CatalogEntry:
    """One tool of a catalog."""

    name: str
    """The name in its tool set."""

    server: str
    tool: str
    """The server's name of the tool."""

    title: str
    description: str
    hint: str
    """The description for choosing it, never empty."""

    tags: tuple[str, ...]
    """``"mcp"``, its server, and its group."""

    required: tuple[str, ...]
    """The required arguments."""

    side_effects: SideEffects
    risk: Risk
    """``"low"``, ``"medium"`` or ``"high"``; see `SideEffects.risk`."""

    cost: Cost
    """Average tokens and seconds of one call."""

    needs_confirmation: bool
    """Whether each call needs confirmation."""

    contract: ToolContract

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as an object that can be written as JSON."""
        return attrs.asdict(self, value_serializer=_serialize)


def catalog(
    tools: Iterable[ToolView], costs: Costs, *, timeout: float | None = 30.0
) -> list[CatalogEntry]:
    """Return an entry for each tool, in their order.

    Args:
        tools: A tool set, or some of its views.
        costs: The recorded costs.
        timeout: The timeout in the contracts, in seconds.

    Raises:
        ValueError: The timeout is zero, negative or NaN.
    """
    seconds = check_timeout(timeout)
    return [_entry(view, costs.of(view.server, view.tool), seconds) for view in tools]


def _entry(view: ToolView, cost: Cost, timeout: float | None) -> CatalogEntry:
    effects = view.side_effects
    required = tuple(required_of(view.input_schema))
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


def _serialize(_instance: object, _attribute: object, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
