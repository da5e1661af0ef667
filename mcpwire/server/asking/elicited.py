"""What came of asking the client's user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from mcpwire.types.elicitation import ElicitAction

__all__ = ["Elicited"]

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Elicited(Generic[T]):
    """The user's answer to a form, or to the wish to visit a URL.

    Only what was accepted has a content; users may always say no, or nothing
    (2025-11-25 client/elicitation, "Response Actions").
    """

    action: ElicitAction
    """``"accept"``, ``"decline"`` or ``"cancel"``."""

    content: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The fields of an accepted form, as they came."""

    value: T | None = attrs.field(default=None, repr=False)
    """The same as the type that was asked for; of a plain schema, the content.

    None unless it was accepted: type checkers follow ``if answer.value is None``.
    """

    elicitation_id: str | None = None
    """What `Context.elicitation_complete` takes (2025-11-25, for URLs only)."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed. To visit a URL, that is: not that it is done."""
        return self.action == "accept"
