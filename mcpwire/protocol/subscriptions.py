"""Notifications: decoding, filters, subscription counts, bounded buffers.

A `Filter` is one set of notifications: what `subscriptions/listen` asks for, what a
server acknowledges, what one consumer gets. `SubscriptionCounts` counts the consumers
of each, so that one subscription serves many of them and ends with the last.

An `EventBuffer` holds what one consumer has not taken yet. A notification that only
says "look again" is **coalesced**: one entry waits for each subject, with the newest
params, at the place of the first. A notification that must not get lost is **kept**;
of all others the oldest is dropped and counted beyond a limit of number or bytes.

=========================================  =============  ============================
notification                               coalesced by   kept
=========================================  =============  ============================
``list_changed`` of the specification      method         always: there are four
``notifications/resources/updated``        uri            where the consumer says so
``notifications/tasks``, ``tasks/status``  taskId         no: `tasks/get` tells as much
``notifications/elicitation/complete``     elicitationId  no: it may fail to come anyway
everything else                            not            no
=========================================  =============  ============================
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.protocol.methods import METHODS, Kind, find, is_declared

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

__all__ = [
    "UPDATED",
    "EventBuffer",
    "Filter",
    "Notification",
    "SubscriptionCounts",
    "is_within",
    "typed_notification",
]


@attrs.frozen
class Notification:
    """A notification of the peer."""

    method: str
    """Its name on the wire, such as ``notifications/message``."""

    params: Any
    """The typed params, such as `LoggingMessageNotificationParams`; the plain dict (or
    ``None``) for a method that mcpwire does not know."""


def typed_notification(method: str, params: Mapping[str, Any] | None) -> Notification:
    """Decode a notification's params by the method table."""
    spec = find(method)
    if spec is None or spec.kind is not Kind.NOTIFICATION:
        return Notification(method, params)
    from mcpwire import types

    assert spec.params is not None
    return Notification(
        method, types.decode(getattr(types, spec.params), dict(params or {}))
    )


# Filters...

_Atom: TypeAlias = tuple[str, str | None]

UPDATED: Final = "notifications/resources/updated"

_SPECS: Final = {spec.listen_filter: spec for spec in METHODS if spec.listen_filter}

_FIELDS: Final = {
    "tools": _SPECS["toolsListChanged"],
    "prompts": _SPECS["promptsListChanged"],
    "resources": _SPECS["resourcesListChanged"],
    "uris": _SPECS["resourceSubscriptions"],
    "task_ids": _SPECS["taskIds"],
}
"""Field of a `Filter` -> the notification it is about."""

_BY_METHOD: Final = {spec.name: field for field, spec in _FIELDS.items()}

_SUBJECTS: Final = {"uris": "uri", "task_ids": "taskId"}
"""Field that names subjects -> the member of the notification's params with one."""

_SUB_RESOURCE: Final = ("/", "?", "#")


def _names(values: Iterable[str]) -> frozenset[str]:
    if isinstance(values, str):
        raise ValueError(f"a collection of strings is needed, got {values!r}")
    return frozenset(values)


