"""What a server offers, one value each: a tool, a resource, a template, a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from mcpwire.server.features.definitions import trim

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.asking.context import Context
    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.features.calling import Calling, Slots
    from mcpwire.versions import Revision

    Visible = Callable[[Context, "Component"], bool]
    """Whether a component is there for who asks; for the list and for its use."""

__all__ = ["Component", "Tool"]


@attrs.define(eq=False, kw_only=True)
class Component:
    """Something that a list shows and a request names."""

    kind: ClassVar[str] = "tool"
    """Which definition it has; see `definitions`."""

    key: str
    """Its name, URI or URI template, which no other of its kind has."""

    definition: dict[str, Any]
    """What the list shows of it, as the newest revision has it."""

    scopes: frozenset[str] = frozenset()
    """What a principal must have been granted to use it."""

    tags: frozenset[str] = frozenset()
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None = None
    """Whether it is there for who asks; ``None``: for everybody."""

    is_enabled: bool = True
    """Whether it is there at all."""

    calling: Calling | None = attrs.field(default=None, repr=False)
    """How the server that it was registered with calls functions."""

    _shown: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def at(self, revision: Revision) -> dict[str, Any]:
        """Return what the list shows at a revision."""
        shown = self._shown.get(revision.name)
        if shown is None:
            shown = self._shown[revision.name] = trim(
                self.kind, self.definition, revision
            )
        return shown

    def renamed(self, key: str) -> Self:
        """Return one like it that has another name."""
        return attrs.evolve(self, key=key, definition={**self.definition, "name": key})

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {self.key!r}>"


@attrs.define(eq=False, kw_only=True, repr=False)
class Tool(Component):
    """A function that a model may call."""

    kind: ClassVar[str] = "tool"

    function: Callable[..., Any]

    signature: Signature
    """Its parameters and what it returns, read once."""

    runs_in_thread: bool = False

    timeout: float | None = None
    """How long a call may take, in seconds."""

    slots: Slots | None = None
    """Bounds how many calls run at once."""

    is_direct: bool = False
    """Whether a call is no more than awaiting the function with its arguments."""

    task: str = "forbidden"
    """Whether calls may (``"optional"``) or must (``"required"``) be tasks."""

    param_headers: tuple[ParamHeader, ...] = ()
    """Which arguments HTTP repeats in header fields, from 2026-07-28 on."""

    options: dict[str, Any] = attrs.field(factory=dict)
    """What it was registered with, for `replace`."""
