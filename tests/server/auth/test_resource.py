"""`ResourceServer`: authentication, refusals, scopes, metadata; tokens of its own."""

import asyncio
import logging

import attrs
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from resources import (
    ISSUER,
    KNOWN,
    NOW,
    RESOURCE,
    Verdicts,
    ask,
    denial_of,
    principal,
    refusal,
    resource,
)

import mcpwire
from mcpwire.auth.discovery import parse_challenges
from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.resource_server import TtlCache, format_challenge
from mcpwire.server import auth
from mcpwire.server.auth import (
    ApiKeys,
    AuthenticationRefused,
    HttpRefusal,
    InvalidToken,
    Principal,
    ResourceServer,
    ScopeRequired,
    StaticTokens,
    check_scopes,
)
from mcpwire.server.auth.resource_server import (
    Credentials,
    MalformedCredentials,
    Realm,
    read_credentials,
)
from mcpwire.testing import AsgiTransport

SECRET = "hush-hush"


@pytest.mark.parametrize("line", ["Bearer good", "bearer good", "BEARER   good"])
def test_bearer_scheme_is_case_insensitive(line):
    assert ask(resource(), authorization=line).subject == "ann"


@pytest.mark.system("L-O8")
@pytest.mark.rule("AUTH-13", "AUTH-14")
@pytest.mark.case("G01")
@pytest.mark.parametrize("fields", [{}, {"authorization": "Basic YTpi"}])
def test_missing_token_gets_401_with_the_metadata_url(fields):
    refused = refusal(resource(required_scopes=["read"]), **fields)
    assert refused.http_status == 401
    assert refused.http_headers == (
        ("www-authenticate", f'Bearer scope="read", resource_metadata="{KNOWN}"'),
    )


@pytest.mark.rule("AUTH-14", "FLOW-22", "FLOW-31")
@pytest.mark.case("G01")
def test_unknown_token_gets_401_invalid_token():
    denial = denial_of(refusal(resource(), authorization="Bearer bad"))
    assert (denial.status, denial.error) == (401, "invalid_token")
    assert denial.resource_metadata == KNOWN


MALFORMED = {
    "two fields": {"authorization": ["Bearer good", "Bearer good"]},
    "no token": {"authorization": "Bearer"},
    "an empty token": {"authorization": "Bearer "},
    "two tokens in one": {"authorization": "Bearer good, Bearer good"},
    "a token and more": {"authorization": "Bearer good extra"},
    "parameters": {"authorization": 'Bearer token="good"'},
    "nothing": {"authorization": ""},
    "no scheme": {"authorization": '"good"'},
    "an endless token": {"authorization": "Bearer " + "a" * 20_000},
    "foreign characters": {"authorization": "Bearer go\u00f6d"},
    "a token in the query": {"url": RESOURCE + "?access_token=good"},
    "a name of one in the query": {"url": RESOURCE + "?access_token"},
    "a token in the query of a fragment": {"url": RESOURCE + "#?access_token=good"},
    "one in the query too": {
        "url": RESOURCE + "?a=b&access%5Ftoken=good",
        "authorization": "Bearer good",
    },
}


@pytest.mark.rule("AUTH-14")
@pytest.mark.case("G01")
@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED)
def test_malformed_credentials_get_400(request_):
    denial = denial_of(refusal(resource(), **request_))
    assert (denial.status, denial.error) == (400, "invalid_request")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "a",
        "a=access_token",
        "Access_Token=c",
        "a=b&access_tokens=c",
        "a#access_token=b",
    ],
)
def test_other_query_parameters_are_ignored(query):
    url = f"{RESOURCE}?{query}"
    assert ask(resource(), url=url, authorization="Bearer good").subject == "ann"


