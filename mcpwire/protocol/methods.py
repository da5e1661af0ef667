"""The table of methods: each row has all facts about a request or notification.

A method that changed between revisions has a row for each span of revisions; the spans
of a method never overlap. Types are given by name, to avoid their import.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from mcpwire.versions import Revision

Sender: TypeAlias = Literal["client", "server"]

LEVELS: Final = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)
"""The severities of log messages, the lowest first (RFC 5424)."""

TASKS: Final = "io.modelcontextprotocol/tasks"
"""The tasks extension of the stateless era; 2025-11-25 has other, built-in tasks."""

SKILLS: Final = "io.modelcontextprotocol/skills"

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

LISTEN: Final = "subscriptions/listen"
"""The only request with a long-lived stream."""

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


class Kind(Enum):
    """The kind of a method's messages."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    INPUT = "input"  # a part of an input-required result


@attrs.frozen(kw_only=True, eq=False)
class MethodSpec:
    """The facts about a method in one span of revisions; compared by identity."""

    name: str
    kind: Kind
    senders: frozenset[Sender]
    since: Revision
    until: Revision | None = None  # the last revision of this span, if any

    params: str | None = None  # the type of its params; None: only `_meta`
    result: str | None = None  # the type of its complete result

    # The path of the required capability, such as `resources.subscribe`. The receiver
    # of a request or the sender of a notification must declare it. With an `extension`
    # it is a path in the settings of that extension.
    capability: str | None = None
    extension: str | None = None  # the extension that both sides must declare

    list_key: str | None = None  # the member of its result with the items of a page
    repeatable: bool = False  # idempotent
    cancellable: bool = True
    long_lived: bool = False  # its result is sent only when the peer ends it
    task_capable: bool = False  # its result may be a task

    # Facts of the stateless era: earlier revisions have no mirrored headers, cache
    # hints and input-required results.
    mirrored: str | None = None  # the member of its params that `Mcp-Name` repeats
    cacheable: bool = False  # its complete result has `ttlMs` and `cacheScope`
    may_need_input: bool = False  # its result may be "input required"
    listen_filter: str | None = None  # the field of a listen filter that selects it


_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, _JUL_2026, *_ = REVISIONS

_Span: TypeAlias = "tuple[Revision, Revision | None]"

_ALL: Final[_Span] = (_NOV_2024, None)
_SESSION: Final[_Span] = (_NOV_2024, _NOV_2025)
_STATELESS: Final[_Span] = (_JUL_2026, None)
_NOV_2025_ONLY: Final[_Span] = (_NOV_2025, _NOV_2025)

_CLIENT: Final[frozenset[Sender]] = frozenset({"client"})
_SERVER: Final[frozenset[Sender]] = frozenset({"server"})
_BOTH: Final = _CLIENT | _SERVER


def _request(
    name: str, stem: str, span: _Span, *flags: str, **facts: Any
) -> MethodSpec:
    """Return the row of a request, sent by the client unless `facts` has `senders`.

    The type names of the schema have a common stem, such as ``CallTool``.
    """
    row: dict[str, Any] = {
        "kind": Kind.REQUEST,
        "senders": _CLIENT,
        "params": f"{stem}RequestParams",
        "result": f"{stem}Result",
        **dict.fromkeys(flags, True),
        **facts,
    }
    return MethodSpec(name=name, since=span[0], until=span[1], **row)


def _list(name: str, stem: str, span: _Span, list_key: str, **facts: Any) -> MethodSpec:
    """Return the row of a request for one page of a list."""
    facts = {"params": "PaginatedRequestParams", "list_key": list_key, **facts}
    return _request(name, stem, span, "repeatable", **facts)


def _input(name: str, stem: str, capability: str, **facts: Any) -> MethodSpec:
    """Return the row of a server request in an input-required result."""
    facts |= {"kind": Kind.INPUT, "senders": _SERVER, "capability": capability}
    return _request(name, stem, _STATELESS, **facts)


def _notice(
    name: str, stem: str, span: _Span, senders: frozenset[Sender], **facts: Any
) -> MethodSpec:
    """Return the row of a notification; without a stem it has the general params."""
    facts = {"params": f"{stem}NotificationParams", **facts}
    return MethodSpec(
        name=f"notifications/{name}",
        kind=Kind.NOTIFICATION,
        senders=senders,
        since=span[0],
        until=span[1],
        **facts,
    )


