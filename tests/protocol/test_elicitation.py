"""Elicitation: accepted modes, what reaches a handler, what may be answered."""

import contextlib

import pytest
import wirecheck
from child_python import printed_by

from mcpwire.errors import InvalidParams, LocalProtocolError, UrlElicitationRequired
from mcpwire.protocol.client_features import (
    ClientFeatures,
    Elicitation,
    UrlElicitations,
)
from mcpwire.types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from mcpwire.versions import REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

with_forms = pytest.mark.parametrize("revision", REVISIONS[2:], ids=str)
with_urls = pytest.mark.parametrize("revision", REVISIONS[3:], ids=str)

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "maximum": 120, "default": 30},
    },
    "required": ["name"],
}
FORM = {"message": "Who are you?", "requestedSchema": SCHEMA}
URL = "https://example.com/connect?x=1#there"
URL_PARAMS = {"mode": "url", "message": "Please", "url": URL, "elicitationId": "e1"}


def form_handler(_):
    return None


def url_handler(_):
    return None


BOTH = Elicitation(form_handler, url_handler)


def prepare(params, revision=JUL_2026, feature=BOTH):
    features = ClientFeatures(elicitation=feature)
    return features.prepare("elicitation/create", params, revision)


def refusal(*args):
    with pytest.raises(InvalidParams) as caught:
        prepare(*args)
    assert caught.value.code == -32602
    assert caught.value.method == "elicitation/create"
    return caught.value.message


@pytest.mark.rule("ELIC-04")
@with_forms
@pytest.mark.parametrize("mode", [{}, {"mode": "form"}, {"mode": None}])
def test_request_without_a_mode_is_a_form(mode, revision):
    question = prepare(FORM | mode, revision)
    assert question.handler is form_handler
    assert type(question.params) is ElicitRequestFormParams
    assert question.params.requested_schema.properties["age"].default == 30


@pytest.mark.system("L-A6")
@with_urls
def test_url_reaches_its_handler_in_full(revision):
    question = prepare(URL_PARAMS, revision)
    assert question.handler is url_handler
    assert type(question.params) is ElicitRequestURLParams
    assert question.params.url == URL


@pytest.mark.rule("ELIC-25")
@with_urls
@pytest.mark.parametrize(
    ("feature", "params", "mode"),
    [
        (Elicitation(form=form_handler), URL_PARAMS, "'url'"),
        (form_handler, URL_PARAMS, "'url'"),
        (Elicitation(url=url_handler), FORM, "'form'"),
        (Elicitation(url=url_handler), FORM | {"mode": "form"}, "'form'"),
        (BOTH, FORM | {"mode": "voice"}, "'voice'"),
        (BOTH, FORM | {"mode": 3}, "3"),
        (BOTH, FORM | {"mode": ["form"]}, "a value of type list"),
        (BOTH, FORM | {"mode": "URL"}, "'URL'"),
        (BOTH, FORM | {"mode": ""}, "''"),
    ],
)
def test_undeclared_mode_is_refused(feature, params, mode, revision):
    assert refusal(params, revision, feature) == (
        f"this client did not declare the elicitation mode {mode}"
    )


@pytest.mark.rule("ELIC-25")
def test_url_mode_is_refused_at_2025_06_18():
    assert "'url'" in refusal(URL_PARAMS, JUN_2025)


@with_forms
@pytest.mark.parametrize(
    ("params", "text"),
    [
        (None, "ElicitRequestFormParams: expected object, got null"),
        ({}, "ElicitRequestFormParams.message: expected str, got nothing"),
        (
            FORM | {"requestedSchema": {"type": "array", "properties": {}}},
            "ElicitRequestFormParams.requestedSchema.type: expected 'object'",
        ),
    ],
)
def test_a_malformed_form_is_refused_with_its_path(params, text, revision):
    assert text in refusal(params, revision)


