"""Results that may be used again: which, for how long, by whom, and until when."""

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


def keep(cache, method="tools/list", params=None, result=PRIVATE, at=0.0):
    """Send a request, as it were, and hand in what came."""
    generation = cache.generation(method, params)
    return cache.put(method, params, result, at, generation)


@pytest.mark.parametrize("method", CACHEABLE)
def test_a_result_is_used_again_while_it_is_fresh(method):
    cache = ResponseCache()
    assert cache.get(method, {"cursor": "a"}, 0.0) is None
    assert keep(cache, method, {"cursor": "a"}, {**PRIVATE, "x": [1, {"y": None}]})
    found = cache.get(method, {"cursor": "a"}, 0.5)
    assert found == {**PRIVATE, "x": [1, {"y": None}]}
    assert list(found) == [*PRIVATE, "x"]
    assert (cache.hits, cache.misses, cache.stores, len(cache)) == (1, 1, 1, 1)


@pytest.mark.parametrize("method", [*OTHERS, "x/unknown"])
def test_other_methods_are_neither_kept_nor_counted(method):
    cache = ResponseCache()
    assert not keep(cache, method)
    assert cache.get(method, None, 0.0) is None
    assert (cache.misses, cache.stores) == (0, 0)


# --- the key


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
def test_a_result_answers_no_other_question(method, params):
    cache = ResponseCache()
    keep(cache, "tools/list", {"a": 1, "b": [1, 2]})
    assert cache.get(method, params, 0.0) is None


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        (None, {}),
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": (1, {"x": 1})}, {"a": [1, {"x": 1}]}),
        ({"a": 1, "_meta": {"progressToken": 7}}, {"a": 1}),
        ({}, {"_meta": object()}),
    ],
)
def test_the_same_question_may_be_put_in_another_way(asked, again):
    cache = ResponseCache()
    keep(cache, params=asked)
    assert cache.get("tools/list", again, 0.0) == PRIVATE


@pytest.mark.rule("CACHE-05")
@pytest.mark.parametrize("member", ["inputResponses", "requestState"])
@pytest.mark.parametrize("value", [None, "", {}, "state"])
def test_the_answer_to_a_later_round_is_never_kept_and_the_round_always_sent(
    member, value
):
    cache = ResponseCache()
    params = {"uri": "a:"}
    assert not keep(cache, "resources/read", {**params, member: value})
    assert cache.get("resources/read", params, 0.0) is None
    keep(cache, "resources/read", params)
    assert cache.get("resources/read", {**params, member: value}, 0.0) is None


def endless():
    value = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    "params", [{"a": object()}, {"a": {1: 2, "x": 3}}, endless(), {"a": float("nan")}]
)
def test_what_cannot_be_sent_is_not_asked_for_in_the_cache(params):
    cache = ResponseCache()
    assert not keep(cache, params=params)
    assert cache.get("tools/list", params, 0.0) is None


# --- how long


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
def test_a_result_is_fresh_for_as_long_as_its_server_says(ttl, fresh_at, stale_at):
    cache = ResponseCache()
    assert keep(cache, result={**PRIVATE, "ttlMs": ttl}, at=100.0)
    assert cache.get("tools/list", None, 100.0 + fresh_at) is not None
    assert cache.get("tools/list", None, 100.0 + stale_at) is None


@pytest.mark.rule("CACHE-06")
@pytest.mark.parametrize("ttl", [0, -1, -0.5, None, "1000", True, [1000], ...])
def test_without_a_time_to_live_a_result_is_stale_at_once(ttl):
    result = {**PRIVATE, "ttlMs": ttl}
    if ttl is ...:
        del result["ttlMs"]
    cache = ResponseCache()
    assert not keep(cache, result=result)
    assert len(cache) == 0


@pytest.mark.rule("CACHE-06")
def test_the_newest_answer_counts_also_where_it_may_not_be_kept():
    cache = ResponseCache()
    keep(cache)
    keep(cache, result={**PRIVATE, "ttlMs": 0})
    assert cache.get("tools/list", None, 0.0) is None


