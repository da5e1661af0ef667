"""Write the source of functions: what the decoder and the encoder compilers share.

The generated source only ever contains the names of our own classes and fields; no
value from a peer becomes part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from mcpwire.types._codec.base import UNSET, factory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.types._codec.base import WireType

    Resolve: TypeAlias = Callable[[type[WireType]], Callable[[Any], Any]]

__all__ = ["Writer"]


def _plant(
    place: dict[Any, Any], key: Any, cls: type[WireType], resolve: Resolve
) -> None:
    """Put a function at a place that compiles the real one when it is first called.

    The real one then takes its place, so later calls are direct.
    """

    def compile_first(value: Any) -> Any:
        function = place[key] = resolve(cls)
        return function(value)

    place[key] = compile_first


class Writer:
    """The source of one function and the names it uses."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = {"UNSET": UNSET, **names}
        self.depth = 0
        self._lines: list[str] = []
        self._count = 0

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self.depth + text)

    def block(self, head: str, body: Iterable[str]) -> None:
        """Add a head and its body, one step deeper."""
        self.line(head)
        self.depth += 1
        for text in body:
            self.line(text)
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a variable name that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, value: Any) -> str:
        """Make a value available to the source and return its name there."""
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def stub(self, prefix: str, cls: type[WireType], resolve: Resolve) -> str:
        """Bind a function that compiles a type's function on the first call."""
        name = self.fresh(prefix)
        _plant(self.names, name, cls, resolve)
        return name

    def table(
        self, prefix: str, members: Mapping[Any, type[WireType]], resolve: Resolve
    ) -> str:
        """Bind a table of such functions.

        It is a plain dict with every key from the start: Python looks those up faster
        than others, and no key of a peer's can enter.
        """
        table: dict[Any, Any] = {}
        for key, cls in members.items():
            _plant(table, key, cls, resolve)
        return self.bind(prefix, table)

    def default(self, default: Any) -> str:
        """Return an expression that makes a default."""
        factory = factory_of(default)
        if factory is not None:
            return f"{self.bind('make', factory)}()"
        return "UNSET" if default is UNSET else repr(default)

    def build(self, name: str, label: str) -> Any:
        """Compile the source and return its function."""
        source = "\n".join(self._lines)
        exec(compile(source, f"<mcpwire {label}>", "exec"), self.names)  # noqa: S102 - straight-line code is what makes a decode cost 1 us; it holds our names only
        return self.names[name]