@attrs.frozen(kw_only=True)
class Filter:
    """A set of notifications; the empty one is false."""

    tools: bool = False
    """That the list of tools changed."""

    prompts: bool = False
    """That the list of prompts changed."""

    resources: bool = False
    """That the list of resources, or of their templates, changed."""

    uris: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    """That one of these resources changed."""

    task_ids: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    """That the status of one of these tasks changed; of the tasks extension."""

    @classmethod
    def of(cls, raw: object) -> Filter:
        """Read the `notifications` object of a request or an acknowledgement.

        What has another type counts as absent.
        """
        wanted: dict[str, Any] = {}
        for field, spec in _FIELDS.items():
            value = raw.get(spec.listen_filter) if isinstance(raw, dict) else None
            if field in _SUBJECTS and isinstance(value, list):
                wanted[field] = [item for item in value if isinstance(item, str)]
            elif field not in _SUBJECTS:
                wanted[field] = value is True
        return cls(**wanted)

    def as_params(self) -> dict[str, Any]:
        """Return the `notifications` object of `subscriptions/listen`."""
        params: dict[str, Any] = {}
        for field, spec in _FIELDS.items():
            wanted = getattr(self, field)
            if wanted:
                assert spec.listen_filter is not None
                names = sorted(wanted) if field in _SUBJECTS else True
                params[spec.listen_filter] = names
        return params

    def matches(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Tell whether a notification is in this set."""
        field = _BY_METHOD.get(method)
        if field is None:
            return False
        wanted = getattr(self, field)
        if field not in _SUBJECTS:
            return bool(wanted)
        subject = (params or {}).get(_SUBJECTS[field])
        if not isinstance(subject, str):
            return False
        return subject in wanted or (
            field == "uris" and any(is_within(subject, uri) for uri in wanted)
        )

    def minus(self, other: Filter) -> Filter:
        """Return what is in this set and not in the other."""
        return _joined(set(_atoms(self)) - set(_atoms(other)))

    def restricted(self, capabilities: Mapping[str, Any] | None) -> Filter:
        """Return what a server with these declared capabilities can honour."""
        return _joined(
            (field, subject)
            for field, subject in _atoms(self)
            if is_declared(_FIELDS[field], capabilities)
        )

    def __or__(self, other: Filter) -> Filter:
        return _joined((*_atoms(self), *_atoms(other)))

    def __bool__(self) -> bool:
        return any(_atoms(self))


def _atoms(wanted: Filter) -> Iterator[_Atom]:
    """Yield each field that is set, with each of its subjects."""
    for field in _FIELDS:
        value = getattr(wanted, field)
        if field in _SUBJECTS:
            yield from ((field, subject) for subject in value)
        elif value:
            yield field, None


def _joined(atoms: Iterable[_Atom]) -> Filter:
    wanted: dict[str, Any] = {}
    for field, subject in atoms:
        if field in _SUBJECTS:
            wanted.setdefault(field, set()).add(subject)
        else:
            wanted[field] = True
    return Filter(**wanted)


def is_within(uri: str, whole: str) -> bool:
    """Tell whether a resource is the other one, or may be a part of it.

    2026-07-28 schema, ResourceUpdatedNotificationParams: the URI may be that of a
    sub-resource. The specification does not say which those are; here they are what
    lies below in the path, a query or a fragment.
    """
    return uri.startswith(whole) and (
        len(uri) == len(whole)
        or whole.endswith(_SUB_RESOURCE)
        or uri.startswith(_SUB_RESOURCE, len(whole))
    )


class SubscriptionCounts:
    """How many consumers want which notifications.

    What was added as one filter may be removed in parts, and the other way round.
    """

    def __init__(self) -> None:
        self._counts: Counter[_Atom] = Counter()

    @property
    def current(self) -> Filter:
        """All that any consumer wants."""
        return _joined(self._counts)

    def add(self, wanted: Filter) -> Filter:
        """Count one consumer more; return what nobody wanted before."""
        atoms = set(_atoms(wanted))
        new = atoms - self._counts.keys()
        self._counts.update(atoms)
        return _joined(new)

    def remove(self, wanted: Filter) -> Filter:
        """Count one consumer less; return what nobody wants any more."""
        atoms = set(_atoms(wanted))
        if unknown := atoms - self._counts.keys():
            raise ValueError(f"nobody wants {_joined(unknown).as_params()!r}")
        self._counts.subtract(atoms)
        gone = {atom for atom in atoms if not self._counts[atom]}
        for atom in gone:
            del self._counts[atom]
        return _joined(gone)


# Buffers...

Event: TypeAlias = tuple[str, "dict[str, Any] | None"]

# By name and not by ending: a peer may invent as many `.../list_changed` as it likes.
_LISTS: Final = frozenset(
    spec.name for spec in METHODS if spec.name.endswith("/list_changed")
)

# Task notifications carry the whole state (SEP-2663, "Task Status Notifications"), so
# the newest says everything that is still true.
_COALESCED_BY: Final = {
    UPDATED: "uri",
    "notifications/tasks": "taskId",
    "notifications/tasks/status": "taskId",
    "notifications/elicitation/complete": "elicitationId",
}
"""Method -> the member of its params that names what it is about."""

_SMALL: Final = 4_096
"""Kept notifications beyond this size are cut to what they are about."""


class EventBuffer:
    """Notifications in the order they came, at most `limit` ordinary ones of them.

    `is_kept` tells of which resources no update may get lost. It must hold for finitely
    many URIs (those subscribed to, not all with a prefix), as each of them may wait in
    addition to the ordinary ones. `size` returns the size on the wire of the
    notification that is being put in; all ordinary ones have `room` bytes together.
    Every operation takes constant time.
    """

    def __init__(
        self,
        limit: int,
        is_kept: Callable[[str], bool] = lambda _uri: False,
        *,
        room: float = inf,
        size: Callable[[], int] = lambda: 0,
    ) -> None:
        self._limit = limit
        self._is_kept = is_kept
        self._left = room
        self._size = size
        # Ordered dicts, since taking the first entry of a plain dict again and again
        # walks over the places of those taken before.
        self._waiting: OrderedDict[Hashable, Event] = OrderedDict()
        self._ordinary: OrderedDict[Hashable, int] = OrderedDict()  # and its size
        self._serial = 0
        self.dropped = 0

    def put(self, method: str, params: dict[str, Any] | None) -> bool:
        """Add a notification; tell whether it makes an entry of its own."""
        key: Hashable
        is_kept = method in _LISTS
        subject = (params or {}).get(_COALESCED_BY.get(method, ""))
        if is_kept:
            key = method
        elif method in _COALESCED_BY and isinstance(subject, str):
            key = method, subject
            is_kept = method == UPDATED and self._is_kept(subject)
        else:
            self._serial += 1
            key = self._serial
        is_new = key not in self._waiting
        size = self._size()
        # What was kept while it waits stays so.
        is_kept = is_kept or not (is_new or key in self._ordinary)
        self._left += self._ordinary.get(key, 0)
        if is_kept:
            self._ordinary.pop(key, None)
            if size > _SMALL and params is not None:
                member = _COALESCED_BY.get(method)
                params = {member: params[member]} if member is not None else None
        else:
            self._left -= size
            self._ordinary[key] = size
        self._waiting[key] = (method, params)
        while len(self._ordinary) > self._limit or self._left < 0:
            oldest, freed = self._ordinary.popitem(last=False)
            self._left += freed
            del self._waiting[oldest]
            self.dropped += 1
        return is_new

    def pop(self) -> Event:
        """Take the oldest notification out."""
        if not self._waiting:
            raise IndexError("no notification waits")
        key, event = self._waiting.popitem(last=False)
        self._left += self._ordinary.pop(key, 0)
        return event

    def clear(self) -> None:
        """Forget what waits; the counter stays."""
        self._waiting.clear()
        self._left += sum(self._ordinary.values())
        self._ordinary.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)
