"""The components of one kind: what is there, for whom, and in which order.

What a list shows can be used, and nothing else can: both ask `Table`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mcpwire.server.features.components import Component

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.server.asking.context import Context
    from mcpwire.server.features.components import Visible
    from mcpwire.server.request import RequestContext

__all__ = ["ON_DUPLICATE", "Handle", "Table"]

logger = logging.getLogger("mcpwire")

ON_DUPLICATE: Final = ("error", "replace", "ignore")

C = TypeVar("C", bound=Component)


class Handle(Generic[C]):
    """One component of a running server, to change it; clients are told.

    Attributes:
        component: What is registered now.
    """

    def __init__(self, table: Table[C], component: C) -> None:
        self._table = table
        self.component = component

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Handle of {self.component!r}>"

    def remove(self) -> None:
        """Take it away; a call that runs goes on.

        Raises:
            KeyError: It is not there any more.
        """
        self._table.remove(self.component.key)

    def replace(self, function: Callable[..., Any], **changes: Any) -> None:
        """Put another function in its place, read anew; options stay but for these.

        Raises:
            KeyError: It is not there any more.
            TypeError: The function cannot be used; nothing has changed then.
        """
        component = self._table.rebuild(self.component, function, changes)
        self._table.replace(self.component.key, component)
        self.component = component

    def enable(self) -> None:
        """Let it be there again."""
        self._switch(is_enabled=True)

    def disable(self) -> None:
        """Hide it: no list shows it, and nobody can use it."""
        self._switch(is_enabled=False)

    def _switch(self, *, is_enabled: bool) -> None:
        if self.component.is_enabled is not is_enabled:
            self.component.is_enabled = is_enabled
            self._table.changed()


class Table(Generic[C]):
    """The components of one kind, in the order in which they came.

    Args:
        noun: What they are, for error messages.
        on_duplicate: What comes of a second one with the same key: ``"error"``,
            ``"replace"`` or ``"ignore"``.
        visible: Whether a component is there for who asks, beside its own predicate.
        context_of: Makes the context that predicates get.
        on_changed: Is told that something came, went or changed.
        rebuild: Makes a component like another one around another function.
    """

    def __init__(
        self,
        noun: str,
        *,
        on_duplicate: str = "error",
        visible: Visible | None = None,
        context_of: Callable[[RequestContext], Context],
        on_changed: Callable[[], object],
        rebuild: Callable[[C, Callable[..., Any], dict[str, Any]], C] | None = None,
    ) -> None:
        if on_duplicate not in ON_DUPLICATE:
            raise ValueError(
                f"on_duplicate must be one of {', '.join(ON_DUPLICATE)}, "
                f"got {on_duplicate!r}"
            )
        self._noun = noun
        self._on_duplicate = on_duplicate
        self._visible = visible
        self._context_of = context_of
        self._on_changed = on_changed
        self._rebuild = rebuild
        self._components: dict[str, C] = {}

    # For who registers...

    def __len__(self) -> int:
        """Return how many there are, hidden ones too."""
        return len(self._components)

    def __iter__(self) -> Iterator[str]:
        """Return their keys."""
        return iter(list(self._components))

    def __contains__(self, key: object) -> bool:
        """Tell whether there is one with that key."""
        return key in self._components

    def __getitem__(self, key: str) -> Handle[C]:
        """Return the handle of one.

        Raises:
            KeyError: There is none.
        """
        component = self._components.get(key)
        if component is None:
            raise KeyError(f"there is no {self._noun} {key!r}")
        return Handle(self, component)

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{len(self)} {self._noun}s: {', '.join(self)}>"

    def add(self, component: C) -> Handle[C]:
        """Add one at the end.

        Raises:
            ValueError: There is one with that key already.
        """
        key = component.key
        found = self._components.get(key)
        if found is not None:
            if self._on_duplicate == "error":
                raise ValueError(f"there is a {self._noun} {key!r} already")
            logger.warning("there is a %s %r already", self._noun, key)
            if self._on_duplicate == "ignore":
                return Handle(self, found)
        self._components[key] = component
        self.changed()
        return Handle(self, component)

    def remove(self, key: str) -> None:
        """Take one away.

        Raises:
            KeyError: There is none.
        """
        if self._components.pop(key, None) is None:
            raise KeyError(f"there is no {self._noun} {key!r}")
        self.changed()

    def replace(self, key: str, component: C) -> None:
        """Put another one in its place in the order.

        Raises:
            KeyError: There is none.
            ValueError: The new one's key belongs to somebody else.
        """
        if key not in self._components:
            raise KeyError(f"there is no {self._noun} {key!r}")
        if component.key != key and component.key in self._components:
            raise ValueError(f"there is a {self._noun} {component.key!r} already")
        self._components = {
            (component.key if k == key else k): (component if k == key else c)
            for k, c in self._components.items()
        }
        self.changed()

    def rebuild(
        self, component: C, function: Callable[..., Any], changes: dict[str, Any]
    ) -> C:
        """Make a component like that one around another function."""
        if self._rebuild is None:
            raise TypeError(f"a {self._noun} cannot be given another function")
        return self._rebuild(component, function, changes)

    def changed(self) -> None:
        """Say that the list is not what it was."""
        self._on_changed()

    # For who asks...

    def get(self, key: object, request: RequestContext) -> C | None:
        """Return the component with that key if it is there for who asks."""
        component = self._components.get(key) if type(key) is str else None
        if component is None or not self._is_there(component, request):
            return None
        return component

    def all(self, request: RequestContext) -> list[C]:
        """Return what is there for who asks, in order."""
        return [c for c in self._components.values() if self._is_there(c, request)]

    def depends_on_who_asks(self) -> bool:
        """Tell whether not everybody sees the same."""
        return self._visible is not None or any(
            c.visible is not None for c in self._components.values()
        )

    def _is_there(self, component: C, request: RequestContext) -> bool:
        if not component.is_enabled:
            return False
        if self._visible is None and component.visible is None:
            return True
        context = self._context_of(request)
        return all(
            sees is None or sees(context, component)
            for sees in (self._visible, component.visible)
        )
