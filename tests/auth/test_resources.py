"""Protected resources: their metadata URLs, and which servers they cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.discovery import (
    canonical_uri,
    covers,
    read_resource_metadata,
    resource_metadata_urls,
)
from mcpwire.auth.errors import DiscoveryError, UrlRefused
from mcpwire.auth.records import ResourceMetadata
from mcpwire.wire.urls import parse_url

SERVER = parse_url("https://h/public/mcp")

CANONICAL = {
    "https://h": "https://h",
    "https://h/": "https://h",
    "https://h/mcp": "https://h/mcp",
    "https://h/mcp/": "https://h/mcp/",
    "HTTPS://Host.Example:443/Mcp": "https://host.example/Mcp",
    "https://h/mcp?tenant=a&x": "https://h/mcp?tenant=a&x",
    "https://h/mcp?": "https://h/mcp?",
    "https://h/mcp#part": "https://h/mcp",
}


@pytest.mark.rule("FLOW-03")
@pytest.mark.parametrize(("server", "uri"), CANONICAL.items(), ids=CANONICAL)
def test_a_server_has_one_canonical_uri(server, uri):
    assert canonical_uri(parse_url(server)) == uri


COVERED = {
    "the same": ("https://h/mcp", "https://h/mcp"),
    "its root": ("https://h", "https://h/mcp"),
    "what it is part of": ("https://h/public", "https://h/public/mcp"),
    "upper case where it means nothing": ("HTTPS://H/mcp", "https://h/mcp"),
    "the port that goes without saying": ("https://h:443/mcp", "https://h/mcp"),
    "a slash at the server's end": ("https://h/mcp", "https://h/mcp/"),
    "a server with a query": ("https://h/mcp", "https://h/mcp?a=1"),
    "the same query": ("https://h/mcp?a=1", "https://h/mcp?a=1"),
    "the same empty query": ("https://h/mcp?", "https://h/mcp?"),
    "dots that lead there": ("https://h/x/../mcp/.", "https://h/mcp"),
    "dots of the server": ("https://h/mcp", "https://h/x/%2E%2e/mcp"),
}


NOT_COVERED = {
    "another path": ("https://h/ab", "https://h/a"),
    "half a segment": ("https://h/a", "https://h/ab"),
    "another case of the path": ("https://h/MCP", "https://h/mcp"),
    "another host": ("https://evil/a", "https://h/a"),
    "a host below": ("https://x.h/a", "https://h/a"),
    "another port": ("https://h:8443/a", "https://h/a"),
    "no encryption": ("http://h/a", "https://h/a"),
    "a user": ("https://h@evil/a", "https://h/a"),
    "a fragment": ("https://h/a#b", "https://h/a"),
    "a query": ("https://h/a?b", "https://h/a"),
    "another query": ("https://h/a?b=1", "https://h/a?b=2"),
    "an empty query for all": ("https://h/a?", "https://h/a?b"),
    "dots out of it": ("https://h/a", "https://h/a/../b"),
    "encoded dots out of it": ("https://h/a", "https://h/a/%2e%2E/b"),
    "an encoded slash": ("https://h/a", "https://h/a%2Fb"),
    "an empty segment": ("https://h/a//", "https://h/a/"),
    "a path alone": ("/a", "https://h/a"),
}


@pytest.mark.rule("AUTH-09")
@pytest.mark.attack("S07")
@pytest.mark.pain("P34")
@pytest.mark.system("U43")
@pytest.mark.parametrize("name", [*COVERED, *NOT_COVERED])
def test_a_resource_covers_urls_below_it_and_no_others(name):
    resource, server = (COVERED | NOT_COVERED)[name]
    assert covers(resource, parse_url(server)) is (name in COVERED)


SEGMENT = st.sampled_from(["a", "b", "ab", "A", "a.b", "...", "%2F", "a;b", "~"])
PATH = st.lists(SEGMENT, max_size=4)
# Each leads back to its start.
NO_STEP = st.sampled_from([".", "%2e", "%2E", "x/..", "x/%2e.", "x/y/../.%2E"])


def url_of(segments):
    return "https://h/" + "/".join(segments)


@pytest.mark.rule("AUTH-09")
@pytest.mark.attack("S07")
@given(PATH, PATH)
def test_a_resource_covers_urls_by_whole_segments(resource, server):
    expected = server[: len(resource)] == resource
    assert covers(url_of(resource), parse_url(url_of(server))) is expected


@pytest.mark.attack("S07")
@given(PATH, PATH, st.data())
def test_dot_segments_do_not_change_the_result(resource, server, data):
    def with_detour(segments):
        index = data.draw(st.integers(0, len(segments)))
        return [*segments[:index], data.draw(NO_STEP), *segments[index:]]

    plain = covers(url_of(resource), parse_url(url_of(server)))
    detours = url_of(with_detour(resource)), parse_url(url_of(with_detour(server)))
    assert covers(*detours) is plain


@given(st.text())
def test_covers_accepts_any_text(text):
    assert not covers(text, SERVER)


WELL_KNOWN = "https://h/.well-known/oauth-protected-resource"
CUSTOM = "https://h/custom?tenant=1"
ASKED = {
    "a path": ("https://h/a/mcp", None, [f"{WELL_KNOWN}/a/mcp", WELL_KNOWN]),
    "no path": ("https://h", None, [WELL_KNOWN]),
    "a slash at the end": (
        "https://h/mcp/",
        None,
        [f"{WELL_KNOWN}/mcp/", f"{WELL_KNOWN}/mcp", WELL_KNOWN],
    ),
    "a query": (
        "https://h/mcp?a=1",
        None,
        [f"{WELL_KNOWN}/mcp?a=1", f"{WELL_KNOWN}/mcp", WELL_KNOWN],
    ),
    "a query alone": ("https://h?a=1", None, [f"{WELL_KNOWN}?a=1", WELL_KNOWN]),
    "dots": ("https://h/a/../../mcp", None, [f"{WELL_KNOWN}/mcp", WELL_KNOWN]),
    "a challenge": ("https://h/mcp", CUSTOM, [CUSTOM, f"{WELL_KNOWN}/mcp", WELL_KNOWN]),
    "a challenge that names what is asked anyway": (
        "https://h/mcp",
        WELL_KNOWN,
        [WELL_KNOWN, f"{WELL_KNOWN}/mcp"],
    ),
    "a challenge in other letters": (
        "https://h",
        "HTTPS://H:443/x",
        ["HTTPS://H:443/x", WELL_KNOWN],
    ),
}


@pytest.mark.rule("AUTH-04", "AUTH-07")
@pytest.mark.pain("P34")
@pytest.mark.system("U41")
@pytest.mark.parametrize(("server", "challenged", "urls"), ASKED.values(), ids=ASKED)
def test_resource_metadata_urls_are_tried_in_order(server, challenged, urls):
    assert resource_metadata_urls(parse_url(server), challenged) == urls


ELSEWHERE = {
    "another host": "https://evil/x",
    "another port": "https://h:8443/x",
    "another scheme": "http://h/x",
    "a relative URL": "/.well-known/oauth-protected-resource",
    "a line end": "https://h/\r\nx",
    "a secret": "https://evil/x?token=s3cret",
}


@pytest.mark.attack("S05")
@pytest.mark.case("G06")
@pytest.mark.system("U41")
@pytest.mark.parametrize("challenged", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_challenge_url_must_have_the_server_origin(challenged):
    with pytest.raises(UrlRefused) as caught:
        resource_metadata_urls(SERVER, challenged)
    assert str(caught.value).endswith(caught.value.rule)
    assert "s3cret" not in f"{caught.value} {caught.value.url}"


def document(**members):
    whole = {"resource": "https://h/public", "authorization_servers": ["https://as"]}
    return whole | members


def metadata(**members):
    return read_resource_metadata(document(**members), SERVER)


@pytest.mark.rule("AUTH-04")
def test_resource_metadata_is_read():
    assert metadata(
        resource="HTTPS://h:443/public/",
        authorization_servers=["https://as/t1", "https://As", "https://as/t1"],
        scopes_supported=["b", "a", "b", "b c", 7, None, ""],
        dpop_bound_access_tokens_required=True,
        jwks_uri="https://elsewhere",
    ) == ResourceMetadata(
        "HTTPS://h:443/public/",
        ("https://as/t1", "https://As"),
        ("b", "a"),
        dpop_bound_access_tokens_required=True,
    )


FORGIVEN = {
    "nothing optional": {},
    "null": {"scopes_supported": None, "dpop_bound_access_tokens_required": None},
    "another type": {"scopes_supported": "a b"},
    "a word for true": {"dpop_bound_access_tokens_required": "true"},
}


@pytest.mark.case("G06")
@pytest.mark.parametrize("members", FORGIVEN.values(), ids=FORGIVEN)
def test_an_optional_member_of_another_type_is_ignored(members):
    expected = ResourceMetadata("https://h/public", ("https://as",))
    assert metadata(**members) == expected


NO_ISSUER = "names no authorization server"
USELESS = {
    "no servers": ({"authorization_servers": []}, NO_ISSUER),
    "null": ({"authorization_servers": None}, NO_ISSUER),
    "one server as text": ({"authorization_servers": "https://as"}, NO_ISSUER),
    "no texts": ({"authorization_servers": [{"issuer": "https://as"}]}, NO_ISSUER),
    "no resource": ({"resource": None}, "names no resource"),
    "resources": ({"resource": ["https://h/public"]}, "names no resource"),
    "another resource": ({"resource": "https://evil.example/mcp"}, "is about"),
    "no URL": ({"resource": "mcp"}, "is about 'mcp', which is not 'https://h/public"),
}


@pytest.mark.rule("AUTH-09")
@pytest.mark.attack("S07")
@pytest.mark.parametrize(("members", "reason"), USELESS.values(), ids=USELESS)
def test_an_incomplete_document_is_refused(members, reason):
    with pytest.raises(DiscoveryError, match=reason):
        metadata(**members)
