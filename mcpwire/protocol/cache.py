"""Client cache of results, valid for the lifetime that the server set (2026-07-28).

There are no timers and no polling: the next lookup of a stale result removes it. A
result is not stored if a notification reported a change after its request was sent.

Results are stored as JSON text, so that callers cannot change each other's results.
The cache is thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.limits import check_bounds
from mcpwire.protocol.methods import find_method
from mcpwire.protocol.subscriptions import RESOURCE_UPDATED, is_within
from mcpwire.wire.json import encode, encode_sorted, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_TTL_S: Final = 24 * 60 * 60.0
"""The maximum lifetime in seconds; longer ones are shortened to this."""

_DEFAULT_ENTRIES: Final = 1_024
_DEFAULT_BYTES: Final = 64 * 1024 * 1024

# 2026-07-28 server/utilities/caching, "Interaction with Notifications".
_LISTS_BY_NOTIFICATION: Final[Mapping[str, tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": (
        "resources/list",
        "resources/templates/list",
    ),
}

_MAX_CHANGES: Final = 1_024  # recorded ones
_MAX_UPDATE_CHARS: Final = 4_096  # characters of the URI of a recorded change
_MAX_PREFIX_CHARS: Final = 256  # characters of a URI that is looked up by its prefixes

_ROUND_MEMBERS: Final = ("inputResponses", "requestState")

_Key: TypeAlias = "tuple[str | None, str, bytes]"  # partition, method, question


@attrs.frozen(eq=False)
class _Entry:
    """A cached result."""

    text: bytes
    fresh_until: float
    uri: str | None


class _Store:
    """The entries of all partitions of one cache."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.lock = RLock()
        self.entries: OrderedDict[_Key, _Entry] = OrderedDict()  # in order of use
        self._by_uri: dict[str, set[_Key]] = {}
        self.bytes = 0
        self.hits = self.misses = self.stores = 0
        self.changes = 0
        # The newest changes: the method, and the URI of the resource; None: any.
        self._recorded: deque[tuple[str, str | None]] = deque(maxlen=_MAX_CHANGES)
        self._max_entries = max_entries
        self.max_bytes = max_bytes

    def has_changed(self, method: str, uri: str | None, generation: int) -> bool:
        """Return whether a result may have changed since its request was sent."""
        missed = self.changes - generation
        return missed > len(self._recorded) or any(
            changed == method
            or (
                changed == RESOURCE_UPDATED
                and uri is not None
                and (updated is None or is_within(updated, uri))
            )
            for changed, updated in islice(reversed(self._recorded), missed)
        )

    def invalidate_method(self, method: str) -> None:
        with self.lock:
            keys = [key for key in self.entries if key[1] == method]
            self._remove_changed(keys, method, None)

    def invalidate_uri(self, uri: str) -> None:
        with self.lock:
            if len(uri) > _MAX_PREFIX_CHARS:
                affected = [cached for cached in self._by_uri if is_within(uri, cached)]
            else:  # 10 times faster than the loop above with 1,000 resources
                affected = [
                    cached for cached in _prefixes(uri) if cached in self._by_uri
                ]
            keys = [key for cached in affected for key in self._by_uri[cached]]
            is_short = len(uri) <= _MAX_UPDATE_CHARS
            self._remove_changed(keys, RESOURCE_UPDATED, uri if is_short else None)

    def _remove_changed(self, keys: list[_Key], method: str, uri: str | None) -> None:
        self.changes += 1
        self._recorded.append((method, uri))
        for key in keys:
            self.remove(key)

    def clear(self) -> None:
        with self.lock:
            self.changes += 1
            self._recorded.clear()
            self.entries.clear()
            self._by_uri.clear()
            self.bytes = 0

    def add(self, key: _Key, entry: _Entry) -> None:
        self.entries[key] = entry
        if entry.uri is not None:
            self._by_uri.setdefault(entry.uri, set()).add(key)
        self.bytes += len(entry.text)
        self.stores += 1
        while len(self.entries) > self._max_entries or self.bytes > self.max_bytes:
            self.remove(next(iter(self.entries)))

    def remove(self, key: _Key) -> None:
        entry = self.entries.pop(key, None)
        if entry is None:
            return
        self.bytes -= len(entry.text)
        if entry.uri is not None:
            keys = self._by_uri[entry.uri]
            keys.remove(key)
            if not keys:
                del self._by_uri[entry.uri]


