"""Who owns a link, and what single messages have for themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from mcpwire.errors import TransportError

    Fields = tuple[tuple[str, str], ...]

__all__ = ["LinkOwner", "OwnFields"]

OWN_FIELDS_KEPT: Final = 1_024
"""Calls whose own fields are remembered, in case they are cancelled."""


class LinkOwner(Protocol):
    """Who has calls, and is told. Nothing here awaits, blocks or raises."""

    def endpoint_known(self) -> None:
        """Messages can be sent."""

    def lines_came(self, lines: bytes) -> None:
        """Take messages, a line each."""

    def has_left(self, size: int) -> None:
        """Count bytes that do not wait any more."""

    def is_waiting(self, id: int) -> bool:
        """Tell whether an answer to that request is waited for."""

    def fields_of(self, line: bytes, id: int | None) -> Fields:
        """Return the fields that one message has for itself.

        The id is that of the request that it is, or cancels.
        """

    def post_failed(self, id: int, error: Exception) -> None:
        """End a call: its request was not accepted."""

    def link_lost(self, error: TransportError, cause: BaseException | None) -> None:
        """Nothing more will come."""


class OwnFields:
    """The fields of single messages; those of a call go with its cancelling too."""

    def __init__(self) -> None:
        self._of_lines: dict[bytes, Fields] = {}
        self._of_calls: dict[int, Fields] = {}

    def keep(self, key: int | bytes, fields: Fields) -> None:
        """Remember the fields of a request by its id, of anything else by its line."""
        if type(key) is bytes:
            self._of_lines[key] = fields
            return
        assert type(key) is int
        self._of_calls[key] = fields
        if len(self._of_calls) > OWN_FIELDS_KEPT:
            del self._of_calls[next(iter(self._of_calls))]

    def drop(self, key: int | bytes) -> None:
        """Forget the fields of what did not leave: another may get its id."""
        if type(key) is bytes:
            self._of_lines.pop(key, None)
        else:
            assert type(key) is int
            self._of_calls.pop(key, None)

    def find(self, line: bytes, id: int | None) -> Fields:
        """Return the fields of a message that leaves."""
        if not self._of_lines and not self._of_calls:
            return ()
        fields = self._of_lines.pop(line, None)
        if fields is None and id is not None:
            fields = self._of_calls.get(id)
        return fields or ()
