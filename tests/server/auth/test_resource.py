"""Who is let in, who is not, and what they are told."""

import logging

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
    resource,
)

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.server.auth import (
    ApiKeys,
    AuthenticationRefused,
    HttpRefusal,
    InvalidToken,
    ResourceServer,
    ScopeRequired,
    StaticTokens,
    check_scopes,
)

SECRET = "hush-hush"


def refusal(server, **request):
    with pytest.raises(AuthenticationRefused) as caught:
        ask(server, **request)
    assert isinstance(caught.value, HttpRefusal)
    return caught.value


@pytest.mark.parametrize("line", ["Bearer good", "bearer good", "BEARER   good"])
def test_a_good_token_is_let_in_however_its_scheme_is_spelled(line):
    assert ask(resource(), authorization=line).subject == "ann"


@pytest.mark.system("L-O8")
@pytest.mark.rule("AUTH-13", "AUTH-14")
@pytest.mark.case("G01")
@pytest.mark.parametrize("fields", [{}, {"authorization": "Basic YTpi"}])
def test_who_shows_no_token_gets_401_and_is_told_where_to_get_one(fields):
    refused = refusal(resource(required_scopes=["read"]), **fields)
    assert refused.http_status == 401
    assert refused.http_headers == (
        ("www-authenticate", f'Bearer scope="read", resource_metadata="{KNOWN}"'),
    )


@pytest.mark.rule("AUTH-14", "FLOW-22", "FLOW-31")
@pytest.mark.case("G01")
def test_a_token_that_nobody_believes_gets_401_with_a_code():
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
def test_what_is_malformed_gets_400(request_):
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
def test_other_queries_are_none_of_its_business(query):
    url = f"{RESOURCE}?{query}"
    assert ask(resource(), url=url, authorization="Bearer good").subject == "ann"


@pytest.mark.rule("FLOW-23", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.case("G01")
@pytest.mark.parametrize(
    "audience", [set(), {"https://other.example/mcp"}, {RESOURCE + "/"}, {"urn:x"}]
)
def test_a_token_for_another_service_or_for_nobody_is_refused(audience):
    server = resource(Verdicts({"t": principal(audience=audience)}))
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
def test_a_token_for_this_server_is_taken(options, audience):
    known = principal(audience={audience, "https://other.example"})
    server = resource(Verdicts({"t": known}), **options)
    assert ask(server, authorization="Bearer t") == known


def test_who_runs_the_server_learns_why_a_real_token_is_refused(caplog):
    caplog.set_level(logging.INFO)
    refusal(resource(Verdicts({"t": principal(audience=())})), authorization="Bearer t")
    assert "its audience is another server" in caplog.text


@pytest.mark.rule("FLOW-23")
def test_another_name_takes_the_place_of_the_resource():
    server = resource(Verdicts({"t": principal()}), audience="urn:mine")
    assert refusal(server, authorization="Bearer t").http_status == 401


def test_a_bare_host_is_one_name_with_a_slash_or_without():
    verdicts = Verdicts({"t": principal(audience={"https://mcp.example"})})
    server = ResourceServer(
        "https://mcp.example/", authorization_servers=[ISSUER], verifiers=[verdicts]
    )
    assert ask(server, authorization="Bearer t").subject == "ann"


@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize(
    "members",
    [{"expires_at": NOW - 301}, {"subject": None}],
    ids=["over, whatever its verifier says", "of nobody"],
)
def test_a_token_that_is_over_or_of_nobody_is_refused(members):
    server = resource(Verdicts({"t": principal(**members)}))
    assert refusal(server, authorization="Bearer t").error == "invalid_token"


def test_a_token_of_ours_is_over_at_its_time():
    tokens = StaticTokens({"t": {"subject": "ann", "expires_at": NOW}})
    assert refusal(resource(tokens), authorization="Bearer t").error == "invalid_token"


def test_verifiers_are_asked_in_order_until_one_believes():
    first = Verdicts({"t": InvalidToken("no")})
    third = Verdicts({})
    server = resource(first, Verdicts({"t": principal(subject="bob")}), third)
    assert ask(server, authorization="Bearer t").subject == "bob"
    assert (first.asked, third.asked) == (["t"], [])


def test_a_token_for_another_service_may_be_one_that_the_next_verifier_knows():
    first = Verdicts({"t": principal(audience=())})
    server = resource(first, StaticTokens({"t": "bob"}))
    assert ask(server, authorization="Bearer t").subject == "bob"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (AuthTemporarilyUnavailable("later"), "5"),
        (AuthTemporarilyUnavailable("later", retry_after=17.4), "17"),
        (AuthTemporarilyUnavailable("later", retry_after=0.0), "1"),
        (RuntimeError(SECRET), "5"),
    ],
)
def test_where_nobody_can_tell_it_is_503_and_no_reason_to_log_in(
    error, seconds, caplog
):
    server = resource(Verdicts({"t": error}), Verdicts({"t": InvalidToken("no")}))
    refused = refusal(server, authorization="Bearer t")
    assert refused.http_status == 503
    assert refused.http_headers == (("retry-after", seconds),)
    assert SECRET not in caplog.text


def test_who_is_believed_by_another_verifier_need_not_wait():
    server = resource(
        Verdicts({"t": AuthTemporarilyUnavailable("later")}), StaticTokens({"t": "ann"})
    )
    assert ask(server, authorization="Bearer t").subject == "ann"


