"""The heads of our requests: the fields they carry, and how engines read them."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import __version__
from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.http_headers import RequestHeaders, check_headers
from mcpwire.protocol.http_reply import Request
from mcpwire.protocol.retry import can_resume_from
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS
from mcpwire.wire.urls import parse_url

URL = parse_url("https://mcp.example:8443/a/mcp?tenant=7")
COMMON = {
    "host": "mcp.example:8443",
    "user-agent": f"mcpwire/{__version__}",
    "accept-encoding": "identity",
}
POST = {
    **COMMON,
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
GET = {**COMMON, "accept": "text/event-stream"}


def fields_of(start):
    """Return the fields by name; no name may come twice."""
    pairs = [(name.decode(), value.decode()) for name, value in Request(start).fields]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.system("U10", "L-V4")
@pytest.mark.rule("LHTTP-02", "TR-HTTP-07")
def test_post_accepts_json_and_event_streams():
    start = RequestHeaders(URL).post()
    assert start.startswith(b"POST /a/mcp?tenant=7 HTTP/1.1\r\nhost: mcp.example:8443")
    assert start.endswith(b"\r\n")
    assert b"\r\n\r\n" not in start
    assert fields_of(start) == POST


@pytest.mark.rule("LHTTP-14")
def test_get_accepts_event_streams_only():
    start = RequestHeaders(URL).get()
    assert start.startswith(b"GET /a/mcp?tenant=7 HTTP/1.1\r\n")
    assert fields_of(start) == GET


def test_delete_has_no_body_fields():
    start = RequestHeaders(URL).delete()
    assert start.startswith(b"DELETE /a/mcp?tenant=7 HTTP/1.1\r\n")
    assert fields_of(start) == COMMON


@pytest.mark.rule("LHTTP-24")
def test_session_id_is_sent_with_every_request_until_removed():
    heads = RequestHeaders(URL)
    heads.session_id = "s-1"
    assert heads.session_id == "s-1"
    for start in (heads.post(), heads.get(), heads.delete(), heads.get("7")):
        assert fields_of(start)["mcp-session-id"] == "s-1"
    heads.session_id = None
    for start in (heads.post(), heads.get(), heads.delete()):
        assert "mcp-session-id" not in fields_of(start)


@pytest.mark.system("U09")
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-29", "TR-HTTP-25")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_protocol_version_is_sent_only_after_the_agreement(revision):
    heads = RequestHeaders(URL)
    assert heads.revision is None
    for start in (heads.post(), heads.get(), heads.delete()):
        assert "mcp-protocol-version" not in fields_of(start)
    heads.revision = revision
    assert heads.revision is revision
    for start in (heads.post(), heads.get(), heads.delete()):
        assert fields_of(start)["mcp-protocol-version"] == revision.name


@pytest.mark.pain("P26")
def test_probe_version_applies_to_that_request_only():
    heads = RequestHeaders(URL)
    probe = heads.post([("Mcp-Method", "server/discover")], version=LATEST.name)
    assert fields_of(probe) == {
        **POST,
        "mcp-method": "server/discover",
        "mcp-protocol-version": "2026-07-28",
    }
    assert fields_of(heads.post()) == POST
    heads.revision = LATEST_SESSION
    assert fields_of(heads.post(version=LATEST.name))["mcp-protocol-version"] == (
        LATEST.name
    )


@pytest.mark.system("O80")
@pytest.mark.pain("P27")
def test_user_headers_are_sent_with_every_request():
    heads = RequestHeaders(URL, {"Authorization": "Bearer x", "User-Agent": "theirs"})
    for start in (heads.post(), heads.get(), heads.delete()):
        fields = fields_of(start)
        assert fields["authorization"] == "Bearer x"
        assert fields["user-agent"] == "theirs"


@pytest.mark.pain("P27")
def test_extra_field_replaces_an_earlier_one_for_that_request_only():
    heads = RequestHeaders(URL, {"Authorization": "Bearer one", "X-Tenant": "a"})
    extra = [("X-TENANT", "b"), ("authorization", "Bearer two"), ("x-tenant", "c")]
    for start in (heads.post(extra), heads.get(None, extra), heads.delete(extra)):
        fields = fields_of(start)
        assert fields["authorization"] == "Bearer two"
        assert fields["x-tenant"] == "c"
    assert fields_of(heads.post())["authorization"] == "Bearer one"


@pytest.mark.rule("LHTTP-21")
@pytest.mark.parametrize(
    ("event_id", "sent"),
    [
        ("42", b"42"),
        ("a b", b"a b"),
        (" a ", b"a"),
        ("größe-\u20ac", "größe-\u20ac".encode()),
        ("\x85", b"\xc2\x85"),
        ("x" * 4096, b"x" * 4096),
    ],
)
def test_stream_is_resumed_by_the_id_of_its_last_event(event_id, sent):
    assert can_resume_from(event_id)
    start = RequestHeaders(URL).get(event_id, [("x-a", "1")])
    fields = dict(Request(start).fields)
    assert fields[b"last-event-id"] == sent
    assert fields[b"x-a"] == b"1"


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    "event_id",
    ["a\r\nx-evil: 1", "a\nb", "a\tb", "\x00", "\x7f", "  ", "x" * 4097, "\ud800"],
)
def test_unsendable_event_id_is_refused(event_id):
    assert not can_resume_from(event_id)
    with pytest.raises(LocalProtocolError, match="the event id cannot travel"):
        RequestHeaders(URL).get(event_id)


def test_empty_event_id_cannot_resume():
    assert not can_resume_from("")


def test_with_target_changes_only_path_and_query():
    heads = RequestHeaders(URL, {"x-a": "1"})
    heads.session_id = "s"
    heads.revision = LATEST_SESSION
    moved = heads.with_target("/b?c=d?e")
    assert moved.post() == heads.post().replace(b"/a/mcp?tenant=7", b"/b?c=d?e")
    assert moved.get("1") == heads.get("1").replace(b"/a/mcp?tenant=7", b"/b?c=d?e")
    assert heads.with_target("/b").post().startswith(b"POST /b HTTP/1.1\r\n")
    assert (moved.session_id, moved.revision) == ("s", LATEST_SESSION)


@pytest.mark.attack("S19")
@pytest.mark.parametrize("target", ["", "b", "/a b", "/a\r\n", "/a#b", "/ä", "*"])
def test_invalid_target_is_refused(target):
    with pytest.raises(LocalProtocolError, match="must be a path and query"):
        RequestHeaders(URL).with_target(target)
    with pytest.raises(LocalProtocolError, match="must be a path and query"):
        RequestHeaders(attrs.evolve(URL, path=target))


@pytest.mark.attack("S19")
@pytest.mark.parametrize("session_id", [" ", "a\r\nx: y", "ä", "\x7f"])
def test_invalid_session_id_is_never_written(session_id):
    heads = RequestHeaders(URL)
    heads.session_id = session_id
    with pytest.raises(LocalProtocolError, match="visible ASCII"):
        heads.post()


def test_user_headers_are_merged_and_lowercased():
    assert check_headers({"X-A": "1", "x-B": "", "x-a": "b c"}) == (
        ("x-a", "b c"),
        ("x-b", ""),
    )
    assert check_headers({}) == ()


@pytest.mark.system("U10")
@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "connection", "Content-Type"),
        *("ACCEPT", "accept-encoding", "expect", "te", "upgrade", "Mcp-Session-Id"),
        *("MCP-Protocol-Version", "mcp-method", "mcp-name"),
        *("Mcp-Param-Region", "last-event-id"),
    ],
)
def test_header_that_mcpwire_sets_is_refused(name):
    with pytest.raises(LocalProtocolError) as caught:
        check_headers({name: "s3cret"}, "headers of the call")
    assert str(caught.value) == (
        f"headers of the call: mcpwire sets {name!r}; it must not be given"
    )
    with pytest.raises(LocalProtocolError):
        RequestHeaders(URL, {name: "s3cret"})


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"x y": "s3cret"}, "headers: 'x y' cannot be a header's name"),
        ({"": "s3cret"}, "headers: '' cannot be a header's name"),
        ({"x\r\ny": "s3cret"}, "headers: 'x\\r\\ny' cannot be a header's name"),
        ({"\u212aey": "s3cret"}, "headers: '\u212aey' cannot be a header's name"),
        ({b"x": "s3cret"}, "headers: bytes cannot be a header's name"),
        ({"x": b"s3cret"}, "headers: the value of 'x' must be str, got bytes"),
        ({"x": None}, "headers: the value of 'x' must be str, got NoneType"),
        ([("x", "s3cret")], "headers must be a mapping of names to values, got list"),
    ],
)
def test_invalid_header_is_refused_without_showing_its_value(headers, message):
    with pytest.raises(LocalProtocolError) as caught:
        check_headers(headers)
    assert str(caught.value) == message


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    "value", ["s3cret\n", "s3\r\ncret", "s3\0cret", " s3cret", "s3\tcret", "s3crét"]
)
def test_invalid_value_is_refused_and_never_shown(value):
    message = "the value of 'X-Key' must be visible ASCII, with spaces only inside"
    with pytest.raises(LocalProtocolError) as caught:
        check_headers({"X-Key": value}, "headers of the target")
    assert str(caught.value) == f"headers of the target: {message}"
    with pytest.raises(LocalProtocolError) as caught:
        RequestHeaders(URL).post([("x-key", value)])
    assert "s3" not in str(caught.value)


def test_extra_field_with_an_invalid_name_is_refused():
    with pytest.raises(LocalProtocolError, match="cannot be a header's name"):
        RequestHeaders(URL).post([("x\r\ny", "1")])


ANY = st.text(max_size=12) | st.text("\r\n\t\0 :aé\x7f", max_size=6)
NAME = st.sampled_from(["x-a", "Authorization", "host", "mcp-name"]) | ANY
SAFE_LINE = frozenset(range(0x20, 0x7F)) | frozenset(range(0x80, 0x100))


@pytest.mark.attack("S19")
@given(
    st.dictionaries(NAME, ANY, max_size=2),
    st.none() | ANY,
    ANY,
    st.lists(st.tuples(NAME, ANY), max_size=2),
    st.just("/mcp") | ANY,
)
def test_no_control_character_is_written_inside_a_line(
    user_headers, session_id, event_id, extra, target
):
    try:
        heads = RequestHeaders(URL, user_headers)
    except LocalProtocolError:
        heads = RequestHeaders(URL)
    heads.session_id = session_id
    heads.revision = LATEST_SESSION
    lines = 7 + len({name.lower() for name in user_headers})
    written = []
    for make in (
        lambda: heads.with_target(target).delete(),
        lambda: heads.get(event_id),
        lambda: heads.post(extra, version=session_id),
        lambda: heads.get(event_id, extra),
        heads.post,
        heads.get,
        heads.delete,
    ):
        try:
            written.append(make())
        except LocalProtocolError:
            continue
    for start in written:
        head, *rest = start.split(b"\r\n")
        assert rest.pop() == b""
        assert len(rest) <= lines + len(extra) + 2
        assert SAFE_LINE.issuperset(b"".join([head, *rest]))
        assert all(b": " in line for line in rest)


def test_verb_target_and_fields_are_parsed_from_the_bytes():
    request = Request(
        b"POST /mcp?a=b:c HTTP/1.1\r\nhost: [::1]:80\r\nx-empty:\r\n"
        b"x-odd: a: b\r\nx-two: 1\r\nx-two: 2\r\n",
        b"{}",
    )
    assert request.verb == "POST"
    assert request.target == "/mcp?a=b:c"
    assert request.fields == [
        (b"host", b"[::1]:80"),
        (b"x-empty", b""),
        (b"x-odd", b"a: b"),
        (b"x-two", b"1"),
        (b"x-two", b"2"),
    ]


@pytest.mark.parametrize("kind", ["post", "get", "delete"])
def test_written_head_is_parsed_back(kind):
    heads = RequestHeaders(parse_url("https://example.com/mcp?key=1"), {"x-own": "a b"})
    start = heads.get("7") if kind == "get" else getattr(heads, kind)()
    request = Request(start)
    assert request.verb == kind.upper()
    assert request.target == "/mcp?key=1"
    fields = dict(request.fields)
    assert fields[b"host"] == b"example.com"
    assert fields[b"x-own"] == b"a b"
    written = b"".join(name + b": " + value + b"\r\n" for name, value in request.fields)
    assert start.partition(b"\r\n")[2] == written


@pytest.mark.attack("S23")
def test_repr_of_a_request_shows_no_secret():
    start = b"POST /mcp?key=hush HTTP/1.1\r\nauthorization: Bearer hush\r\n"
    request = Request(start, b'{"password": "hush"}')
    assert repr(request) == str(request) == "<Request POST /mcp>"
