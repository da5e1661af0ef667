"""The scopes to ask for: at first, and if those turn out to be too few.

A scope is a word of the authorization server's (RFC 6749 section 3.3). Only servers
know whether one includes another, so scopes are compared as words, and keep the order
in which they were first named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.records import ResourceMetadata, ServerMetadata

__all__ = [
    "OFFLINE_ACCESS",
    "check_scope",
    "close_scopes",
    "initial_scopes",
    "is_scope",
    "parse_scopes",
    "step_up_scopes",
    "widens",
]

OFFLINE_ACCESS: Final = "offline_access"  # asks for refresh tokens

# RFC 6749, 3.3: visible ASCII but for the quotation mark and the backslash.
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")


def is_scope(text: str) -> bool:
    """Tell whether the text can be one scope."""
    return _SCOPE.fullmatch(text) is not None


def check_scope(text: object) -> str:
    """Return a scope of a user's unchanged; raise `ValueError` if it cannot be one."""
    if not isinstance(text, str) or not is_scope(text):
        raise ValueError(
            "a scope must be visible ASCII without quotation marks, backslashes and "
            f"spaces, got {text!r}"
        )
    return text


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes of a list with spaces, each once; other words are left out."""
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
    """Return the scopes to ask for without a token; empty: no ``scope`` at all.

    They are those that the user configured, else those of the challenge, else all that
    the resource lists (2026-07-28 basic/authorization, "Scope Selection Strategy").
    """
    named: Sequence[str] = ()
    if configured is not None:
        named = configured
    elif denial is not None and denial.scopes:
        named = denial.scopes
    elif resource is not None:
        named = resource.scopes_supported or ()
    base = [scope for scope in named if scope != OFFLINE_ACCESS]
    supported = metadata.scopes_supported
    # An authorization server without a list may know this scope all the same, but only
    # the user can tell.
    is_user_sure = OFFLINE_ACCESS in (configured or ()) and supported is None
    is_offered = wants_refresh and OFFLINE_ACCESS in (supported or ())
    # Alone it would replace the scopes that a server gives to a request without any.
    if is_user_sure or (is_offered and named):
        base.append(OFFLINE_ACCESS)
    return _each_once(base)


def step_up_scopes(asked: Sequence[str], denial: Denial) -> tuple[str, ...]:
    """Return the scopes to ask for after a denial: all ever asked for, and its own.

    ``offline_access`` is not added: no resource needs it.
    """
    # 2026-07-28 basic/authorization, "Step-Up Authorization Flow": the union, because
    # a challenge need not name the granted scopes.
    demanded = (scope for scope in denial.scopes or () if scope != OFFLINE_ACCESS)
    return _each_once([*asked, *demanded])


def widens(granted: Sequence[str] | None, required: Sequence[str]) -> bool:
    """Tell whether a required scope is not granted; ``None``: none is known to be."""
    return not set(required) <= set(granted or ())


def close_scopes(includes: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return all that each scope includes, also indirectly, and itself."""
    direct = {scope: tuple(others) for scope, others in includes.items()}
    closed: dict[str, frozenset[str]] = {}
    for scope in direct:
        found = {scope}
        waiting = [scope]
        while waiting:
            new = [s for s in direct.get(waiting.pop(), ()) if s not in found]
            found.update(new)
            waiting += new
        closed[scope] = frozenset(found)
    return closed
