"""What a tool was when somebody looked at it, so that it shows where it changed.

A server may describe a harmless tool until it has been accepted, and another one under
the same name later. A fingerprint covers what a model and a person decide by: name,
title, description, both schemas and the annotations.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

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
    # Keys are sorted, as an object's members have no order.
    text = json.dumps(
        {key: whole[key] for key in COVERED if key in whole},
        sort_keys=True,
        separators=(",", ":"),
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def compare(accepted: Mapping[str, str], found: Mapping[str, str]) -> Differences:
    """Compare fingerprints by ``server/tool``."""
    return Differences(
        changed=tuple(
            sorted(key for key in found if accepted.get(key, found[key]) != found[key])
        ),
        added=tuple(sorted(found.keys() - accepted.keys())),
        removed=tuple(sorted(accepted.keys() - found.keys())),
    )
