"""Results that may be used again, for as long as their server said (2026-07-28).

A cache never acts by itself: there is no timer in it and no polling. What is no longer
fresh is forgotten when it is next asked for, and then fetched by who asked.

Each entry knows the moment before its request was sent, its **generation**, and the
cache knows the last moment at which each thing changed. An entry older than that is as
good as gone, also where its result arrives after the change; nothing has to be searched
for when a notification comes, however many come.

Results are kept as JSON text, so no caller can change what the next one gets. Several
threads may use one cache at once: there is no lock in this layer, but each step is one
operation on a dict, and `add` and `change_uri` go by an order that loses no change.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.methods import find
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ResponseCache"]

LONGEST_TTL_S: Final = 24 * 60 * 60.0
"""A server that says longer is taken to mean this."""

_DEFAULT_ENTRIES: Final = 1_024
_DEFAULT_BYTES: Final = 64 * 1024 * 1024
_LEFT_AFTER_EVICTION: Final = 0.9  # so that not each new result looks for the oldest

# 2026-07-28 server/utilities/caching, "Interaction with Notifications".
_CHANGED: Final[Mapping[str, tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": (
        "resources/list",
        "resources/templates/list",
    ),
}
_UPDATED: Final = "notifications/resources/updated"

_BUCKETS: Final = 1_024
"""For requests under way, when a resource changed is noted by the hash of its URI, as a
peer may name URIs without end; where two meet, a result is not kept that might be."""

_URIS_FOR_EACH_ENTRY: Final = 4

_LONGEST_TAKEN_APART: Final = 4_096  # characters of a URI
_MOST_ANCESTORS: Final = 64

_ROUNDS: Final = ("inputResponses", "requestState")

_Key: TypeAlias = "tuple[str | None, str, bytes]"


@attrs.define(eq=False)
class _Entry:
    """One result."""

    text: bytes
    fresh_until: float
    generation: int
    used: int


class _Store:
    """The entries of all partitions of one cache, and when what changed."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.entries: dict[_Key, _Entry] = {}
        self.bytes = 0
        self.hits = self.misses = self.stores = 0
        self.moments = count(1)  # `next` of it is one operation
        self._cleared_at = 0
        self._methods_changed_at: dict[str, int] = {}
        self._kept_changed_at: dict[str, int] = {}
        self._any_changed_at = [0] * _BUCKETS
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    def kept_changed_at(self, method: str, uri: str | None) -> int:
        """Return the last moment at which an answer that was kept changed."""
        return max(
            self._cleared_at,
            self._methods_changed_at.get(method, 0),
            self._kept_changed_at.get(uri, 0) if uri is not None else 0,
        )

    def may_have_changed_at(self, method: str, uri: str | None) -> int:
        """Return the last moment at which any answer may have changed."""
        return max(
            self._cleared_at,
            self._methods_changed_at.get(method, 0),
            self._any_changed_at[_bucket(uri)] if uri is not None else 0,
        )

    def change_method(self, method: str) -> None:
        self._methods_changed_at[method] = next(self.moments)

    def change_uri(self, uri: str) -> None:
        # In this order: `add` notes the URI first and asks for changes last.
        moment = next(self.moments)
        self._any_changed_at[_bucket(uri)] = moment
        if uri in self._kept_changed_at:
            self._kept_changed_at[uri] = moment

    def clear(self) -> None:
        for key in self.entries.copy():
            self.remove(key)
        self._kept_changed_at.clear()
        # Last: a result of another thread may have come in between, without its URI.
        self._cleared_at = next(self.moments)

    def fits(self, text: bytes) -> bool:
        return len(text) <= self._max_bytes * _LEFT_AFTER_EVICTION

    def add(self, key: _Key, entry: _Entry, uri: str | None) -> None:
        if uri is not None:
            # Of results long gone their URIs are left; rather than search, start over.
            if len(self._kept_changed_at) >= self._max_entries * _URIS_FOR_EACH_ENTRY:
                self.clear()
            self._kept_changed_at.setdefault(uri, 0)
        while self.entries.setdefault(key, entry) is not entry:
            self.remove(key)
        size = len(entry.text)  # apart: no thread may go on amid the addition
        self.bytes += size
        self.stores += 1
        if len(self.entries) > self._max_entries or self.bytes > self._max_bytes:
            self._evict()

    def remove(self, key: _Key) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            size = len(entry.text)
            self.bytes -= size

    def _evict(self) -> None:
        """Remove what was not used for longest."""
        oldest_last = sorted(
            self.entries.copy().items(), key=lambda item: item[1].used, reverse=True
        )
        entries = len(oldest_last)
        size = sum(len(entry.text) for _, entry in oldest_last)
        while (
            entries > self._max_entries * _LEFT_AFTER_EVICTION
            or size > self._max_bytes * _LEFT_AFTER_EVICTION
        ):
            key, entry = oldest_last.pop()
            self.remove(key)
            entries -= 1
            size -= len(entry.text)


