"""What of a request and a result is one hop's, and what goes through as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.gateway.translation import (
    lowered,
    passed_meta,
    passed_result,
    reaches,
    without_rounds,
)
from mcpwire.protocol.methods import LEVELS
from mcpwire.versions import Era

PREFIX = "io.modelcontextprotocol/"

SESSION, STATELESS = Era.SESSION, Era.STATELESS


def test_meta_of_the_two_ends_goes_through_and_that_of_the_hop_does_not():
    meta = {
        "progressToken": "mine",
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": {"name": "c"},
        f"{PREFIX}clientCapabilities": {},
        f"{PREFIX}logLevel": "info",
        "traceparent": "00-1-2-03",
        "com.example/mine": {"a": 1},
    }
    assert passed_meta(meta) == {
        "traceparent": "00-1-2-03",
        "com.example/mine": {"a": 1},
    }
    assert "progressToken" in meta


def test_meta_of_which_nothing_is_left_is_none():
    assert passed_meta({}) is None
    assert passed_meta({"progressToken": 1}) is None


def test_members_of_a_round_are_left_out():
    params = {"name": "a", "inputResponses": {}, "requestState": "x"}
    assert without_rounds(params) == {"name": "a"}
    plain = {"name": "a"}
    assert without_rounds(plain) is plain


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5))
@pytest.mark.system("O44")
def test_a_result_without_members_of_an_era_is_the_very_same(result):
    for came in Era:
        for goes in Era:
            if result.keys().isdisjoint({"_meta", "resultType", "ttlMs", "cacheScope"}):
                assert passed_result(result, came, goes) is result


@pytest.mark.parametrize(
    ("came", "goes", "result", "passed"),
    [
        pytest.param(
            STATELESS,
            SESSION,
            {"resultType": "complete", "a": 1, "ttlMs": 5, "cacheScope": "public"},
            {"a": 1},
            id="a session gets none of the stateless members",
        ),
        pytest.param(
            STATELESS,
            STATELESS,
            {"resultType": "complete", "a": 1, "ttlMs": 5, "cacheScope": "public"},
            {"resultType": "complete", "a": 1, "ttlMs": 5, "cacheScope": "public"},
            id="what stands alone gets them",
        ),
        pytest.param(
            SESSION,
            STATELESS,
            {"resultType": "mine", "a": 1},
            {"a": 1},
            id="a session's member of that name says something else",
        ),
        pytest.param(
            SESSION,
            SESSION,
            {"resultType": "mine", "ttlMs": "x"},
            {"resultType": "mine", "ttlMs": "x"},
            id="between sessions it is anybody's",
        ),
        pytest.param(
            STATELESS,
            SESSION,
            {"a": 1, "_meta": {f"{PREFIX}serverInfo": {"name": "up"}}},
            {"a": 1},
            id="who answered is left out",
        ),
        pytest.param(
            STATELESS,
            STATELESS,
            {"_meta": {f"{PREFIX}serverInfo": {"name": "up"}, "k": [1]}, "a": 1},
            {"_meta": {"k": [1]}, "a": 1},
            id="and the rest of its meta is not",
        ),
        pytest.param(
            STATELESS, SESSION, {"_meta": 5}, {"_meta": 5}, id="meta that is none"
        ),
    ],
)
def test_a_result_is_as_the_clients_era_has_it(came, goes, result, passed):
    made = passed_result(result, came, goes)
    assert made == passed
    assert list(made) == list(passed)


def test_a_level_reaches_who_wants_it():
    for rank, wanted in enumerate(LEVELS):
        for other, level in enumerate(LEVELS):
            assert reaches(level, wanted) is (other >= rank)
    assert not reaches("error", None)
    assert not reaches("loud", "debug")
    assert not reaches(["error"], "debug")


def test_a_level_that_was_told_is_only_ever_lowered():
    assert lowered(None, "emergency")
    assert lowered("warning", "info")
    assert not lowered("info", "warning")
    assert not lowered("info", "info")