# One or two lines per row keep the table readable.
# fmt: off
METHODS: Final[tuple[MethodSpec, ...]] = (
    _request("initialize", "Initialize", _SESSION, cancellable=False),
    _request("server/discover", "Discover", _STATELESS, "cacheable", "repeatable",
             params="RequestParams"),
    _request("ping", "", _SESSION, "repeatable", senders=_BOTH, result="EmptyResult"),
    _notice("initialized", "", _SESSION, _CLIENT),
    # Since 2026-07-28 a server sends it on stdio only, to end a subscription.
    _notice("cancelled", "Cancelled", _ALL, _BOTH),
    _notice("progress", "Progress", _SESSION, _BOTH),
    _notice("progress", "Progress", _STATELESS, _SERVER),

    _list("tools/list", "ListTools", _ALL, "tools",
          capability="tools", cacheable=True),
    _request("tools/call", "CallTool", _ALL, "may_need_input", "task_capable",
             capability="tools", mirrored="name"),
    _notice("tools/list_changed", "", _ALL, _SERVER,
            capability="tools.listChanged", listen_filter="toolsListChanged"),

    _list("resources/list", "ListResources", _ALL, "resources",
          capability="resources", cacheable=True),
    _list("resources/templates/list", "ListResourceTemplates", _ALL,
          "resourceTemplates", capability="resources", cacheable=True),
    _request("resources/read", "ReadResource", _ALL, "cacheable", "may_need_input",
             "repeatable", capability="resources", mirrored="uri"),
    _request("resources/subscribe", "Subscribe", _SESSION, "repeatable",
             result="EmptyResult", capability="resources.subscribe"),
    _request("resources/unsubscribe", "Unsubscribe", _SESSION, "repeatable",
             result="EmptyResult", capability="resources.subscribe"),
    _notice("resources/list_changed", "", _ALL, _SERVER,
            capability="resources.listChanged", listen_filter="resourcesListChanged"),
    _notice("resources/updated", "ResourceUpdated", _ALL, _SERVER,
            capability="resources.subscribe", listen_filter="resourceSubscriptions"),

    _list("prompts/list", "ListPrompts", _ALL, "prompts",
          capability="prompts", cacheable=True),
    _request("prompts/get", "GetPrompt", _ALL, "may_need_input", "repeatable",
             capability="prompts", mirrored="name"),
    _notice("prompts/list_changed", "", _ALL, _SERVER,
            capability="prompts.listChanged", listen_filter="promptsListChanged"),

    # 2024-11-05 has completion without a capability.
    _request("completion/complete", "Complete", (_NOV_2024, _NOV_2024), "repeatable"),
    _request("completion/complete", "Complete", (_MAR_2025, None), "repeatable",
             capability="completions"),
    _request("logging/setLevel", "SetLevel", _SESSION, "repeatable",
             result="EmptyResult", capability="logging"),
    _notice("message", "LoggingMessage", _ALL, _SERVER, capability="logging"),
    _request("subscriptions/listen", "SubscriptionsListen", _STATELESS,
             "long_lived", "repeatable"),
    _notice("subscriptions/acknowledged", "SubscriptionsAcknowledged", _STATELESS,
            _SERVER),

    # Server requests: messages until 2025-11-25, since 2026-07-28 only parts of
    # input-required results (2026-07-28 basic/patterns/mrtr, note at the top).
    _request("roots/list", "ListRoots", _SESSION, "repeatable",
             senders=_SERVER, params="RequestParams", capability="roots"),
    _input("roots/list", "ListRoots", "roots", params=None, repeatable=True),
    _notice("roots/list_changed", "", _SESSION, _CLIENT,
            capability="roots.listChanged"),
    _request("sampling/createMessage", "CreateMessage", _SESSION, "task_capable",
             senders=_SERVER, capability="sampling"),
    _input("sampling/createMessage", "CreateMessage", "sampling"),
    _request("elicitation/create", "Elicit", (_JUN_2025, _NOV_2025), "task_capable",
             senders=_SERVER, capability="elicitation"),
    _input("elicitation/create", "Elicit", "elicitation"),
    _notice("elicitation/complete", "ElicitationComplete", _NOV_2025_ONLY, _SERVER),

    # Both sides may run the experimental tasks of 2025-11-25.
    _request("tasks/get", "GetTask", _NOV_2025_ONLY, "repeatable",
             senders=_BOTH, capability="tasks"),
    _request("tasks/result", "GetTaskPayload", _NOV_2025_ONLY, "repeatable",
             senders=_BOTH, capability="tasks"),
    _list("tasks/list", "ListTasks", _NOV_2025_ONLY, "tasks",
          senders=_BOTH, capability="tasks.list"),
    _request("tasks/cancel", "CancelTask", _NOV_2025_ONLY,
             senders=_BOTH, capability="tasks.cancel"),
    _notice("tasks/status", "TaskStatus", _NOV_2025_ONLY, _BOTH, capability="tasks"),

    # The extension is off before 2026-07-28 (SEP-2663, "Backward Compatibility").
    _request("tasks/get", "GetTask", _STATELESS, "repeatable", result="DetailedTask",
             extension=TASKS, mirrored="taskId"),
    _request("tasks/update", "UpdateTask", _STATELESS, result="EmptyResult",
             extension=TASKS, mirrored="taskId"),
    _request("tasks/cancel", "CancelTask", _STATELESS, "repeatable",
             result="EmptyResult", extension=TASKS, mirrored="taskId"),
    _notice("tasks", "TaskStatus", _STATELESS, _SERVER, params="DetailedTask",
            extension=TASKS, listen_filter="taskIds"),

    _list("skills/list", "ListSkills", _STATELESS, "skills",
          extension=SKILLS, cacheable=True),
    _request("skills/get", "GetSkill", _STATELESS, "cacheable", "repeatable",
             extension=SKILLS),
    _list("resources/directory/read", "ReadResourceDirectory", _STATELESS, "resources",
          params="ReadResourceDirectoryRequestParams",
          extension=SKILLS, capability="directoryRead"),
)
"""All methods of all revisions, one row for each span of revisions."""
# fmt: on


