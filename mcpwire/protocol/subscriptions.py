"""Notifications: decoding, filters, subscription counts, bounded buffers.

A `Filter` is a set of notifications: requested in `subscriptions/listen`, acknowledged
by a server, or selected by one consumer. `SubscriptionCounts` counts the consumers of
each notification: they share one subscription, which ends with the last of them.

An `EventBuffer` holds the pending notifications of one consumer. A notification that
only reports a change is **coalesced**: one entry per subject is pending, with the
newest params, at the position of the first. A notification that must not get lost is
**kept**; beyond a limit in number or bytes the oldest others are dropped and counted.

=========================================  =============  ============================
notification                               coalesced by   kept
=========================================  =============  ============================
``list_changed`` of the specification      method         always: there are only four
``notifications/resources/updated``        uri            if the consumer says so
``notifications/tasks``, ``tasks/status``  taskId         no: `tasks/get` has the same
``notifications/elicitation/complete``     elicitationId  no: it is optional anyway
all others                                 no             no
=========================================  =============  ============================
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.protocol.methods import METHODS, Kind, find_method, is_declared

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping


@attrs.frozen
class Notification:
    """A notification of the peer."""

    method: str
    """The name of the method, such as ``notifications/message``."""

    params: Any
    """The typed params, such as `LoggingMessageNotificationParams`; a plain dict or
    ``None`` for an unknown method."""


def decode_notification(method: str, params: Mapping[str, Any] | None) -> Notification:
    """Return a notification with its params decoded by the method table."""
    spec = find_method(method)
    if spec is None or spec.kind is not Kind.NOTIFICATION:
        return Notification(method, params)
    from mcpwire import types

    assert spec.params is not None
    return Notification(
        method, types.decode(getattr(types, spec.params), dict(params or {}))
    )


# Filters

_Atom: TypeAlias = tuple[str, str | None]

RESOURCE_UPDATED: Final = "notifications/resources/updated"

_SPECS: Final = {spec.listen_filter: spec for spec in METHODS if spec.listen_filter}

_FIELDS: Final = {
    "tools": _SPECS["toolsListChanged"],
    "prompts": _SPECS["promptsListChanged"],
    "resources": _SPECS["resourcesListChanged"],
    "uris": _SPECS["resourceSubscriptions"],
    "task_ids": _SPECS["taskIds"],
}
"""Field of a `Filter` -> its notification."""

_BY_METHOD: Final = {spec.name: field for field, spec in _FIELDS.items()}

_SUBJECTS: Final = {"uris": "uri", "task_ids": "taskId"}
"""Field with subjects -> the member of the notification's params for the subject."""

_SUB_RESOURCE: Final = ("/", "?", "#")


def _to_names(values: Iterable[str]) -> frozenset[str]:
    if isinstance(values, str):
        raise ValueError(f"a collection of strings is needed, got {values!r}")
    return frozenset(values)


