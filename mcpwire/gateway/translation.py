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
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mcpwire._text import excerpt
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
    rpc_error,
)
from mcpwire.protocol.input_requests import is_supported
from mcpwire.protocol.methods import LEVELS, TASKS, available
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

    from mcpwire.protocol.request_state import Owner
    from mcpwire.versions import Revision

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

_FAMILIES: Final = {ELICIT: "elicitation", SAMPLE: "sampling", ROOTS: "roots"}


def refusal(
    method: str,
    params: Mapping[str, Any] | None,
    revision: Revision,
    capabilities: Mapping[str, Any],
) -> RPCError | None:
    """Return the error for a request that a client does not support, or ``None``."""
    family = _FAMILIES.get(method)
    if family is None or available(method, revision, "server") is None:
        return MethodNotFound(
            f"the client behind the gateway does not answer {excerpt(method)}"
        )
    if params is None and method != ROOTS:
        return InvalidParams(f"{method} needs params")
    needed = family
    if method == ELICIT:
        assert params is not None
        needed = (
            "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
        )
    if is_supported(needed, revision, capabilities):
        return None
    # 2025-11-25 client/elicitation, "Error Handling": an undeclared mode is -32602; an
    # undeclared capability is an unknown method.
    if capabilities.get(family) is not None:
        return InvalidParams(f"the client behind the gateway did not declare {needed}")
    return MethodNotFound(f"the client behind the gateway did not declare {family}")


def convert_request(
    method: str, params: Mapping[str, Any] | None, goes: Revision, *, new_id: str
) -> dict[str, Any] | None:
    """Convert the params of a server's request to the client's revision."""
    if params is None:
        return None
    made = _without_hop(params)
    if method == ELICIT:
        return _elicitation(made, goes, new_id)
    if method == SAMPLE and goes < _NOV_2025:
        return _conversation(made)
    return made


