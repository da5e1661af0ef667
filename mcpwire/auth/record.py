"""What is stored as text: one JSON object per server, profile and kind of grant."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import attrs

from mcpwire.auth.model import (
    Identity,
    Pending,
    Record,
    ServerMetadata,
    Tokens,
)
from mcpwire.wire.json import JSONDecodeError, encode, loads

__all__ = ["credential_key", "dump", "dump_pending", "load", "load_pending"]

T = TypeVar("T")

FORMAT: Final = 1
"""Of what is stored; another one is as good as nothing stored."""

_PARTS: Final[dict[str, type[Any]]] = {
    "metadata": ServerMetadata,
    "identity": Identity,
    "tokens": Tokens,
    "record": Record,
}
"""Members that are objects of a class of their own."""

_TEXTS: Final = frozenset({"client_id", "issuer", "access_token", "state", "verifier"})
"""Members that are no good when they are empty."""

_TEXT_TYPES: Final = ("str", "Literal", "ClientAuth")
"""Words of annotations whose values are text."""


def credential_key(server: str, profile: str, grant: str) -> str:
    """Return the name under which the tokens for a server are stored.

    Accounts of one user with one server are told apart by `profile`, and ways to get
    tokens by the name of the grant.
    """
    return f"{server} {grant} {profile}"


def dump(record: Record) -> bytes:
    """Return a record as it is stored."""
    return _dump(record)


def dump_pending(pending: Pending) -> bytes:
    """Return a login that somebody else finishes as it is stored."""
    return _dump(pending)


def load(data: bytes) -> Record | None:
    """Return what is stored; ``None`` where it is nothing that can be used.

    A record that does not say whose it is would be good for anybody, so it is not used.
    """
    return _load(Record, data)


def load_pending(data: bytes) -> Pending | None:
    """Return the login that is stored; ``None`` where it is nothing to go on with."""
    return _load(Pending, data)


def _dump(value: Any) -> bytes:
    stored = attrs.asdict(value, filter=lambda _, member: member is not None)
    return encode({"format": FORMAT, **stored})


def _load(kind: type[T], data: bytes) -> T | None:
    try:
        stored = loads(data)
    except JSONDecodeError:
        return None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        return None
    try:
        return _build(kind, stored)
    except (TypeError, ValueError):
        return None


def _build(kind: type[T], stored: Any) -> T:
    """Return an object of that class.

    Raises:
        TypeError: A member is missing or of another type.
        ValueError: A member that must not be is empty.
    """
    if not isinstance(stored, dict):
        raise TypeError(kind.__name__)
    members = {}
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # each is an attrs class
        if field.name not in stored:
            continue
        value = stored[field.name]
        if field.name in _PARTS:
            value = _build(_PARTS[field.name], value)
        elif isinstance(value, list):
            if not all(isinstance(item, str) for item in value):
                raise TypeError(field.name)
            value = tuple(value)
        elif not _fits(str(field.type), value):
            raise TypeError(field.name)
        if field.name in _TEXTS and not value:
            raise ValueError(field.name)
        members[field.name] = value
    return kind(**members)


def _fits(annotation: str, value: Any) -> bool:
    """Tell whether a plain value is of the type that the class names."""
    if isinstance(value, bool):
        return annotation == "bool"
    if isinstance(value, str):
        texts = annotation.replace("tuple[str", "")
        return any(word in texts for word in _TEXT_TYPES)
    if isinstance(value, int | float):
        return "float" in annotation
    return isinstance(value, dict) and annotation.startswith("dict")
