"""The header fields of a request, decoded when somebody looks at them.

Most requests of a client have the head of the one before, of which two or three fields
are looked at: to decode all of them would be most of what a head costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

__all__ = ["Headers", "Shape", "ShownFields"]

_PADDING = " \t"


class Shape:
    """Which fields a head has, each once and by its name in lower case.

    Args:
        names: Their names, in their order.

    Attributes:
        places: Where each of them stands.
    """

    __slots__ = ("places",)

    def __init__(self, names: tuple[bytes, ...]) -> None:
        self.places = {name.decode("latin-1"): at for at, name in enumerate(names)}


class Headers:
    """The header fields of a request; names in lower case.

    Args:
        raw: The fields as they came.
        shape: Which they are, where that is known.
        values: Their values, where it is.

    Attributes:
        shape: As given.
        values: As given.
    """

    __slots__ = ("_joined", "_raw", "_repeated", "shape", "values")

    def __init__(
        self,
        raw: Iterable[tuple[bytes, bytes]],
        shape: Shape | None = None,
        values: tuple[bytes, ...] = (),
    ) -> None:
        self._raw = raw
        self.shape = shape
        self.values = values
        self._joined: dict[str, str] | None = None
        self._repeated: dict[str, list[str]] | None = None

    @property
    def joined(self) -> dict[str, str]:
        """Each field's value.

        Those of one that came repeatedly are joined by ``", "`` (RFC 9110, 5.3).
        """
        return self._read() if self._joined is None else self._joined

    def _read(self) -> dict[str, str]:
        joined: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        for raw_name, raw_value in self._raw:
            name = raw_name.decode("latin-1").lower()
            value = raw_value.decode("latin-1").strip(_PADDING)
            if name in joined:
                repeated.setdefault(name, [joined[name]]).append(value)
                value = f"{joined[name]}, {value}"
            joined[name] = value
        self._joined, self._repeated = joined, repeated
        return joined

    def get(self, name: str) -> str | None:
        """Return a field's value, or ``None`` where it did not come."""
        shape = self.shape
        if shape is None or self._joined is not None:
            return self.joined.get(name)
        at = shape.places.get(name)
        return None if at is None else self.values[at].decode("latin-1").strip(_PADDING)

    def all(self, name: str) -> list[str]:
        """Return each value of a field that may have come several times."""
        value = self.get(name)
        if value is None:
            return []
        return list((self._repeated or {}).get(name, (value,)))

    def repeats(self, name: str) -> bool:
        """Tell whether a field came more than once."""
        if self.shape is None and self._repeated is None:
            self._read()
        return bool(self._repeated) and name in (self._repeated or ())


class ShownFields(Mapping[str, str]):
    """What handlers may see of a request's head, decoded when one looks.

    Args:
        headers: All of it.
        hidden: The names of fields that prove something to us, and to nobody else.
    """

    __slots__ = ("_fields", "_headers", "_hidden")

    def __init__(self, headers: Headers, hidden: Collection[str]) -> None:
        self._headers = headers
        self._hidden = hidden
        self._fields: dict[str, str] | None = None

    def _shown(self) -> dict[str, str]:
        if self._fields is None:
            fields, hidden = self._headers.joined, self._hidden
            self._fields = {k: v for k, v in fields.items() if k not in hidden}
        return self._fields

    def __getitem__(self, name: str) -> str:
        """Return the value of a field by its name in lower case."""
        return self._shown()[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._shown())

    def __len__(self) -> int:
        """Return how many fields there are."""
        return len(self._shown())

    def __repr__(self) -> str:
        """Return them as those of a dict."""
        return repr(self._shown())
