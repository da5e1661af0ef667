"""The components of one kind: what is there, for whom, and in which order.

What a list shows can be used, and nothing else can: both ask `Table`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

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


class _Mount(Generic[C]):
    """Another table's components, under other names."""

    def __init__(self, table: Table[C], prefix: str) -> None:
        self.table = table
        self.prefix = prefix
        self._renamed: WeakKeyDictionary[C, C] = WeakKeyDictionary()

    def get(self, key: str, request: RequestContext) -> C | None:
        if not key.startswith(self.prefix):
            return None
        component = self.table.get(key[len(self.prefix) :], request)
        return None if component is None else self._rename(component)

    def all(self, request: RequestContext) -> list[C]:
        return [self._rename(component) for component in self.table.all(request)]

    def _rename(self, component: C) -> C:
        if not self.prefix:
            return component
        renamed = self._renamed.get(component)
        if renamed is None:
            renamed = component.renamed(self.prefix + component.key)
            self._renamed[component] = renamed
        return renamed


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

    Attributes:
        everybodys: Those of its own that are there for everybody, by key.
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
        self._mounts: list[_Mount[C]] = []
        self._mounted_in: list[Table[C]] = []
        self.everybodys: dict[str, C] = {}

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
        self.everybodys = {
            key: component
            for key, component in self._components.items()
            if component.is_enabled
            and self._visible is None
            and component.visible is None
        }
        self._on_changed()
        for table in self._mounted_in:
            table.changed()

    def mount(self, other: Table[C], prefix: str) -> None:
        """Show what another table has, now and later, behind what is here.

        Raises:
            ValueError: That would show it in itself.
        """
        if other is self or other.shows(self):
            raise ValueError("a server cannot be mounted on itself")
        self._mounts.append(_Mount(other, prefix))
        other._mounted_in.append(self)
        self.changed()

    def shows(self, other: Table[C]) -> bool:
        """Tell whether another table is mounted here, or somewhere below."""
        return any(m.table is other or m.table.shows(other) for m in self._mounts)

    # For who asks...

    def get(self, key: object, request: RequestContext) -> C | None:
        """Return the component with that key if it is there for who asks."""
        if type(key) is not str:
            return None
        component = self._components.get(key)
        if component is not None:
            return component if self._is_there(component, request) else None
        for mount in self._mounts:
            found = mount.get(key, request)
            if found is not None:
                return found if self._sees(found, request) else None
        return None

    def all(self, request: RequestContext) -> list[C]:
        """Return what is there for who asks, in order."""
        there = [c for c in self._components.values() if self._is_there(c, request)]
        if not self._mounts:
            return there
        known = set(self._components)
        for mount in self._mounts:
            for component in mount.all(request):
                if component.key not in known and self._sees(component, request):
                    known.add(component.key)
                    there.append(component)
        return there

    def depends_on_who_asks(self) -> bool:
        """Tell whether not everybody sees the same."""
        return (
            self._visible is not None
            or any(c.visible is not None for c in self._components.values())
            or any(m.table.depends_on_who_asks() for m in self._mounts)
        )

    def _sees(self, component: C, request: RequestContext) -> bool:
        """Ask this table's own predicate of what another one has shown."""
        sees = self._visible
        return sees is None or sees(self._context_of(request), component)

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
