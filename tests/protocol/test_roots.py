"""Roots: accepted URIs and paths, and the answers to roots/list."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
import wirecheck
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.client_features import ClientFeatures, as_roots
from mcpwire.types import Root
from mcpwire.versions import LATEST, REVISIONS

each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)


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


# Paths


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


@pytest.mark.rule("ROOT-04")
@pytest.mark.parametrize("uri", ["", "/home/ada", "home"])
def test_root_uri_must_not_be_a_path(uri):
    with pytest.raises(ValueError, match="must begin with file://"):
        as_roots([Root(uri)])


@pytest.mark.rule("ROOT-06")
@pytest.mark.parametrize(
    "path",
    [Path("/a/../b"), Named("/a/./b"), Named("/.."), Named("/a\0"), Named("/a\\b")],
)
def test_path_with_dot_segments_or_invalid_characters_is_refused(path):
    with pytest.raises(ValueError, match=r"^roots\[0\]: "):
        as_roots([path])


def test_path_with_a_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match=r"^roots\[0\]: .* is not a path"):
        as_roots([Named("/a\ud800")])


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


# Arguments


@pytest.mark.parametrize(
    "values", ["file:///home", b"/home", Path("/home"), {"a": 1}, 3, True, Root("x")]
)
def test_roots_must_be_a_list_or_a_function(values):
    with pytest.raises(ValueError, match=r"^roots must be a list or a function, got "):
        as_roots(values)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *((value, "expected a Root, a file:// URI") for value in (None, 3, b"/home")),
        *((value, "expected a Root, a") for value in (["/home"], {"uri": "file:///"})),
        *((root, "") for root in (Root(None), Root(3), Root("file:///", name=4))),
    ],
)
def test_entry_of_another_type_is_refused(value, problem):
    with pytest.raises(ValueError, match=rf"^roots\[0\]: {problem}"):
        as_roots([value])


@pytest.mark.rule("ROOT-06")
def test_invalid_roots_are_refused_by_the_constructor():
    with pytest.raises(ValueError, match=r"^roots\[0\]: "):
        ClientFeatures(roots=["home"])


# Answers


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
