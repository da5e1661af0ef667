"""Translates single messages between connections and protocol versions.

How a call goes between the eras stands in `forwarding`. A message stays as it came, but
for what belongs to one hop: ids, progress tokens, the `_meta` of the version, and the
forms of a few questions. Each rule stands beside the statement of the specification
that makes it.
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


__all__ = [
    "CANCELLED",
    "CANCEL_GRACE_S",
    "ELICIT",
    "ROOTS",
    "ROUND_MEMBERS",
    "SAMPLE",
    "TASKS_KEPT",
    "InFlightCalls",
    "TaskIds",
    "answer_across",
    "can_be_asked",
    "declared_again",
    "lowered",
    "passed_error",
    "passed_meta",
    "passed_result",
    "public_text",
    "question_across",
    "reaches",
    "refusal",
    "visits_of",
    "with_task_id",
    "without_rounds",
]

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
    """Return why a client cannot be asked that; ``None``: it can."""
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
    # 2025-11-25 client/elicitation, "Error Handling": a mode that was not declared is
    # -32602; a capability that was not, is no method.
    if capabilities.get(family) is not None:
        return InvalidParams(f"the client behind the gateway did not declare {needed}")
    return MethodNotFound(f"the client behind the gateway did not declare {family}")


def question_across(
    method: str, params: Mapping[str, Any] | None, goes: Revision, *, new_id: str
) -> dict[str, Any] | None:
    """Return a question's params as the revision of its receiver has them."""
    if params is None:
        return None
    made = _without_hop(params)
    if method == ELICIT:
        return _elicitation(made, goes, new_id)
    if method == SAMPLE and goes < _NOV_2025:
        return _conversation(made)
    return made


