"""Which parts of a POST are checked, and the error that answers each fault."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ParseError,
    ResourceNotFound,
    UnsupportedVersion,
)
from mcpwire.protocol.http_headers import ParamHeader
from mcpwire.protocol.request_validation import (
    EVENT_STREAM,
    JSON,
    OriginPolicy,
    UnreadableMessage,
    accepts,
    check_formats,
    check_head,
    check_mirrored,
    http_status,
    is_json,
    is_stateless,
    read_json,
    read_message,
)
from mcpwire.versions import REVISIONS

KEY = "io.modelcontextprotocol/protocolVersion"
NEW = "2026-07-28"


class Fields:
    """Header fields; a list as value is a field that was sent several times."""

    def __init__(self, **fields):
        self.fields = {name.replace("_", "-"): value for name, value in fields.items()}

    def get(self, name):
        value = self.fields.get(name)
        return ", ".join(value) if isinstance(value, list) else value

    def repeats(self, name):
        return isinstance(self.fields.get(name), list)


def head(version=NEW, method="tools/call", name="echo", **params):
    fields = Fields(**params)
    fields.fields["mcp-protocol-version"] = version
    fields.fields["mcp-method"] = method
    fields.fields["mcp-name"] = name
    return fields


def test_matching_formats_pass():
    formats = ("application/json", "identity", None)
    assert check_formats(*formats, is_json_only=False) is None


@pytest.mark.case("D01", "D02")
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"content_type": "text/plain"}, 415),
        ({}, 415),
        ({"content_type": "application/json", "content_encoding": "gzip"}, 415),
        ({"content_type": "application/json", "accept": "application/json"}, 406),
        ({"content_type": "application/json", "accept": "text/html"}, 406),
    ],
)
def test_unsupported_formats_are_refused(fields, status):
    names = ("content_type", "content_encoding", "accept")
    refused = check_formats(*map(fields.get, names), is_json_only=False)
    assert refused is not None
    assert refused[0] == status


def test_json_only_server_requires_only_json_in_accept():
    formats = ("application/json", None, "application/json")
    assert check_formats(*formats, is_json_only=True) is None


@pytest.mark.case("B01")
@pytest.mark.attack("S14")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b"\xef\xbb\xbf{}"]
)
def test_invalid_json_is_a_parse_error_without_an_id(body):
    with pytest.raises(UnreadableMessage) as caught:
        read_json(body, 100)
    assert type(caught.value.error) is ParseError
    assert caught.value.id is None


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'"id": 7, "method": "x", "params"', 7),
        (b'"method": "x", "params"', None),
        (b'"id": 7, "result"', None),
    ],
)
def test_json_of_too_many_values_is_refused_before_decoding(head, id):
    body = b'{"jsonrpc": "2.0", ' + head + b": [" + b"{}," * 400_000 + b"{}]}"
    assert type(read_json(body, 900_000)) is dict
    with pytest.raises(UnreadableMessage) as caught:
        read_json(body, 600_000)
    assert type(caught.value.error) is InvalidRequest
    assert caught.value.error.message == (
        f"a message of {len(body)} bytes holds more than 600000 values (Limits.values)"
    )
    assert caught.value.id == id


@pytest.mark.case("B02", "B03")
@pytest.mark.attack("S12", "S18")
@pytest.mark.parametrize(
    ("value", "id"),
    [
        (None, None),
        ({"id": 1, "method": "a"}, 1),
        ({"jsonrpc": "1.0", "id": "1", "method": "a"}, "1"),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "a", "params": []}, 1),
        ({"jsonrpc": "2.0", "id": 1, "Method": "a"}, None),
        ({"jsonrpc": "2.0", "id": None, "method": "a"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "a"}, None),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "a"}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, None),
    ],
)
def test_invalid_message_is_an_invalid_request(value, id):
    with pytest.raises(UnreadableMessage) as caught:
        read_message(value)
    assert type(caught.value.error) is InvalidRequest
    assert caught.value.id == id
    assert type(caught.value.id) is type(id)


@pytest.mark.parametrize(
    ("version", "supported", "expected"),
    [
        (NEW, REVISIONS, True),
        (None, REVISIONS, False),
        ("2025-11-25", REVISIONS, False),
        ("v999.0.0", REVISIONS, False),
        (None, REVISIONS[-1:], True),
        ("2025-11-25", REVISIONS[-1:], True),
        (NEW, REVISIONS[:-1], False),
        (None, REVISIONS[:-1], False),
    ],
)
def test_head_shows_the_stateless_era(version, supported, expected):
    fields = Fields(**({"mcp_protocol_version": version} if version else {}))
    assert is_stateless(fields, supported) is expected


def test_matching_head_passes():
    check_head(head(), "tools/call", {"_meta": {KEY: NEW}})


@pytest.mark.case("D13")
@pytest.mark.rule("TR-HTTP-26", "HDR-21", "HDR-22", "HDR-27")
@pytest.mark.parametrize(
    "fields",
    [
        head(version=None),
        head(version="2025-11-25"),
        head(version=[NEW, NEW]),
        head(method=None),
        head(method="tools/list"),
        head(method="TOOLS/CALL"),
        head(method=""),
        head(method=["tools/call", "tools/call"]),
    ],
)
def test_mismatching_head_is_refused(fields):
    with pytest.raises(HeaderMismatch):
        check_head(fields, "tools/call", {"_meta": {KEY: NEW}})


@pytest.mark.rule("META-08")
@pytest.mark.parametrize(
    "params",
    [None, {}, {"_meta": None}, {"_meta": []}, {"_meta": {}}, {"_meta": {KEY: 5}}],
)
def test_missing_version_in_the_body_is_invalid_params(params):
    with pytest.raises(InvalidParams):
        check_head(head(), "tools/call", params)


def test_missing_version_in_the_head_is_reported_first():
    with pytest.raises(HeaderMismatch):
        check_head(head(version=None), "tools/call", None)


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo"}, "echo"),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tasks/get", {"taskId": "1"}, "1"),
        ("tools/list", {"name": "ignored"}, None),
        ("tools/list", {}, "ignored"),
        ("tools/call", {}, None),
    ],
)
def test_matching_name_header_passes(method, params, name):
    check_mirrored(head(name=name), method, params)


@pytest.mark.case("D13")
@pytest.mark.rule("HDR-20", "HDR-21", "HDR-22", "HDR-23")
@pytest.mark.parametrize(
    ("sent", "name", "passes"),
    [
        ("=?base64?w6k=?=", "é", True),
        ("", "", True),
        ("=?base64?w6k?=", "é", False),
        ("\xe9", "\xe9", False),
        ("Echo", "echo", False),
        (None, "echo", False),
        ("echo", None, False),
        (["a", "b"], "a, b", False),
        (["a", "a"], "a", False),
        ("x" * 500, "y" * 500, False),
        ("echo", {"a": 1}, False),
    ],
)
def test_name_header_is_compared_after_decoding(sent, name, passes):
    params = {} if name is None else {"name": name}
    if passes:
        check_mirrored(head(name=sent), "tools/call", params)
        return
    with pytest.raises(HeaderMismatch) as caught:
        check_mirrored(head(name=sent), "tools/call", params)
    assert len(caught.value.message) < 400
    assert "Mcp-Name" in caught.value.message


CITY = (ParamHeader("Mcp-Param-City", ("where", "city")),)
COUNT = (ParamHeader("Mcp-Param-Count", ("count",)),)


@pytest.mark.case("D13")
@pytest.mark.rule("HDR-20", "HDR-21", "HDR-23", "HDR-24", "HDR-25", "HDR-26", "HDR-28")
@pytest.mark.parametrize(
    ("headers", "sent", "arguments", "passes"),
    [
        (CITY, "Bonn", {"where": {"city": "Bonn"}}, True),
        (CITY, "=?base64?Qm9ubg==?=", {"where": {"city": "Bonn"}}, True),
        (CITY, None, {"where": {"city": "Bonn"}}, False),
        (CITY, "Köln".encode().decode("latin-1"), {"where": {"city": "Köln"}}, False),
        (CITY, None, {"where": {"city": None}}, True),
        (CITY, None, {"where": None}, True),
        (CITY, None, {"where": "Bonn"}, True),
        (CITY, None, {}, True),
        (CITY, None, None, True),
        (CITY, None, [], True),
        (CITY, "Bonn", {"where": {"city": None}}, False),
        (CITY, "Bonn", {}, False),
        (COUNT, "42", {"count": 42}, True),
        (COUNT, "43", {"count": 42}, False),
        (COUNT, "1", {"count": True}, False),
        (COUNT, ["1", "1"], {"count": 1}, False),
    ],
)
def test_argument_headers_are_compared_after_decoding(headers, sent, arguments, passes):
    fields = head()
    fields.fields[headers[0].name.lower()] = sent
    params = {"name": "echo", "arguments": arguments}
    if passes:
        check_mirrored(fields, "tools/call", params, headers)
    else:
        with pytest.raises(HeaderMismatch):
            check_mirrored(fields, "tools/call", params, headers)


@given(st.text(st.characters(max_codepoint=255), max_size=30), st.text(max_size=30))
def test_any_name_header_matches_or_is_a_mismatch(sent, name):
    with contextlib.suppress(HeaderMismatch):
        check_mirrored(head(name=sent), "tools/call", {"name": name})


@pytest.mark.rule("TR-HTTP-27", "TR-HTTP-28")
@pytest.mark.parametrize(
    ("error", "is_admitted", "status"),
    [
        (ParseError(""), False, 400),
        (InvalidRequest(""), False, 400),
        (MethodNotFound(""), False, 404),
        (InvalidParams(""), False, 400),
        (HeaderMismatch(""), False, 400),
        (MissingCapability(""), False, 400),
        (UnsupportedVersion(""), False, 400),
        (MethodNotFound(""), True, 200),
        (InvalidParams(""), True, 200),
        (InternalError(""), True, 200),
        (ResourceNotFound(""), True, 200),
        (MissingCapability(""), True, 400),
        (HeaderMismatch(""), True, 400),
    ],
)
def test_http_status_depends_on_admission(error, is_admitted, status):
    assert http_status(error, is_admitted=is_admitted) == status


# Content-Type and Accept headers as they occur in practice...


@pytest.mark.case("D02")
@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON;Charset=UTF-8", True),
        ('application/json; charset="utf-8"', True),
        ("application/json; charset=utf8", True),
        ("application/json; foo=bar", True),
        ("application/json; charset=latin-1", False),
        ("application/json; charset=", False),
        ("application/problem+json", False),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
        (None, False),
    ],
)
def test_only_json_in_utf_8_is_json(content_type, expected):
    assert is_json(content_type) is expected


@pytest.mark.system("O50")
@pytest.mark.case("D01")
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json, text/event-stream", True),
        ("application/json;q=0.5, text/event-stream;q=1.0", True),
        ("application/json; charset=utf-8, text/event-stream", True),
        ("*/*", True),
        ("application/*, text/*", True),
        ("application/json, */*;q=0.1", True),
        (None, True),
        ("application/json", False),
        ("text/event-stream", False),
        ("text/html, application/*", False),
        ("application/json;q=0, text/event-stream", False),
        ("*/*, application/json;q=0", False),
        ("*/*;q=much", False),
        ("application/json text/event-stream", False),
        ("", False),
    ],
)
def test_accept_must_cover_both_formats(accept, expected):
    assert accepts(accept, JSON, EVENT_STREAM) is expected


def test_one_required_format_is_enough():
    assert accepts("application/json", JSON)
    assert not accepts("application/json", EVENT_STREAM)


@given(st.text(max_size=60))
def test_any_text_is_parsed_without_an_error(text):
    assert accepts(text, JSON) in {True, False}
    assert is_json(text) in {True, False}


# Host and Origin headers: which browsers' pages may reach a server...


DEFAULT = OriginPolicy()


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8000", "LOCALHOST:8000", "127.0.0.1:1", "[::1]"),
        *("[::1]:8000", "127.0.0.2"),
    ],
)
def test_loopback_hosts_are_allowed_by_default(host):
    assert DEFAULT.refusal(host, None) is None


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.com", "localhost@evil.com"),
        *("evil.com/localhost", "127.0.0.1.nip.io", "0.0.0.0", "10.0.0.7"),
        *("localhost:99999", "localhost#", "localhost?", "[::1", "", " "),
    ],
)
def test_other_hosts_are_refused_with_the_option_to_set(host):
    reason = DEFAULT.refusal(host, None)
    assert reason is not None
    assert repr(host) in reason
    assert "allowed_hosts" in reason


def test_missing_host_is_refused():
    reason = "the Host is missing; it must be in allowed_hosts of the server"
    assert DEFAULT.refusal(None, None) == reason


def test_local_address_of_the_request_is_an_allowed_host():
    assert DEFAULT.refusal("10.0.0.7:8000", None, "10.0.0.7") is None
    assert DEFAULT.refusal("10.0.0.8:8000", None, "10.0.0.7") is not None
    assert DEFAULT.refusal("10.0.0.7:8000", None) is not None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7:8000", "::ffff:10.0.0.7"),  # on a socket for both IPv6 and IPv4
        ("[::ffff:10.0.0.7]:8000", "::ffff:10.0.0.7"),
        ("[2001:db8::7]:8000", "2001:db8::7"),
        ("[fe80::1]:8000", "fe80::1%eth0"),
    ],
)
def test_local_address_of_an_ipv6_socket_is_an_allowed_host(host, address):
    assert DEFAULT.refusal(host, None, address) is None
    assert DEFAULT.refusal(host, None, "2001:db8::8") is not None


@pytest.mark.parametrize(
    ("allowed", "host", "is_allowed"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com:8443", True),
        ("example.com", "www.example.com", False),
        ("example.com", "localhost", False),
        ("example.com:8000", "example.com:8000", True),
        ("example.com:8000", "example.com", False),
        ("example.com:443", "example.com", True),  # over https
        ("example.com:443", "example.com:443", True),
        ("example.com:443", "example.com:80", False),
        ("example.com:80", "example.com", True),
        ("example.com:80", "example.com:443", False),
        ("example.com:*", "example.com:1", True),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("::1", "[::1]:8000", True),
        ("[::1]:8000", "[::1]:8000", True),
        ("[::1]:8000", "[::1]:8001", False),
        ("*", "whatever.example", True),
        ("*", None, True),
    ],
)
def test_allowed_hosts_are_configurable(allowed, host, is_allowed):
    assert (OriginPolicy([allowed]).refusal(host, None) is None) is is_allowed


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    ("host", "origin", "is_allowed"),
    [
        ("localhost:8000", "http://localhost:8000", True),
        ("localhost:8000", "http://localhost:5173", True),
        ("localhost:8000", "HTTP://LOCALHOST:8000", True),
        ("127.0.0.1:8000", "http://[::1]:3000", True),
        ("localhost:8000", "https://localhost", True),
        ("localhost:8000", "http://localhost.evil.com", False),
        ("localhost:8000", "http://evil.com", False),
        ("localhost:8000", "http://user@localhost:8000", False),
        ("localhost:8000", "null", False),
        ("localhost:8000", "http://127.0.0.1.nip.io", False),
        ("10.0.0.7:8000", "http://10.0.0.7:8000", True),
        ("10.0.0.7:8000", "http://10.0.0.7:8001", False),
        ("10.0.0.7:8000", "http://localhost:8000", False),
        ("10.0.0.7", "https://10.0.0.7", True),
        ("10.0.0.7", "https://10.0.0.7:444", False),
    ],
)
def test_loopback_and_host_origins_are_allowed(host, origin, is_allowed):
    reason = DEFAULT.refusal(host, origin, "10.0.0.7")
    assert (reason is None) is is_allowed
    if reason is not None:
        assert repr(origin) in reason
        assert "allowed_origins" in reason


@pytest.mark.parametrize(
    ("allowed", "origin", "is_allowed"),
    [
        ("https://example.com", "https://example.com", True),
        ("https://example.com", "https://EXAMPLE.com:443", True),
        ("https://example.com", "http://example.com", False),
        ("https://example.com", "https://example.com:8443", False),
        ("https://example.com:*", "https://example.com:8443", True),
        ("https://example.com:*", "http://example.com:8443", False),
        ("https://example.com", "http://localhost", False),
        ("https://example.com", "null", False),
        ("null", "null", True),
        ("null", "http://localhost", False),
        ("*", "https://whatever.example", True),
        ("*", "null", True),
    ],
)
def test_allowed_origins_are_configurable(allowed, origin, is_allowed):
    policy = OriginPolicy(origins=[allowed])
    assert (policy.refusal("localhost", origin) is None) is is_allowed


@pytest.mark.case("D06")
def test_host_is_checked_even_if_any_origin_is_allowed():
    policy = OriginPolicy(origins=["*"])
    assert policy.refusal("evil.example", "http://localhost") is not None
    hosts = OriginPolicy(["*"])
    assert hosts.refusal("a.example", "http://b.example") is not None
    assert hosts.refusal(None, "http://b.example") is not None
    assert hosts.refusal("a.example", "http://a.example") is None
    assert hosts.refusal("not a host", "http://a.example") is not None


@pytest.mark.parametrize("host", ["http://a.example", "a b", "", "a/b", "a:b"])
def test_invalid_allowed_host_is_a_value_error(host):
    with pytest.raises(ValueError, match="not a host name"):
        OriginPolicy([host])


@pytest.mark.parametrize("origin", ["a.example", "https://a.example/", "ftp://a", ""])
def test_invalid_allowed_origin_is_a_value_error(origin):
    with pytest.raises(ValueError, match="not an origin"):
        OriginPolicy(origins=[origin])


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_header_text_is_accepted_or_refused_with_a_short_reason(host, origin):
    reason = DEFAULT.refusal(host, origin)
    assert reason is None or len(reason) < 1000
