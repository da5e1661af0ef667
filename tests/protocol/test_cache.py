"""Cached results: which are kept, for how long, for which partition, until when."""

import sys
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import calls

from mcpwire.protocol.cache import MAX_TTL_S, ResponseCache
from mcpwire.protocol.methods import METHODS

CACHEABLE = sorted({spec.name for spec in METHODS if spec.cacheable})
OTHERS = sorted({spec.name for spec in METHODS} - set(CACHEABLE))
UPDATED = "notifications/resources/updated"
LISTS = "notifications/resources/list_changed"
PRIVATE = {"resultType": "complete", "ttlMs": 1_000, "cacheScope": "private"}
PUBLIC = {**PRIVATE, "cacheScope": "public"}


def put(cache, method="tools/list", params=None, result=PRIVATE, at=0.0):
    """Simulate a request: take the generation, then store its result."""
    generation = cache.generation(method, params)
    return cache.put(method, params, result, at, generation)


@pytest.mark.parametrize("method", CACHEABLE)
def test_fresh_result_is_served_from_the_cache(method):
    cache = ResponseCache()
    assert cache.get(method, {"cursor": "a"}, 0.0) is None
    assert put(cache, method, {"cursor": "a"}, {**PRIVATE, "x": [1, {"y": None}]})
    found = cache.get(method, {"cursor": "a"}, 0.5)
    assert found == {**PRIVATE, "x": [1, {"y": None}]}
    assert list(found) == [*PRIVATE, "x"]
    assert (cache.hits, cache.misses, cache.stores, len(cache)) == (1, 1, 1, 1)


@pytest.mark.parametrize("method", [*OTHERS, "x/unknown"])
def test_other_methods_are_neither_cached_nor_counted(method):
    cache = ResponseCache()
    assert not put(cache, method)
    assert cache.get(method, None, 0.0) is None
    assert (cache.misses, cache.stores) == (0, 0)


@pytest.mark.rule("CACHE-04")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/list", {"a": 1, "b": [1, 2]}),
        ("tools/list", None),
        ("tools/list", {"a": 1}),
        ("tools/list", {"a": 1, "b": [2, 1]}),
        ("tools/list", {"a": "1", "b": [1, 2]}),
        ("tools/list", {"a": 1.0, "b": [1, 2]}),
        ("tools/list", {"a": True, "b": [1, 2]}),
        ("tools/list", {"a": 1, "b": [1, 2], "c": None}),
    ],
)
def test_result_is_not_served_for_another_request(method, params):
    cache = ResponseCache()
    put(cache, "tools/list", {"a": 1, "b": [1, 2]})
    assert cache.get(method, params, 0.0) is None


@pytest.mark.parametrize(
    ("params", "same_params"),
    [
        (None, {}),
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": (1, {"x": 1})}, {"a": [1, {"x": 1}]}),
        ({"a": 1, "_meta": {"progressToken": 7}}, {"a": 1}),
        ({}, {"_meta": object()}),
    ],
)
def test_equivalent_params_share_one_cache_entry(params, same_params):
    cache = ResponseCache()
    put(cache, params=params)
    assert cache.get("tools/list", same_params, 0.0) == PRIVATE


@pytest.mark.rule("CACHE-05")
@pytest.mark.parametrize("member", ["inputResponses", "requestState"])
@pytest.mark.parametrize("value", [None, "", {}, "state"])
def test_input_round_is_neither_stored_nor_served(member, value):
    cache = ResponseCache()
    params = {"uri": "a:"}
    assert not put(cache, "resources/read", {**params, member: value})
    assert cache.get("resources/read", params, 0.0) is None
    put(cache, "resources/read", params)
    assert cache.get("resources/read", {**params, member: value}, 0.0) is None


def endless():
    value = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    "params", [{"a": object()}, {"a": {1: 2, "x": 3}}, endless(), {"a": float("nan")}]
)
def test_unencodable_params_bypass_the_cache(params):
    cache = ResponseCache()
    assert not put(cache, params=params)
    assert cache.get("tools/list", params, 0.0) is None