@pytest.mark.case("G13")
@pytest.mark.parametrize("line", [f"Bearer {SECRET}", f"Bearer {SECRET} x"])
def test_no_token_gets_into_a_log_an_error_or_an_answer(line, caplog):
    caplog.set_level(logging.DEBUG)
    server = resource(Verdicts({SECRET: InvalidToken(f"{SECRET} is bad")}))
    refused = refusal(server, authorization=line)
    told = [caplog.text, repr(refused), str(refused.__cause__), repr(server)]
    assert SECRET not in "".join([*told, *refused.http_headers[0]])
    assert "is refused" in caplog.text


# Scopes...


@pytest.mark.rule("FLOW-14", "AUTH-14")
@pytest.mark.case("G01")
def test_who_lacks_what_every_request_needs_gets_403_with_all_of_it():
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
def test_a_scope_may_include_others_also_by_way_of_others_and_in_circles():
    tokens = StaticTokens({"t": {"subject": "ann", "scopes": ["admin", "else"]}})
    includes = {"admin": ["write"], "write": ["read", "admin"]}
    server = resource(tokens, required_scopes=["read"], includes=includes)
    known = ask(server, authorization="Bearer t")
    assert known.scopes == {"admin", "write", "read", "else"}
    with pytest.raises(ScopeRequired):
        check_scopes(known, {"other"})


@pytest.mark.rule("FLOW-16")
def test_who_has_a_part_does_not_have_the_whole():
    tokens = StaticTokens({"t": {"subject": "ann", "scopes": ["read"]}})
    known = ask(
        resource(tokens, includes={"admin": ["read"]}), authorization="Bearer t"
    )
    with pytest.raises(ScopeRequired):
        check_scopes(known, {"admin"})


# What it says of itself...


@pytest.mark.rule("AUTH-03")
@pytest.mark.case("G01")
def test_the_metadata_names_the_resource_and_who_gives_tokens_for_it():
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
def test_the_metadata_does_not_offer_refresh_tokens():
    server = resource(scopes_supported=["read", "offline_access"])
    assert server.metadata()["scopes_supported"] == ["read"]
    assert "scopes_supported" not in resource().metadata()


@pytest.mark.rule("SEC-11")
def test_a_challenge_asks_for_what_is_needed_and_not_for_all_there_is():
    server = resource(scopes_supported=["read", "all"], required_scopes=["read"])
    assert denial_of(refusal(server)).scopes == ("read",)
    assert denial_of(refusal(resource(scopes_supported=["all"]))).scopes is None


def test_without_a_list_the_required_scopes_are_what_can_be_asked_for():
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
def test_the_metadata_stands_at_both_well_known_places(url, paths):
    server = ResourceServer(
        url, authorization_servers=[ISSUER], verifiers=[StaticTokens({"t": "a"})]
    )
    assert server.metadata_paths() == paths
    assert server.realm.metadata_url == "https://mcp.example" + paths[0]


def test_who_gives_out_all_tokens_sends_nobody_anywhere():
    server = resource(authorization_servers=[])
    assert server.metadata_paths() == ()
    assert refusal(server).http_headers == (("www-authenticate", "Bearer"),)


# How it is made...

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
    "what is no scope": {"required_scopes": ["two words"]},
    "a scope for clients": {"required_scopes": ["offline_access"]},
    "what is no scope to ask for": {"scopes_supported": ['"']},
    "another way of binding": {"dpop": "mtls"},
}


@pytest.mark.attack("S08")
@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG)
def test_what_would_let_in_the_wrong_ones_or_nobody_is_refused_at_once(options):
    options = {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "verifiers": [Verdicts({})],
    } | options
    with pytest.raises(ValueError):
        ResourceServer(options.pop("resource"), **options)


def test_http_is_for_this_machine_or_for_who_says_so():
    local = {
        "authorization_servers": ["http://127.0.0.1:9"],
        "verifiers": [Verdicts({})],
    }
    assert ResourceServer("http://127.0.0.1:8000/mcp", **local).resource
    inside = {"authorization_servers": ["http://login"], "verifiers": [Verdicts({})]}
    assert ResourceServer("http://mcp/mcp", allow_insecure=True, **inside).resource


# API keys...


@pytest.fixture
def keyed():
    return resource(
        StaticTokens({"good": "ann"}), ApiKeys({"k:1!": "bob"}, header="X-API-Key")
    )


def test_a_key_may_stand_in_a_field_of_its_own(keyed):
    assert ask(keyed, x_api_key=" k:1! ").subject == "bob"
    assert ask(keyed, authorization="Bearer good").subject == "ann"
    assert keyed.credential_headers == {
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
def test_a_key_is_good_in_its_own_field_alone_and_once(keyed, fields, status):
    assert refusal(keyed, **fields).http_status == status


def test_a_field_may_hold_keys_of_several_lists():
    lists = [ApiKeys({name: name}, header="X-API-Key") for name in ("ann", "bob")]
    server = resource(*lists)
    for name in ("ann", "bob"):
        assert ask(server, x_api_key=name).subject == name
        assert refusal(server, authorization=f"Bearer {name}").http_status == 401


def test_a_key_of_a_field_is_no_bearer_token():
    server = resource(ApiKeys({"key": "bob"}, header="X-API-Key"))
    assert refusal(server, authorization="Bearer key").error == "invalid_token"


@given(
    st.lists(
        st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30),
        max_size=2,
    )
)
def test_whatever_stands_in_the_field_nobody_gets_in_and_nothing_breaks(values):
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
def test_every_request_is_verified_anew():
    verdicts = Verdicts({"t": principal()})
    server = resource(verdicts)
    ask(server, authorization="Bearer t")
    verdicts.verdicts["t"] = InvalidToken("taken back")
    assert refusal(server, authorization="Bearer t").http_status == 401
    assert verdicts.asked == ["t", "t"]