@pytest.mark.rule("FLOW-22", "FLOW-23", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.case("G01")
@pytest.mark.parametrize(
    "members",
    [
        {"audience": set()},
        {"audience": {"https://other.example/mcp"}},
        {"audience": {RESOURCE + "/"}},
        {"audience": {"urn:x"}},
        {"expires_at": NOW - 301},
        {"subject": None},
    ],
)
def test_token_expired_or_of_another_audience_or_subject_is_refused(members):
    server = resource(Verdicts({"t": principal(**members)}))
    refused = refusal(server, authorization="Bearer t")
    assert (refused.http_status, refused.error) == (401, "invalid_token")


@pytest.mark.rule("FLOW-23")
@pytest.mark.parametrize(
    ("options", "audience"),
    [
        ({}, RESOURCE),
        ({"audience": "urn:mine"}, "urn:mine"),
        ({"audience": ["urn:mine", "urn:ours"]}, "urn:ours"),
    ],
)
def test_token_for_this_audience_is_accepted(options, audience):
    known = principal(audience={audience, "https://other.example"})
    server = resource(Verdicts({"t": known, "other": principal()}), **options)
    assert ask(server, authorization="Bearer t") == known
    if options:  # they replace the resource
        assert refusal(server, authorization="Bearer other").http_status == 401


def test_wrong_audience_is_logged(caplog):
    caplog.set_level(logging.INFO)
    refusal(resource(Verdicts({"t": principal(audience=())})), authorization="Bearer t")
    assert "its audience is another server" in caplog.text


def test_trailing_slash_of_a_bare_host_is_ignored():
    verdicts = Verdicts({"t": principal(audience={"https://mcp.example"})})
    server = ResourceServer(
        "https://mcp.example/", authorization_servers=[ISSUER], verifiers=[verdicts]
    )
    assert ask(server, authorization="Bearer t").subject == "ann"


def test_static_token_expires_at_its_time():
    tokens = StaticTokens({"t": {"subject": "ann", "expires_at": NOW}})
    assert refusal(resource(tokens), authorization="Bearer t").error == "invalid_token"


@pytest.mark.parametrize(
    "verdict",
    [InvalidToken("no"), principal(audience=()), AuthTemporarilyUnavailable("later")],
    ids=["invalid", "another audience", "unavailable"],
)
def test_verifiers_are_tried_in_order_until_one_accepts(verdict):
    first, third = Verdicts({"t": verdict}), Verdicts({})
    server = resource(first, Verdicts({"t": principal(subject="bob")}), third)
    assert ask(server, authorization="Bearer t").subject == "bob"
    assert (first.tokens, third.tokens) == (["t"], [])


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (AuthTemporarilyUnavailable("later"), "5"),
        (AuthTemporarilyUnavailable("later", retry_after=17.4), "17"),
        (AuthTemporarilyUnavailable("later", retry_after=0.0), "1"),
        (RuntimeError(SECRET), "5"),
    ],
)
def test_verifier_failure_is_503_with_retry_after(error, seconds, caplog):
    server = resource(Verdicts({"t": error}), Verdicts({"t": InvalidToken("no")}))
    refused = refusal(server, authorization="Bearer t")
    assert refused.http_status == 503
    assert refused.http_headers == (("retry-after", seconds),)
    assert SECRET not in caplog.text


@pytest.mark.case("G13")
@pytest.mark.parametrize("line", [f"Bearer {SECRET}", f"Bearer {SECRET} x"])
def test_tokens_do_not_appear_in_logs_errors_or_headers(line, caplog):
    caplog.set_level(logging.DEBUG)
    server = resource(Verdicts({SECRET: InvalidToken(f"{SECRET} is bad")}))
    refused = refusal(server, authorization=line)
    texts = [caplog.text, repr(refused), str(refused.__cause__), repr(server)]
    assert SECRET not in "".join([*texts, *refused.http_headers[0]])
    assert "is refused" in caplog.text


@pytest.mark.rule("FLOW-14", "AUTH-14")
@pytest.mark.case("G01")
def test_missing_required_scope_gets_403_with_all_scopes():
    tokens = StaticTokens({"t": {"subject": "ann", "scopes": ["read"]}})
    server = resource(tokens, required_scopes=["list", "read", "list"])
    with pytest.raises(ScopeRequired) as caught:
        ask(server, authorization="Bearer t")
    denial = denial_of(caught.value)
    assert (denial.status, denial.error, denial.scopes, denial.resource_metadata) == (
        403,
        "insufficient_scope",
        ("list", "read"),
        KNOWN,
    )


@pytest.mark.rule("FLOW-16")
def test_scope_includes_are_transitive_and_may_be_cyclic():
    tokens = StaticTokens({"t": {"subject": "ann", "scopes": ["admin", "else"]}})
    includes = {"admin": ["write"], "write": ["read", "admin"], "audit": ["log"]}
    server = resource(tokens, required_scopes=["read"], includes=includes)
    known = ask(server, authorization="Bearer t")
    assert known.scopes == {"admin", "write", "read", "else"}
    with pytest.raises(ScopeRequired):
        check_scopes(known, {"other"})


