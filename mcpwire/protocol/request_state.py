"""The state of a call between its input rounds, which the client stores for the server.

2026-07-28 basic/patterns/mrtr: `requestState` is opaque to the client, and the server
MUST treat a received state as untrusted. So it is signed, together with a binding that
it does not contain and that is computed again from each request: the owner, the method
and the params::

    mcpwire1.<base64url of JSON>.<base64url of HMAC-SHA256(key, binding, JSON)>

The state is signed but **not** encrypted: the client can read it. Keep secrets in a
store of the server, and put only their keys in the state.

All refusals have the same error, except the refusal of a genuine but expired state.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.wire.json import encode, encode_sorted, loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.wire.json import Json

    Owner: TypeAlias = tuple[str | None, str | None, str | None]
    """The sender of a request: issuer, client and subject, if authenticated."""

MAX_STATE_BYTES: Final = 1024 * 1024
"""Maximum length of a state; a message of a model may contain an image."""

MIN_KEY_BYTES: Final = 16
"""Minimum bytes of a key; RFC 2104, section 3, recommends the size of the hash, 32."""

ANONYMOUS: Final = (None, None, None)
"""The owner of unauthenticated requests."""

_PREFIX: Final = "mcpwire1"
_DOMAIN: Final = b"mcpwire requestState 1\0"

_UNBOUND_MEMBERS: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of params that differ from round to round."""


@attrs.frozen
class RecordedAnswer:
    """A response, and the digest of its input request."""

    digest: str
    answer: dict[str, Json] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class CallState:
    """The state of a call after its previous rounds; all mappings are by key."""

    round: int
    """The number of the round, from 1."""

    nonce: str
    """A unique value, if a state may be used only once."""

    expires_at: int
    """The time of expiry as a Unix time in seconds."""

    digests: Mapping[str, str] = attrs.field(factory=dict)
    """The digests of the input requests of the last round."""

    answers: Mapping[str, RecordedAnswer] = attrs.field(factory=dict, repr=False)
    """The responses of all rounds before."""

    stored: Mapping[str, Json] = attrs.field(factory=dict, repr=False)
    """Values of the handler that are computed only once."""


def check_key(key: object) -> bytes:
    """Validate a key for `seal`; raise `ValueError` if it is too short."""
    if type(key) is not bytes or len(key) < MIN_KEY_BYTES:
        raise ValueError(
            f"a state key must be at least {MIN_KEY_BYTES} random bytes, such as "
            "secrets.token_bytes(32) makes"
        )
    return key


def state_binding(owner: Owner, method: str, params: Mapping[str, Json]) -> bytes:
    """Return the binding of a state: a digest of owner, method and params.

    It contains the params that the client repeats in each round, in canonical order.
    """
    members = {name: params[name] for name in params if name not in _UNBOUND_MEMBERS}
    try:
        return sha256(encode_sorted([*owner, method, members])).digest()
    except LocalProtocolError as error:
        raise InvalidParams("the params are nested too deeply") from error


def request_digest(method: str, params: Mapping[str, Json], *, is_named: bool) -> str:
    """Return a digest that distinguishes input requests with the same key.

    A key that the author chose identifies the request regardless of its text; a
    numbered key identifies it only together with the text.
    """
    if is_named:
        return method
    digest = sha256(encode_sorted(dict(params))).digest()
    return f"{method} {_to_base64(digest[:16])}"


def seal(state: CallState, binding: bytes, key: bytes) -> str:
    """Encode and sign a state for the client, or raise `LocalProtocolError`."""
    members = {
        "r": state.round,
        "n": state.nonce,
        "e": state.expires_at,
        "q": dict(state.digests),
        "a": {
            name: [answer.digest, answer.answer]
            for name, answer in state.answers.items()
        },
        "k": dict(state.stored),
    }
    text = f"{_PREFIX}.{_to_base64(encode(members))}"
    sealed = f"{text}.{_sign(text, binding, key)}"
    if len(sealed) > MAX_STATE_BYTES:
        raise LocalProtocolError(
            f"the state of a call must have at most {MAX_STATE_BYTES} bytes, "
            f"got {len(sealed)}"
        )
    return sealed


def unseal(
    received: object, binding: bytes, keys: Sequence[bytes], now: float
) -> CallState:
    """Verify and decode a state of a client, or raise `InvalidParams`."""
    refusal = InvalidParams(
        "params.requestState is not one that this request was given"
    )
    if type(received) is not str or len(received) > MAX_STATE_BYTES:
        raise refusal
    text, _, signature = received.rpartition(".")
    received_signature = signature.encode(errors="replace")
    signed = [
        compare_digest(_sign(text, binding, key).encode(), received_signature)
        for key in keys
    ]
    if not any(signed) or not text.startswith(f"{_PREFIX}."):
        raise refusal
    # The signature is valid: the rest is the output of `seal`.
    data = text.removeprefix(f"{_PREFIX}.")
    members: dict[str, Any] = loads(urlsafe_b64decode(data + "=" * (-len(data) % 4)))
    if now >= members["e"]:
        raise InvalidParams(
            "params.requestState is too old: start a new call without it"
        )
    return CallState(
        round=members["r"],
        nonce=members["n"],
        expires_at=members["e"],
        digests=members["q"],
        answers={
            name: RecordedAnswer(*answer) for name, answer in members["a"].items()
        },
        stored=members["k"],
    )


def _sign(text: str, binding: bytes, key: bytes) -> str:
    message = _DOMAIN + binding + text.encode(errors="replace")
    return _to_base64(hmac_digest(key, message, "sha256"))


def _to_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
