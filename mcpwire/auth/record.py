"""What is stored as text: one JSON object per server, profile and kind of grant.

What is read back is checked as if a stranger had written it: a file may be old, half of
it, or edited by hand. Whatever does not fit is as good as nothing stored.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs

from mcpwire.auth.model import Pending, Record, Tokens
from mcpwire.wire.json import JSONDecodeError, encode, loads

__all__ = [
    "credential_key",
    "dump",
    "dump_pending",
    "load",
    "load_pending",
    "pending_key",
]

T = TypeVar("T")

FORMAT: Final = 1
"""Of what is stored; another one is as good as nothing stored."""

_NEVER_EMPTY: Final = frozenset(
    {"access_token", "client_id", "issuer", "refresh_token", "state", "verifier"}
)


def credential_key(server: str, profile: str, grant: str) -> str:
    """Return the name under which the tokens for a server are stored.

    Accounts of one user with one server are told apart by `profile`, and ways to get
    tokens by the name of the grant. Only the profile may hold a space.
    """
    return f"{server} {grant} {profile}"


def pending_key(server: str, profile: str, grant: str) -> str:
    """Return the name under which a login that was begun is stored.

    It is no credential's name, whatever the profile.
    """
    return credential_key(server, profile, f"{grant}:pending")


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
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            return None
        built: T = _build(kind, stored)
    except (JSONDecodeError, _Misfit):
        return None
    return built


class _Misfit(Exception):
    """What is stored is not what it should be."""


def _build(kind: Any, stored: Any) -> Any:
    """Return an object of that class.

    Raises:
        _Misfit: It is none.
    """
    if type(stored) is not dict:
        raise _Misfit
    members = {}
    for name, (annotation, is_needed) in _members(kind).items():
        if name in stored:
            value = _read(annotation, stored[name])
            if value == "" and name in _NEVER_EMPTY:
                raise _Misfit
            members[name] = value
        elif is_needed:  # what is None is not written
            members[name] = _read(annotation, None)
    made = kind(**members)
    check = _CHECKS.get(kind)
    if check is not None and not check(made):
        raise _Misfit
    return made


@cache
def _members(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Return the type of each member of a class, and whether it has no default."""
    types = get_type_hints(kind)
    return {
        field.name: (types[field.name], field.default is attrs.NOTHING)
        for field in attrs.fields(kind)
    }


def _read(annotation: Any, value: Any) -> Any:
    """Return a value as a member of that type.

    Raises:
        _Misfit: It is none.
    """
    kinds = get_args(annotation)
    if NoneType in kinds:
        if value is None:
            return None
        [annotation] = [kind for kind in kinds if kind is not NoneType]
    origin = get_origin(annotation) or annotation
    if attrs.has(origin):
        return _build(origin, value)
    if origin is Literal:
        fits = value in get_args(annotation)
    elif origin is tuple:
        fits = type(value) is list and all(type(item) is str for item in value)
        value = tuple(value) if fits else None
    elif origin is float:
        fits = type(value) in {int, float}
    else:
        fits = type(value) is origin
    if not fits:
        raise _Misfit
    return value


def _is_whole(record: Record) -> bool:
    """Tell whether all of it belongs to the issuer that it names, and a key to use."""
    identity, tokens = record.identity, record.tokens
    if identity.issuer is None and identity.client_secret is not None:
        return False
    if tokens is not None and tokens.token_type == "DPoP" and record.dpop_key is None:  # noqa: S105 - a type of token
        return False
    return {record.metadata.issuer, identity.issuer or record.issuer} == {record.issuer}


def _can_travel(tokens: Tokens) -> bool:
    """Tell whether the token can stand in a header (RFC 6750 section 2.1)."""
    token = tokens.access_token
    return token.isascii() and token.isprintable() and " " not in token


_CHECKS: Final[dict[type[Any], Any]] = {
    Record: _is_whole,
    Tokens: _can_travel,
}