@pytest.mark.rule("CACHE-07", "CACHE-08")
def test_a_stale_result_is_forgotten_and_nobody_fetches_another():
    """Our choice: none is served while a refetch fails, and nothing is polled."""
    cache = ResponseCache()
    keep(cache)
    assert cache.get("tools/list", None, 1.0) is None
    assert len(cache) == 0
    assert cache.get("tools/list", None, 0.5) is None
    # The cache is told the time and what came; it is given nothing that could fetch.
    names = {name for name in dir(cache) if not name.startswith("_")}
    assert names == {
        *("get", "put", "generation", "invalidate", "drop_list", "clear"),
        *("partition", "hits", "misses", "stores"),
    }


@pytest.mark.parametrize("kind", ["input_required", "task", None])
def test_what_is_not_complete_is_not_kept(kind):
    cache = ResponseCache()
    assert not keep(
        cache, "resources/read", {"uri": "a:"}, {**PUBLIC, "resultType": kind}
    )
    assert keep(cache, "resources/read", {"uri": "a:"}, {"ttlMs": 1})


# --- for whom


@pytest.mark.rule("CACHE-09")
@pytest.mark.parametrize("share_public", [False, True])
@pytest.mark.parametrize("scope", ["private", None, "Public", "shared", 1, ...])
def test_what_is_not_public_stays_with_the_authorization_it_was_given_to(
    scope, share_public
):
    result = {**PRIVATE, "cacheScope": scope}
    if scope is ...:
        del result["cacheScope"]
    one = ResponseCache(share_public=share_public)
    other = one.partition("other")
    keep(one, result=result)
    assert other.get("tools/list", None, 0.0) is None
    assert one.get("tools/list", None, 0.0) == result
    assert one.partition("other").get("tools/list", None, 0.0) is None
    assert other.partition("").get("tools/list", None, 0.0) == result


@pytest.mark.rule("CACHE-09")
@pytest.mark.parametrize("share_public", [False, True])
def test_what_is_public_is_shared_only_where_that_was_asked_for(share_public):
    one = ResponseCache(share_public=share_public)
    other = one.partition("other")
    keep(one, result=PUBLIC)
    assert (other.get("tools/list", None, 0.0) is not None) is share_public


@pytest.mark.rule("CACHE-09")
def test_a_private_answer_goes_before_a_public_one_and_the_newest_before_both():
    one = ResponseCache(share_public=True)
    other = one.partition("other")
    keep(one, result={**PUBLIC, "n": 1})
    keep(other, result={**PRIVATE, "n": 2})
    assert other.get("tools/list", None, 0.0)["n"] == 2
    assert one.get("tools/list", None, 0.0) is None
    keep(one, result={**PUBLIC, "n": 3})
    assert one.get("tools/list", None, 0.0)["n"] == 3


def test_who_changes_a_result_changes_it_for_nobody_else():
    cache = ResponseCache()
    result = {**PRIVATE, "tools": [{"name": "a"}]}
    keep(cache, result=result)
    result["tools"].clear()
    first = cache.get("tools/list", None, 0.0)
    first["tools"][0]["name"] = "evil"
    assert cache.get("tools/list", None, 0.0)["tools"] == [{"name": "a"}]


# --- until when

