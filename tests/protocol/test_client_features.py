"""Client features: the capabilities they declare, and the requests they answer."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
import wirecheck
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import InvalidParams, LocalProtocolError, MethodNotFound
from mcpwire.protocol.client_features import (
    ClientFeatures,
    Elicitation,
    Sampling,
    as_roots,
    encode_answer,
)
from mcpwire.protocol.methods import METHODS, TASKS, Kind, available_method
from mcpwire.types import Root
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


# Roots: accepted URIs and paths, and the answers to roots/list...


def prepare(roots, revision=LATEST, params=None):
    return ClientFeatures(roots=roots).prepare("roots/list", params, revision)


def uris(*values):
    return [root.uri for root in as_roots(values)]


# URIs

VALID = [
    *("file:///", "file:///home/ada", "file:///home/ada/", "file:///home//ada"),
    *("file://localhost/home", "file:///C:/Users/ada", "file:///a%20b/%C3%BC"),
    *("file:///a/.hidden/..b/c../...", "file:///a/%252e%252e/%252F"),
    "file:///!$&'()*+,;=:@-._~",
]

INVALID = [
    ("file:/home", "must begin with file://"),
    ("https://example.com/", "must begin with file://"),
    ("file://", "must be absolute"),
    ("file://localhost", "must be absolute"),
    ("file://home/ada", "must not name another machine"),
    ("file://LOCALHOST/a", "must not name another machine"),
    ("file://user@localhost/a", "must not name another machine"),
    ("file://localhost:80/a", "must not name another machine"),
    ("file:///a?b", "must have neither query nor fragment"),
    ("file:///a#b", "must have neither query nor fragment"),
    ("file:///a b", "must be percent-encoded"),
    ("file:///\u00fc", "must be percent-encoded"),
    ("file:///a\\b", "must be percent-encoded"),
    ("file:///a\0", "must be percent-encoded"),
    ("file:///a%", "must be percent-encoded"),
    ("file:///a%zz", "must be percent-encoded"),
    ("file:///[a]", "must be percent-encoded"),
    ("file:///../etc", "segments . and .."),
    ("file:///a/../b", "segments . and .."),
    ("file:///a/./b", "segments . and .."),
    ("file:///a/%2e%2e/b", "segments . and .."),
    ("file:///a/%2e./b", "segments . and .."),
    ("file:///a/%2e/b", "segments . and .."),
    ("file:///a%2fb", "encoded separator"),
    ("file:///a%2F..%2Fb", "encoded separator"),
    ("file:///a%5cb", "encoded separator"),
    ("file:///a%00", "encoded separator or NUL"),
]


@pytest.mark.rule("ROOT-04")
@pytest.mark.parametrize("uri", VALID)
def test_file_uri_is_a_root_unchanged(uri):
    assert uris(uri) == [uri]
    root = Root(uri, name="A", meta={"k": 1})
    assert as_roots([root]) == [root]


@pytest.mark.rule("ROOT-04", "ROOT-06")
@pytest.mark.parametrize(("uri", "reason"), INVALID)
@pytest.mark.parametrize("wrap", [str, Root])
def test_uri_other_than_a_plain_file_uri_is_refused(wrap, uri, reason):
    with pytest.raises(ValueError, match=r"^roots\[1\]: ") as caught:
        as_roots(["file:///home", wrap(uri)])
    assert reason in str(caught.value)


def test_long_uri_is_shortened_in_the_error():
    with pytest.raises(ValueError) as caught:
        as_roots(["https://" + "a" * 10**6])
    assert len(str(caught.value)) < 200


class Named:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/"), "file:///"),
        (PurePosixPath("/home/ada lovelace"), "file:///home/ada%20lovelace"),
        (PurePosixPath("/a/\u00fc%?#"), "file:///a/%C3%BC%25%3F%23"),
        (PureWindowsPath("C:\\Users\\ada b"), "file:///C:/Users/ada%20b"),
        (PureWindowsPath("c:/"), "file:///c:/"),
        (Path("/nowhere/at/all"), "file:///nowhere/at/all"),
        (Named("/a"), "file:///a"),
        ("/home/ada lovelace", "file:///home/ada%20lovelace"),
        ("/a:b/%20", "file:///a%3Ab/%2520"),
        ("C:\\Users\\ada b", "file:///C:/Users/ada%20b"),
        (Named(b"/a\xff"), "file:///a%FF"),
        (Named("/a\udcff"), "file:///a%FF"),
    ],
)
def test_absolute_path_becomes_a_file_uri(path, uri):
    assert uris(path) == [uri]


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "home",
        "~/x",
        "a/b",
        "C:x",
        " file:///a",
        Path("x"),
        PureWindowsPath("\\\\s\\h\\x"),
    ],
)
def test_relative_path_is_refused(path):
    for given_path in [path, Named(path)] if isinstance(path, str) else [path]:
        with pytest.raises(ValueError, match=r"^roots\[0\]: .* is a relative path"):
            as_roots([given_path])


@pytest.mark.rule("ROOT-04", "ROOT-06")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *((Path("/a/../b"), ""), (Named("/a/./b"), ""), (Named("/.."), "")),
        *((Named("/a\0"), ""), (Named("/a\\b"), "")),
        (Named("/a\ud800"), ".* is not a path"),
        *((Root(u), ".*must begin with file://") for u in ("", "/home/ada", "home")),
        *((value, "expected a Root, a file:// URI") for value in (None, 3, b"/home")),
        *((value, "expected a Root, a") for value in (["/home"], {"uri": "file:///"})),
        *((root, "") for root in (Root(None), Root(3), Root("file:///", name=4))),
    ],
)
def test_unusable_path_uri_or_entry_is_refused(value, problem):
    with pytest.raises(ValueError, match=rf"^roots\[0\]: {problem}"):
        as_roots([value])


NAMES = st.text(st.characters(exclude_characters="/\0\\", exclude_categories=["Cs"]))


@given(st.lists(NAMES, max_size=4))
def test_path_uris_agree_with_pathlib(names):
    path = Path("/", *names)
    assume(".." not in path.parts)
    assert uris(path, str(path)) == [path.as_uri()] * 2


@given(st.text("file:/.%2eEFf5cC\\abü?#", max_size=20).map("file:///".__add__))
def test_accepted_root_contains_no_dot_dot_after_decoding(uri):
    try:
        (passed,) = uris(uri)
    except ValueError:
        return
    path = passed.removeprefix("file://")
    decoded = path.replace("%2e", ".").replace("%2E", ".").replace("%5C", "\\")
    assert "\\" not in decoded
    assert ".." not in decoded.split("/")
    assert path.startswith("/")
    assert uri == passed


@pytest.mark.parametrize(
    "values", ["file:///home", b"/home", Path("/home"), {"a": 1}, 3, True, Root("x")]
)
def test_roots_must_be_a_list_or_a_function(values):
    with pytest.raises(ValueError, match=r"^roots must be a list or a function, got "):
        as_roots(values)


@pytest.mark.rule("ROOT-06")
def test_invalid_roots_are_refused_by_the_constructor():
    with pytest.raises(ValueError, match=r"^roots\[0\]: "):
        ClientFeatures(roots=["home"])


def answer_of(question):
    return question.finish(question.handler(question.params))


ROOTS = [Root("file:///a", name="A", meta={"k": 1}), "file:///b", PurePosixPath("/c")]


@pytest.mark.rule("ROOT-04")
@each_revision
@pytest.mark.parametrize("make", [list, tuple, iter])
def test_list_of_roots_is_sent_as_the_answer(make, revision, spec_dir):
    question = prepare(make(ROOTS), revision)
    answers = [answer_of(question), answer_of(question)]
    assert answers[0] == answers[1]
    assert [root["uri"] for root in answers[0]["roots"]] == [
        "file:///a",
        "file:///b",
        "file:///c",
    ]
    has_meta = "_meta" in answers[0]["roots"][0]
    assert has_meta == (REVISIONS.index(revision) >= 2)
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("ListRootsResult", answers[0])) == []


def test_later_changes_of_the_list_are_sent():
    roots = []
    question = prepare(roots)
    roots.append("file:///a")
    assert answer_of(question) == {"roots": [{"uri": "file:///a"}]}
    roots.append("b")
    with pytest.raises(
        LocalProtocolError, match=r"^roots\[1\]: 'b' is a relative path"
    ):
        answer_of(question)


@each_revision
def test_roots_function_is_called_for_each_request(revision):
    calls = []

    def roots():
        calls.append(1)
        return [f"file:///{len(calls)}"]

    features = ClientFeatures(roots=roots)
    assert calls == []
    for number in (1, 2):
        question = features.prepare("roots/list", {}, revision)
        raw = answer_of(question)
        assert raw == {"roots": [{"uri": f"file:///{number}"}]}


async def test_coroutine_of_an_async_roots_function_is_returned():
    async def roots():
        return (PurePosixPath("/a"),)

    question = prepare(roots)
    raw = question.finish(await question.handler(question.params))
    assert raw == {"roots": [{"uri": "file:///a"}]}


@pytest.mark.system("A51")
@pytest.mark.rule("ROOT-04", "ROOT-06")
@pytest.mark.parametrize("value", [None, "file:///a", ["a"], [Path("a")], [3], {}])
def test_invalid_return_value_of_a_roots_function_is_refused(value):
    with pytest.raises(LocalProtocolError, match=r"^roots"):
        prepare(lambda: value).finish(value)


def test_root_with_malformed_meta_is_refused_with_its_path():
    with pytest.raises(LocalProtocolError, match=r"roots\[0\]\._meta: expected object"):
        answer_of(prepare([Root("file:///a", meta=3)]))


@each_revision
def test_params_may_be_absent_or_hold_only_meta(revision):
    for params in (None, {}, {"_meta": {"k": 1}}):
        assert answer_of(prepare([], revision, params)) == {"roots": []}