def test_url_needs_an_id_at_revisions_with_completion():
    params = {k: v for k, v in URL_PARAMS.items() if k != "elicitationId"}
    assert refusal(params, NOV_2025) == (
        "ElicitRequestURLParams.elicitationId: expected str, got nothing"
    )
    assert prepare(params, JUL_2026).params.elicitation_id is None


# The URL guard; its rules are tested in test_forms.py


@pytest.mark.attack("S28")
@with_urls
@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "http://example.com/", "https://u:p@example.com/"]
)
def test_unsafe_url_never_reaches_the_handler(url, revision):
    message = refusal(URL_PARAMS | {"url": url}, revision)
    assert message.startswith("ElicitRequestURLParams.url: ")
    assert "u:p" not in message


@with_urls
def test_plain_http_reaches_the_handler_if_enabled(revision):
    feature = Elicitation(url=url_handler, plain_http=True)
    params = URL_PARAMS | {"url": "http://example.com/"}
    assert prepare(params, revision, feature).params.url == "http://example.com/"


WATCHED = """
import sys
before = set(sys.modules)
from mcpwire.protocol.client_features import Elicitation
from mcpwire.protocol.client_features import ClientFeatures
from mcpwire.protocol.elicitation import describe_url
from mcpwire.versions import LATEST

features = ClientFeatures(elicitation=Elicitation(url=lambda params: "accept"))
params = {"mode": "url", "message": "m", "url": "https://example.com/"}
seen = []

def hook(event, args):
    if event.split(".")[0] in {"socket", "subprocess", "webbrowser", "os", "urllib"}:
        seen.append(event)

def go():
    question = features.prepare("elicitation/create", params, LATEST)
    describe_url(question.params.url)
    assert question.finish(question.handler(question.params)) == {"action": "accept"}

go()
loaded = {"socket", "webbrowser", "urllib.request"} & (set(sys.modules) - before)
sys.addaudithook(hook)
go()
print(seen, sorted(loaded))
"""


@pytest.mark.rule("ELIC-12", "ELIC-13")
def test_url_is_neither_opened_nor_fetched():
    """Only the handler may do so, with consent; no imported module has the means."""
    assert printed_by("-c", WATCHED) == "[] []\n"


@pytest.mark.rule("ELIC-06", "ELIC-08", "ELIC-20")
@with_forms
@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ada"},
        ElicitResult("accept", {"name": "Ada"}),
        ElicitResult("accept", {"name": "Ada", "age": 30}),
    ],
)
def test_an_accepted_form_is_sent_with_its_defaults(value, revision, spec_dir):
    raw = prepare(FORM, revision).finish(value)
    assert raw == {"action": "accept", "content": {"name": "Ada", "age": 30}}
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("ElicitResult", raw)) == []


def test_the_handler_s_own_value_is_not_changed():
    value = ElicitResult("accept", {"name": "Ada"})
    prepare(FORM).finish(value)
    assert value == ElicitResult("accept", {"name": "Ada"})


@pytest.mark.rule("ELIC-08")
@pytest.mark.parametrize("value", ["accept", {}, ElicitResult("accept")])
def test_form_can_be_accepted_with_its_defaults_alone(value):
    schema = {"type": "object", "properties": {"age": SCHEMA["properties"]["age"]}}
    raw = prepare({"message": "?", "requestedSchema": schema}).finish(value)
    assert raw == {"action": "accept", "content": {"age": 30}}


@pytest.mark.rule("ELIC-20")
@with_forms
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"name": "Ada", "age": 200}, "content.age: 200 is above the maximum 120"),
        ({}, "content.name: it is required"),
        ({"name": ""}, "content.name: 0 characters, the minimum is 1"),
        ({"name": "Ada", "nickname": "A"}, "content.nickname: the form has no such"),
    ],
)
def test_invalid_content_is_refused(content, text, revision):
    for value in (content, ElicitResult("accept", content)):
        with pytest.raises(LocalProtocolError) as caught:
            prepare(FORM, revision).finish(value)
        assert f"elicitation {text}" in str(caught.value)