KEPT = [
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


def left_after(method, params):
    cache = ResponseCache()
    for name, asked in KEPT:
        keep(cache, name, asked)
        keep(cache.partition("other"), name, asked)
    cache.invalidate(method, params)
    views = (cache, cache.partition("other"))
    return [
        number
        for number, (name, asked) in enumerate(KEPT)
        if any(view.get(name, asked, 0.0) is not None for view in views)
    ]


@pytest.mark.rule("CACHE-10")
@pytest.mark.parametrize(
    ("method", "params", "gone"),
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
def test_a_notification_ends_what_it_is_about_for_everybody(method, params, gone):
    assert left_after(method, params) == [n for n in range(len(KEPT)) if n not in gone]


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
def test_what_was_asked_for_before_an_invalidation_is_not_kept_after_it(
    method, params, event
):
    cache = ResponseCache()
    before = cache.generation(method, params)
    cache.invalidate(*event)
    assert not cache.put(method, params, PRIVATE, 0.0, before)
    assert cache.get(method, params, 0.0) is None
    after = cache.generation(method, params)
    assert cache.put(method, params, PRIVATE, 0.0, after)
    assert not cache.put(method, params, {**PRIVATE, "n": 2}, 0.0, before)
    assert cache.get(method, params, 0.0) == PRIVATE


def test_an_invalidation_of_something_else_is_none_of_a_request_s_business():
    cache = ResponseCache()
    before = cache.generation("tools/list", None)
    cache.invalidate(LISTS, None)
    cache.invalidate(UPDATED, {"uri": "a:"})
    assert cache.put("tools/list", None, PRIVATE, 0.0, before)


@pytest.mark.parametrize("others", [1, 1_024])
def test_a_read_under_way_is_kept_though_other_resources_change(others):
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
def test_changes_that_are_not_remembered_might_be_of_any_resource(uris):
    cache = ResponseCache()
    before = cache.generation("resources/read", {"uri": "b:"})
    for uri in uris:
        cache.invalidate(UPDATED, {"uri": f"a:/{uri}"})
    assert not cache.put("resources/read", {"uri": "b:"}, PRIVATE, 0.0, before)
    assert keep(cache, "resources/read", {"uri": "b:"})


def test_what_is_cleared_is_gone_for_everybody_and_does_not_come_back():
    cache = ResponseCache()
    before = cache.generation("tools/list", None)
    keep(cache.partition("other"))
    cache.clear()
    assert not cache.put("tools/list", None, PRIVATE, 0.0, before)
    assert len(cache) == 0
    assert keep(cache)


@pytest.mark.rule("CACHE-11")
def test_each_page_has_its_own_time_and_all_go_when_a_cursor_is_refused():
    cache = ResponseCache()
    keep(cache, params={}, result={**PRIVATE, "ttlMs": 5_000}, at=0.0)
    keep(cache, params={"cursor": ""}, result={**PRIVATE, "ttlMs": 1_000}, at=1.0)
    keep(cache, params={"cursor": "2"}, result={**PRIVATE, "ttlMs": 5_000}, at=1.0)
    keep(cache, "prompts/list", {}, {**PRIVATE, "ttlMs": 5_000})
    assert cache.get("tools/list", {"cursor": ""}, 2.0) is None
    assert cache.get("tools/list", {}, 2.0) is not None
    assert cache.get("tools/list", {"cursor": "2"}, 2.0) is not None
    before = cache.generation("tools/list", {})
    cache.drop_list("tools/list")
    assert cache.get("tools/list", {}, 2.0) is None
    assert cache.get("tools/list", {"cursor": "2"}, 2.0) is None
    assert cache.get("prompts/list", {}, 2.0) is not None
    assert not cache.put("tools/list", {"cursor": "2"}, PRIVATE, 2.0, before)


# --- bounds


def test_beyond_so_many_results_those_not_used_for_longest_are_forgotten():
    cache = ResponseCache(10)
    for number in range(10):
        keep(cache, params={"cursor": str(number)})
    cache.get("tools/list", {"cursor": "0"}, 0.0)
    keep(cache, params={"cursor": "10"})
    left = [
        n
        for n in range(11)
        if cache.get("tools/list", {"cursor": str(n)}, 0.0) is not None
    ]
    assert left == [0, *range(2, 11)]


def test_beyond_so_many_bytes_too():
    cache = ResponseCache(max_bytes=10_000)
    for number in range(100):
        assert keep(cache, params={"n": number}, result={**PRIVATE, "x": "x" * 1_000})
        assert cache._store.bytes <= 10_000
    assert len(cache) == 9
    assert not keep(cache, params={"n": -1}, result={**PRIVATE, "x": "x" * 10_000})
    assert len(cache) == 9


def test_what_cannot_be_written_again_is_not_kept():
    value = 1
    for _ in range(300):
        value = [value]
    assert not keep(ResponseCache(), result={**PRIVATE, "x": value})


@pytest.mark.parametrize("name", ["max_entries", "max_bytes"])
@pytest.mark.parametrize("bound", [0, -1])
def test_a_cache_without_room_is_refused(name, bound):
    with pytest.raises(ValueError, match=f"{name} must be above zero, got {bound}"):
        ResponseCache(**{name: bound})


def test_a_cache_is_one_readable_line():
    cache = ResponseCache()
    keep(cache)
    cache.get("tools/list", None, 0.0)
    size = len(b'{"resultType":"complete","ttlMs":1000,"cacheScope":"private"}')
    assert repr(cache) == f"<ResponseCache: 1 results, {size} bytes, 1 hits, 0 misses>"


def test_a_flood_of_notifications_leaves_nothing_behind():
    cache = ResponseCache()
    for number in range(1_000):
        keep(cache, "resources/read", {"uri": f"file:///{number}"})
    for number in range(1_100):
        cache.invalidate(UPDATED, {"uri": f"file:///d/{number}/x/y"})
        cache.invalidate("notifications/tools/list_changed", None)
    assert len(cache) == 1_000
    assert set(cache._store._changed_at) == {"tools/list", UPDATED}
    assert len(cache._store._updated) == 1_024


def test_an_update_costs_the_same_with_few_results_and_with_many():
    counts = []
    for size in (10, 1_000):
        cache = ResponseCache()
        for number in range(size):
            keep(cache, "resources/read", {"uri": f"file:///{number}"})
        counts.append(calls(cache.invalidate, UPDATED, {"uri": "file:///d/x"}))
    assert counts[0] == counts[1]


URIS = st.text("ab/?#", max_size=6)


@given(st.sets(URIS, max_size=20), URIS, st.sampled_from(["", "c" * 300]))
def test_an_update_drops_a_resource_and_those_it_is_a_part_of(kept, changed, start):
    cache = ResponseCache()
    for uri in kept:
        keep(cache, "resources/read", {"uri": start + uri})
    cache.invalidate(UPDATED, {"uri": start + changed})
    for uri in kept:
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
def test_the_size_stays_true_in_any_sequence(operations):
    cache = ResponseCache(4, max_bytes=400, share_public=True)
    for what, number, is_public in operations:
        view = cache.partition("other") if is_public else cache
        params = {"uri": f"a:/{number}"}
        if what == "put":
            result = {**(PUBLIC if is_public else PRIVATE), "x": "x" * number * 20}
            keep(view, "resources/read", params, result)
        elif what == "get":
            view.get("resources/read", params, number / 3)
        elif what == "drop":
            view.invalidate(UPDATED, params)
        else:
            view.drop_list("resources/read")
        store = cache._store
        assert store.bytes == sum(len(entry.text) for entry in store.entries.values())
        assert store.bytes <= 400
        assert len(store.entries) <= 4


def in_threads(use):
    """Call this in four threads, between which Python goes to and fro."""
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


def test_of_two_results_kept_at_once_one_is_left_and_counted_once():
    cache = ResponseCache()

    class Overtaken(dict):
        """A result; while it is looked at, another one for the same request is kept."""

        def get(self, name, default=None):
            keep(cache)
            return super().get(name, default)

    assert keep(cache, result=Overtaken(PUBLIC, n=1))
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
                    keep(cache, "resources/read", params, {**PRIVATE, "x": params})
                elif found["x"] != params:
                    wrong.append((name, found))
            except Exception as error:  # noqa: BLE001 - the test tells of any
                wrong.append((name, error))

    in_threads(use)
    assert wrong == []
    assert len(cache) <= 50
    cache.clear()
    assert len(cache) == 0
