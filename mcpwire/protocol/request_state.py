"""The memory of a call between its rounds, which the client keeps for us.

2026-07-28 basic/patterns/mrtr: `requestState` is the server's own, and the server MUST
treat what comes back as an attacker's. So it is signed, together with whom and what it
was made for, which is not in it and is worked out anew from the request::

    mcpwire1.<base64url of JSON>.<base64url of HMAC-SHA256(key, binding, JSON)>

It is signed and **not** encrypted: the client can read it. What it must not know
belongs in a store of the server's, with no more than a key to it in here.

Why a state is refused is not told apart, except that a genuine one is too old.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.wire.json import Json

    Owner: TypeAlias = tuple[str | None, str | None, str | None]
    """Who asks: issuer, client and subject, as far as they were proved."""

__all__ = [
    "MAX_STATE_BYTES",
    "NOBODY",
    "Answered",
    "CallState",
    "binding_of",
    "check_key",
    "mark_of",
    "seal",
    "unseal",
]

MAX_STATE_BYTES: Final = 1024 * 1024
"""How long a state may be; an answer of a model may hold an image."""

SHORTEST_KEY: Final = 16
"""Bytes of a key; RFC 2104, section 3, discourages less than the hash, 32."""

NOBODY: Final = (None, None, None)
"""The owner of requests that no principal is known for."""

_PREFIX: Final = "mcpwire1"
_DOMAIN: Final = b"mcpwire requestState 1\0"

_NOT_BOUND: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of params that differ from round to round."""


@attrs.frozen
class Answered:
    """An answer, and the mark of the question that it was given to."""

    mark: str
    answer: dict[str, Json] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class CallState:
    """What is known of a call from the rounds before."""

    round: int
    """How often the client was asked; from 1."""

    nonce: str
    """Told apart by it, where a state may be used once only."""

    expires_at: int
    """When it is too old, in seconds since 1970."""

    asked: Mapping[str, str] = attrs.field(factory=dict)
    """What was asked last: a mark of each question, by its key."""

    answers: Mapping[str, Answered] = attrs.field(factory=dict, repr=False)
    """What was answered before that, by key."""

    kept: Mapping[str, Json] = attrs.field(factory=dict, repr=False)
    """Values that were worked out once, by key."""


def check_key(key: object) -> bytes:
    """Return a key for `seal`.

    Raises:
        ValueError: It is no bytes, or too short to be secret.
    """
    if type(key) is not bytes or len(key) < SHORTEST_KEY:
        raise ValueError(
            f"a state key must be at least {SHORTEST_KEY} random bytes, such as "
            "secrets.token_bytes(32) makes"
        )
    return key


def binding_of(owner: Owner, method: str, params: Mapping[str, Json]) -> bytes:
    """Return what a state is bound to: who asks, for what, with which params.

    Of the params counts what the client repeats in each round, whatever the order of
    its members.

    Raises:
        InvalidParams: They are nested too deeply.
    """
    bound = {name: params[name] for name in params if name not in _NOT_BOUND}
    try:
        # Encoded once for its bound on depth, which `_ordered` then relies on.
        encode(bound)
        text = encode([*owner, method, _ordered(bound)])
    except LocalProtocolError as error:
        raise InvalidParams("the params are nested too deeply") from error
    return sha256(text).digest()


def mark_of(method: str, params: Mapping[str, Json], *, is_named: bool) -> str:
    """Return what tells a question from another one that has the same key.

    A key that the author chose stands for its question however that is worded; one
    that was only counted stands for no other text than it had.

    Raises:
        LocalProtocolError: The params have no JSON form.
    """
    if is_named:
        return method
    encode(params)  # for its bound on depth, as above
    return f"{method} {_spell(sha256(encode(_ordered(dict(params)))).digest()[:16])}"


def _ordered(value: Json) -> Json:
    if type(value) is dict:
        return {name: _ordered(value[name]) for name in sorted(value)}
    if type(value) is list:
        return [_ordered(item) for item in value]
    return value


def seal(state: CallState, binding: bytes, key: bytes) -> str:
    """Return a state as the client gets it.

    Raises:
        LocalProtocolError: It is too long, or something in it has no JSON form.
    """
    members = {
        "r": state.round,
        "n": state.nonce,
        "e": state.expires_at,
        "q": dict(state.asked),
        "a": {name: [one.mark, one.answer] for name, one in state.answers.items()},
        "k": dict(state.kept),
    }
    text = f"{_PREFIX}.{_spell(encode(members))}"
    sealed = f"{text}.{_sign(text, binding, key)}"
    if len(sealed) > MAX_STATE_BYTES:
        raise LocalProtocolError(
            f"the state of a call must have at most {MAX_STATE_BYTES} bytes, "
            f"got {len(sealed)}"
        )
    return sealed


def unseal(
    given: object, binding: bytes, keys: Sequence[bytes], now: float
) -> CallState:
    """Return the state that a client sent back.

    Args:
        given: The request's `requestState`.
        binding: What the request's `binding_of` is.
        keys: The keys that may have signed it.
        now: Seconds since 1970.

    Raises:
        InvalidParams: It is not ours, not this request's, or too old.
    """
    if type(given) is not str or len(given) > MAX_STATE_BYTES:
        raise _refused()
    text, _, signature = given.rpartition(".")
    claimed = signature.encode(errors="replace")
    signed = [
        compare_digest(_sign(text, binding, key).encode(), claimed) for key in keys
    ]
    if not any(signed) or not text.startswith(f"{_PREFIX}."):
        raise _refused()
    # From here on it is what `seal` made.
    members: dict[str, Any] = loads(_read(text.removeprefix(f"{_PREFIX}.")))
    if now >= members["e"]:
        raise InvalidParams("params.requestState is too old: make the call anew")
    return CallState(
        round=members["r"],
        nonce=members["n"],
        expires_at=members["e"],
        asked=members["q"],
        answers={name: Answered(*one) for name, one in members["a"].items()},
        kept=members["k"],
    )


def _refused() -> InvalidParams:
    return InvalidParams("params.requestState is not one that this request was given")


def _sign(text: str, binding: bytes, key: bytes) -> str:
    message = _DOMAIN + binding + text.encode(errors="replace")
    return _spell(hmac_digest(key, message, "sha256"))


def _spell(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _read(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