@pytest.mark.rule("FLOW-16")
def test_included_scope_does_not_grant_the_including_one():
    tokens = StaticTokens({"t": {"subject": "ann", "scopes": ["read"]}})
    known = ask(
        resource(tokens, includes={"admin": ["read"]}), authorization="Bearer t"
    )
    with pytest.raises(ScopeRequired):
        check_scopes(known, {"admin"})


@pytest.mark.rule("AUTH-03")
@pytest.mark.case("G01")
def test_metadata_has_resource_issuer_and_options():
    server = resource(
        scopes_supported=["read", "write"],
        resource_name="Files",
        documentation="https://mcp.example/docs",
        jwks_uri="https://mcp.example/keys",
    )
    assert server.metadata() == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["read", "write"],
        "resource_name": "Files",
        "resource_documentation": "https://mcp.example/docs",
        "jwks_uri": "https://mcp.example/keys",
    }


@pytest.mark.rule("FLOW-26")
@pytest.mark.case("G01")
def test_metadata_omits_offline_access():
    server = resource(scopes_supported=["read", "offline_access"])
    assert server.metadata()["scopes_supported"] == ["read"]
    assert "scopes_supported" not in resource().metadata()


@pytest.mark.rule("SEC-11")
def test_challenge_names_only_required_scopes():
    server = resource(scopes_supported=["read", "all"], required_scopes=["read"])
    assert denial_of(refusal(server)).scopes == ("read",)
    assert denial_of(refusal(resource(scopes_supported=["all"]))).scopes is None


def test_required_scopes_are_the_default_supported_scopes():
    assert resource(required_scopes=["b", "a"]).metadata()["scopes_supported"] == [
        "b",
        "a",
    ]


@pytest.mark.rule("AUTH-05")
@pytest.mark.case("G01")
@pytest.mark.parametrize(
    ("url", "paths"),
    [
        (
            RESOURCE,
            (
                "/.well-known/oauth-protected-resource/mcp",
                "/.well-known/oauth-protected-resource",
            ),
        ),
        ("https://mcp.example", ("/.well-known/oauth-protected-resource",)),
        ("https://mcp.example/", ("/.well-known/oauth-protected-resource",)),
    ],
)
def test_metadata_paths_are_both_well_known_urls(url, paths):
    server = ResourceServer(
        url, authorization_servers=[ISSUER], verifiers=[StaticTokens({"t": "a"})]
    )
    assert server.metadata_paths() == paths
    assert server.realm.metadata_url == "https://mcp.example" + paths[0]


def test_no_metadata_without_authorization_servers():
    server = resource(authorization_servers=[])
    assert server.metadata_paths() == ()
    assert refusal(server).http_headers == (("www-authenticate", "Bearer"),)


WRONG = {
    "no verifier": {"verifiers": []},
    "no issuer": {"authorization_servers": []},
    "a text for issuers": {"authorization_servers": ISSUER},
    "http": {"resource": "http://mcp.example/mcp"},
    "an issuer by http": {"authorization_servers": ["http://login.example"]},
    "a query": {"resource": RESOURCE + "?a=b"},
    "a fragment": {"resource": RESOURCE + "#a"},
    "no URL": {"resource": "mcp"},
    "an empty audience": {"audience": []},
    "an invalid scope": {"required_scopes": ["two words"]},
    "a scope for clients": {"required_scopes": ["offline_access"]},
    "an invalid supported scope": {"scopes_supported": ['"']},
    "another way of binding": {"dpop": "mtls"},
}


@pytest.mark.attack("S08")
@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG)
def test_insecure_or_unusable_options_are_refused(options):
    options = {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "verifiers": [Verdicts({})],
    } | options
    with pytest.raises(ValueError):
        ResourceServer(options.pop("resource"), **options)


def test_http_is_allowed_on_loopback_or_with_allow_insecure():
    local = {
        "authorization_servers": ["http://127.0.0.1:9"],
        "verifiers": [Verdicts({})],
    }
    assert ResourceServer("http://127.0.0.1:8000/mcp", **local).resource
    inside = {"authorization_servers": ["http://login"], "verifiers": [Verdicts({})]}
    assert ResourceServer("http://mcp/mcp", allow_insecure=True, **inside).resource