_ROWS: Final = {
    name: tuple(spec for spec in reversed(METHODS) if spec.name == name)
    for name in {spec.name for spec in METHODS}
}
"""Name -> its rows, the newest span first."""


def find_method(name: str) -> MethodSpec | None:
    """Return the newest row of a method, or ``None`` if no revision has it."""
    rows = _ROWS.get(name)
    return rows[0] if rows else None


def _exists(spec: MethodSpec, revision: Revision, extensions: AbstractSet[str]) -> bool:
    return (
        spec.since <= revision
        and (spec.until is None or revision <= spec.until)
        and (spec.extension is None or spec.extension in extensions)
    )


def available_method(
    name: str,
    revision: Revision,
    sender: Sender,
    extensions: AbstractSet[str] = frozenset(),
) -> MethodSpec | None:
    """Return the row of a method in a revision, or ``None`` if the revision lacks it.

    `is_declared` checks its capability.
    """
    for spec in _ROWS.get(name, ()):
        if sender in spec.senders and _exists(spec, revision, extensions):
            return spec
    return None


def methods_of(
    revision: Revision, sender: Sender, extensions: AbstractSet[str] = frozenset()
) -> tuple[MethodSpec, ...]:
    """Return the rows of all messages that a side may send in a revision."""
    return tuple(
        spec
        for spec in METHODS
        if sender in spec.senders and _exists(spec, revision, extensions)
    )


def is_capability_declared(capabilities: Mapping[str, Any] | None, path: str) -> bool:
    """Return whether capabilities declare a path such as ``resources.subscribe``.

    Any value except ``false`` and ``null`` is a declaration, also ``{}``.
    """
    value: Any = capabilities
    for key in path.split("."):
        parent = value
        value = parent.get(key) if isinstance(parent, Mapping) else None
        # 2025-11-25 client/elicitation, "Capabilities": `{}` means form mode only.
        if path == "elicitation.form" and parent == {} and key == "form":
            return True
        if value is None or value is False:
            return False
    return True


def declared_extensions(capabilities: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the ids of the extensions that capabilities declare with settings."""
    extensions = (capabilities or {}).get("extensions")
    if not isinstance(extensions, Mapping):
        return frozenset()
    return frozenset(
        name for name, settings in extensions.items() if isinstance(settings, Mapping)
    )


def is_declared(spec: MethodSpec, capabilities: Mapping[str, Any] | None) -> bool:
    """Return whether capabilities declare a method.

    `capabilities` belong to the receiver of a request or the sender of a notification.
    """
    if spec.extension is not None:
        if spec.extension not in declared_extensions(capabilities):
            return False
        assert capabilities is not None
        capabilities = capabilities["extensions"][spec.extension]
    return spec.capability is None or is_capability_declared(
        capabilities, spec.capability
    )
