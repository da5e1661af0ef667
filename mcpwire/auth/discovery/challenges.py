"""What a server says when it turns a request away: the ``WWW-Authenticate`` field.

Its grammar (RFC 9110 section 11.6.1) is a list of challenges, each of which may hold a
list of parameters with the same comma between them; several such fields make one. What
comes first in the text decides how the rest is read, so it is read from the left, and
only as far as it makes sense.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcpwire.auth.discovery.scopes import parse_scopes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Challenge", "Denial", "Scheme", "parse_challenges", "read_denial"]

Scheme: TypeAlias = Literal["bearer", "dpop"]
"""How a token is sent, in lower case."""


@attrs.frozen
class Challenge:
    """One way to authenticate that a server takes."""

    scheme: str
    """In lower case."""

    token68: str | None
    """What stands in place of parameters with schemes such as Negotiate."""

    params: Mapping[str, str]
    """By name in lower case; of several with one name, the first."""


# Possessive throughout: nothing that was read is read again, so time is linear.
_BETWEEN: Final = re.compile(r"[ \t,]*+")
_SPACE: Final = re.compile(r"[ \t]*+")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++")
_EQUALS: Final = re.compile(r"[ \t]*+=[ \t]*+")
_TOKEN68: Final = re.compile(r"([0-9A-Za-z\-._~+/]++=*+)[ \t]*+(?:,|\Z)")
_QUOTED: Final = re.compile(
    r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]++|\\[^\x00-\x08\x0a-\x1f\x7f])*+)"'
)
_ESCAPED: Final = re.compile(r"\\(.)")
# A token, and what else servers leave without quotes: URLs above all.
_UNQUOTED: Final = re.compile(r'[^\s",\\\x00-\x1f\x7f]*+')
_END_OF_ITEM: Final = re.compile(r"[ \t,]|\Z")


def parse_challenges(value: str) -> list[Challenge]:
    """Return the challenges of a ``WWW-Authenticate`` field, or of several joined.

    Never raises. A text that breaks off or loses its sense is read up to there. Commas
    too many, parameters without a comma between them, and URLs without quotes are
    understood all the same.
    """
    challenges: list[Challenge] = []
    params: dict[str, str] | None = None  # of the last challenge, where it takes some
    may_begin = True  # a challenge: only a comma, or nothing, stands before it
    position = _end(_BETWEEN, value, 0)
    while name := _TOKEN.match(value, position):
        equals = _EQUALS.match(value, name.end())
        if equals is not None:
            text, position = _read_param(value, equals.end())
            if params is None or text is None:
                break
            params.setdefault(name[0].lower(), text)
        elif may_begin and _END_OF_ITEM.match(value, name.end()):
            token68, position = _read_token68(value, name.end())
            challenge_params: dict[str, str] = {}
            challenges.append(Challenge(name[0].lower(), token68, challenge_params))
            params = challenge_params if token68 is None else None
        else:
            break
        start, position = position, _end(_BETWEEN, value, position)
        may_begin = "," in value[start:position]
    return challenges


def _end(pattern: re.Pattern[str], value: str, position: int) -> int:
    match = pattern.match(value, position)
    return position if match is None else match.end()


def _read_param(value: str, position: int) -> tuple[str | None, int]:
    """Return a parameter's value, and where it ends; ``None``: it makes no sense."""
    quoted = _QUOTED.match(value, position)
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted[1]), quoted.end()
    end = _end(_UNQUOTED, value, position)
    # A quotation mark that opens and never closes, for one.
    text = value[position:end] if _END_OF_ITEM.match(value, end) else None
    return text, end


def _read_token68(value: str, position: int) -> tuple[str | None, int]:
    """Return what follows a scheme in place of parameters, and where that ends."""
    start = _end(_SPACE, value, position)
    match = _TOKEN68.match(value, start)
    return (None, position) if match is None else (match[1], match.end(1))


@attrs.frozen
class Denial:
    """Why a server turned a request away, as far as it concerns tokens."""

    status: int

    scheme: Scheme | None = None
    """Of the challenge that says most; ``None``: there is none for tokens."""

    error: str | None = None
    """The code of RFC 6750 section 3.1 or RFC 9449, such as ``insufficient_scope``."""

    scopes: tuple[str, ...] | None = None
    """What the request needs."""

    resource_metadata: str | None = None
    """Where the resource describes itself, unchecked."""

    has_bearer: bool = False
    """Whether plain tokens are taken at all."""

    has_dpop: bool = False
    """Whether tokens that are bound to a key are taken."""

    dpop_nonce: str | None = None
    """What the next proof must hold (RFC 9449 section 9)."""


_SCHEMES: Final[Mapping[str, Scheme]] = {"bearer": "bearer", "dpop": "dpop"}
_TELLING: Final = frozenset({"error", "scope", "resource_metadata"})

# RFC 6750, 3 and RFC 9449, 8.1 have the same alphabets, one with the space.
_ERROR: Final = re.compile(r"[ !#-\[\]-~]{1,100}")
_NONCE: Final = re.compile(r"[!#-\[\]-~]+")


def read_denial(status: int, fields: Mapping[str, str]) -> Denial:
    """Return what the head of a 401, 403 or 400 says about tokens.

    Of several challenges for tokens, the one counts that says most, of those that say
    as much the first.

    Args:
        status: The HTTP status.
        fields: The head's fields, names in lower case, several of one name joined.
    """
    found = _for_tokens(fields)
    nonce = fields.get("dpop-nonce", "")
    denial = Denial(
        status,
        has_bearer=any(challenge.scheme == "bearer" for challenge in found),
        has_dpop=any(challenge.scheme == "dpop" for challenge in found),
        dpop_nonce=nonce if _NONCE.fullmatch(nonce) else None,
    )
    if not found:
        return denial
    best = max(found, key=lambda challenge: len(_TELLING & challenge.params.keys()))
    error = best.params.get("error", "")
    return attrs.evolve(
        denial,
        scheme=_SCHEMES[best.scheme],
        error=error if _ERROR.fullmatch(error) else None,
        scopes=parse_scopes(best.params.get("scope", "")) or None,
        resource_metadata=best.params.get("resource_metadata") or None,
    )


def _for_tokens(fields: Mapping[str, str]) -> list[Challenge]:
    challenges = parse_challenges(fields.get("www-authenticate", ""))
    return [challenge for challenge in challenges if challenge.scheme in _SCHEMES]