@pytest.mark.system("A52")
@pytest.mark.rule("ELIC-08")
@pytest.mark.parametrize("params", [FORM, URL_PARAMS])
@with_urls
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_decline_and_cancel_carry_no_content(action, params, revision, spec_dir):
    for value in (action, ElicitResult(action), ElicitResult(action, {})):
        raw = prepare(params, revision).finish(value)
        assert raw == {"action": action}
        schema = wirecheck.load(spec_dir)[revision.name]
        assert list(schema.problems("ElicitResult", raw)) == []
    with pytest.raises(LocalProtocolError, match="content must be left out where"):
        prepare(params, revision).finish(ElicitResult(action, {"name": "Ada"}))


@pytest.mark.rule("ELIC-08")
@with_urls
def test_accepted_url_elicitation_carries_no_content(revision):
    for value in ("accept", ElicitResult("accept"), ElicitResult("accept", {})):
        assert prepare(URL_PARAMS, revision).finish(value) == {"action": "accept"}
    with pytest.raises(LocalProtocolError, match="content must be left out where"):
        prepare(URL_PARAMS, revision).finish(ElicitResult("accept", {"name": "Ada"}))


@pytest.mark.system("A52")
@pytest.mark.parametrize(
    ("params", "value", "text"),
    [
        (FORM, None, "expected ElicitResult, a mapping or an action, got NoneType"),
        (FORM, True, "expected ElicitResult, a mapping or an action, got bool"),
        (FORM, "yes", "the action must be one of accept, decline, cancel, got 'yes'"),
        (FORM, ElicitResult(None), "must be one of accept, decline, cancel, got None"),
        (FORM, ElicitResult(["accept"]), "got a value of type list"),
        (FORM, ElicitResult("accept", ["a"]), "expected a mapping, got list"),
        (FORM, ElicitResult("decline", meta=3), "ElicitResult._meta: expected object"),
        (URL_PARAMS, {}, "expected ElicitResult or an action, got dict"),
        (URL_PARAMS, None, "expected ElicitResult or an action, got NoneType"),
        (URL_PARAMS, "open", "the action must be one of accept, decline, cancel"),
    ],
)
def test_invalid_answer_is_refused(params, value, text):
    with pytest.raises(LocalProtocolError) as caught:
        prepare(params, NOV_2025).finish(value)
    assert text in str(caught.value)


def test_meta_is_sent_only_at_revisions_that_have_it():
    value = ElicitResult("decline", meta={"k": 1}, extra={"x": 2})
    assert prepare(FORM, NOV_2025).finish(value) == {
        "action": "decline",
        "_meta": {"k": 1},
        "x": 2,
    }
    assert prepare(FORM, JUL_2026).finish(value) == {"action": "decline", "x": 2}


# The conformance suite's scenario of SEP-1034


@pytest.mark.system("U35")
@pytest.mark.rule("ELIC-06")
@with_urls
def test_all_defaults_of_a_form_are_filled_in(revision):
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    form = {"type": "object", "properties": properties, "required": []}
    raw = prepare({"message": "?", "requestedSchema": form}, revision).finish({})
    assert raw["content"] == {
        name: field["default"] for name, field in properties.items()
    }
    assert type(raw["content"]["age"]) is int


def prepare_url(features, id="e1", revision=NOV_2025):
    params = URL_PARAMS | {"elicitationId": id}
    return features.prepare("elicitation/create", params, revision)


@pytest.mark.rule("ELIC-23")
def test_only_an_open_url_elicitation_completes_and_only_once():
    features = ClientFeatures(elicitation=BOTH)
    assert not features.url_elicitations.complete({"elicitationId": "e1"})
    prepare_url(features).finish("accept")
    assert not features.url_elicitations.complete({"elicitationId": "e2"})
    assert features.url_elicitations.complete({"elicitationId": "e1"})
    assert not features.url_elicitations.complete({"elicitationId": "e1"})


