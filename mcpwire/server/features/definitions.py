"""What a list shows of a component, at each revision.

A definition is written once, as the newest revision has it. Members that an older one
does not know are left out there: which these are, the wire types say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.types import encode
from mcpwire.types._base import WireType
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.versions import Revision

    Kind = str
    """``"tool"``, ``"resource"``, ``"template"`` or ``"prompt"``."""

__all__ = ["compose", "object_of", "trim"]

_TYPES: Final = {
    "prompt": "Prompt",
    "resource": "Resource",
    "template": "ResourceTemplate",
    "tool": "Tool",
}


def trim(
    kind: Kind, definition: Mapping[str, Any], revision: Revision
) -> dict[str, Any]:
    """Return a definition without what a revision does not know.

    Raises:
        InvalidMessage: It is no definition at all; names the member.
    """
    from mcpwire import types

    cls = getattr(types, _TYPES[kind])
    shown: dict[str, Any] = encode(types.decode(cls, dict(definition)), revision)
    # 2025-11-25 schema, Tool: the root of an output schema is an object there.
    output = shown.get("outputSchema")
    if output and revision <= LATEST_SESSION and output.get("type") != "object":
        del shown["outputSchema"]
    return shown


def compose(
    required: Mapping[str, Any],
    *,
    icons: Iterable[Any] = (),
    annotations: Any = None,
    meta: Mapping[str, Any] | None = None,
    **optional: Any,
) -> dict[str, Any]:
    """Return a definition: what it must have, and of the rest what is given."""
    definition = dict(required)
    definition.update((k, v) for k, v in optional.items() if v is not None)
    shown = [_icon(icon) for icon in icons]
    if shown:
        definition["icons"] = shown
    if annotations is not None:
        definition["annotations"] = object_of(annotations)
    if meta:
        definition["_meta"] = dict(meta)
    return definition


def _icon(icon: Any) -> dict[str, Any]:
    return {"src": icon} if isinstance(icon, str) else object_of(icon)


def object_of(value: Any) -> dict[str, Any]:
    """Return the JSON object of a wire type, or of a mapping."""
    if isinstance(value, WireType):
        return encode(value)
    return dict(value)
