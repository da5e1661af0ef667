"""Client features: the capabilities they declare and the requests they answer."""

import pytest
import wirecheck

from mcpwire import types
from mcpwire.errors import InvalidParams, LocalProtocolError, MethodNotFound
from mcpwire.protocol.client_features import (
    ClientFeatures,
    Elicitation,
    Sampling,
    encode_answer,
)
from mcpwire.protocol.methods import METHODS, TASKS, Kind, available_method
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)

REQUESTS = {
    "sampling/createMessage": {"messages": [], "maxTokens": 5},
    "elicitation/create": {
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {}},
    },
    "roots/list": None,
}


def handler(_=None):
    return None


def everything(**more):
    return ClientFeatures(
        sampling=Sampling(handler, tools=True, context=True),
        elicitation=Elicitation(handler, handler),
        roots=[],
        **more,
    )


# Declared capabilities


@each_revision
def test_without_handlers_no_capability_is_declared(revision):
    assert ClientFeatures().capabilities(revision) == {}


@pytest.mark.rule("ROOT-01", "ROOT-02", "SAMP-01", "ELIC-01")
@pytest.mark.parametrize(
    ("revision", "declared"),
    [
        (NOV_2024, {"roots": {"listChanged": True}, "sampling": {}}),
        (MAR_2025, {"roots": {"listChanged": True}, "sampling": {}}),
        (JUN_2025, {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}),
        (
            NOV_2025,
            {
                "roots": {"listChanged": True},
                "sampling": {"tools": {}, "context": {}},
                "elicitation": {"form": {}, "url": {}},
            },
        ),
        (
            JUL_2026,
            {
                "roots": {},
                "sampling": {"tools": {}, "context": {}},
                "elicitation": {"form": {}, "url": {}},
                "extensions": {TASKS: {}},
            },
        ),
    ],
    ids=lambda value: str(value) if value in REVISIONS else "",
)
def test_each_revision_has_its_own_capabilities(revision, declared):
    assert everything(extensions=[TASKS]).capabilities(revision) == declared


@pytest.mark.rule("ELIC-01")
@pytest.mark.parametrize(
    ("modes", "at_june", "since_november"),
    [
        ({"form": handler}, {"elicitation": {}}, {"elicitation": {"form": {}}}),
        ({"url": handler}, {}, {"elicitation": {"url": {}}}),
    ],
)
def test_mode_is_declared_by_its_handler_and_empty_means_form(
    modes, at_june, since_november
):
    features = ClientFeatures(elicitation=Elicitation(**modes))
    assert features.capabilities(MAR_2025) == {}
    assert features.capabilities(JUN_2025) == at_june
    assert features.capabilities(NOV_2025) == since_november
    assert features.capabilities(JUL_2026) == since_november


@pytest.mark.rule("SAMP-01")
@pytest.mark.parametrize(
    ("given", "declared"),
    [
        (handler, {}),
        (Sampling(handler), {}),
        (Sampling(handler, tools=True), {"tools": {}}),
        (Sampling(handler, context=True), {"context": {}}),
    ],
)
def test_sampling_declares_its_enabled_options(given, declared):
    features = ClientFeatures(sampling=given)
    assert features.capabilities(NOV_2025) == {"sampling": declared}
    assert features.capabilities(JUN_2025) == {"sampling": {}}


@each_revision
@pytest.mark.parametrize("revised", [everything, ClientFeatures])
def test_declared_capabilities_fit_the_schema(revision, revised, spec_dir):
    schema = wirecheck.load(spec_dir)[revision.name]
    declared = revised(extensions={"com.example/a": {"deep": [1]}}).capabilities(
        revision
    )
    assert list(schema.problems("ClientCapabilities", declared)) == []


def test_capabilities_are_a_new_value_each_time():
    features = ClientFeatures(extensions={"com.example/a": {"on": 1}})
    features.capabilities(LATEST)["extensions"]["com.example/a"]["on"] = 2
    assert features.capabilities(LATEST) == {"extensions": {"com.example/a": {"on": 1}}}


# Extensions


@pytest.mark.rule("EXT-03")
@each_revision
def test_no_extension_is_enabled_by_default(revision):
    features = everything()
    assert features.extensions == frozenset()
    assert "extensions" not in features.capabilities(revision)


@pytest.mark.rule("EXT-01", "EXT-03")
@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ([TASKS], {TASKS: {}}),
        ({TASKS}, {TASKS: {}}),
        (iter(["com.example/a", "a/b"]), {"com.example/a": {}, "a/b": {}}),
        ({"com.example/a": None}, {"com.example/a": {}}),
        (
            {"com.example-x.b2/a_b.c-d": {"k": 1}},
            {"com.example-x.b2/a_b.c-d": {"k": 1}},
        ),
    ],
)
def test_any_well_formed_extension_can_be_enabled(given, declared):
    features = ClientFeatures(extensions=given)
    assert features.extensions == frozenset(declared)
    assert features.capabilities(LATEST) == {"extensions": declared}
    assert features.capabilities(LATEST_SESSION) == {}


