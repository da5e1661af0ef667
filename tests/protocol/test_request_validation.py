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
    UnreadableMessage,
    check_formats,
    check_head,
    check_mirrored,
    http_status,
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
