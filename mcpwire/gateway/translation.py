"""Conversion of single messages between connections and protocol versions.

`forwarding` relays whole calls. Messages stay unchanged, except for what belongs to one
hop: ids, progress tokens, the `_meta` of the version, and the form of some requests of
servers. Each rule cites its statement in the specification.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import OrderedDict, deque
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    TransportError,
    excerpt,
    rpc_error,
)
from mcpwire.protocol import methods
from mcpwire.protocol.input_requests import METHODS, is_supported
from mcpwire.types._base import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    RELATED_TASK,
    SERVER_INFO,
)
from mcpwire.versions import REVISIONS, Era
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.gateway.downstream import RelayedCall
    from mcpwire.protocol.request_state import Owner
    from mcpwire.versions import Revision

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

_FAMILIES: Final = {method: name for name, method in METHODS.items()}


def unsupported_error(
    method: str,
    params: Mapping[str, Any] | None,
    revision: Revision,
    capabilities: Mapping[str, Any],
) -> RPCError | None:
    """Return the error for a request that a client does not support, or ``None``."""
    family = _FAMILIES.get(method)
    if family is None or methods.available_method(method, revision, "server") is None:
        return MethodNotFound(
            f"the client of the gateway does not answer {excerpt(method)}"
        )
    if params is None and method != methods.ROOTS:
        return InvalidParams(f"{method} needs params")
    needed = family
    if method == methods.ELICIT:
        assert params is not None
        needed = (
            "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
        )
    if is_supported(needed, revision, capabilities):
        return None
    # 2025-11-25 client/elicitation, "Error Handling": an undeclared mode is -32602; an
    # undeclared capability is an unknown method.
    if capabilities.get(family) is not None:
        return InvalidParams(f"the client of the gateway did not declare {needed}")
    return MethodNotFound(f"the client of the gateway did not declare {family}")


def convert_request(
    method: str, params: Mapping[str, Any] | None, revision: Revision, *, new_id: str
) -> dict[str, Any] | None:
    """Convert the params of a server's request to the client's revision."""
    if params is None:
        return None
    converted = _remove_progress_token(params)
    if method == methods.ELICIT:
        return _convert_elicitation(converted, revision, new_id)
    messages = converted.get("messages")
    is_older = method == methods.SAMPLE and revision < _NOV_2025
    if is_older and type(messages) is list:
        converted["messages"] = [
            single for message in messages for single in _split_message(message)
        ]
    return converted


def _remove_progress_token(params: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the progress token: progress of clients is not relayed to servers."""
    converted = dict(params)
    meta = converted.get("_meta")
    if type(meta) is dict and "progressToken" in meta:
        rest = {key: value for key, value in meta.items() if key != "progressToken"}
        converted.pop("_meta")
        if rest:
            converted["_meta"] = rest
    return converted


def _convert_elicitation(
    params: dict[str, Any], revision: Revision, new_id: str
) -> dict[str, Any]:
    if revision < _NOV_2025:
        params.pop("mode", None)  # always "form" here
    elif params.get("mode") == "url":
        if revision.era is Era.STATELESS:
            # 2026-07-28 has no notification of completed elicitations.
            params.pop("elicitationId", None)
        else:
            params.setdefault("elicitationId", new_id)
    return params


def _split_message(message: Any) -> list[Any]:
    """Split a message into some with one content block each, as before SEP-1577."""
    content = message.get("content") if type(message) is dict else None
    if type(content) is not list:
        return [message]
    return [{**message, "content": block} for block in content]


def convert_answer(
    method: str, answer: dict[str, Any], revision: Revision
) -> dict[str, Any]:
    """Convert a client's answer to the server's revision; mostly unchanged."""
    content = answer.get("content")
    if method != methods.SAMPLE or revision >= _NOV_2025 or type(content) is not list:
        return answer
    if len(content) != 1:
        raise InternalError(
            f"the client answered with {len(content)} blocks of content, "
            f"and {revision} has exactly one"
        )
    return {**answer, "content": content[0]}


def url_elicitations(data: Any) -> list[dict[str, Any]]:
    """Return the URL elicitations that an error requires (-32042, 2025-11-25 only)."""
    raw = data.get("elicitations") if type(data) is dict else None
    return [
        elicitation
        for elicitation in (raw if type(raw) is list else ())
        if type(elicitation) is dict
        and type(elicitation.get("url")) is str
        and type(elicitation.get("message")) is str
    ]