def _without_hop(params: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the token of progress, of which nobody tells anything here."""
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
        params.pop("mode", None)  # which can only be "form" here
    elif params.get("mode") == "url":
        if goes.era is Era.STATELESS:
            params.pop("elicitationId", None)  # 2026-07-28 tells of no completion
        else:
            params.setdefault("elicitationId", new_id)
    return params


def _conversation(params: dict[str, Any]) -> dict[str, Any]:
    """Let each message have one block, as before SEP-1577."""
    messages = params.get("messages")
    if type(messages) is list:
        params["messages"] = [each for one in messages for each in _single(one)]
    return params


def _single(message: Any) -> list[Any]:
    content = message.get("content") if type(message) is dict else None
    if type(content) is not list:
        return [message]
    return [{**message, "content": block} for block in content]


def answer_across(
    method: str, answer: dict[str, Any], asks: Revision
) -> dict[str, Any]:
    """Return an answer as the revision of the asker has it; mostly unchanged."""
    content = answer.get("content")
    if method != SAMPLE or asks >= _NOV_2025 or type(content) is not list:
        return answer
    if len(content) != 1:
        raise InternalError(
            f"the client answered with {len(content)} blocks of content, "
            f"and {asks} has exactly one"
        )
    return {**answer, "content": content[0]}


def visits_of(data: Any) -> list[dict[str, Any]]:
    """Return the visits to URLs that an error asks for (-32042, 2025-11-25 only)."""
    listed = data.get("elicitations") if type(data) is dict else None
    return [
        each
        for each in (listed if type(listed) is list else ())
        if type(each) is dict
        and type(each.get("url")) is str
        and type(each.get("message")) is str
    ]


def declared_again(
    declared: Mapping[str, Any], came: Revision, goes: Revision
) -> dict[str, Any]:
    """Return a client's capabilities as another revision declares them.

    Experimental capabilities stay behind, and so do the tasks that a client of
    2025-11-25 holds itself: nothing carries them any further.
    """
    names = ("roots", "sampling", "elicitation", "extensions")
    given = {name: declared[name] for name in names if type(declared.get(name)) is dict}
    both = min(came, goes)
    made: dict[str, Any] = {}
    if "roots" in given:
        # 2026-07-28 client/roots: nobody tells that they changed.
        is_told = came.era is goes.era is Era.SESSION
        tells = is_told and given["roots"].get("listChanged") is True
        made["roots"] = {"listChanged": True} if tells else {}
    if "sampling" in given:
        # 2025-11-25 made kinds of it.
        kinds = ("context", "tools") if both >= _NOV_2025 else ()
        made["sampling"] = _only(given["sampling"], kinds)
    if "elicitation" in given and both >= _JUN_2025:
        modes = _only(given["elicitation"], ("form", "url"))
        if came < _NOV_2025 or not given["elicitation"]:
            made["elicitation"] = {}  # forms, and nothing else
        elif goes >= _NOV_2025:
            made["elicitation"] = modes
        elif "form" in modes:
            # 2025-06-18 knows forms only, and an empty capability means forms.
            made["elicitation"] = {}
    extensions = given.get("extensions", {})
    if came.era is goes.era and goes >= _NOV_2025:
        # The extensions of the stateless era, tasks first of all, are other ones than
        # what sessions call so (SEP-2663, "Backward Compatibility").
        if goes.era is Era.SESSION:
            extensions = {id: each for id, each in extensions.items() if id != TASKS}
        if extensions:
            made["extensions"] = dict(extensions)
    return made


def _only(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def can_be_asked(declared: Mapping[str, Any]) -> bool:
    """Tell whether a client with these capabilities can be asked for anything."""
    return any(
        type(declared.get(name)) is dict
        for name in ("roots", "sampling", "elicitation")
    )


_OF_ONE_HOP: Final = frozenset(
    {CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, "progressToken"}
)
"""What a client says of itself, and of how it wants to be answered."""

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that no session knows (2026-07-28 basic, "Results")."""

ROUND_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""Members of params that belong to one round (2026-07-28 basic/patterns/mrtr)."""


def passed_meta(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of a request's `_meta` that is for the server behind."""
    if not meta:
        return None
    passed = {key: value for key, value in meta.items() if key not in _OF_ONE_HOP}
    return passed or None


def without_rounds(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params without what belongs to a round of the stateless era."""
    if ROUND_MEMBERS.isdisjoint(params):
        return params
    return {key: value for key, value in params.items() if key not in ROUND_MEMBERS}


def passed_result(result: dict[str, Any], came: Era, goes: Era) -> dict[str, Any]:
    """Return a complete result as the client's era has it; most often the very same."""
    if came is Era.SESSION:
        # The answering side puts its own there; a session's member of that name says
        # something else.
        if goes is Era.STATELESS and not _STATELESS_MEMBERS.isdisjoint(result):
            return _without(result, _STATELESS_MEMBERS)
        return result
    if goes is Era.SESSION and not _STATELESS_MEMBERS.isdisjoint(result):
        result = _without(result, _STATELESS_MEMBERS)
    meta = result.get("_meta")
    if type(meta) is not dict or SERVER_INFO not in meta:
        return result
    # 2026-07-28 basic, "_meta": it names the answering side, and that is the gateway.
    left = _without(meta, frozenset({SERVER_INFO}))
    if left:
        return {**result, "_meta": left}
    return _without(result, frozenset({"_meta"}))


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}


_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


def reaches(level: object, wanted: str | None) -> bool:
    """Tell whether a message of that level is at or above `wanted`."""
    if wanted is None or type(level) is not str:
        return False
    rank = _RANKS.get(level)
    return rank is not None and rank >= _RANKS[wanted]


def lowered(told: str | None, wanted: str) -> bool:
    """Tell whether a server that was told one level must be told another, lower one."""
    return told is None or _RANKS[wanted] < _RANKS[told]


CANCELLED: Final = -32800
"""The code that ends a request which its client has cancelled."""


def passed_error(server: str, method: str, error: MCPError) -> RPCError:
    """Return the answer for a request that failed with that error."""
    if isinstance(error, RPCError):
        # A new one: an exception keeps its traceback, and whatever that holds.
        return rpc_error(error.code, error.message, data=error.data)
    if isinstance(error, LocalProtocolError):
        # What cannot be written has no place in a message, and nothing was sent.
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
    """Return an error's text without what a child wrote, which is for the log alone."""
    return str(error.args[0] if isinstance(error, TransportError) else error)


CANCEL_GRACE_S: Final = 5.0

MAX_CANCELLED: Final = 1_024

C = TypeVar("C")


class InFlightCalls(Generic[C]):
    """The calls in flight on one connection; times are seconds of one clock."""

    def __init__(self) -> None:
        self.calls: dict[C, None] = {}
        self._cancelled: deque[float] = deque(maxlen=MAX_CANCELLED)  # when each ends

    def add(self, call: C) -> None:
        """Add a call that begins."""
        self.calls[call] = None

    def finish(self, call: C) -> None:
        """Remove a call that was answered."""
        self.calls.pop(call, None)

    def cancel(self, call: C, now: float) -> None:
        """Remove a call that was cancelled; it counts for a moment longer."""
        if self.calls.pop(call, self) is None:
            self._cancelled.append(now + CANCEL_GRACE_S)

    def sole(self, now: float) -> C | None:
        """Return the only call in flight; ``None``: there are several or none."""
        return next(iter(self.calls), None) if self._count(now) == 1 else None

    def _count(self, now: float) -> int:
        """Return how many calls a message may belong to."""
        while self._cancelled and self._cancelled[0] <= now:
            self._cancelled.popleft()
        return len(self.calls) + len(self._cancelled)

    def owner(self, handle: object | None, now: float) -> C:
        """Return the call of a server's request; `handle` is what its stream names."""
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
"""How many tasks are remembered; the one that was used longest ago goes first."""

_SIGNATURE_BYTES: Final = 16


class TaskIds:
    """The ids of one client's tasks: ``<the server's id>.<signature>``."""

    def __init__(
        self, keys: Sequence[bytes], owner: Owner, limit: int = TASKS_KEPT
    ) -> None:
        self._keys = keys
        self._owner = owner
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def claim(self, server: str, raw: str) -> str:
        """Return what a task of the owner's is called from now on; remember it."""
        task = (server, raw)
        self._known[task] = name = self._sign(*task, self._keys[0])
        self._known.move_to_end(task)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return name

    def name(self, server: str, raw: str) -> str | None:
        """Return what a server's task is called; ``None``: not known as the owner's."""
        return self._known.get((server, raw))

    def created(self, server: str, result: dict[str, Any]) -> dict[str, Any]:
        """Claim the task that a call became; return its result with the client's id."""
        task = result.get("task") if "task" in result else result
        raw = task.get("taskId") if type(task) is dict else None
        if type(raw) is not str:
            return result
        return with_task_id(result, raw, self.claim(server, raw))

    def outside(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what belongs to a task with the client's id of it."""
        raw = _related(fields)
        name = self.name(server, raw) if raw is not None else None
        if raw is None or name is None:
            return fields
        return with_task_id(fields, raw, name)

    def inside(self, server: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what belongs to a task with the server's id of it."""
        name = _related(fields)
        found = self.find(name, (server,))
        if name is None or found is None:
            return fields
        return with_task_id(fields, name, found[1])

    def find(self, name: object, servers: Iterable[str]) -> tuple[str, str] | None:
        """Return the server of a task and what it calls it; ``None``: none has it."""
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
    """Return the id of the task that a message belongs to."""
    meta = fields.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    id = related.get("taskId") if type(related) is dict else None
    return id if type(id) is str else None


def with_task_id(fields: dict[str, Any], raw: str, name: str) -> dict[str, Any]:
    """Return what says something of a task as clients know it; most often the same."""
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
