"""Which notifications are wanted, by how many, and what a server will tell of them.

A `Filter` is one set of wants: what `subscriptions/listen` asks for, what a server
acknowledges, what one consumer is given. `Interests` counts who wants what, so that one
subscription can serve many consumers and ends with the last of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.protocol.methods import find, is_declared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcpwire.protocol.methods import MethodSpec

__all__ = ["Filter", "Interests"]

_Atom: TypeAlias = tuple[str, str | None]

_FIELDS: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "uris": "notifications/resources/updated",
    "task_ids": "notifications/tasks",
}
"""Field of a `Filter` -> the notification it is about."""

_BY_METHOD: Final = {method: field for field, method in _FIELDS.items()}

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
    """How one of these tasks stands; of the tasks extension."""

    @classmethod
    def of(cls, raw: object) -> Filter:
        """Read the `notifications` object of a request or an acknowledgement.

        What is no such object, or no such member, wants nothing: an acknowledgement
        names what a server will do, and nonsense promises nothing.
        """
        return _joined(_promised(raw) if isinstance(raw, dict) else ())

    def as_params(self) -> dict[str, Any]:
        """Return the `notifications` object of `subscriptions/listen`."""
        params: dict[str, Any] = {}
        for field in _FIELDS:
            wanted = getattr(self, field)
            if wanted:
                params[_wire_name(field)] = (
                    sorted(wanted) if field in _SUBJECTS else True
                )
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
            field == "uris" and any(_is_part(subject, uri) for uri in wanted)
        )

    def minus(self, other: Filter) -> Filter:
        """Return what is in this set and not in the other."""
        return _joined(set(_atoms(self)) - set(_atoms(other)))

    def restricted(self, capabilities: Mapping[str, Any] | None) -> Filter:
        """Return what a server with these declared capabilities can honour."""
        return _joined(
            (field, subject)
            for field, subject in _atoms(self)
            if is_declared(_row(field), capabilities)
        )

    def __or__(self, other: Filter) -> Filter:
        return _joined((*_atoms(self), *_atoms(other)))

    def __bool__(self) -> bool:
        return any(_atoms(self))


def _row(field: str) -> MethodSpec:
    spec = find(_FIELDS[field])
    assert spec is not None
    return spec


def _wire_name(field: str) -> str:
    name = _row(field).listen_filter
    assert name is not None
    return name


def _atoms(wanted: Filter) -> Iterator[_Atom]:
    """Yield each single want: its field, and what about where it says that."""
    for field in _FIELDS:
        value = getattr(wanted, field)
        if field in _SUBJECTS:
            yield from ((field, subject) for subject in value)
        elif value:
            yield field, None


def _promised(raw: dict[str, Any]) -> Iterator[_Atom]:
    for field in _FIELDS:
        value = raw.get(_wire_name(field))
        if field not in _SUBJECTS:
            if value is True:
                yield field, None
        elif isinstance(value, list):
            yield from ((field, item) for item in value if isinstance(item, str))


def _is_part(uri: str, whole: str) -> bool:
    """Tell whether a resource may be a part of the other one.

    2026-07-28 schema, ResourceUpdatedNotificationParams: the URI may be that of a
    sub-resource. The specification does not say which those are; here they are what
    lies below in the path, a query or a fragment.
    """
    return uri.startswith(whole) and (
        whole.endswith(_SUB_RESOURCE) or uri.startswith(_SUB_RESOURCE, len(whole))
    )


def _joined(atoms: Iterable[_Atom]) -> Filter:
    wanted: dict[str, set[str | None]] = {}
    for field, subject in atoms:
        wanted.setdefault(field, set()).add(subject)
    fields: dict[str, Any] = {
        field: subjects if field in _SUBJECTS else True
        for field, subjects in wanted.items()
    }
    return Filter(**fields)


class Interests:
    """Who wants which notifications, counted.

    Each single want is counted for itself: what was added as one filter may be removed
    in parts, and the other way round.
    """

    __slots__ = ("_counts", "_current")

    def __init__(self) -> None:
        self._counts: Counter[_Atom] = Counter()
        self._current: Filter | None = Filter()

    @property
    def current(self) -> Filter:
        """All that somebody wants."""
        if self._current is None:
            self._current = _joined(self._counts)
        return self._current

    def add(self, wanted: Filter) -> Filter:
        """Count one more for each want; return those that nobody had before."""
        atoms = set(_atoms(wanted))
        counts = self._counts.copy()
        counts.update(atoms)
        return self._change(counts, atoms - self._counts.keys())

    def remove(self, wanted: Filter) -> Filter:
        """Count one less for each want; return those that nobody has any more.

        Raises:
            ValueError: Something of it was never added, or is removed already; then
                nothing is removed.
        """
        atoms = set(_atoms(wanted))
        if unknown := atoms - self._counts.keys():
            raise ValueError(f"nobody wants {_joined(unknown).as_params()!r}")
        counts = self._counts.copy()
        counts.subtract(atoms)
        last = {atom for atom in atoms if not counts[atom]}
        for atom in last:
            del counts[atom]
        return self._change(counts, last)

    def _change(self, counts: Counter[_Atom], atoms: set[_Atom]) -> Filter:
        changed = _joined(atoms)
        # Last and together, for an interrupt comes with a call, and finds all or none.
        self._counts = counts
        if atoms:
            self._current = None
        return changed