@pytest.mark.rule("EXT-01")
@pytest.mark.parametrize(
    "id",
    [
        *("tasks", "", "/tasks", "com.example/a b", "1com/a", "com..example/a"),
        *("a-/b", "com.example/a/b", "com.example/-a", "com.exämple/a"),
        *(3, None, ["a/b"], b"a/b"),
    ],
)
def test_invalid_extension_id_is_refused_by_name(id):
    with pytest.raises(ValueError, match=r"^extensions: ") as caught:
        ClientFeatures(extensions=[id])
    if isinstance(id, str):
        assert repr(id) in str(caught.value)


# Arguments


SEVERAL = "extensions must be ids, or a mapping"
SETTINGS = "extensions: the settings of 'a/b' must be"


@pytest.mark.parametrize(
    ("argument", "value", "problem"),
    [
        *(("sampling", value, "sampling") for value in ("model", 1)),
        *(("elicitation", value, "elicitation") for value in ({}, True)),
        *(("roots", value, "roots") for value in ("file:///home", 7)),
        *(("extensions", value, SEVERAL) for value in (TASKS, 3, True, object)),
        *(("extensions", {"a/b": value}, SETTINGS) for value in (3, "on", ["a"])),
        *(("experimental", value, "experimental") for value in (["a"], "a", {"a": 1})),
    ],
)
def test_invalid_argument_is_refused_by_its_name(argument, value, problem):
    with pytest.raises(ValueError, match=f"^{problem}"):
        ClientFeatures(**{argument: value})


# Requests that are answered


@pytest.mark.rule("ROOT-05", "SAMP-01", "ELIC-01")
@pytest.mark.attack("S28")
@each_revision
@pytest.mark.parametrize("method", REQUESTS)
def test_request_for_an_undeclared_feature_is_method_not_found(method, revision):
    with pytest.raises(MethodNotFound) as caught:
        ClientFeatures(extensions=[TASKS]).prepare(method, REQUESTS[method], revision)
    assert caught.value.code == -32601
    assert caught.value.method == method


@each_revision
@pytest.mark.parametrize("method", REQUESTS)
def test_declared_request_is_prepared_if_the_revision_has_it(method, revision):
    features = everything()
    if available_method(method, revision, "server") is None:
        with pytest.raises(MethodNotFound):
            features.prepare(method, REQUESTS[method], revision)
    else:
        question = features.prepare(method, REQUESTS[method], revision)
        assert callable(question.finish)


def test_url_handler_alone_answers_no_request_at_2025_06_18():
    features = ClientFeatures(elicitation=Elicitation(url=handler))
    with pytest.raises(MethodNotFound):
        features.prepare("elicitation/create", REQUESTS["elicitation/create"], JUN_2025)


@each_revision
@pytest.mark.parametrize(
    "method", ["", "ping", "tools/call", "Roots/list", "x" * 10**6]
)
def test_unknown_method_is_refused_with_a_short_message(method, revision):
    with pytest.raises(MethodNotFound) as caught:
        everything().prepare(method, {}, revision)
    assert len(caught.value.message) < 100


def test_table_covers_every_request_a_server_may_send():
    methods = {
        spec.name
        for spec in METHODS
        if "server" in spec.senders
        and "client" not in spec.senders
        and spec.kind is not Kind.NOTIFICATION
    }
    assert methods == set(REQUESTS)


@each_revision
@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("sampling/createMessage", None, "CreateMessageRequestParams: expected object"),
        ("sampling/createMessage", {"maxTokens": 1}, ".messages: expected array"),
        (
            "sampling/createMessage",
            {"messages": [{"role": "system", "content": []}], "maxTokens": 1},
            ".messages[0].role: expected 'user' or 'assistant'",
        ),
        ("roots/list", {"_meta": 3}, "ListRootsRequestParams._meta: expected object"),
    ],
)
def test_malformed_params_are_refused_with_their_path(method, params, path, revision):
    with pytest.raises(InvalidParams) as caught:
        everything().prepare(method, params, revision)
    assert path in caught.value.message
    assert caught.value.code == -32602


def test_replace_changes_all_handlers_or_none():
    features = ClientFeatures(roots=["/a"])
    features.replace({"roots": None, "sampling": lambda _: None})
    assert sorted(features.capabilities(LATEST)) == ["sampling"]
    with pytest.raises(ValueError, match="roots"):
        features.replace({"sampling": None, "roots": "/a"})
    assert sorted(features.capabilities(LATEST)) == ["sampling"]


@pytest.mark.parametrize(
    "roots", [None, [3], [types.Root(3)], [types.Root("a", meta="x")]]
)
def test_invalid_answer_is_refused_before_sending(roots):
    with pytest.raises(LocalProtocolError):
        encode_answer(types.ListRootsResult(roots), LATEST, "roots")