@pytest.mark.rule("ELIC-23")
def test_url_elicitation_can_complete_before_its_handler_returns():
    features = ClientFeatures(elicitation=BOTH)
    question = prepare_url(features)
    assert features.url_elicitations.complete({"elicitationId": "e1"})
    assert question.finish("accept") == {"action": "accept"}
    assert not features.url_elicitations.complete({"elicitationId": "e1"})


@pytest.mark.rule("ELIC-23")
@pytest.mark.parametrize(
    "value", ["decline", "cancel", {}, "open", ElicitResult("accept", {"a": "b"})]
)
def test_url_elicitation_that_is_not_accepted_is_no_longer_open(value):
    features = ClientFeatures(elicitation=BOTH)
    with contextlib.suppress(LocalProtocolError):
        prepare_url(features).finish(value)
    assert not features.url_elicitations.complete({"elicitationId": "e1"})


def test_url_elicitation_at_2026_07_28_is_not_tracked():
    features = ClientFeatures(elicitation=BOTH)
    question = prepare_url(features, revision=JUL_2026)
    assert len(features.url_elicitations) == 0
    assert question.finish("decline") == {"action": "decline"}


def test_refused_url_elicitation_is_not_open():
    features = ClientFeatures(elicitation=BOTH)
    with pytest.raises(InvalidParams):
        features.prepare(
            "elicitation/create", URL_PARAMS | {"url": "file:///etc/passwd"}, NOV_2025
        )
    assert not features.url_elicitations.complete({"elicitationId": "e1"})


def test_an_elicitation_needs_a_handler():
    with pytest.raises(ValueError, match="needs a form handler or a url handler"):
        Elicitation()


@pytest.mark.parametrize("mode", ["form", "url"])
def test_handler_must_be_a_function(mode):
    with pytest.raises(ValueError, match=f"^elicitation: {mode} must be a function"):
        Elicitation(**{mode: "yes"})


@pytest.mark.rule("ELIC-23")
@pytest.mark.parametrize(
    "params",
    [
        *(None, {}, {"elicitationid": "a"}, {"elicitationId": "b"}),
        *({"elicitationId": None}, {"elicitationId": 1}, {"elicitationId": ["a"]}),
    ],
)
def test_completion_of_an_unknown_elicitation_is_ignored(params):
    open_urls = UrlElicitations()
    open_urls.add("a")
    assert open_urls.complete(params) is False
    assert len(open_urls) == 1


@pytest.mark.attack("S28")
def test_oldest_url_elicitation_is_dropped_beyond_the_limit():
    open_urls = UrlElicitations()
    for id in ("a", "b", "b", *map(str, range(1023))):
        open_urls.add(id)
    assert len(open_urls) == 1024
    completed = [open_urls.complete({"elicitationId": id}) for id in ("a", "b", "0")]
    assert completed == [False, True, True]


def test_discarded_elicitation_is_closed_and_unknown_ids_are_ignored():
    open_urls = UrlElicitations()
    open_urls.add("a")
    for id in ("a", "b", None):
        open_urls.discard(id)
    assert open_urls.complete({"elicitationId": "a"}) is False


@pytest.mark.rule("ELIC-23")
@pytest.mark.parametrize(
    ("data", "count"),
    [
        (None, 0),
        ([], 0),
        ({}, 0),
        ({"elicitations": None}, 0),
        ({"elicitations": {"elicitationId": "a"}}, 0),
        ({"elicitations": [3, {}, {"elicitationId": 4}]}, 0),
        ({"elicitations": [{"elicitationId": "a"}, {"elicitationId": "b"}]}, 2),
    ],
)
def test_elicitations_required_by_a_failed_call_are_open(data, count):
    open_urls = UrlElicitations()
    open_urls.add_required(UrlElicitationRequired("visit first", data=data))
    assert len(open_urls) == count
    assert open_urls.complete({"elicitationId": "a"}) is (count > 0)
