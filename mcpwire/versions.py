"""The revisions of the protocol, in order.

Code reads the properties of a `Revision` and does not compare version strings.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable


class Era(Enum):
    """How a connection keeps its state (2026-07-28 basic/versioning, Terminology)."""

    SESSION = "session"
    """Legacy revisions: `initialize` opens a session with one version."""

    STATELESS = "stateless"
    """Modern revisions: each request carries version and capabilities."""


@attrs.frozen(order=True)
class Revision:
    """One revision of the protocol; ordered by age."""

    name: str
    """The date that is its name on the wire."""

    era: Era = attrs.field(order=False)

    receives_batches: bool = attrs.field(default=False, kw_only=True, order=False)
    """Whether JSON-RPC batches must be received (2025-03-26 only)."""

    errors_without_id: bool = attrs.field(default=False, kw_only=True, order=False)
    """Whether an error response may omit an id that could not be read."""

    def __str__(self) -> str:
        """Return the name on the wire."""
        return self.name


REVISIONS: Final[tuple[Revision, ...]] = (
    Revision("2024-11-05", Era.SESSION),
    Revision("2025-03-26", Era.SESSION, receives_batches=True),
    Revision("2025-06-18", Era.SESSION),
    Revision("2025-11-25", Era.SESSION, errors_without_id=True),
    Revision("2026-07-28", Era.STATELESS, errors_without_id=True),
)
"""All revisions, oldest first."""

LATEST: Final = REVISIONS[-1]
LATEST_SESSION: Final = next(r for r in reversed(REVISIONS) if r.era is Era.SESSION)

_BY_NAME: Final = {revision.name: revision for revision in REVISIONS}


def find_revision(name: object) -> Revision | None:
    """Return the revision with that name on the wire, or ``None``."""
    return _BY_NAME.get(name) if type(name) is str else None


def parse_revisions(values: Iterable[Revision | str]) -> tuple[Revision, ...]:
    """Return the revisions of a list of revisions or names.

    Raises:
        ValueError: One of them is unknown, or it is not a list.
    """
    if isinstance(values, str):
        raise ValueError(f"revisions takes a list, got {values!r}")
    revisions = []
    for value in values:
        revision = value if isinstance(value, Revision) else find_revision(value)
        if revision is None:
            known = ", ".join(_BY_NAME)
            raise ValueError(f"revisions takes any of {known}, got {value!r}")
        revisions.append(revision)
    return tuple(revisions)


def revisions_of(era: Era) -> tuple[Revision, ...]:
    """Return the revisions of an era, newest first."""
    return tuple(r for r in reversed(REVISIONS) if r.era is era)