class ResponseCache:
    """What one server answered and allows to be used again.

    A server's answers may depend on who asks, so what it calls private stays within one
    partition: one authorization, such as one access token. A client has one partition;
    `partition` gives another one of the same cache. What the server calls public is
    shared between them only with `share_public`. Different servers need different
    caches.
    """

    def __init__(
        self,
        max_entries: int = _DEFAULT_ENTRIES,
        *,
        max_bytes: int = _DEFAULT_BYTES,
        share_public: bool = False,
    ) -> None:
        """Make an empty cache of so many results and so many bytes of JSON text.

        Raises:
            ValueError: A bound is not above zero.
        """
        for name, bound in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if bound <= 0:
                raise ValueError(f"{name} must be above zero, got {bound!r}")
        self._store = _Store(max_entries, max_bytes)
        self._partition = ""
        self._share_public = share_public

    def partition(self, name: str) -> ResponseCache:
        """Return the same cache as another authorization sees it."""
        other = ResponseCache.__new__(ResponseCache)
        vars(other).update(vars(self), _partition=name)
        return other

    @property
    def hits(self) -> int:
        """How often a result was found fresh."""
        return self._store.hits

    @property
    def misses(self) -> int:
        """How often one that may be kept was not there, or no longer fresh."""
        return self._store.misses

    @property
    def stores(self) -> int:
        """How many results were kept."""
        return self._store.stores

    def __len__(self) -> int:
        """Return how many results are held, with those not fresh any more."""
        return len(self._store.entries)

    def __repr__(self) -> str:
        """Return one line."""
        store = self._store
        return (
            f"<ResponseCache: {len(self)} results, {store.bytes} bytes, "
            f"{store.hits} hits, {store.misses} misses>"
        )

    def get(
        self, method: str, params: Mapping[str, Any] | None, now: float
    ) -> dict[str, Any] | None:
        """Return a result that is still fresh; the caller's own, to do with as it will.

        The time is in seconds of the clock that `put` is told the time of.
        """
        keys = self._keys(method, params)
        store = self._store
        changed_at = store.kept_changed_at(method, _uri(params))
        for key in keys:
            entry = store.entries.get(key)
            if entry is None:
                continue
            if now < entry.fresh_until and entry.generation > changed_at:
                entry.used = next(store.moments)
                store.hits += 1
                result: dict[str, Any] = loads(entry.text)
                return result
            store.remove(key)
        if keys:
            store.misses += 1
        return None

    def generation(self, method: str, params: Mapping[str, Any] | None) -> int:
        """Return what `put` needs to know of the moment before a request is sent."""
        return next(self._store.moments)

    def put(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        result: Mapping[str, Any],
        received_at: float,
        generation: int,
    ) -> bool:
        """Keep a result if its server allows it; tell whether it is kept."""
        keys = self._keys(method, params)
        uri = _uri(params)
        store = self._store
        if not keys or generation < store.may_have_changed_at(method, uri):
            return False
        # The newest answer counts, also where it may not be kept itself.
        for key in keys:
            store.remove(key)
        lifetime = _lifetime(result)
        text = _text(result) if lifetime > 0 else None
        if text is None or not store.fits(text):
            return False
        key = keys[-1] if result.get("cacheScope") == "public" else keys[0]
        used = next(store.moments)
        store.add(key, _Entry(text, received_at + lifetime, generation, used), uri)
        if generation < store.may_have_changed_at(method, uri):
            store.remove(key)
            return False
        return True

    def _keys(self, method: str, params: Mapping[str, Any] | None) -> list[_Key]:
        """Return where a result may be: the own partition, then what all share."""
        spec = find(method)
        if spec is None or not spec.cacheable:
            return []
        question = _question(params or {})
        if question is None:
            return []
        keys: list[_Key] = [(self._partition, method, question)]
        if self._share_public:
            keys.append((None, method, question))
        return keys

    def invalidate(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Forget what a notification says is no longer so, in all partitions."""
        for changed in _CHANGED.get(method, ()):
            self._store.change_method(changed)
        if method == _UPDATED and (uri := _uri(params)) is not None:
            for changed in _ancestors(uri):
                self._store.change_uri(changed)

    def drop_list(self, method: str) -> None:
        """Forget all pages of a list, such as when a cursor is no longer valid.

        "Interaction with Pagination": then a walk through it starts over.
        """
        self._store.change_method(method)

    def clear(self) -> None:
        """Forget everything, in all partitions."""
        self._store.clear()


def _lifetime(result: Mapping[str, Any]) -> float:
    """Return for how many seconds a result is fresh; 0: not at all."""
    if result.get("resultType", "complete") != "complete":
        return 0.0
    ttl = result.get("ttlMs")
    # "Time-to-Live": absent or negative is as good as 0.
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl > 0:
        return 0.0
    return min(ttl / 1000, LONGEST_TTL_S)


def _text(value: Any) -> bytes | None:
    """Return JSON text; ``None`` for what has none, or is nested too deeply for it."""
    try:
        return encode(value)
    except LocalProtocolError:
        return None


def _question(params: Mapping[str, Any]) -> bytes | None:
    """Return the same text for the same question; ``None`` where none can be kept."""
    # 2026-07-28 server/utilities/caching, "Cache Key": the answer to a later round is
    # no answer to the question, and `_meta` is no part of it.
    if any(name in params for name in _ROUNDS):
        return None
    asked = {name: value for name, value in params.items() if name != "_meta"}
    try:
        return _text(_ordered(asked))
    except (RecursionError, TypeError):  # what has no JSON form is refused when sent
        return None


def _ordered(value: Any) -> Any:
    """Return the same with the members of each object in one order."""
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_ordered(item) for item in value]
    return value


def _uri(params: Mapping[str, Any] | None) -> str | None:
    uri = (params or {}).get("uri")
    return uri if isinstance(uri, str) else None


def _bucket(uri: str) -> int:
    return hash(uri) % _BUCKETS


def _ancestors(uri: str) -> list[str]:
    """Return the URI, and those of resources that it may be a part of.

    2026-07-28 schema, ResourceUpdatedNotificationParams: the URI may be that of a
    sub-resource.
    """
    if len(uri) > _LONGEST_TAKEN_APART:
        return [uri]
    ends = [end for end, character in enumerate(uri) if character in "/?#"]
    nearest = ends[-_MOST_ANCESTORS:]
    return list(
        dict.fromkeys([uri, *(uri[: end + more] for end in nearest for more in (0, 1))])
    )
