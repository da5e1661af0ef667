"""What a tool was when somebody looked at it, so that it shows where it changed.

A server may describe a harmless tool until it has been accepted, and another one under
the same name later. A fingerprint covers what a model and a person decide by: name,
title, description, both schemas and the annotations.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.types import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.types import Tool

__all__ = ["Differences", "compare", "fingerprint"]

COVERED: Final = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
)


@attrs.frozen
class Differences:
    """How tools differ from those that were accepted, by ``server/tool``, sorted."""

    changed: tuple[str, ...] = ()
    """They are there, and are not what they were."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is any difference."""
        return bool(self.changed or self.added or self.removed)

    def __str__(self) -> str:
        """Return one line for each tool."""
        return "\n".join(
            f"{word} {key}"
            for word, keys in (
                ("changed", self.changed),
                ("added", self.added),
                ("removed", self.removed),
            )
            for key in keys
        )


def fingerprint(tool: Tool) -> str:
    """Return what stands for a tool's definition: ``sha256:`` and 64 digits."""
    import hashlib

    whole = encode(tool)
    text = _sorted({key: whole[key] for key in COVERED if key in whole})
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _sorted(value: Any) -> str:
    """Return JSON with sorted keys, as an object's members have no order.

    It does not recurse: a schema may be nested as deeply as messages are, and what one
    server says must not exhaust the caller's stack.
    """
    parts: list[str] = []
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, _Text):
            parts.append(item)
        elif isinstance(item, dict):
            left.append(_Text("}"))
            for at, key in enumerate(sorted(item, reverse=True), 1 - len(item)):
                comma = "," if at else ""
                left += (item[key], _Text(f"{comma}{json.dumps(key)}:"))
            left.append(_Text("{"))
        elif isinstance(item, (list, tuple)):
            left.append(_Text("]"))
            for at, member in enumerate(reversed(item), 1 - len(item)):
                left += (member, _Text("," if at else ""))
            left.append(_Text("["))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


class _Text(str):
    """What is JSON already."""

    __slots__ = ()


def compare(accepted: Mapping[str, str], found: Mapping[str, str]) -> Differences:
    """Compare fingerprints by ``server/tool``."""
    return Differences(
        changed=tuple(
            sorted(key for key in found if accepted.get(key, found[key]) != found[key])
        ),
        added=tuple(sorted(found.keys() - accepted.keys())),
        removed=tuple(sorted(accepted.keys() - found.keys())),
    )