@pytest.fixture
def keyed_server():
    return resource(
        StaticTokens({"good": "ann"}), ApiKeys({"k:1!": "bob"}, header="X-API-Key")
    )


def test_api_key_is_read_from_its_own_header(keyed_server):
    assert ask(keyed_server, x_api_key=" k:1! ").subject == "bob"
    assert ask(keyed_server, authorization="Bearer good").subject == "ann"
    assert keyed_server.credential_headers == {
        "authorization",
        "cookie",
        "dpop",
        "proxy-authorization",
        "x-api-key",
    }


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"x_api_key": "good"}, 401),
        ({"authorization": "Bearer bad"}, 401),
        ({"x_api_key": ["k:1!", "k:1!"]}, 400),
        ({"x_api_key": "k 1"}, 400),
        ({"x_api_key": ""}, 400),
        ({"x_api_key": "k:1!", "authorization": "Bearer good"}, 400),
    ],
)
def test_api_key_is_valid_only_once_in_its_own_header(keyed_server, fields, status):
    assert refusal(keyed_server, **fields).http_status == status


def test_several_key_lists_may_share_a_header():
    lists = [ApiKeys({name: name}, header="X-API-Key") for name in ("ann", "bob")]
    server = resource(*lists)
    for name in ("ann", "bob"):
        assert ask(server, x_api_key=name).subject == name
        refused = refusal(server, authorization=f"Bearer {name}")
        assert (refused.http_status, refused.error) == (401, "invalid_token")


@given(
    st.lists(
        st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30),
        max_size=2,
    )
)
def test_random_header_values_are_refused_without_errors(values):
    outcome = outcome_of(resource(), authorization=values)
    if isinstance(outcome, AuthenticationRefused):
        assert outcome.http_status in {400, 401}
        assert outcome.http_headers[0][1].isprintable()
    else:
        assert values[0].split()[1:] == ["good"]


def outcome_of(server, **request):
    try:
        return ask(server, **request)
    except AuthenticationRefused as refused:
        return refused


@pytest.mark.rule("SEC-06")
def test_every_request_is_verified_again():
    verdicts = Verdicts({"t": principal()})
    server = resource(verdicts)
    ask(server, authorization="Bearer t")
    verdicts.verdicts["t"] = InvalidToken("taken back")
    assert refusal(server, authorization="Bearer t").http_status == 401
    assert verdicts.tokens == ["t", "t"]


REALM = Realm(metadata_url=KNOWN, required=("read",))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1),
        max_size=4,
    )
)
def test_formatted_challenge_parses_to_the_same_parameters(params):
    (found,) = parse_challenges(format_challenge("Bearer", params))
    assert (found.scheme, dict(found.params)) == ("bearer", params)


@given(st.text())
def test_parameter_values_cannot_inject_other_parameters(value):
    written = format_challenge("Bearer", {"scope": value, "error": "invalid_token"})
    assert written.isascii()
    assert written.isprintable()
    (found,) = parse_challenges(written)
    assert found.params["error"] == "invalid_token"
    assert set(found.params) <= {"scope", "error"}


def test_challenge_without_parameters_is_the_scheme():
    assert format_challenge("Bearer", {"scope": None, "error": ""}) == "Bearer"


def test_invalid_token_challenge_has_a_fixed_description():
    assert REALM.challenge("invalid_token") == (
        'Bearer error="invalid_token", '
        'error_description="The access token is not valid here", '
        f'scope="read", resource_metadata="{KNOWN}"'
    )


@pytest.mark.rule("FLOW-26")
def test_challenge_omits_offline_access():
    realm = Realm(metadata_url=KNOWN, required=("read", "offline_access"))
    assert "offline_access" not in realm.challenge(None, {"offline_access", "write"})


def test_challenge_offers_both_schemes_with_parameters():
    realm = Realm(schemes=("Bearer", "DPoP"), proof_algorithms=("ES256", "RS256"))
    assert realm.challenge() == 'Bearer, DPoP algs="ES256 RS256"'


