"""How a gateway converts messages: requests to clients, capabilities, hop metadata."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.gateway.translation import (
    CANCEL_GRACE_S,
    InFlightCalls,
    TaskIds,
    accepts_input_requests,
    convert_answer,
    convert_capabilities,
    convert_error,
    convert_meta,
    convert_request,
    convert_result,
    is_at_least,
    needs_lower_level,
    replace_task_id,
    unsupported_error,
    url_elicitations,
)
from mcpwire.protocol.methods import ELICIT, LEVELS, ROOTS, SAMPLE
from mcpwire.types._base import RELATED_TASK
from mcpwire.versions import REVISIONS, Era

A, B, C, D, E = REVISIONS

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
OLD = {"mode": "url", "message": "go", "url": "https://a/", "elicitationId": "old"}
VISIT = {"mode": "url", "message": "go", "url": "https://example.com/"}


def text(value):
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("method", "params", "revision", "capabilities", "error"),
    [
        ("tools/list", {}, D, {}, MethodNotFound),
        (ELICIT, FORM, A, {"elicitation": {}}, MethodNotFound),
        (ELICIT, FORM, C, {}, MethodNotFound),
        (ELICIT, None, D, {"elicitation": {}}, InvalidParams),
        (ELICIT, VISIT, D, {"elicitation": {}}, InvalidParams),
        (ELICIT, FORM, D, {"elicitation": {"url": {}}}, InvalidParams),
        (SAMPLE, {}, D, {"roots": {}}, MethodNotFound),
        (ROOTS, None, D, {"sampling": {}}, MethodNotFound),
        (ELICIT, FORM, C, {"elicitation": {}}, None),
        (ELICIT, FORM, E, {"elicitation": {"form": {}}}, None),
        (ELICIT, VISIT, E, {"elicitation": {"url": {}}}, None),
        (SAMPLE, {}, A, {"sampling": {}}, None),
        (ROOTS, None, E, {"roots": {}}, None),
    ],
)
@pytest.mark.system("A50", "A51", "A52")
def test_request_for_an_undeclared_client_feature_is_refused(
    method, params, revision, capabilities, error
):
    refused = unsupported_error(method, params, revision, capabilities)
    assert (refused and type(refused)) is error


@pytest.mark.parametrize(
    ("method", "params", "goes", "made"),
    [
        (ROOTS, None, A, None),
        (ROOTS, {"_meta": {"progressToken": 3}}, A, {}),
        (ROOTS, {"_meta": {"progressToken": 3, "k": 1}}, A, {"_meta": {"k": 1}}),
        (ROOTS, {"_meta": {"k": 1}}, A, {"_meta": {"k": 1}}),
        (ELICIT, {"mode": "form", **FORM}, C, FORM),
        (ELICIT, {"mode": "form", **FORM}, D, {"mode": "form", **FORM}),
        (ELICIT, VISIT, D, {**VISIT, "elicitationId": "new"}),
        (
            ELICIT,
            {**VISIT, "elicitationId": "old"},
            D,
            {**VISIT, "elicitationId": "old"},
        ),
        (ELICIT, {**VISIT, "elicitationId": "old"}, E, VISIT),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": [text("a"), text("b")]}]},
            B,
            {
                "messages": [
                    {"role": "user", "content": text("a")},
                    {"role": "user", "content": text("b")},
                ]
            },
        ),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": text("a")}, 5]},
            B,
            {"messages": [{"role": "user", "content": text("a")}, 5]},
        ),
        (SAMPLE, {"messages": 5}, B, {"messages": 5}),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": [text("a")]}]},
            D,
            {"messages": [{"role": "user", "content": [text("a")]}]},
        ),
    ],
)
def test_request_to_the_client_is_converted_to_its_revision(method, params, goes, made):
    before = repr(params)
    assert convert_request(method, params, goes, new_id="new") == made
    assert repr(params) == before


def test_response_in_a_form_known_to_the_requester_is_the_same_object():
    for method in (ELICIT, SAMPLE, ROOTS):
        for revision in REVISIONS:
            answer = {"content": text("a")}
            assert convert_answer(method, answer, revision) is answer
    blocks = {"content": [text("a"), text("b")]}
    assert convert_answer(SAMPLE, blocks, D) is blocks


def test_sampling_content_of_one_block_is_unwrapped_before_2025_11_25():
    answer = {"model": "m", "content": [text("a")]}
    assert convert_answer(SAMPLE, answer, C) == {"model": "m", "content": text("a")}
    with pytest.raises(InternalError, match="2 blocks"):
        convert_answer(SAMPLE, {"content": [text("a"), text("b")]}, C)


def test_url_elicitations_are_read_from_error_data():
    assert url_elicitations({"elicitations": [VISIT, 5, {"url": 1}, {"url": "x"}]}) == [
        VISIT
    ]
    for data in (None, 5, {}, {"elicitations": {}}):
        assert url_elicitations(data) == []


TASKS = "io.modelcontextprotocol/tasks"


@pytest.mark.parametrize(
    ("declared", "came", "goes", "made"),
    [
        ({}, A, E, {}),
        ({"roots": {"listChanged": True}}, A, D, {"roots": {"listChanged": True}}),
        ({"roots": {"listChanged": True}}, D, E, {"roots": {}}),
        ({"roots": {}}, E, A, {"roots": {}}),
        ({"roots": {"listChanged": True}}, E, A, {"roots": {}}),
        ({"roots": None, "sampling": True}, D, D, {}),
        ({"sampling": {"tools": {}, "context": {}}}, E, C, {"sampling": {}}),
        ({"sampling": {"tools": {}, "more": 1}}, D, E, {"sampling": {"tools": {}}}),
        ({"elicitation": {}}, C, E, {"elicitation": {}}),
        ({"elicitation": {"form": {}, "url": {}}}, D, C, {"elicitation": {}}),
        ({"elicitation": {"url": {}}}, D, C, {}),
        ({"elicitation": {"url": {}}}, E, D, {"elicitation": {"url": {}}}),
        ({"elicitation": {}}, E, B, {}),
        ({"elicitation": {}}, B, E, {}),
        ({"elicitation": {"url": {}}}, C, D, {"elicitation": {}}),
        ({"experimental": {"x": {}}, "tasks": {}}, D, D, {}),
        (
            {"extensions": {"com.example/ui": {"a": 1}, TASKS: {}}},
            D,
            D,
            {"extensions": {"com.example/ui": {"a": 1}}},
        ),
        ({"extensions": {TASKS: {}}}, E, E, {"extensions": {TASKS: {}}}),
        ({"extensions": {TASKS: {}}}, D, D, {}),
        ({"extensions": {}}, E, E, {}),
        ({"extensions": {"com.example/ui": {}}}, E, D, {}),
        ({"extensions": {"com.example/ui": {}}}, D, C, {}),
        ({"extensions": []}, E, E, {}),
    ],
)
@pytest.mark.system("A54")
def test_capabilities_are_converted_between_revisions(declared, came, goes, made):
    assert convert_capabilities(declared, came, goes) == made


def test_conversion_adds_no_capability():
    for came, goes in itertools.product(REVISIONS, REVISIONS):
        assert convert_capabilities({"roots": {}}, came, goes) == {"roots": {}}
        assert convert_capabilities({"sampling": {}}, came, goes) == {"sampling": {}}


def test_input_requests_need_roots_sampling_or_elicitation():
    assert not accepts_input_requests({})
    assert not accepts_input_requests(
        {"extensions": {"com.example/ui": {}}, "roots": None}
    )
    for name in ("roots", "sampling", "elicitation"):
        assert accepts_input_requests({name: {}})


PREFIX = "io.modelcontextprotocol/"

SESSION, STATELESS = Era.SESSION, Era.STATELESS


def test_hop_metadata_is_removed_and_other_metadata_passes():
    meta = {
        "progressToken": "mine",
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": {"name": "c"},
        f"{PREFIX}clientCapabilities": {},
        f"{PREFIX}logLevel": "info",
        "traceparent": "00-1-2-03",
        "com.example/mine": {"a": 1},
    }
    assert convert_meta(meta) == {
        "traceparent": "00-1-2-03",
        "com.example/mine": {"a": 1},
    }
    assert "progressToken" in meta


def test_metadata_that_becomes_empty_is_omitted():
    assert convert_meta({}) is None
    assert convert_meta({"progressToken": 1}) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5))
@pytest.mark.system("O44")
def test_result_without_era_members_is_the_same_object(result):
    for came in Era:
        for goes in Era:
            if result.keys().isdisjoint({"_meta", "resultType", "ttlMs", "cacheScope"}):
                assert convert_result(result, came, goes) is result


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
            id="a stateless client gets them",
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
            id="between sessions the member passes unchanged",
        ),
        pytest.param(
            STATELESS,
            SESSION,
            {"a": 1, "_meta": {f"{PREFIX}serverInfo": {"name": "up"}}},
            {"a": 1},
            id="server info is left out",
        ),
        pytest.param(
            STATELESS,
            STATELESS,
            {"_meta": {f"{PREFIX}serverInfo": {"name": "up"}, "k": [1]}, "a": 1},
            {"_meta": {"k": [1]}, "a": 1},
            id="other metadata is kept",
        ),
        pytest.param(
            STATELESS, SESSION, {"_meta": 5}, {"_meta": 5}, id="metadata is no object"
        ),
    ],
)
def test_result_is_converted_to_the_era_of_the_client(came, goes, result, passed):
    made = convert_result(result, came, goes)
    assert made == passed
    assert list(made) == list(passed)


def test_log_level_is_compared_with_the_requested_level():
    for rank, requested in enumerate(LEVELS):
        for other, level in enumerate(LEVELS):
            assert is_at_least(level, requested) is (other >= rank)
    assert not is_at_least("error", None)
    assert not is_at_least("loud", "debug")
    assert not is_at_least(["error"], "debug")


def test_upstream_log_level_is_only_lowered():
    assert needs_lower_level(None, "emergency")
    assert needs_lower_level("warning", "info")
    assert not needs_lower_level("info", "warning")
    assert not needs_lower_level("info", "info")


def test_error_response_of_the_server_passes_unchanged():
    error = RPCError("no", code=-31999, data={"a": [1, None]})
    passed = convert_error("up", "tools/call", error)
    assert (passed.code, passed.message, passed.data) == (-31999, "no", error.data)
    assert passed is not error


@pytest.mark.parametrize(
    ("error", "kind", "data"),
    [
        (LocalProtocolError("inf at $.a"), InvalidParams, None),
        (
            ConnectionClosed("gone", sent=True),
            InternalError,
            {"server": "up", "error": "ConnectionClosed", "sent": True},
        ),
        (
            RequestTimeout(method="tools/call", timeout=2.0, elapsed=2.1),
            InternalError,
            {"server": "up", "error": "RequestTimeout", "timeout": 2.0},
        ),
        (
            RemoteProtocolError("nonsense"),
            InternalError,
            {"server": "up", "error": "RemoteProtocolError"},
        ),
    ],
)
def test_upstream_failure_becomes_an_error_with_server_and_cause(error, kind, data):
    passed = convert_error("up", "tools/call", error)
    assert type(passed) is kind
    assert passed.data == data
    assert "'up'" in passed.message
    assert "tools/call" in passed.message


KEYS = (b"k" * 32,)
ANN, BOB = ("issuer", None, "ann"), ("issuer", None, "bob")


def test_task_id_is_found_only_for_its_owner():
    ids = TaskIds(KEYS, ANN)
    name = ids.claim("a", "1")
    assert name.startswith("1.")
    assert ids.claim("a", "1") == name
    assert ids.find(name, ["b", "a"]) == ("a", "1")
    assert ids.find(name, ["b"]) is None
    assert TaskIds(KEYS, BOB).find(name, ["a"]) is None
    for invalid in ("1", "2" + name[1:], name + "x", "\udc80", "", 1, None):
        assert ids.find(invalid, ["a", "b"]) is None


def test_task_id_is_valid_while_its_key_is_in_the_key_ring():
    name = TaskIds(KEYS, ANN).claim("a", "1")
    newer = TaskIds((b"n" * 32, *KEYS), ANN)
    assert newer.find(name, ["a"]) == ("a", "1")
    assert newer.claim("a", "1") != name
    assert TaskIds((b"n" * 32,), ANN).find(name, ["a"]) is None


def test_task_of_a_call_result_gets_the_client_task_id():
    ids = TaskIds(KEYS, ANN)
    name = ids.claim("a", "1")
    assert ids.record_task("a", {"taskId": "1"}) == {"taskId": name}
    assert ids.record_task("a", {"task": {"taskId": "1"}}) == {"task": {"taskId": name}}
    for other in ({"content": []}, {"task": 5}, {"taskId": 1}):
        assert ids.record_task("a", other) is other


def test_least_recently_used_task_is_forgotten_first():
    ids = TaskIds(KEYS, ANN, limit=2)
    for raw in ("1", "2", "1", "3"):
        ids.claim("a", raw)
    assert ids.name("a", "2") is None
    assert ids.name("b", "1") is None
    assert ids.name("a", "1") == ids.claim("a", "1")


def test_task_id_is_replaced_wherever_a_message_names_the_task():
    plain = {"taskId": "1", "status": "working"}
    assert replace_task_id(plain, "1", "1") is plain
    assert replace_task_id(plain, "1", "b/1") == {"taskId": "b/1", "status": "working"}
    created = {"task": {"taskId": "1", "ttl": None}}
    assert replace_task_id(created, "1", "b/1") == {
        "task": {"taskId": "b/1", "ttl": None}
    }
    related = {"content": [], "_meta": {RELATED_TASK: {"taskId": "1"}, "k": 1}}
    assert replace_task_id(related, "1", "b/1") == {
        "content": [],
        "_meta": {RELATED_TASK: {"taskId": "b/1"}, "k": 1},
    }
    others = {"taskId": "2", "task": 5, "_meta": {RELATED_TASK: 5}}
    assert replace_task_id(others, "1", "b/1") == others
    assert replace_task_id({"task": {"taskId": "2"}, "_meta": 5}, "1", "b/1") == {
        "task": {"taskId": "2"},
        "_meta": 5,
    }


# Matching a server's request to its call, or refusing it...


def test_request_belongs_to_the_only_call_in_flight():
    in_flight = InFlightCalls()
    in_flight.add("a")
    assert in_flight.find_owner(None, 0.0) == "a"
    in_flight.finish("a")
    with pytest.raises(InternalError, match="belongs to no running call"):
        in_flight.find_owner(None, 0.0)


def test_transport_identifies_the_call_among_several():
    in_flight = InFlightCalls()
    first, second = object(), object()
    in_flight.add(first)
    in_flight.add(second)
    assert in_flight.find_owner(second, 0.0) is second
    with pytest.raises(InternalError, match="2 calls are running"):
        in_flight.find_owner(None, 0.0)
    in_flight.finish(second)
    with pytest.raises(InternalError, match="has ended"):
        in_flight.find_owner(second, 0.0)


def test_cancelled_call_counts_as_in_flight_for_the_grace_period():
    in_flight = InFlightCalls()
    in_flight.add("gone")
    in_flight.add("here")
    in_flight.cancel("gone", 10.0)
    with pytest.raises(InternalError, match="2 calls are running"):
        in_flight.find_owner(None, 10.0)
    assert in_flight.only_call(10.0) is None
    assert in_flight.only_call(10.0 + CANCEL_GRACE_S) == "here"
    assert in_flight.find_owner(None, 10.0 + CANCEL_GRACE_S) == "here"
    in_flight.cancel("here", 20.0)
    assert in_flight.only_call(20.0) is None


def test_cancelling_an_unknown_call_changes_nothing():
    in_flight = InFlightCalls()
    in_flight.add("here")
    in_flight.cancel("answered", 10.0)
    assert in_flight.find_owner(None, 10.0) == "here"


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "end", "give up"]), st.integers(0, 3)),
        max_size=30,
    )
)
def test_owner_is_not_guessed_while_another_call_could_have_sent_it(steps):
    in_flight, open_calls, grace_ends = InFlightCalls(), set(), []
    for now, (step, call) in enumerate(steps):
        if step == "begin" and call not in open_calls:
            in_flight.add(call)
            open_calls.add(call)
        elif step == "end":
            in_flight.finish(call)
            open_calls.discard(call)
        elif step == "give up" and call in open_calls:
            in_flight.cancel(call, float(now))
            open_calls.discard(call)
            grace_ends.append(now + CANCEL_GRACE_S)
        lingering = [end for end in grace_ends if end > now]
        try:
            found = in_flight.find_owner(None, float(now))
        except InternalError:
            assert len(open_calls) + len(lingering) != 1 or lingering
        else:
            assert {found} == open_calls
            assert not lingering
