"""Names as a vendor takes them, and the way back; never by taking one apart."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.protocol.json_schema import properties_of, required_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.types import JsonObject

__all__ = ["NameRule", "VendorNames", "renamed_members"]

_HASH: Final = 8
"""Characters of a hash that tells two names apart."""


@attrs.frozen
class NameRule:
    """What a vendor takes for a name."""

    charset: str = "A-Za-z0-9_-"
    """The inside of a regular expression's brackets."""

    first: str = "A-Za-z0-9_-"
    """What the first character may be."""

    longest: int = 64


class VendorNames:
    """Our names and a vendor's, each once.

    A name that the vendor takes stays; any other is spelled anew, with a hash of
    itself at its end, and so is the same whatever stands beside it.
    """

    def __init__(self, names: Iterable[str], rule: NameRule) -> None:
        found = list(dict.fromkeys(names))
        self._ours = {name: name for name in found if _spelled(name, rule) == name}
        for name in found:
            theirs, salt = _spelled(name, rule), 0
            while self._ours.get(theirs, name) != name:  # made to look like another
                salt += 1
                theirs = _spelled(name, rule, salt)
            self._ours[theirs] = name
        self._theirs = {name: theirs for theirs, name in self._ours.items()}

    def of(self, name: str) -> str:
        """Return the vendor's name of one of our tools."""
        return self._theirs[name]

    def find(self, theirs: str) -> str | None:
        """Return the name of ours that the vendor's stands for."""
        return self._ours.get(theirs)


def renamed_members(
    schema: JsonObject, rule: NameRule
) -> tuple[JsonObject, VendorNames | None]:
    """Return an object's schema with members that the vendor takes; their names.

    Those are ``None`` where each member is taken as it is, as nearly always.
    """
    properties = properties_of(schema)
    names = VendorNames(properties, rule)
    if all(names.of(name) == name for name in properties):
        return schema, None
    renamed = {
        **schema,
        "properties": {names.of(name): one for name, one in properties.items()},
        "required": [
            names.of(name) for name in required_of(schema) if name in properties
        ],
    }
    return renamed, names


def _spelled(name: str, rule: NameRule, salt: int = 0) -> str:
    taken = re.sub(f"[^{rule.charset}]", "_", name)
    if not re.match(f"[{rule.first}]", taken):
        taken = f"_{taken}"
    if taken == name and len(name) <= rule.longest and not salt:
        return name
    source = f"{name}\n{salt}" if salt else name
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{taken[: rule.longest - _HASH - 1]}_{digest[:_HASH]}"