@pytest.mark.rule("CACHE-06")
@pytest.mark.parametrize(
    ("ttl", "fresh_at", "stale_at"),
    [
        (1, 0.0009, 0.001),
        (1_000, 0.999, 1.0),
        (60_000, 59.9, 60.0),
        (1.5, 0.001, 0.002),
        (10**15, MAX_TTL_S - 1, MAX_TTL_S),
        (1e300, MAX_TTL_S - 1, MAX_TTL_S),
    ],
)
def test_result_is_fresh_for_its_ttl(ttl, fresh_at, stale_at):
    cache = ResponseCache()
    assert put(cache, result={**PRIVATE, "ttlMs": ttl}, at=100.0)
    assert cache.get("tools/list", None, 100.0 + fresh_at) is not None
    assert cache.get("tools/list", None, 100.0 + stale_at) is None


@pytest.mark.rule("CACHE-06")
@pytest.mark.parametrize("ttl", [0, -1, -0.5, None, "1000", True, [1000], ...])
def test_result_without_a_positive_ttl_is_not_stored(ttl):
    result = {**PRIVATE, "ttlMs": ttl}
    if ttl is ...:
        del result["ttlMs"]
    cache = ResponseCache()
    assert not put(cache, result=result)
    assert len(cache) == 0


@pytest.mark.rule("CACHE-06")
def test_uncacheable_result_removes_the_older_entry():
    cache = ResponseCache()
    put(cache)
    put(cache, result={**PRIVATE, "ttlMs": 0})
    assert cache.get("tools/list", None, 0.0) is None


@pytest.mark.rule("CACHE-07", "CACHE-08")
def test_stale_result_is_dropped_and_not_refetched():
    """Our choice: no stale result is served while a refetch fails, and no polling."""
    cache = ResponseCache()
    put(cache)
    assert cache.get("tools/list", None, 1.0) is None
    assert len(cache) == 0
    assert cache.get("tools/list", None, 0.5) is None
    # The cache receives times and results; it has no means to fetch.
    names = {name for name in dir(cache) if not name.startswith("_")}
    assert names == {
        *("get", "put", "generation", "invalidate", "drop_list", "clear"),
        *("partition", "hits", "misses", "stores"),
    }


@pytest.mark.parametrize("kind", ["input_required", "task", None])
def test_incomplete_result_is_not_stored(kind):
    cache = ResponseCache()
    assert not put(
        cache, "resources/read", {"uri": "a:"}, {**PUBLIC, "resultType": kind}
    )
    assert put(cache, "resources/read", {"uri": "a:"}, {"ttlMs": 1})


@pytest.mark.rule("CACHE-09")
@pytest.mark.parametrize("share_public", [False, True])
@pytest.mark.parametrize("scope", ["private", None, "Public", "shared", 1, ...])
def test_non_public_result_stays_in_its_partition(scope, share_public):
    result = {**PRIVATE, "cacheScope": scope}
    if scope is ...:
        del result["cacheScope"]
    one = ResponseCache(share_public=share_public)
    other = one.partition("other")
    put(one, result=result)
    assert other.get("tools/list", None, 0.0) is None
    assert one.get("tools/list", None, 0.0) == result
    assert one.partition("other").get("tools/list", None, 0.0) is None
    assert other.partition("").get("tools/list", None, 0.0) == result


@pytest.mark.rule("CACHE-09")
@pytest.mark.parametrize("share_public", [False, True])
def test_public_result_is_shared_only_with_share_public(share_public):
    one = ResponseCache(share_public=share_public)
    other = one.partition("other")
    put(one, result=PUBLIC)
    assert (other.get("tools/list", None, 0.0) is not None) is share_public


@pytest.mark.rule("CACHE-09")
def test_private_result_wins_over_public_and_the_newest_over_both():
    one = ResponseCache(share_public=True)
    other = one.partition("other")
    put(one, result={**PUBLIC, "n": 1})
    put(other, result={**PRIVATE, "n": 2})
    assert other.get("tools/list", None, 0.0)["n"] == 2
    assert one.get("tools/list", None, 0.0) is None
    put(one, result={**PUBLIC, "n": 3})
    assert one.get("tools/list", None, 0.0)["n"] == 3