@pytest.mark.rule("FLOW-14", "FLOW-15", "AUTH-14")
def test_missing_scope_is_a_403_with_all_required_scopes():
    principal = Principal(subject="ann", scopes={"read", "b"}, realm=REALM)
    with pytest.raises(ScopeRequired) as caught:
        check_scopes(principal, {"b", "a", "c"})
    refusal = caught.value
    assert isinstance(refusal, HttpRefusal)
    assert refusal.http_status == 403
    assert refusal.scopes == ("read", "a", "b", "c")
    denial = denial_of(refusal)
    assert (denial.error, denial.scopes) == (
        "insufficient_scope",
        ("read", "a", "b", "c"),
    )
    assert denial.resource_metadata == KNOWN
    assert refusal.code == -32600


@pytest.mark.rule("FLOW-15")
def test_scopes_are_named_in_a_fixed_order():
    named = {
        Realm().scopes_for(order) for order in (["c", "a"], ["a", "c"], {"a", "c"})
    }
    assert named == {("a", "c")}


@pytest.mark.parametrize("needed", [set(), {"a"}, {"a", "b"}])
def test_principal_with_the_scopes_passes(needed):
    check_scopes(Principal(scopes={"a", "b"}), needed)


def test_missing_principal_passes_only_without_scopes():
    check_scopes(None, frozenset())
    with pytest.raises(ScopeRequired):
        check_scopes(None, {"a"})


@pytest.mark.case("G13")
def test_credentials_and_their_errors_show_no_token():
    assert SECRET not in repr(Credentials("bearer", SECRET))
    with pytest.raises(MalformedCredentials) as caught:
        read_credentials("authorization", [f"Bearer {SECRET} {SECRET}"])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        (["Basic YTpi"], None),
        (["Negotiate"], None),
        (["Bearer a.b-c_d~e+f/g=="], Credentials("bearer", "a.b-c_d~e+f/g==")),
        (["  dPoP   t\t"], Credentials("dpop", "t")),
    ],
)
def test_credentials_are_parsed_per_rfc_6750(values, found):
    assert read_credentials("authorization", values) == found


@given(st.text(st.characters(max_codepoint=255), max_size=50))
def test_parsed_credentials_hold_only_token_characters(value):
    try:
        found = read_credentials("authorization", [value])
    except MalformedCredentials:
        return
    if found is not None:
        assert found.token in value
        assert found.token.isascii()
        assert not set(found.token) & set(' ,;"\\\t\r\n')


@pytest.mark.rule("FLOW-24", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.case("G01")
async def test_credential_headers_are_hidden_from_handlers():
    auth = ResourceServer(
        "https://t/mcp", verifiers=[ApiKeys({SECRET: "ann"}, header="X-API-Key")]
    )
    server = mcpwire.Server("guarded", auth=auth)

    @server.tool
    def fields(ctx: mcpwire.Context) -> dict[str, str]:
        return dict(ctx.headers)

    secrets = dict.fromkeys(
        ["x-api-key", "cookie", "dpop", "proxy-authorization"], SECRET
    )
    async with httpx.AsyncClient(transport=AsgiTransport(server.asgi())) as http:
        target = mcpwire.Http("https://t/mcp", headers=secrets, http_client=http)
        async with mcpwire.Client(target) as client:
            visible = (await client.call_tool("fields")).structured_content
    assert "user-agent" in visible
    assert not secrets.keys() & visible.keys()
    assert SECRET not in str(visible)


@pytest.mark.case("G13")
def test_repr_of_a_principal_omits_claims():
    principal = Principal(subject="ann", claims={"email": SECRET})
    assert SECRET not in repr(principal) + str(principal)


def test_key_is_issuer_client_and_subject():
    one = Principal(issuer="i", client_id="c", subject="s", scopes={"a"}, expires_at=1)
    assert one.key == ("i", "c", "s")
    assert attrs.evolve(one, scopes={"b"}, expires_at=2).key == one.key


@pytest.mark.parametrize("name", ["issuer", "client_id", "subject"])
def test_key_differs_if_one_of_the_three_fields_differs(name):
    one = Principal(issuer="i", client_id="c", subject="s")
    assert attrs.evolve(one, **{name: "x"}).key != one.key


def test_claims_are_immutable_and_ignored_in_comparison():
    given = {"a": 1}
    principal = Principal(claims=given)
    given["a"] = 2
    assert principal.claims == {"a": 1}
    with pytest.raises(TypeError):
        principal.claims["a"] = 3
    assert principal == Principal()
    assert len({principal, Principal()}) == 1


@pytest.mark.parametrize("name", ["scopes", "audience"])
def test_string_for_scopes_or_audience_is_refused(name):
    with pytest.raises(ValueError, match="collections"):
        Principal(**{name: "read write"})


def test_package_exports_only_its_public_names():
    assert {name: getattr(auth, name).__name__ for name in dir(auth)} == {
        name: name for name in auth.__all__
    }
    with pytest.raises(AttributeError, match="nothing_such"):
        auth.nothing_such  # noqa: B018 - looking it up is the point


@pytest.mark.attack("S25")
@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        "/authorize",
        "/token",
        "/register",
        "/revoke",
        "/callback",
        "/mcp/authorize",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
    ],
)
async def test_authorization_endpoints_are_not_served(verb, path):
    auth = mcpwire.ResourceServer(
        RESOURCE,
        authorization_servers=[ISSUER],
        verifiers=[mcpwire.StaticTokens({"a-long-random-text": {"subject": "ada"}})],
    )
    server = mcpwire.Server("guarded", "1", auth=auth)
    transport = AsgiTransport(server.asgi())
    async with httpx.AsyncClient(transport=transport) as http_client:
        answer = await http_client.request(verb, f"https://mcp.example{path}")
        assert answer.status_code in {401, 404}
        assert "location" not in answer.headers
        shown = await http_client.get(
            "https://mcp.example/.well-known/oauth-protected-resource"
        )
        assert shown.json()["authorization_servers"] == [ISSUER]