@attrs.frozen(kw_only=True)
class Filter:
    """A set of notifications; an empty set is false."""

    tools: bool = False
    """Changes of the list of tools."""

    prompts: bool = False
    """Changes of the list of prompts."""

    resources: bool = False
    """Changes of the lists of resources and resource templates."""

    uris: frozenset[str] = attrs.field(default=frozenset(), converter=_to_names)
    """Changes of these resources."""

    task_ids: frozenset[str] = attrs.field(default=frozenset(), converter=_to_names)
    """Status changes of these tasks of the tasks extension."""

    @classmethod
    def of(cls, raw: object) -> Filter:
        """Parse the `notifications` object of a request or an acknowledgement.

        Members of another type are ignored.
        """
        fields: dict[str, Any] = {}
        for field, spec in _FIELDS.items():
            value = raw.get(spec.listen_filter) if isinstance(raw, dict) else None
            if field in _SUBJECTS and isinstance(value, list):
                fields[field] = [item for item in value if isinstance(item, str)]
            elif field not in _SUBJECTS:
                fields[field] = value is True
        return cls(**fields)

    def as_params(self) -> dict[str, Any]:
        """Return the `notifications` object of `subscriptions/listen`."""
        params: dict[str, Any] = {}
        for field, spec in _FIELDS.items():
            value = getattr(self, field)
            if value:
                assert spec.listen_filter is not None
                names = sorted(value) if field in _SUBJECTS else True
                params[spec.listen_filter] = names
        return params

    def matches(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a notification is in this set."""
        field = _BY_METHOD.get(method)
        if field is None:
            return False
        value = getattr(self, field)
        if field not in _SUBJECTS:
            return bool(value)
        subject = (params or {}).get(_SUBJECTS[field])
        if not isinstance(subject, str):
            return False
        return subject in value or (
            field == "uris" and any(is_within(subject, uri) for uri in value)
        )

    def minus(self, other: Filter) -> Filter:
        """Return the difference of this set and another."""
        return _join_atoms(set(_atoms(self)) - set(_atoms(other)))

    def restricted(self, capabilities: Mapping[str, Any] | None) -> Filter:
        """Return the notifications that a server with these capabilities can send."""
        return _join_atoms(
            (field, subject)
            for field, subject in _atoms(self)
            if is_declared(_FIELDS[field], capabilities)
        )

    def __or__(self, other: Filter) -> Filter:
        return _join_atoms((*_atoms(self), *_atoms(other)))

    def __bool__(self) -> bool:
        return any(_atoms(self))


def _atoms(selection: Filter) -> Iterator[_Atom]:
    """Yield each enabled field with each of its subjects."""
    for field in _FIELDS:
        value = getattr(selection, field)
        if field in _SUBJECTS:
            yield from ((field, subject) for subject in value)
        elif value:
            yield field, None


def _join_atoms(atoms: Iterable[_Atom]) -> Filter:
    fields: dict[str, Any] = {}
    for field, subject in atoms:
        if field in _SUBJECTS:
            fields.setdefault(field, set()).add(subject)
        else:
            fields[field] = True
    return Filter(**fields)


def is_within(uri: str, parent: str) -> bool:
    """Return whether a resource is equal to `parent`, or may be a part of it.

    2026-07-28 schema, ResourceUpdatedNotificationParams: the URI may belong to a
    sub-resource. The specification does not define sub-resources; here they are longer
    paths, queries and fragments.
    """
    return uri.startswith(parent) and (
        len(uri) == len(parent)
        or parent.endswith(_SUB_RESOURCE)
        or uri.startswith(_SUB_RESOURCE, len(parent))
    )


class SubscriptionCounts:
    """The number of consumers of each notification.

    Filters may be added as a whole and removed in parts, or vice versa.
    """

    def __init__(self) -> None:
        self._counts: Counter[_Atom] = Counter()

    @property
    def current(self) -> Filter:
        """The notifications with at least one consumer."""
        return _join_atoms(self._counts)

    def add(self, selection: Filter) -> Filter:
        """Add one consumer; return the notifications that had none before."""
        atoms = set(_atoms(selection))
        new = atoms - self._counts.keys()
        self._counts.update(atoms)
        return _join_atoms(new)

    def remove(self, selection: Filter) -> Filter:
        """Remove one consumer; return the notifications that have none now."""
        atoms = set(_atoms(selection))
        if unknown := atoms - self._counts.keys():
            raise ValueError(f"not subscribed: {_join_atoms(unknown).as_params()!r}")
        self._counts.subtract(atoms)
        unused = {atom for atom in atoms if not self._counts[atom]}
        for atom in unused:
            del self._counts[atom]
        return _join_atoms(unused)


# Buffers

Event: TypeAlias = tuple[str, "dict[str, Any] | None"]

# A fixed set, as a peer may invent any number of methods with this suffix.
_LIST_CHANGES: Final = frozenset(
    spec.name for spec in METHODS if spec.name.endswith("/list_changed")
)

# Task notifications contain the whole state (SEP-2663, "Task Status Notifications"),
# so only the newest is needed.
_COALESCED_BY: Final = {
    RESOURCE_UPDATED: "uri",
    "notifications/tasks": "taskId",
    "notifications/tasks/status": "taskId",
    "notifications/elicitation/complete": "elicitationId",
}
"""Method -> the member of its params that names its subject."""

_MAX_RETAINED_BYTES: Final = 4_096
"""Larger kept notifications are reduced to their subject; size in bytes."""


class EventBuffer:
    """Pending notifications in order of receipt, with at most `limit` ordinary ones.

    `must_retain` returns whether updates of a resource must not get lost. It must be
    true for finitely many URIs (the subscribed ones, not all with a prefix), because
    they may be pending in addition to the ordinary ones, which may have `max_bytes` in
    total. Every operation takes constant time.
    """

    def __init__(
        self,
        limit: int,
        must_retain: Callable[[str], bool] = lambda _uri: False,
        *,
        max_bytes: float = inf,
    ) -> None:
        self._limit = limit
        self._must_retain = must_retain
        self._bytes_left = max_bytes
        # OrderedDict, because repeated removal of the first entry of a plain dict scans
        # all slots that were removed before.
        self._pending: OrderedDict[Hashable, Event] = OrderedDict()
        self._ordinary: OrderedDict[Hashable, int] = OrderedDict()  # sizes
        self._serial = 0
        self.dropped = 0

    def put(self, method: str, params: dict[str, Any] | None, size: int = 0) -> bool:
        """Add a notification of `size` bytes; return whether it is a new entry."""
        key: Hashable
        is_retained = method in _LIST_CHANGES
        subject = (params or {}).get(_COALESCED_BY.get(method, ""))
        if is_retained:
            key = method
        elif method in _COALESCED_BY and isinstance(subject, str):
            key = method, subject
            is_retained = method == RESOURCE_UPDATED and self._must_retain(subject)
        else:
            self._serial += 1
            key = self._serial
        is_new = key not in self._pending
        # A kept entry stays kept while it is pending.
        is_retained = is_retained or not (is_new or key in self._ordinary)
        self._bytes_left += self._ordinary.get(key, 0)
        if is_retained:
            self._ordinary.pop(key, None)
            if size > _MAX_RETAINED_BYTES and params is not None:
                member = _COALESCED_BY.get(method)
                params = {member: params[member]} if member is not None else None
        else:
            self._bytes_left -= size
            self._ordinary[key] = size
        self._pending[key] = (method, params)
        while len(self._ordinary) > self._limit or self._bytes_left < 0:
            oldest, freed = self._ordinary.popitem(last=False)
            self._bytes_left += freed
            del self._pending[oldest]
            self.dropped += 1
        return is_new

    def pop(self) -> Event:
        """Remove and return the oldest notification."""
        if not self._pending:
            raise IndexError("no notification waits")
        key, event = self._pending.popitem(last=False)
        self._bytes_left += self._ordinary.pop(key, 0)
        return event

    def clear(self) -> None:
        """Remove all notifications; `dropped` stays."""
        self._pending.clear()
        self._bytes_left += sum(self._ordinary.values())
        self._ordinary.clear()

    def __len__(self) -> int:
        return len(self._pending)

    def __bool__(self) -> bool:
        return bool(self._pending)