def test_changing_a_result_does_not_change_the_cached_copy():
    cache = ResponseCache()
    result = {**PRIVATE, "tools": [{"name": "a"}]}
    put(cache, result=result)
    result["tools"].clear()
    first = cache.get("tools/list", None, 0.0)
    first["tools"][0]["name"] = "evil"
    assert cache.get("tools/list", None, 0.0)["tools"] == [{"name": "a"}]


ENTRIES = [
    ("tools/list", {}),
    ("tools/list", {"cursor": "2"}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("skills/list", {}),
    ("resources/read", {"uri": "file:///d"}),
    ("resources/read", {"uri": "file:///d/e"}),
    ("server/discover", {}),
]


def remaining(method, params):
    cache = ResponseCache()
    for name, entry_params in ENTRIES:
        put(cache, name, entry_params)
        put(cache.partition("other"), name, entry_params)
    cache.invalidate(method, params)
    views = (cache, cache.partition("other"))
    return [
        number
        for number, (name, entry_params) in enumerate(ENTRIES)
        if any(view.get(name, entry_params, 0.0) is not None for view in views)
    ]


@pytest.mark.rule("CACHE-10")
@pytest.mark.parametrize(
    ("method", "params", "removed"),
    [
        ("notifications/tools/list_changed", None, {0, 1}),
        ("notifications/prompts/list_changed", {}, {2}),
        (LISTS, None, {3, 4}),
        (UPDATED, {"uri": "file:///d"}, {6}),
        (UPDATED, {"uri": "file:///d/e"}, {6, 7}),
        (UPDATED, {"uri": "file:///d#x"}, {6}),
        (UPDATED, {"uri": "file:///dd"}, set()),
        (UPDATED, {"uri": "file:///d" + "/x" * 200}, {6}),
        (UPDATED, {}, set()),
        (UPDATED, None, set()),
        (UPDATED, {"uri": 7}, set()),
        ("notifications/message", {"level": "info", "data": 1}, set()),
    ],
)
def test_notification_removes_its_entries_in_all_partitions(method, params, removed):
    assert remaining(method, params) == [
        n for n in range(len(ENTRIES)) if n not in removed
    ]


@pytest.mark.rule("CACHE-10")
@pytest.mark.parametrize(
    ("method", "params", "event"),
    [
        ("tools/list", {}, ("notifications/tools/list_changed", None)),
        ("tools/list", {"cursor": "2"}, ("notifications/tools/list_changed", None)),
        ("resources/templates/list", {}, (LISTS, None)),
        ("resources/read", {"uri": "a:/b"}, (UPDATED, {"uri": "a:/b"})),
        ("resources/read", {"uri": "a:/b"}, (UPDATED, {"uri": "a:/b/c"})),
    ],
)
def test_request_started_before_an_invalidation_is_not_stored(method, params, event):
    cache = ResponseCache()
    before = cache.generation(method, params)
    cache.invalidate(*event)
    assert not cache.put(method, params, PRIVATE, 0.0, before)
    assert cache.get(method, params, 0.0) is None
    after = cache.generation(method, params)
    assert cache.put(method, params, PRIVATE, 0.0, after)
    assert not cache.put(method, params, {**PRIVATE, "n": 2}, 0.0, before)
    assert cache.get(method, params, 0.0) == PRIVATE


def test_unrelated_invalidation_does_not_affect_a_pending_request():
    cache = ResponseCache()
    before = cache.generation("tools/list", None)
    cache.invalidate(LISTS, None)
    cache.invalidate(UPDATED, {"uri": "a:"})
    assert cache.put("tools/list", None, PRIVATE, 0.0, before)


@pytest.mark.parametrize("others", [1, 1_024])
def test_pending_read_is_stored_after_updates_of_other_resources(others):
    cache = ResponseCache()
    one, part = {"uri": "a:/one"}, {"uri": "a:/one/part"}
    cache.invalidate(UPDATED, part)
    before = cache.generation("resources/read", one)
    for number in range(others):
        cache.invalidate(UPDATED, {"uri": f"a:/other/{number}"})
    assert cache.put("resources/read", one, PRIVATE, 0.0, before)
    cache.invalidate(UPDATED, part)
    assert cache.get("resources/read", one, 0.0) is None
    assert not cache.put("resources/read", one, PRIVATE, 0.0, before)


@pytest.mark.parametrize("uris", [range(1_025), ["x" * 5_000]], ids=["many", "long"])
def test_untracked_updates_invalidate_every_pending_read(uris):
    cache = ResponseCache()
    before = cache.generation("resources/read", {"uri": "b:"})
    for uri in uris:
        cache.invalidate(UPDATED, {"uri": f"a:/{uri}"})
    assert not cache.put("resources/read", {"uri": "b:"}, PRIVATE, 0.0, before)
    assert put(cache, "resources/read", {"uri": "b:"})


def test_clear_removes_all_entries_and_rejects_pending_ones():
    cache = ResponseCache()
    before = cache.generation("tools/list", None)
    put(cache.partition("other"))
    cache.clear()
    assert not cache.put("tools/list", None, PRIVATE, 0.0, before)
    assert len(cache) == 0
    assert put(cache)


@pytest.mark.rule("CACHE-11")
def test_pages_expire_separately_and_drop_list_removes_all_pages():
    cache = ResponseCache()
    put(cache, params={}, result={**PRIVATE, "ttlMs": 5_000}, at=0.0)
    put(cache, params={"cursor": ""}, result={**PRIVATE, "ttlMs": 1_000}, at=1.0)
    put(cache, params={"cursor": "2"}, result={**PRIVATE, "ttlMs": 5_000}, at=1.0)
    put(cache, "prompts/list", {}, {**PRIVATE, "ttlMs": 5_000})
    assert cache.get("tools/list", {"cursor": ""}, 2.0) is None
    assert cache.get("tools/list", {}, 2.0) is not None
    assert cache.get("tools/list", {"cursor": "2"}, 2.0) is not None
    before = cache.generation("tools/list", {})
    cache.drop_list("tools/list")
    assert cache.get("tools/list", {}, 2.0) is None
    assert cache.get("tools/list", {"cursor": "2"}, 2.0) is None
    assert cache.get("prompts/list", {}, 2.0) is not None
    assert not cache.put("tools/list", {"cursor": "2"}, PRIVATE, 2.0, before)


def test_least_recently_used_result_is_evicted_at_max_entries():
    cache = ResponseCache(10)
    for number in range(10):
        put(cache, params={"cursor": str(number)})
    cache.get("tools/list", {"cursor": "0"}, 0.0)
    put(cache, params={"cursor": "10"})
    left = [
        n
        for n in range(11)
        if cache.get("tools/list", {"cursor": str(n)}, 0.0) is not None
    ]
    assert left == [0, *range(2, 11)]


def test_least_recently_used_result_is_evicted_at_max_bytes():
    cache = ResponseCache(max_bytes=10_000)
    for number in range(100):
        assert put(cache, params={"n": number}, result={**PRIVATE, "x": "x" * 1_000})
        assert cache._store.bytes <= 10_000
    assert len(cache) == 9
    assert not put(cache, params={"n": -1}, result={**PRIVATE, "x": "x" * 10_000})
    assert len(cache) == 9


def test_result_too_deep_to_encode_is_not_stored():
    value = 1
    for _ in range(300):
        value = [value]
    assert not put(ResponseCache(), result={**PRIVATE, "x": value})


@pytest.mark.parametrize("name", ["max_entries", "max_bytes"])
@pytest.mark.parametrize("bound", [0, -1])
def test_cache_size_must_be_positive(name, bound):
    with pytest.raises(ValueError, match=f"{name} must be above zero, got {bound}"):
        ResponseCache(**{name: bound})


def test_repr_is_one_readable_line():
    cache = ResponseCache()
    put(cache)
    cache.get("tools/list", None, 0.0)
    size = len(b'{"resultType":"complete","ttlMs":1000,"cacheScope":"private"}')
    assert repr(cache) == f"<ResponseCache: 1 results, {size} bytes, 1 hits, 0 misses>"


def test_flood_of_notifications_keeps_bounded_state():
    cache = ResponseCache()
    for number in range(1_000):
        put(cache, "resources/read", {"uri": f"file:///{number}"})
    for number in range(1_100):
        cache.invalidate(UPDATED, {"uri": f"file:///d/{number}/x/y"})
        cache.invalidate("notifications/tools/list_changed", None)
    assert len(cache) == 1_000
    assert len(cache._store._recorded) == 1_024


def test_update_cost_does_not_depend_on_the_number_of_results():
    counts = []
    for size in (10, 1_000):
        cache = ResponseCache()
        for number in range(size):
            put(cache, "resources/read", {"uri": f"file:///{number}"})
        counts.append(calls(cache.invalidate, UPDATED, {"uri": "file:///d/x"}))
    assert counts[0] == counts[1]


URIS = st.text("ab/?#", max_size=6)


@given(st.sets(URIS, max_size=20), URIS, st.sampled_from(["", "c" * 300]))
def test_update_drops_the_resource_and_its_parents(stored, changed, start):
    cache = ResponseCache()
    for uri in stored:
        put(cache, "resources/read", {"uri": start + uri})
    cache.invalidate(UPDATED, {"uri": start + changed})
    for uri in stored:
        found = cache.get("resources/read", {"uri": start + uri}, 0.0)
        rest = changed.removeprefix(uri)
        is_part = changed.startswith(uri) and (
            not rest or rest[0] in "/?#" or (start + uri).endswith(("/", "?", "#"))
        )
        assert (found is None) == is_part


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("get"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("drop"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("list"), st.just(0), st.booleans()),
)


@given(st.lists(OPERATIONS, max_size=40))
def test_size_is_correct_after_any_sequence_of_operations(operations):
    cache = ResponseCache(4, max_bytes=400, share_public=True)
    for action, number, is_public in operations:
        view = cache.partition("other") if is_public else cache
        params = {"uri": f"a:/{number}"}
        if action == "put":
            result = {**(PUBLIC if is_public else PRIVATE), "x": "x" * number * 20}
            put(view, "resources/read", params, result)
        elif action == "get":
            view.get("resources/read", params, number / 3)
        elif action == "drop":
            view.invalidate(UPDATED, params)
        else:
            view.drop_list("resources/read")
        store = cache._store
        assert store.bytes == sum(len(entry.text) for entry in store.entries.values())
        assert store.bytes <= 400
        assert len(store.entries) <= 4


def in_threads(use):
    """Run this in four threads that Python switches between very often."""
    threads = [Thread(target=use, args=(name,)) for name in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_nested_put_leaves_one_result_counted_once():
    cache = ResponseCache()

    class Overtaken(dict):
        """A result that, while it is read, stores another one for the same request."""

        def get(self, name, default=None):
            put(cache)
            return super().get(name, default)

    assert put(cache, result=Overtaken(PUBLIC, n=1))
    assert cache.get("tools/list", None, 0.0) == {**PUBLIC, "n": 1}
    cache.clear()
    assert ": 0 results, 0 bytes," in repr(cache)


def test_several_threads_may_use_one_cache():
    cache = ResponseCache(50)
    wrong = []

    def use(name):
        for number in range(700):
            params = {"uri": f"a:/{number % 80}"}
            try:
                if number % 7 == 0:
                    cache.invalidate(UPDATED, params)
                elif (found := cache.get("resources/read", params, 0.0)) is None:
                    put(cache, "resources/read", params, {**PRIVATE, "x": params})
                elif found["x"] != params:
                    wrong.append((name, found))
            except Exception as error:  # noqa: BLE001 - the test tells of any
                wrong.append((name, error))

    in_threads(use)
    assert wrong == []
    assert len(cache) <= 50
    cache.clear()
    assert len(cache) == 0