class ResponseCache:
    """A cache of the results of one server, as far as the server allows caching.

    Results may depend on the authorization, such as an access token. So each
    authorization has a partition of the cache, and private results stay in theirs. A
    client uses one partition; `partition` returns the others. Public results are shared
    between the partitions only if `share_public` is set. Different servers need
    different caches.
    """

    def __init__(
        self,
        max_entries: int = _DEFAULT_ENTRIES,
        *,
        max_bytes: int = _DEFAULT_BYTES,
        share_public: bool = False,
    ) -> None:
        """Create an empty cache, limited in results and in bytes of JSON text.

        Raises:
            ValueError: A limit is not above zero.
        """
        check_bounds(max_entries=max_entries, max_bytes=max_bytes)
        self._store = _Store(max_entries, max_bytes)
        self._partition = ""
        self._share_public = share_public

    def partition(self, name: str) -> ResponseCache:
        """Return the partition of this cache for another authorization."""
        partition = ResponseCache.__new__(ResponseCache)
        vars(partition).update(vars(self), _partition=name)
        return partition

    @property
    def hits(self) -> int:
        """The number of lookups that found a fresh result."""
        return self._store.hits

    @property
    def misses(self) -> int:
        """The number of lookups of cacheable results that found no fresh one."""
        return self._store.misses

    @property
    def stores(self) -> int:
        """The number of results that were stored."""
        return self._store.stores

    def __len__(self) -> int:
        """Return the number of cached results, stale ones included."""
        return len(self._store.entries)

    def __repr__(self) -> str:
        """Return the statistics on one line."""
        store = self._store
        return (
            f"<ResponseCache: {len(self)} results, {store.bytes} bytes, "
            f"{store.hits} hits, {store.misses} misses>"
        )

    def get(
        self, method: str, params: Mapping[str, Any] | None, now: float
    ) -> dict[str, Any] | None:
        """Return a copy of a fresh result, or ``None``.

        `now` is in seconds of the same clock as the `received_at` of `put`.
        """
        keys = self._keys(method, params)
        store = self._store
        with store.lock:
            for key in keys:
                entry = store.entries.get(key)
                if entry is None:
                    continue
                if now < entry.fresh_until:
                    store.entries.move_to_end(key)
                    store.hits += 1
                    result: dict[str, Any] = loads(entry.text)
                    return result
                store.remove(key)
            if keys:
                store.misses += 1
        return None

    def generation(self, method: str, params: Mapping[str, Any] | None) -> int:
        """Return the number of changes so far; pass it to `put` after the request."""
        return self._store.changes

    def put(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        result: Mapping[str, Any],
        received_at: float,
        generation: int,
    ) -> bool:
        """Store a result if the server allows caching; return whether it was stored."""
        keys = self._keys(method, params)
        lifetime = _lifetime_s(result)
        text = _encode_or_none(result) if keys and lifetime > 0 else None
        entry = _Entry(text or b"", received_at + lifetime, _uri(params))
        store = self._store
        with store.lock:
            if not keys or store.has_changed(method, entry.uri, generation):
                return False
            # A newer result invalidates the old one even if it must not be stored.
            for key in keys:
                store.remove(key)
            if text is None or len(text) > store.max_bytes:
                return False
            is_public = result.get("cacheScope") == "public"
            store.add(keys[-1] if is_public else keys[0], entry)
        return True

    def _keys(self, method: str, params: Mapping[str, Any] | None) -> list[_Key]:
        """Return the possible keys of a result: in the own partition, then shared."""
        spec = find_method(method)
        if spec is None or not spec.cacheable:
            return []
        params_key = _params_key(params or {})
        if params_key is None:
            return []
        keys: list[_Key] = [(self._partition, method, params_key)]
        if self._share_public:
            keys.append((None, method, params_key))
        return keys

    def invalidate(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Remove the results that a notification invalidates, in all partitions."""
        for list_method in _LISTS_BY_NOTIFICATION.get(method, ()):
            self._store.invalidate_method(list_method)
        if method == RESOURCE_UPDATED and (uri := _uri(params)) is not None:
            self._store.invalidate_uri(uri)

    def drop_list(self, method: str) -> None:
        """Remove all pages of a list, for example after an invalid cursor.

        "Interaction with Pagination": the iteration then starts over.
        """
        self._store.invalidate_method(method)

    def clear(self) -> None:
        """Remove all results, in all partitions."""
        self._store.clear()


def _lifetime_s(result: Mapping[str, Any]) -> float:
    """Return the lifetime of a result in seconds; 0: it must not be cached."""
    if result.get("resultType", "complete") != "complete":
        return 0.0
    ttl = result.get("ttlMs")
    # "Time-to-Live": absent or negative means 0.
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl > 0:
        return 0.0
    return min(ttl / 1000, MAX_TTL_S)


def _encode_or_none(
    value: Mapping[str, Any], write: Callable[[Any], bytes] = encode
) -> bytes | None:
    """Return the JSON text of a value; ``None`` if it cannot be encoded."""
    try:
        return write(value)
    except LocalProtocolError:
        return None


def _params_key(params: Mapping[str, Any]) -> bytes | None:
    """Return the cache key for params; ``None`` if the result cannot be cached."""
    # 2026-07-28 server/utilities/caching, "Cache Key": the result of a later input
    # round is not the result for the params, and `_meta` is not part of the key.
    if any(name in params for name in _ROUND_MEMBERS):
        return None
    members = {name: value for name, value in params.items() if name != "_meta"}
    return _encode_or_none(members, encode_sorted)


def _uri(params: Mapping[str, Any] | None) -> str | None:
    uri = (params or {}).get("uri")
    return uri if isinstance(uri, str) else None


def _prefixes(uri: str) -> set[str]:
    """Return all texts for which `is_within(uri, text)` is true."""
    cuts = {
        index + after
        for index, character in enumerate(uri)
        if character in "/?#"
        for after in (0, 1)
    }
    return {uri[:cut] for cut in cuts | {len(uri)}}