def verify(verifier, token):
    return asyncio.run(verifier.verify(token))


@pytest.mark.parametrize("kind", [StaticTokens, ApiKeys])
@pytest.mark.parametrize("owner", ["ann", {"subject": "ann"}, Principal(subject="ann")])
def test_known_token_gives_its_principal(kind, owner):
    assert verify(kind({"t": owner}), "t") == Principal(subject="ann")


@pytest.mark.parametrize("token", ["", "T", "t ", "tt", "ü"])
def test_unknown_token_is_refused(token):
    with pytest.raises(InvalidToken):
        verify(StaticTokens({"t": "ann"}), token)


@pytest.mark.parametrize("owner", ["", {}, {"issuer": "i"}, Principal()])
def test_token_owner_needs_a_subject(owner):
    with pytest.raises(ValueError, match="subject"):
        StaticTokens({"t": owner})


@pytest.mark.parametrize("token", ["", "a b", "a,b", "ü", "a" * 20_000, "a:b"])
def test_token_that_cannot_be_sent_is_refused(token):
    with pytest.raises(ValueError, match="RFC 6750"):
        StaticTokens({token: "ann"})


def test_api_key_in_its_own_header_allows_more_characters():
    assert verify(ApiKeys({"a:b,c": "ann"}, header="X-Key"), "a:b,c").subject == "ann"
    with pytest.raises(ValueError):
        ApiKeys({"a b": "ann"}, header="X-Key")


@pytest.mark.parametrize("header", ["", "x key", "Authorization"])
def test_invalid_or_reserved_api_key_header_is_refused(header):
    with pytest.raises(ValueError, match="no key can stand"):
        ApiKeys({"k": "ann"}, header=header)


@pytest.mark.case("G13")
def test_static_tokens_neither_show_nor_keep_tokens():
    made = StaticTokens({SECRET: "ann"})
    assert repr(made) == "<StaticTokens: 1>"
    assert SECRET not in repr(vars(made))


def test_ttl_cache_evicts_expired_and_oldest_entries():
    cache = TtlCache(2)
    cache.put("a", 1, 0, until=10)
    cache.put("b", 2, 0, until=20)
    assert (cache.get("a", 9), cache.get("a", 10), cache.get("x", 0)) == (1, None, None)
    cache.put("a", 3, 0, until=20)
    cache.put("c", 4, 0, until=20)
    assert [cache.get(name, 0) for name in "abc"] == [3, None, 4]
    cache.put("d", 5, 20, until=30)
    assert len(cache) == 1  # the expired ones are removed
    cache.clear()
    assert len(cache) == 0