def convert_capabilities(
    declared: Mapping[str, Any], source: Revision, target: Revision
) -> dict[str, Any]:
    """Convert a client's capabilities to another revision.

    Experimental capabilities are left out, and so are the tasks that a client of
    2025-11-25 runs itself: the gateway does not relay them.
    """
    names = ("roots", "sampling", "elicitation", "extensions")
    given = {name: declared[name] for name in names if type(declared.get(name)) is dict}
    older = min(source, target)
    converted: dict[str, Any] = {}
    if "roots" in given:
        # 2026-07-28 client/roots: no notification of changes.
        notifies = source.era is target.era is Era.SESSION
        list_changed = notifies and given["roots"].get("listChanged") is True
        converted["roots"] = {"listChanged": True} if list_changed else {}
    if "sampling" in given:
        # 2025-11-25 added these sub-capabilities.
        kinds = ("context", "tools") if older >= _NOV_2025 else ()
        converted["sampling"] = _select(given["sampling"], kinds)
    if "elicitation" in given and older >= _JUN_2025:
        modes = _select(given["elicitation"], ("form", "url"))
        if source < _NOV_2025 or not given["elicitation"]:
            converted["elicitation"] = {}  # forms only
        elif target >= _NOV_2025:
            converted["elicitation"] = modes
        elif "form" in modes:
            # 2025-06-18 has forms only, declared by an empty capability.
            converted["elicitation"] = {}
    extensions = given.get("extensions", {})
    if source.era is target.era and target >= _NOV_2025:
        # Extensions of the stateless era, tasks above all, differ from those with the
        # same name in sessions (SEP-2663, "Backward Compatibility").
        if target.era is Era.SESSION:
            extensions = {k: v for k, v in extensions.items() if k != methods.TASKS}
        if extensions:
            converted["extensions"] = dict(extensions)
    return converted


