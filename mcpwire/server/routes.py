"""Which methods a server answers at each revision, worked out once from the table.

Built when a dispatcher is made, so that a request costs one look-up, and a handler that
no client could ever reach is refused before the first client comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.protocol.methods import (
    TASKS,
    Kind,
    available,
    declared_extensions,
    find,
    is_declared,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.server.handlers import Handler
    from mcpwire.versions import Revision

__all__ = ["INITIALIZE", "Route", "capabilities_at", "check_handlers", "routes_at"]

INITIALIZE: Final = "initialize"
"""The one request that has no handler: it makes what handlers run in."""

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, _JUL_2026, *_ = REVISIONS

_SPANS: Final = {
    "completions": (_MAR_2025, None),
    "extensions": (_JUL_2026, None),
    "tasks": (_NOV_2025, _NOV_2025),
}
"""Capabilities that not every revision knows: the first and the last that does."""


_MUTUAL: Final = frozenset({TASKS})
"""Extensions whose requests are refused to who did not declare them, too. Skills are
not among them: reading what is there takes nothing of the client (SEP-2640)."""


@attrs.frozen
class Route:
    """How one method is answered at one revision."""

    handler: Handler

    is_cacheable: bool = False
    """Whether a complete result says how long it may be kept."""

    extension: str | None = None
    """The extension that the client must have declared too."""

    is_long_lived: bool = False
    """Whether its answer comes only when somebody ends it."""

    may_need_input: bool = False
    """Whether an input-required result may answer it."""

    is_immediate: bool = False
    """Whether it is answered at once, before what asks authors' handlers."""


def capabilities_at(
    revision: Revision, capabilities: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the capabilities that a revision knows."""
    known = {}
    for name, settings in capabilities.items():
        since, until = _SPANS.get(name, (_NOV_2024, None))
        if since <= revision and (until is None or revision <= until):
            known[name] = settings
    return known


def routes_at(
    revision: Revision,
    capabilities: Mapping[str, Any],
    handlers: Mapping[str, Handler],
    immediate: Mapping[str, Handler],
) -> dict[str, Route]:
    """Return how each method is answered at a revision; the rest is not there.

    Args:
        revision: The revision.
        capabilities: What is declared there.
        handlers: What answers, by method.
        immediate: What of that answers at once.
    """
    extensions = declared_extensions(capabilities)
    routes = {}
    for method, handler in handlers.items():
        spec = available(method, revision, "client", extensions)
        if spec is None:
            if find(method) is None:  # a method of its own, outside the protocol
                routes[method] = Route(handler)
        elif spec.kind is Kind.REQUEST and is_declared(spec, capabilities):
            routes[method] = Route(
                handler,
                is_cacheable=spec.cacheable,
                extension=spec.extension if spec.extension in _MUTUAL else None,
                is_long_lived=spec.long_lived,
                may_need_input=spec.may_need_input,
                is_immediate=immediate.get(method) is handler,
            )
    return routes


def check_handlers(
    methods: Iterable[str],
    revisions: Iterable[Revision],
    capabilities: Mapping[str, Mapping[str, Any]],
    routes: Mapping[str, Mapping[str, Route]],
) -> None:
    """Refuse a handler that the newest revision with its method would not reach.

    Args:
        methods: The methods that have handlers.
        revisions: What is spoken, newest first.
        capabilities: What is declared, by revision.
        routes: What is answered, by revision.

    Raises:
        ValueError: Its capability is not declared, or it answers no request.
    """
    newest_first = tuple(revisions)
    for method in methods:
        if find(method) is None:
            continue
        for revision in newest_first:
            extensions = declared_extensions(capabilities[revision.name])
            if available(method, revision, "client", extensions) is not None:
                is_reached = method in routes[revision.name] and method != INITIALIZE
                break
        else:
            is_reached = False
        if not is_reached:
            raise ValueError(_unreachable(method))


def _unreachable(method: str) -> str:
    spec = find(method)
    assert spec is not None
    needed = spec.extension or spec.capability
    if needed is None or "client" not in spec.senders:
        return f"{method!r} is no request that a handler could answer"
    return f"the handler of {method!r} needs the capability {needed!r} to be declared"