def _without_hop(params: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the progress token: progress of clients is not relayed to servers."""
    made = dict(params)
    meta = made.get("_meta")
    if type(meta) is dict and "progressToken" in meta:
        left = {key: value for key, value in meta.items() if key != "progressToken"}
        made.pop("_meta")
        if left:
            made["_meta"] = left
    return made


def _elicitation(params: dict[str, Any], goes: Revision, new_id: str) -> dict[str, Any]:
    if goes < _NOV_2025:
        params.pop("mode", None)  # always "form" here
    elif params.get("mode") == "url":
        if goes.era is Era.STATELESS:
            # 2026-07-28 has no notification of completed elicitations.
            params.pop("elicitationId", None)
        else:
            params.setdefault("elicitationId", new_id)
    return params


def _conversation(params: dict[str, Any]) -> dict[str, Any]:
    """Split messages so that each has one content block, as before SEP-1577."""
    messages = params.get("messages")
    if type(messages) is list:
        params["messages"] = [each for one in messages for each in _single(one)]
    return params


def _single(message: Any) -> list[Any]:
    content = message.get("content") if type(message) is dict else None
    if type(content) is not list:
        return [message]
    return [{**message, "content": block} for block in content]


def convert_answer(
    method: str, answer: dict[str, Any], asks: Revision
) -> dict[str, Any]:
    """Convert a client's answer to the server's revision; mostly unchanged."""
    content = answer.get("content")
    if method != SAMPLE or asks >= _NOV_2025 or type(content) is not list:
        return answer
    if len(content) != 1:
        raise InternalError(
            f"the client answered with {len(content)} blocks of content, "
            f"and {asks} has exactly one"
        )
    return {**answer, "content": content[0]}


def url_elicitations(data: Any) -> list[dict[str, Any]]:
    """Return the URL elicitations that an error requires (-32042, 2025-11-25 only)."""
    listed = data.get("elicitations") if type(data) is dict else None
    return [
        each
        for each in (listed if type(listed) is list else ())
        if type(each) is dict
        and type(each.get("url")) is str
        and type(each.get("message")) is str
    ]


def convert_capabilities(
    declared: Mapping[str, Any], came: Revision, goes: Revision
) -> dict[str, Any]:
    """Convert a client's capabilities to another revision.

    Experimental capabilities are left out, and so are the tasks that a client of
    2025-11-25 runs itself: the gateway does not relay them.
    """
    names = ("roots", "sampling", "elicitation", "extensions")
    given = {name: declared[name] for name in names if type(declared.get(name)) is dict}
    both = min(came, goes)
    made: dict[str, Any] = {}
    if "roots" in given:
        # 2026-07-28 client/roots: no notification of changes.
        is_told = came.era is goes.era is Era.SESSION
        tells = is_told and given["roots"].get("listChanged") is True
        made["roots"] = {"listChanged": True} if tells else {}
    if "sampling" in given:
        # 2025-11-25 added these sub-capabilities.
        kinds = ("context", "tools") if both >= _NOV_2025 else ()
        made["sampling"] = _only(given["sampling"], kinds)
    if "elicitation" in given and both >= _JUN_2025:
        modes = _only(given["elicitation"], ("form", "url"))
        if came < _NOV_2025 or not given["elicitation"]:
            made["elicitation"] = {}  # forms only
        elif goes >= _NOV_2025:
            made["elicitation"] = modes
        elif "form" in modes:
            # 2025-06-18 has forms only, declared by an empty capability.
            made["elicitation"] = {}
    extensions = given.get("extensions", {})
    if came.era is goes.era and goes >= _NOV_2025:
        # Extensions of the stateless era, tasks above all, differ from those with the
        # same name in sessions (SEP-2663, "Backward Compatibility").
        if goes.era is Era.SESSION:
            extensions = {id: each for id, each in extensions.items() if id != TASKS}
        if extensions:
            made["extensions"] = dict(extensions)
    return made


def _only(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def can_be_asked(declared: Mapping[str, Any]) -> bool:
    """Return whether a client with these capabilities can get any input request."""
    return any(
        type(declared.get(name)) is dict
        for name in ("roots", "sampling", "elicitation")
    )


_OF_ONE_HOP: Final = frozenset(
    {CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, "progressToken"}
)
"""Keys of `_meta` about the client itself, and about the responses it requests."""

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that sessions do not have (2026-07-28 basic, "Results")."""

ROUND_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""Members of params that belong to one input round (2026-07-28 basic/patterns/mrtr)."""


def passed_meta(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of a request's `_meta` that is relayed to the server."""
    if not meta:
        return None
    passed = {key: value for key, value in meta.items() if key not in _OF_ONE_HOP}
    return passed or None


def passed_result(result: dict[str, Any], came: Era, goes: Era) -> dict[str, Any]:
    """Convert a complete result to the client's era; mostly unchanged."""
    if came is Era.SESSION:
        # The gateway adds these members itself; in a session, members with these names
        # have another meaning.
        if goes is Era.STATELESS and not _STATELESS_MEMBERS.isdisjoint(result):
            return without(result, _STATELESS_MEMBERS)
        return result
    if goes is Era.SESSION and not _STATELESS_MEMBERS.isdisjoint(result):
        result = without(result, _STATELESS_MEMBERS)
    meta = result.get("_meta")
    if type(meta) is not dict or SERVER_INFO not in meta:
        return result
    # 2026-07-28 basic, "_meta": it names the responding side, which is the gateway.
    left = without(meta, frozenset({SERVER_INFO}))
    if left:
        return {**result, "_meta": left}
    return without(result, frozenset({"_meta"}))


def without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the fields without those with these names."""
    return {key: value for key, value in fields.items() if key not in names}


_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


def reaches(level: object, wanted: str | None) -> bool:
    """Return whether the level of a message is at or above `wanted`."""
    if wanted is None or type(level) is not str:
        return False
    rank = _RANKS.get(level)
    return rank is not None and rank >= _RANKS[wanted]


def needs_lower_level(told: str | None, wanted: str) -> bool:
    """Return whether `wanted` is below the level that a server got, if any."""
    return told is None or _RANKS[wanted] < _RANKS[told]


CANCELLED: Final = -32800
"""The error code of a request that its client has cancelled."""


def passed_error(server: str, method: str, error: MCPError) -> RPCError:
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
        sentence = f"{server!r} did not answer {method} within {error.timeout:g} s"
    else:
        if isinstance(error, ConnectionClosed):
            data["sent"] = error.sent
        sentence = f"{server!r} failed {method}: {public_text(error)}"
    return InternalError(sentence, data=data)


def public_text(error: Exception) -> str:
    """Return an error's text without a child's output, which is for the log only."""
    return str(error.args[0] if isinstance(error, TransportError) else error)


CANCEL_GRACE_S: Final = 5.0

MAX_CANCELLED: Final = 1_024

C = TypeVar("C")


class InFlightCalls(Generic[C]):
    """The calls in flight on one connection; times are seconds of one clock."""

    def __init__(self) -> None:
        self.calls: dict[C, None] = {}
        self._cancelled: deque[float] = deque(maxlen=MAX_CANCELLED)  # expiry times

    def add(self, call: C) -> None:
        """Add a call."""
        self.calls[call] = None

    def finish(self, call: C) -> None:
        """Remove a call that has ended."""
        self.calls.pop(call, None)

    def cancel(self, call: C, now: float) -> None:
        """Remove a cancelled call; it is counted for `CANCEL_GRACE_S` seconds more."""
        if self.calls.pop(call, self) is None:
            self._cancelled.append(now + CANCEL_GRACE_S)

    def sole(self, now: float) -> C | None:
        """Return the only call in flight; ``None``: several or no calls."""
        return next(iter(self.calls), None) if self._count(now) == 1 else None

    def _count(self, now: float) -> int:
        """Return the number of calls that a message may belong to."""
        while self._cancelled and self._cancelled[0] <= now:
            self._cancelled.popleft()
        return len(self.calls) + len(self._cancelled)

    def owner(self, handle: object | None, now: float) -> C:
        """Return the call of a server's request; `handle` identifies it, if given."""
        if handle is not None:
            for call in self.calls:
                if call is handle:
                    return call
            raise InternalError("the call that this question belongs to is over")
        count = self._count(now)
        if count == 1 and self.calls:
            return next(iter(self.calls))
        if not self.calls:
            raise InternalError(
                "no call is under way that this question could belong to, and the "
                "gateway serves several clients"
            )
        raise InternalError(
            f"{count} calls are under way, and nothing on this connection shows which "
            "of them this question belongs to"
        )


TASKS_KEPT: Final = 10_000
"""Maximum of remembered tasks; the least recently used one is dropped."""

_SIGNATURE_BYTES: Final = 16


class TaskIds:
    """Signed ids of one client's tasks: ``<the server's id>.<signature>``."""

    def __init__(
        self, keys: Sequence[bytes], owner: Owner, limit: int = TASKS_KEPT
    ) -> None:
        self._keys = keys
        self._owner = owner
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def claim(self, server: str, raw: str) -> str:
        """Record a task of the owner; return its id for the client."""
        task = (server, raw)
        self._known[task] = name = self._sign(*task, self._keys[0])
        self._known.move_to_end(task)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return name

    def name(self, server: str, raw: str) -> str | None:
        """Return the client's id of a server's task; ``None``: not recorded."""
        return self._known.get((server, raw))

    def created(self, server: str, result: dict[str, Any]) -> dict[str, Any]:
        """Record the task in a call's result; return it with the client's id."""
        task = result.get("task") if "task" in result else result
        raw = task.get("taskId") if type(task) is dict else None
        if type(raw) is not str:
            return result
        return with_task_id(result, raw, self.claim(server, raw))

    def to_client(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Replace the server's id of the related task in a message by the client's."""
        raw = _related(fields)
        name = self.name(server, raw) if raw is not None else None
        if raw is None or name is None:
            return fields
        return with_task_id(fields, raw, name)

    def to_server(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Replace the client's id of the related task in a message by the server's."""
        name = _related(fields)
        found = self.find(name, (server,))
        if name is None or found is None:
            return fields
        return with_task_id(fields, name, found[1])

    def find(self, name: object, servers: Iterable[str]) -> tuple[str, str] | None:
        """Return the server of a task and its id there; ``None``: not found."""
        if type(name) is not str:
            return None
        raw, given = name.rpartition(".")[0], name.encode(errors="replace")
        for server in servers:
            for key in self._keys:
                if compare_digest(self._sign(server, raw, key).encode(), given):
                    return server, raw
        return None

    def _sign(self, server: str, raw: str, key: bytes) -> str:
        text = encode(["task", *self._owner, server, raw])
        signature = hmac_digest(key, text, "sha256")[:_SIGNATURE_BYTES]
        return f"{raw}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _related(fields: dict[str, Any]) -> str | None:
    """Return the id of the task that a message relates to, if any."""
    meta = fields.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    id = related.get("taskId") if type(related) is dict else None
    return id if type(id) is str else None


def with_task_id(fields: dict[str, Any], raw: str, name: str) -> dict[str, Any]:
    """Replace the id of a task, `raw`, in a message by `name`."""
    if raw == name:
        return fields
    made = dict(fields)
    if made.get("taskId") == raw:
        made["taskId"] = name
    task = made.get("task")
    if type(task) is dict and task.get("taskId") == raw:
        made["task"] = {**task, "taskId": name}
    if _related(made) == raw:
        meta = made["_meta"]
        related = {**meta[RELATED_TASK], "taskId": name}
        made["_meta"] = {**meta, RELATED_TASK: related}
    return made
