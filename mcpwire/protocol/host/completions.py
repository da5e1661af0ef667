"""Which visits to URLs a server may still report as done (2025-11-25 only)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.errors import RPCError

__all__ = ["UrlElicitations"]

OPEN_MAX: Final = 1024
"""How many elicitations may be open before the oldest is forgotten."""


class UrlElicitations:
    """The URL elicitations of one client whose end is still to come.

    Only 2025-11-25 gives them ids and says when the user is done. What says so about
    an id that is unknown or finished is ignored (client/elicitation, "Completion
    Notifications": MUST).
    """

    def __init__(self, limit: int = OPEN_MAX) -> None:
        self._limit = limit
        # Changed by whoever reads and by whoever runs handlers, which may be two
        # threads: each method changes it by one indivisible step at a time.
        self._open: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def add(self, id: str) -> None:
        """Note an elicitation that reaches a handler."""
        self._open[id] = None
        if len(self._open) > self._limit:
            self._open.popitem(last=False)

    def add_required(self, error: RPCError) -> None:
        """Note the elicitations that a call failed for (-32042)."""
        data = error.data
        elicitations = data.get("elicitations") if isinstance(data, Mapping) else None
        for each in elicitations if isinstance(elicitations, list) else ():
            id = each.get("elicitationId") if isinstance(each, Mapping) else None
            if type(id) is str:
                self.add(id)

    def discard(self, id: str | None) -> None:
        """Forget an elicitation that the user did not agree to."""
        if id is not None:
            self._open.pop(id, None)

    def complete(self, params: Mapping[str, Any] | None) -> bool:
        """Tell whether a completion notification ends one that is open; then it has."""
        id = (params or {}).get("elicitationId")
        return type(id) is str and self._open.pop(id, id) is None