def _select(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def accepts_input_requests(declared: Mapping[str, Any]) -> bool:
    """Return whether a client with these capabilities can get any input request."""
    return any(
        type(declared.get(name)) is dict
        for name in ("roots", "sampling", "elicitation")
    )


_HOP_META: Final = frozenset(
    {CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, "progressToken"}
)
"""Keys of `_meta` about the client itself, and about the responses it requests."""

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that sessions do not have (2026-07-28 basic, "Results")."""

ROUND_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""Members of params that belong to one input round (2026-07-28 basic/patterns/mrtr)."""


def convert_meta(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of a request's `_meta` that is relayed to the server."""
    if not meta:
        return None
    relayed = {key: value for key, value in meta.items() if key not in _HOP_META}
    return relayed or None


def convert_result(result: dict[str, Any], source: Era, target: Era) -> dict[str, Any]:
    """Convert a complete result to the client's era; mostly unchanged."""
    if source is Era.SESSION:
        # The gateway adds these members itself; in a session, members with these names
        # have another meaning.
        if target is Era.STATELESS and not _STATELESS_MEMBERS.isdisjoint(result):
            return remove_members(result, _STATELESS_MEMBERS)
        return result
    if target is Era.SESSION:
        structured = result.get("structuredContent", {})
        if type(structured) is not dict:  # 2025-11-25 schema, CallToolResult: an object
            text = {"type": "text", "text": encode(structured).decode()}
            result = {**result, "content": result.get("content") or [text]}
            del result["structuredContent"]
        if not _STATELESS_MEMBERS.isdisjoint(result):
            result = remove_members(result, _STATELESS_MEMBERS)
    meta = result.get("_meta")
    if type(meta) is not dict or SERVER_INFO not in meta:
        return result
    # 2026-07-28 basic, "_meta": it names the responding side, which is the gateway.
    rest = remove_members(meta, frozenset({SERVER_INFO}))
    if rest:
        return {**result, "_meta": rest}
    return remove_members(result, frozenset({"_meta"}))


def remove_members(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the fields without those with these names."""
    return {key: value for key, value in fields.items() if key not in names}


_RANKS: Final = {level: rank for rank, level in enumerate(methods.LEVELS)}


def is_at_least(level: object, minimum: str | None) -> bool:
    """Return whether the level of a message is at or above `minimum`."""
    if minimum is None or type(level) is not str:
        return False
    rank = _RANKS.get(level)
    return rank is not None and rank >= _RANKS[minimum]


def needs_lower_level(current: str | None, requested: str) -> bool:
    """Return whether `requested` is below the level that a server got, if any."""
    return current is None or _RANKS[requested] < _RANKS[current]


def convert_error(server: str, method: str, error: MCPError) -> RPCError:
    """Convert the error of a relayed request to the error for the client."""
    if isinstance(error, RPCError):
        # A new one, because an exception holds its traceback, and all objects there.
        return rpc_error(error.code, error.message, data=error.data)
    if isinstance(error, LocalProtocolError):
        # The params cannot be encoded, and nothing was sent.
        return InvalidParams(f"{method} cannot be sent to {server!r}: {error}")
    data: dict[str, Any] = {"server": server, "error": type(error).__name__}
    if isinstance(error, RequestTimeout):
        data["timeout"] = error.timeout
        message = f"{server!r} did not answer {method} within {error.timeout:g} s"
    else:
        if isinstance(error, ConnectionClosed):
            data["sent"] = error.sent
        message = f"{server!r} failed {method}: {public_text(error)}"
    return InternalError(message, data=data)


def public_text(error: Exception) -> str:
    """Return an error's text without a child's output, which is for the log only."""
    return str(error.args[0] if isinstance(error, TransportError) else error)


CALL_ENDED: Final = "the call of this server request has ended"

CANCEL_GRACE_S: Final = 5.0

MAX_CANCELLED: Final = 1_024


class InFlightCalls:
    """The calls in flight on one connection; times are seconds of one clock."""

    def __init__(self) -> None:
        self.calls: dict[RelayedCall, None] = {}
        self._cancelled: deque[float] = deque(maxlen=MAX_CANCELLED)  # expiry times

    def add(self, call: RelayedCall) -> None:
        """Add a call."""
        self.calls[call] = None

    def finish(self, call: RelayedCall) -> None:
        """Remove a call that has ended."""
        self.calls.pop(call, None)

    def cancel(self, call: RelayedCall, now: float) -> None:
        """Remove a cancelled call; it is counted for `CANCEL_GRACE_S` seconds more."""
        if self.calls.pop(call, self) is None:
            self._cancelled.append(now + CANCEL_GRACE_S)

    def only_call(self, now: float) -> RelayedCall | None:
        """Return the only call in flight; ``None``: several or no calls."""
        return next(iter(self.calls), None) if self._count(now) == 1 else None

    def _count(self, now: float) -> int:
        """Return the number of calls that a message may belong to."""
        while self._cancelled and self._cancelled[0] <= now:
            self._cancelled.popleft()
        return len(self.calls) + len(self._cancelled)

    def find_owner(self, handle: object | None, now: float) -> RelayedCall:
        """Return the call of a server's request; `handle` identifies it, if given."""
        if handle is not None:
            for call in self.calls:
                if call is handle:
                    return call
            raise InternalError(CALL_ENDED)
        count = self._count(now)
        if count == 1 and self.calls:
            return next(iter(self.calls))
        if not self.calls:
            raise InternalError(
                "the server request belongs to no running call, and the gateway "
                "serves several clients"
            )
        raise InternalError(
            f"{count} calls are running, and the connection does not show which one "
            "the server request belongs to"
        )


MAX_TASKS: Final = 10_000
"""Maximum of remembered tasks; the least recently used one is dropped."""

_SIGNATURE_BYTES: Final = 16


class TaskIds:
    """Signed ids of one client's tasks: ``<the server's id>.<signature>``."""

    def __init__(
        self, keys: Sequence[bytes], owner: Owner, limit: int = MAX_TASKS
    ) -> None:
        self._keys = keys
        self._owner = owner
        self._limit = limit
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()

    def claim(self, server: str, raw: str) -> str:
        """Record a task of the owner; return its id for the client."""
        task = (server, raw)
        self._names[task] = name = self._sign(*task, self._keys[0])
        self._names.move_to_end(task)
        if len(self._names) > self._limit:
            self._names.popitem(last=False)
        return name

    def name(self, server: str, raw: str) -> str | None:
        """Return the client's id of a server's task; ``None``: not recorded."""
        return self._names.get((server, raw))

    def record_task(self, server: str, result: dict[str, Any]) -> dict[str, Any]:
        """Record the task in a call's result; return it with the client's id."""
        task = result.get("task") if "task" in result else result
        raw = task.get("taskId") if type(task) is dict else None
        if type(raw) is not str:
            return result
        return replace_task_id(result, raw, self.claim(server, raw))

    def to_client(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Replace the server's id of the related task in a message by the client's."""
        raw = _related_task_id(fields)
        name = self.name(server, raw) if raw is not None else None
        if raw is None or name is None:
            return fields
        return replace_task_id(fields, raw, name)

    def to_server(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Replace the client's id of the related task in a message by the server's."""
        name = _related_task_id(fields)
        task = self.find(name, (server,))
        if name is None or task is None:
            return fields
        return replace_task_id(fields, name, task[1])

    def find(self, name: object, servers: Iterable[str]) -> tuple[str, str] | None:
        """Return the server of a task and its id there; ``None``: not found."""
        if type(name) is not str:
            return None
        raw, expected = name.rpartition(".")[0], name.encode(errors="replace")
        for server in servers:
            for key in self._keys:
                if compare_digest(self._sign(server, raw, key).encode(), expected):
                    return server, raw
        return None

    def _sign(self, server: str, raw: str, key: bytes) -> str:
        text = encode(["task", *self._owner, server, raw])
        signature = hmac_digest(key, text, "sha256")[:_SIGNATURE_BYTES]
        return f"{raw}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _related_task_id(fields: dict[str, Any]) -> str | None:
    """Return the id of the task that a message relates to, if any."""
    meta = fields.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    id = related.get("taskId") if type(related) is dict else None
    return id if type(id) is str else None


def replace_task_id(fields: dict[str, Any], raw: str, name: str) -> dict[str, Any]:
    """Replace the id of a task, `raw`, in a message by `name`."""
    if raw == name:
        return fields
    converted = dict(fields)
    if converted.get("taskId") == raw:
        converted["taskId"] = name
    task = converted.get("task")
    if type(task) is dict and task.get("taskId") == raw:
        converted["task"] = {**task, "taskId": name}
    if _related_task_id(converted) == raw:
        meta = converted["_meta"]
        related = {**meta[RELATED_TASK], "taskId": name}
        converted["_meta"] = {**meta, RELATED_TASK: related}
    return converted
