"""A tool under another name, with other words and other arguments.

What a model sees is the outside of a tool, what its server gets is the inside. Only the
top level of a schema's ``properties`` and ``required`` is ever changed; every other
keyword stays as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.tools.rules import as_patterns

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ToolTransform", "check_arguments", "object_schema", "without"]

EMPTY_SCHEMA: Final = {"type": "object", "properties": {}}

KINDS: Final = {
    list: "an array",
    tuple: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
"""What JSON calls a value that is no object."""


def object_schema(schema: Any) -> dict[str, Any]:
    """Return a tool's input schema; an empty one where it has none."""
    return schema if isinstance(schema, dict) and schema else dict(EMPTY_SCHEMA)


def check_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return a tool's arguments as a dict of one's own; ``None``: there are none.

    Raises:
        LocalProtocolError: They are no object; names what they are.
    """
    from collections.abc import Mapping

    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        kind = KINDS.get(type(arguments), type(arguments).__name__)
        raise LocalProtocolError(f"arguments must be an object or null, got {kind}")
    for key in arguments:
        if not isinstance(key, str):
            raise LocalProtocolError(f"arguments must have string keys, got {key!r}")
    return dict(arguments)


def without(
    arguments: dict[str, Any] | None, names: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return the arguments without those of these names."""
    if arguments is None or not names:
        return arguments
    return {key: value for key, value in arguments.items() if key not in names}


@attrs.frozen(kw_only=True)
class ToolTransform:
    """How a tool looks from outside.

    In `hide`, `fixed` and `defaults` arguments have the names that the server gave
    them. What is hidden or fixed is refused where a caller gives it all the same.

    Raises:
        ValueError: Two of the changes contradict each other; names the argument.
    """

    name: str | None = None
    """What stands for the tool's own name in the template of the names."""

    title: str | None = None
    description: str | None = None

    hide: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    """Arguments that are not offered, and not sent."""

    fixed: Mapping[str, Any] = attrs.field(factory=dict, converter=dict)
    """Arguments that are not offered, and always sent like this."""

    rename: Mapping[str, str] = attrs.field(factory=dict, converter=dict)
    """The name outside to the one inside."""

    defaults: Mapping[str, Any] = attrs.field(factory=dict, converter=dict)
    """What is sent for arguments that a caller leaves out."""

    def __attrs_post_init__(self) -> None:
        """Refuse what can have no meaning."""
        inside = list(self.rename.values())
        never = {*self.hide, *self.fixed}
        for problem, names in (
            ("both hidden and fixed", set(self.hide) & set(self.fixed)),
            ("the inside of two names", {n for n in inside if inside.count(n) > 1}),
            ("not offered and yet renamed", never & set(inside)),
            ("not offered and yet a default", never & set(self.defaults)),
        ):
            if names:
                raise ValueError(f"the argument {min(names)!r} is {problem}")

    @property
    def keeps_arguments(self) -> bool:
        """Whether the arguments stay as they are."""
        return not (self.hide or self.fixed or self.rename or self.defaults)

    def outside(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema that a caller sees."""
        if self.keeps_arguments:
            return schema
        outer = {inner: outer for outer, inner in self.rename.items()}
        properties = schema.get("properties")
        required = schema.get("required")
        changed = dict(schema)
        if isinstance(properties, dict):
            changed["properties"] = {
                outer.get(name, name): self._defaulted(name, property_)
                for name, property_ in properties.items()
                if not self._is_gone(name) and not self._is_covered(name)
            }
        if isinstance(required, list):
            changed["required"] = [
                outer.get(name, name)
                for name in required
                if not self._is_gone(name)
                and not self._is_covered(name)
                and name not in self.defaults
            ]
        return changed

    def inside(self, arguments: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return what the server gets.

        Raises:
            LocalProtocolError: An argument is not one of those offered.
        """
        if self.keeps_arguments:
            return arguments
        refused = {*self.hide, *self.fixed, *self.rename.values()} - set(self.rename)
        sent = dict(self.defaults)
        for name, value in (arguments or {}).items():
            if name in refused:
                raise LocalProtocolError(f"the tool takes no argument {name!r}")
            sent[self.rename.get(name, name)] = value
        sent |= self.fixed
        return sent if sent or arguments is not None else None

    def _is_gone(self, name: Any) -> bool:
        return name in self.hide or name in self.fixed

    def _is_covered(self, name: Any) -> bool:
        """Tell whether its name outside is another argument's."""
        return name in self.rename and name not in self.rename.values()

    def _defaulted(self, name: str, property_: Any) -> Any:
        if name not in self.defaults or not isinstance(property_, dict):
            return property_
        return {**property_, "default": self.defaults[name]}
