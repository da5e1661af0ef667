"""Which servers a client chose by header fields, and how they are named."""

import json
from itertools import permutations
from typing import Any

import pytest

from mcpwire.gateway.forwarding import check_header_names, pick_headers
from mcpwire.gateway.selection import name_servers, read_servers
from mcpwire.wire.urls import parse_url

A = "https://a.example/mcp"
B = "https://b.example/mcp"


def chosen(servers: Any, headers: Any = None, **options: Any) -> list[tuple[str, str]]:
    found = read_servers(
        None if servers is None else json.dumps(servers),
        None if headers is None else json.dumps(headers),
        **options,
    )
    return [(each.name, each.url) for each in found]


@pytest.mark.system("O30")
@pytest.mark.parametrize("field", [None, "", "  ", "[]"])
def test_empty_server_list_is_valid(field):
    assert read_servers(field, None) == ()


@pytest.mark.system("O30")
def test_first_of_two_entries_with_one_url_is_used():
    twice = [B, {"url": A, "name": "first"}, {"url": A, "name": "second"}, A]
    assert chosen(twice) == [("first", A), ("b-example", B)]


@pytest.mark.system("O21", "O42")
def test_servers_are_sorted_by_url():
    urls = [A, B, "https://b.example/other"]
    assert len({tuple(chosen(list(some))) for some in permutations(urls)}) == 1


@pytest.mark.system("O30")
@pytest.mark.parametrize(
    ("servers", "what"),
    [
        ("[", "X-MCP-Servers: expected JSON in UTF-8"),
        ("\xff", "X-MCP-Servers: expected JSON in UTF-8"),
        ('["\xe9"]', "X-MCP-Servers: expected JSON in UTF-8"),
        ("{}", "X-MCP-Servers: expected an array of URLs"),
        ('"x"', "X-MCP-Servers: expected an array of URLs"),
        ("[1]", "X-MCP-Servers[0]: expected a URL"),
        ('[{"name": "x"}]', "X-MCP-Servers[0]: expected a URL"),
        (
            '[{"name": "x y", "url": "https://a.example"}]',
            "X-MCP-Servers[0].name: expected up to 64 of A-Z a-z 0-9 . _ and -",
        ),
        (
            '[{"name": 1, "url": "https://a.example"}]',
            "X-MCP-Servers[0].name: expected up to 64 of A-Z a-z 0-9 . _ and -",
        ),
        ('["https://a.example/#f"]', "X-MCP-Servers: 'https://a.example/#***' has a"),
        ('["ws://a.example"]', "X-MCP-Servers: "),
        ('["https://user:pw@a.example"]', "X-MCP-Servers: "),
        ('["/relative"]', "X-MCP-Servers: "),
    ],
)
def test_invalid_server_list_error_names_the_field(servers, what):
    with pytest.raises(ValueError, match="X-MCP-Servers") as caught:
        read_servers(servers, None)
    assert str(caught.value).startswith(what)
    assert "pw" not in str(caught.value)


@pytest.mark.system("O31")
@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ("[", "X-MCP-Headers: expected JSON in UTF-8"),
        ("[]", "X-MCP-Headers: expected an object of headers by URL"),
        (json.dumps({A: 1}), f"X-MCP-Headers['{A}']: expected an object of texts"),
        (json.dumps({A: {"X": 1}}), f"X-MCP-Headers['{A}']: the value of 'X' must be"),
        (json.dumps({A: {"": "secret"}}), f"X-MCP-Headers['{A}']: ''"),
        (
            json.dumps({A: {"Host": "secret"}}),
            f"X-MCP-Headers['{A}']: mcpwire sets 'Host'",
        ),
        (json.dumps({A: {"X": "secret\n"}}), f"X-MCP-Headers['{A}']: the value of 'X'"),
    ],
)
def test_invalid_headers_error_names_the_field_without_values(headers, what):
    with pytest.raises(ValueError, match="X-MCP-Headers") as caught:
        read_servers(json.dumps([A]), headers)
    assert str(caught.value).startswith(what)
    assert "secret" not in str(caught.value)


@pytest.mark.attack("S05")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.0.0.1", "[::1]", "169.254.169.254", "0x7f.1", "0"],
)
def test_private_hosts_are_refused_unless_allowed(host):
    url = f"http://{host}/mcp"
    with pytest.raises(ValueError, match="is not public"):
        read_servers(json.dumps([url]), None)
    assert len(read_servers(json.dumps([url]), None, allow_private=True)) == 1


@pytest.mark.system("O42")
@pytest.mark.parametrize(
    ("urls", "names"),
    [
        (["https://a.example/mcp"], ["a-example"]),
        (["http://a.example:8080/mcp"], ["a-example-8080"]),
        (
            ["https://a.example/one", "https://a.example/two", "https://b.example/"],
            ["a-example-one", "a-example-two", "b-example"],
        ),
        (
            ["https://a.example/x?b", "https://a.example/x/b", "https://a.example/x.b"],
            ["a-example-x", "a-example-x-b", "a-example-x-b-2"],
        ),
        (
            ["https://a.example/mcp?key=s3cret1", "https://a.example/mcp?key=s3cret2"],
            ["a-example-mcp", "a-example-mcp-2"],
        ),
        (
            ["https://a.example?s3cret", "https://a.example/"],
            ["a-example", "a-example-2"],
        ),
    ],
)
def test_server_names_consist_of_host_path_and_number(urls, names):
    assert name_servers([(parse_url(url), None) for url in urls]) == names


def test_given_name_is_kept_and_a_derived_name_gets_a_number():
    servers = [
        (parse_url("https://a.example/"), None),
        (parse_url("https://b.example/"), "a-example"),
    ]
    assert name_servers(servers) == ["a-example-2", "a-example"]


@pytest.mark.parametrize(
    "name",
    ["Authorization", "cookie", "HOST", "Mcp-Session-Id", "mcp-param-x", "", "a b", 1],
)
def test_sensitive_or_invalid_header_names_are_refused(name):
    with pytest.raises(ValueError, match=r"never forwarded|cannot be a header"):
        check_header_names([name])


def test_single_string_of_header_names_is_refused():
    with pytest.raises(ValueError, match="collection"):
        check_header_names("x-run")


@pytest.mark.system("O27")
def test_only_named_headers_are_picked():
    names = check_header_names(["X-Run", "x-run", "Traceparent"])
    assert names == ("x-run", "traceparent")
    fields = {"x-run": "1", "x-other": "2"}
    assert pick_headers(fields, names) == {"x-run": "1"}
    assert pick_headers({}, names) == {}
