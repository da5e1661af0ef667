"""Tools as they were accepted, kept in a file; what changes is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import LocalProtocolError
from mcpwire.tools.fingerprints import compare
from mcpwire.tools.rules import first_match

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from mcpwire.tools.fingerprints import Differences

__all__ = ["ToolLock"]

VERSION: Final = 1


class _HasFingerprints(Protocol):
    def fingerprints(self) -> dict[str, str]: ...


class ToolLock:
    """What tools were when somebody accepted them.

    Given to a tool set as `lock`, it hides and refuses those that have changed since.

    Args:
        fingerprints: By ``server/tool``.
        refuse_added: Whether tools that were not there then are refused, too.
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
            LocalProtocolError: It is no lock of ours.
        """
        try:
            found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
            tools = {str(key): str(value) for key, value in found["tools"].items()}
            is_ours = found["version"] == VERSION
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LocalProtocolError(f"{os.fspath(path)!r} is no tool lock") from error
        if not is_ours:
            raise LocalProtocolError(
                f"{os.fspath(path)!r} is a tool lock of version {found['version']!r}"
            )
        return cls(tools, refuse_added=bool(found.get("refuse_added", False)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lock to a file, whole or not at all.

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
        beside = Path(f"{os.fspath(path)}.new")
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(path)

    def check(self, tools: _HasFingerprints) -> Differences:
        """Return what is not as it was accepted; false where there is nothing."""
        return compare(self.fingerprints, tools.fingerprints())

    def accept(self, fingerprints: Mapping[str, str], *patterns: str) -> None:
        """Take these tools as they are now; without patterns all that there are.

        `ToolSet.accept` does it for a set.
        """
        if not patterns:
            self.fingerprints = dict(fingerprints)
            return
        for key, value in fingerprints.items():
            if first_match(patterns, (key,)) is not None:
                self.fingerprints[key] = value

    def refusal(self, key: str, fingerprint: str) -> str | None:
        """Return why a tool is refused; ``None``: it is not."""
        accepted = self.fingerprints.get(key)
        if accepted is None:
            return "lock: not accepted yet" if self.refuse_added else None
        return None if accepted == fingerprint else "lock: changed since accepted"

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<ToolLock of {len(self.fingerprints)} tools>"
