"""Which scopes to ask for: at first, and when those turn out to be too few.

A scope is a word of the authorization server's (RFC 6749 section 3.3). Whether one
includes another only servers know, so scopes are compared as words, and kept in the
order in which they were first heard of.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.records import ResourceMetadata, ServerMetadata

__all__ = [
    "OFFLINE_ACCESS",
    "check_scope",
    "initial_scopes",
    "is_scope",
    "parse_scopes",
    "step_up_scopes",
    "widens",
]

OFFLINE_ACCESS: Final = "offline_access"
"""The scope by which authorization servers are asked for refresh tokens."""

# RFC 6749, 3.3: visible ASCII but for the quotation mark and the backslash.
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")


def is_scope(text: str) -> bool:
    """Tell whether the text can be one scope."""
    return _SCOPE.fullmatch(text) is not None


def check_scope(text: object) -> str:
    """Return a scope that a user named, as it is.

    Raises:
        ValueError: It cannot be one.
    """
    if not isinstance(text, str) or not is_scope(text):
        raise ValueError(
            "a scope must be visible ASCII without quotation marks, backslashes and "
            f"spaces, got {text!r}"
        )
    return text


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes of a list with spaces, each once; what is no scope is left."""
    return _each_once(text.split(" "))


def _each_once(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scope for scope in scopes if is_scope(scope)))


def initial_scopes(
    denial: Denial | None,
    resource: ResourceMetadata | None,
    configured: Sequence[str] | None,
    metadata: ServerMetadata,
    *,
    wants_refresh: bool,
) -> tuple[str, ...]:
    """Return what to ask for when there is no token yet; nothing: no ``scope`` at all.

    What the user configured stands in place of what the server names. Otherwise it is
    what the challenge asks for, else all that the resource lists.

    Args:
        denial: What the server said when it turned the request away.
        resource: What the resource says of itself.
        configured: What the user asks for; ``None``: nothing particular.
        metadata: What the authorization server says of itself.
        wants_refresh: Whether refresh tokens are of use.
    """
    # 2026-07-28 basic/authorization, "Scope Selection Strategy".
    named: Sequence[str] = ()
    if configured is not None:
        named = configured
    elif denial is not None and denial.scopes:
        named = denial.scopes
    elif resource is not None:
        named = resource.scopes_supported or ()
    base = [scope for scope in named if scope != OFFLINE_ACCESS]
    supported = metadata.scopes_supported
    # An authorization server that lists no scopes may know this one all the same, but
    # only the user can know that.
    is_user_sure = OFFLINE_ACCESS in (configured or ()) and supported is None
    is_offered = wants_refresh and OFFLINE_ACCESS in (supported or ())
    # Alone it would take the place of the scopes that a server gives to whoever asks
    # for none in particular.
    if is_user_sure or (is_offered and named):
        base.append(OFFLINE_ACCESS)
    return _each_once(base)


def step_up_scopes(asked: Sequence[str], denial: Denial) -> tuple[str, ...]:
    """Return what to ask for after a denial: all that was ever asked for, and its own.

    Refresh tokens are settled with the first request, so ``offline_access`` is not
    added: it is nothing that a resource could need.
    """
    # 2026-07-28 basic/authorization, "Step-Up Authorization Flow": the union, because
    # a challenge need not name what is granted already.
    demanded = (scope for scope in denial.scopes or () if scope != OFFLINE_ACCESS)
    return _each_once([*asked, *demanded])


def widens(granted: Sequence[str] | None, required: Sequence[str]) -> bool:
    """Tell whether something is required that is not granted.

    Args:
        granted: What a token has, as words; ``None``: nobody said.
        required: What the server asks for.
    """
    return not set(required) <= set(granted or ())
