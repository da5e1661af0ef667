"""Fingerprints of accepted tools, kept in a file; changed tools are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.tools.rules import first_match
from mcpwire.types import encode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from mcpwire.types import Tool

VERSION: Final = 1


class _HasFingerprints(Protocol):
    def fingerprints(self) -> dict[str, str]: ...


class ToolLock:
    """The fingerprints of tools at the time they were accepted.

    As the option `lock` of a tool set it hides and refuses tools that have changed.

    Args:
        fingerprints: The fingerprints by ``server/tool``.
        refuse_added: Whether tools without a fingerprint are refused, too.
    """

    def __init__(
        self,
        fingerprints: Mapping[str, str] | None = None,
        *,
        refuse_added: bool = False,
    ) -> None:
        self.fingerprints: dict[str, str] = dict(fingerprints or {})
        self.refuse_added = refuse_added

    @classmethod
    def of(cls, tools: _HasFingerprints, *, refuse_added: bool = False) -> Self:
        """Return a lock that accepts these tools as they are now."""
        return cls(tools.fingerprints(), refuse_added=refuse_added)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a lock from a file.

        Raises:
            OSError: The file cannot be read.
            LocalProtocolError: It is not a tool lock of a known version.
        """
        try:
            document: Any = json.loads(Path(path).read_text(encoding="utf-8"))
            tools = {str(key): str(value) for key, value in document["tools"].items()}
            is_known_version = document["version"] == VERSION
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LocalProtocolError(
                f"{os.fspath(path)!r} is not a tool lock"
            ) from error
        if not is_known_version:
            raise LocalProtocolError(
                f"{os.fspath(path)!r} is a tool lock of version {document['version']!r}"
            )
        return cls(tools, refuse_added=bool(document.get("refuse_added", False)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lock to a file atomically.

        Raises:
            OSError: The file cannot be written.
        """
        text = json.dumps(
            {
                "version": VERSION,
                "refuse_added": self.refuse_added,
                "tools": dict(sorted(self.fingerprints.items())),
            },
            indent=2,
        )
        temporary = Path(f"{os.fspath(path)}.new")
        temporary.write_text(f"{text}\n", encoding="utf-8")
        temporary.replace(path)

    def check(self, tools: _HasFingerprints) -> Differences:
        """Return the differences from the accepted tools; false without any."""
        accepted, current = self.fingerprints, tools.fingerprints()
        changed = (k for k in current if accepted.get(k, current[k]) != current[k])
        return Differences(
            changed=tuple(sorted(changed)),
            added=tuple(sorted(current.keys() - accepted.keys())),
            removed=tuple(sorted(accepted.keys() - current.keys())),
        )

    def accept(self, fingerprints: Mapping[str, str], *patterns: str) -> None:
        """Accept the current fingerprints, all or those that a pattern matches.

        `ToolSet.accept` does it for a tool set.
        """
        if not patterns:
            self.fingerprints = dict(fingerprints)
            return
        for key, value in fingerprints.items():
            if first_match(patterns, (key,)) is not None:
                self.fingerprints[key] = value

    def refusal(self, key: str, fingerprint: str) -> str | None:
        """Return why a tool is refused, or ``None``."""
        accepted = self.fingerprints.get(key)
        if accepted is None:
            return "lock: not accepted yet" if self.refuse_added else None
        return None if accepted == fingerprint else "lock: changed since accepted"

    def __repr__(self) -> str:
        return f"<ToolLock of {len(self.fingerprints)} tools>"


HASHED_KEYS: Final = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
)


@attrs.frozen
class Differences:
    """The differences from the accepted tools: sorted ``server/tool`` keys."""

    changed: tuple[str, ...] = ()
    """Tools with another fingerprint."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    def __str__(self) -> str:
        kinds = attrs.asdict(self).items()
        return "\n".join(f"{kind} {key}" for kind, keys in kinds for key in keys)


def fingerprint(tool: Tool) -> str:
    """Return the hash of a tool's definition: ``sha256:`` and 64 digits."""
    import hashlib

    definition = encode(tool)
    text = _canonical_json(
        {key: definition[key] for key in HASHED_KEYS if key in definition}
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, as an object's members have no order.

    It does not recurse: a schema may be nested as deeply as messages are, and must not
    exhaust the caller's stack.
    """
    parts: list[str] = []
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _JsonText):
            parts.append(item)
        elif isinstance(item, dict):
            stack.append(_JsonText("}"))
            for index, key in enumerate(sorted(item, reverse=True), 1 - len(item)):
                comma = "," if index else ""
                stack += (item[key], _JsonText(f"{comma}{json.dumps(key)}:"))
            stack.append(_JsonText("{"))
        elif isinstance(item, (list, tuple)):
            stack.append(_JsonText("]"))
            for index, member in enumerate(reversed(item), 1 - len(item)):
                stack += (member, _JsonText("," if index else ""))
            stack.append(_JsonText("["))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


class _JsonText(str):
    """A text that is JSON already."""

    __slots__ = ()
