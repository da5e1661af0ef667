"""Discovery as a whole: which URLs are fetched, in which order, and where it ends."""

import pytest
from flow_driver import World, document

from mcpwire.auth.discovery import Denial, assumed_metadata, discover
from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError, UrlRefused
from mcpwire.auth.records import ResourceMetadata, ServerMetadata
from mcpwire.auth.steps import Answer, Fetch
from mcpwire.auth.url_policy import UrlPolicy
from mcpwire.wire.urls import parse_url

SERVER = parse_url("https://h/mcp")
H = "https://h/.well-known"
PRM = f"{H}/oauth-protected-resource/mcp"
ROOT_PRM = f"{H}/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
AS = f"https://as{OAUTH}"
PAGE = Answer(200, {"content-type": "text/html"}, b"<!doctype html>")


def prm(*issuers):
    return document(resource="https://h/mcp", authorization_servers=issuers)


def server(issuer, **members):
    whole = {"issuer": issuer, "token_endpoint": f"{issuer}/token"}
    return document(**whole | members)


def metadata(issuer):
    return ServerMetadata(issuer, token_endpoint=f"{issuer}/token")


def status(code, **fields):
    return Answer(code, fields, b"")


def search(answers, *, url=SERVER, challenged=None, known=None, allow_insecure=False):
    net = World()
    net.answers = answers
    denial = Denial(401, resource_metadata=challenged)
    return net, discover(UrlPolicy(url, allow_insecure), denial, known)


def find(answers, **given):
    net, operation = search(answers, **given)
    return net, net.run(operation)


def fail(answers, error=DiscoveryError, **given):
    net, operation = search(answers, **given)
    with pytest.raises(error) as caught:
        net.run(operation)
    return net, caught.value


AT_AS = ResourceMetadata("https://h/mcp", ("https://as",))
ASSUMED = ResourceMetadata("https://h/mcp", ("https://h",))

FOUND = {
    "by the well-known URI of the path": (
        {
            PRM: prm("https://as"),
            ROOT_PRM: prm("https://evil"),
            AS: server("https://as"),
        },
        None,
        [PRM, AS],
    ),
    "by the root's": (
        {ROOT_PRM: prm("https://as"), AS: server("https://as")},
        None,
        [PRM, ROOT_PRM, AS],
    ),
    "by the challenge": (
        {
            "https://h/x": prm("https://as"),
            PRM: prm("https://evil"),
            AS: server("https://as"),
        },
        "https://h/x",
        ["https://h/x", AS],
    ),
    "by OpenID": (
        {PRM: prm("https://as"), f"https://as{OPENID}": server("https://as")},
        None,
        [PRM, AS, f"https://as{OPENID}"],
    ),
}


@pytest.mark.rule("AUTH-04", "AUTH-07", "ASM-02", "ASM-04")
@pytest.mark.system("U41", "U44")
@pytest.mark.parametrize(("answers", "challenged", "asked"), FOUND.values(), ids=FOUND)
def test_an_authorization_server_is_found(answers, challenged, asked):
    net, found = find(answers, challenged=challenged)
    assert found == (AT_AS, metadata("https://as"))
    assert net.urls == asked


def test_metadata_is_fetched_by_a_get_that_may_redirect():
    net, _ = find({PRM: prm("https://as"), AS: server("https://as")})
    for step in net.of(Fetch):
        assert step.form is step.document is None
        assert step.headers == (("accept", "application/json"),)
        assert step.may_redirect
    assert [step.what for step in net.of(Fetch)] == [
        "the metadata of the resource",
        "the metadata of the authorization server",
    ]


ABSENT = {
    "not found": status(404),
    "not allowed": status(401),
    "a firewall": status(403),
    "no such method": status(405),
    "gone": status(410),
    "a redirect elsewhere": status(302, location="https://login"),
    "a proxy without such a path": status(502),
    "a page": PAGE,
    "nothing at all": status(204),
}


@pytest.mark.pain("P34")
@pytest.mark.case("G06")
@pytest.mark.parametrize("answer", ABSENT.values(), ids=ABSENT)
def test_missing_metadata_leads_to_the_next_url(answer):
    net, found = find(
        {
            "https://h/x": answer,
            PRM: answer,
            ROOT_PRM: prm("https://as"),
            AS: answer,
            f"https://as{OPENID}": server("https://as"),
        },
        challenged="https://h/x",
    )
    assert found == (AT_AS, metadata("https://as"))
    assert net.urls == ["https://h/x", PRM, ROOT_PRM, AS, f"https://as{OPENID}"]


UNAVAILABLE = {
    "broken": (status(500), None),
    "away": (status(503, **{"retry-after": "7"}), 7.0),
    "too often": (status(429, **{"retry-after": "nine"}), None),
}


@pytest.mark.pain("P34")
@pytest.mark.case("G06")
@pytest.mark.parametrize("place", [PRM, ROOT_PRM, AS, f"https://as{OPENID}"])
@pytest.mark.parametrize(("answer", "after"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_an_unavailable_server_ends_discovery(place, answer, after):
    answers = {place: answer}
    if place not in {PRM, ROOT_PRM}:
        answers[PRM] = prm("https://as")
    net, error = fail(answers, AuthTemporarilyUnavailable)
    assert net.urls[-1] in {ROOT_PRM, f"https://as{OPENID}"}  # the last one
    assert (error.status, error.retry_after) == (answer.status, after)
    answers = {PRM: prm("https://as"), AS: answer, f"https://as{OPENID}": server("x")}
    fail(answers, AuthTemporarilyUnavailable)  # not the wrong issuer of the next one


@pytest.mark.pain("P34")
@pytest.mark.parametrize("place", [PRM, AS])
@pytest.mark.parametrize(
    "thrown",
    [
        AuthTemporarilyUnavailable("no answer came"),
        UrlRefused("refused", url=AS, rule="it leads elsewhere"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_fetch_ends_discovery(place, thrown):
    net, error = fail({ROOT_PRM: prm("https://as"), place: thrown}, type(thrown))
    assert error is thrown
    assert net.urls[-1] == place


@pytest.mark.parametrize("answer", [status(503), AuthTemporarilyUnavailable("no")])
def test_an_unavailable_server_of_several_is_skipped(answer):
    answers = {
        PRM: prm("https://a", "https://as"),
        f"https://a{OAUTH}": answer,
        AS: server("https://as"),
    }
    _, (_, found) = find(answers)
    assert found == metadata("https://as")
    net, _ = fail(answers, AuthTemporarilyUnavailable, known="https://a")
    assert AS not in net.urls
    answers[AS] = status(500)
    _, error = fail(answers, AuthTemporarilyUnavailable)
    assert error.status == getattr(answer, "status", None)
    for wrong in (f"https://a{OAUTH}", AS):
        fail(answers | {wrong: server("https://evil")}, AuthTemporarilyUnavailable)


WRONG = {
    "a list": Answer(200, {}, b"[]"),
    "an error": Answer(200, {}, b'{"error": "not_found"}'),
    "null": Answer(200, {}, b"null"),
}


@pytest.mark.case("G06")
@pytest.mark.system("U44")
@pytest.mark.parametrize("place", [PRM, AS])
@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_invalid_metadata_ends_discovery(place, answer):
    net, error = fail({PRM: prm("https://as"), place: answer})
    assert net.urls[-1] == error.tried[-1][0] == place


REFUSED_URLS = {
    "http": "http://as",
    "the cloud's keys": "https://169.254.169.254",
    "a private network": "https://10.0.0.1",
    "the same in other numbers": "https://0x7f000001",
    "this machine": "http://localhost:8080",
    "a user": "https://h@as",
    "a file": "file:///etc/passwd",
    "a script": "javascript:alert(1)",
}
ENDPOINTS = [
    *("authorization_endpoint", "token_endpoint", "registration_endpoint"),
    "revocation_endpoint",
]


@pytest.mark.rule("SEC-04")
@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.system("U46")
@pytest.mark.parametrize("url", REFUSED_URLS.values(), ids=REFUSED_URLS)
def test_refused_urls_are_not_fetched(url):
    net, _ = fail({PRM: prm(url)}, UrlRefused)
    assert net.urls == [PRM]
    net, _ = fail({}, UrlRefused, challenged=url)
    assert net.urls == []
    for name in ENDPOINTS:
        answers = {PRM: prm("https://as"), AS: server("https://as", **{name: url})}
        net, _ = fail(answers, UrlRefused)
        assert net.urls == [PRM, AS]


@pytest.mark.attack("S30")
def test_http_needs_allow_insecure():
    url = parse_url("http://h/mcp")
    net, _ = fail({}, UrlRefused, url=url)
    assert net.urls == []
    net, (resource, found) = find({}, url=url, allow_insecure=True)
    assert (resource.resource, found) == ("http://h/mcp", assumed_metadata(url))


# Several authorization servers...


@pytest.mark.rule("AUTH-10")
def test_the_first_usable_authorization_server_is_used():
    answers = {
        PRM: prm(
            "http://plain", "https://gone", "https://wrong", "https://as", "https://b"
        ),
        f"https://wrong{OAUTH}": server("https://evil"),
        AS: server("https://as"),
    }
    net, (_, found) = find(answers)
    assert found.issuer == "https://as"
    assert net.urls == [
        PRM,
        f"https://gone{OAUTH}",
        f"https://gone{OPENID}",
        f"https://wrong{OAUTH}",
        AS,
    ]


@pytest.mark.rule("AUTH-10")
@pytest.mark.attack("S01")
def test_the_known_issuer_is_used_and_no_other():
    answers = {PRM: prm("https://a", "https://as"), AS: server("https://as")}
    net, (_, found) = find(answers, known="https://as")
    assert found.issuer == "https://as"
    assert net.urls == [PRM, AS]
    net, _ = fail({PRM: prm("https://a", "https://as")}, known="https://as")
    assert net.urls == [PRM, AS, f"https://as{OPENID}"]
    # Google names its issuer with a slash, which the issuer itself does not have.
    slashed = {PRM: prm("https://as/"), AS: answers[AS]}
    assert find(slashed, known="https://as")[1][1] == found
    fail(slashed)
    # The spelling of a stored issuer may have changed: others are tried, too.
    assert find(answers, known="https://as/")[1][1] == found
    # A known issuer that is no longer named is not used.
    net, (_, found) = find({PRM: prm("https://as"), AS: answers[AS]}, known="https://o")
    assert found.issuer == "https://as"
    assert net.urls == [PRM, AS]


def test_the_number_of_tried_servers_is_limited():
    names = [f"https://as{number}" for number in range(1_000)]
    net, error = fail({PRM: prm(*names)})
    assert len(net.urls) == len(error.tried) == 17
    known = names[-1]
    answers = {PRM: prm(*names), known + OAUTH: server(known)}
    _, (_, found) = find(answers, known=known)
    assert found.issuer == known


# Servers of 2025-03-26...


@pytest.mark.rule("AUTH-12")
@pytest.mark.system("U42")
def test_a_server_without_resource_metadata_is_its_own_authorization_server():
    answers = {f"https://h{OAUTH}": server("https://h")}
    net, found = find(answers)
    assert found == (ASSUMED, metadata("https://h"))
    assert net.urls == [PRM, ROOT_PRM, f"https://h{OAUTH}"]
    version = ("mcp-protocol-version", "2025-03-26")
    assert [version in step.headers for step in net.of(Fetch)] == [False, False, True]


@pytest.mark.rule("AUTH-12")
@pytest.mark.system("U42")
def test_default_endpoints_are_assumed_without_metadata():
    net, found = find({})
    assert found == (ASSUMED, assumed_metadata(SERVER))
    assert net.urls == [PRM, ROOT_PRM, f"https://h{OAUTH}", f"https://h{OPENID}"]


@pytest.mark.case("G06")
@pytest.mark.parametrize("place", [PRM, f"https://h{OAUTH}"])
@pytest.mark.parametrize("answer", [PAGE, ABSENT["a redirect elsewhere"]])
def test_a_page_or_redirect_does_not_imply_default_endpoints(place, answer):
    _, error = fail({place: answer})
    assert "cannot find the authorization server of 'https://h/mcp'" in str(error)


def test_pages_do_not_hide_the_metadata_of_a_2025_03_server():
    answers = {PRM: PAGE, ROOT_PRM: PAGE, f"https://h{OAUTH}": server("https://h")}
    _, found = find(answers)
    assert found == (ASSUMED, metadata("https://h"))


@pytest.mark.rule("AUTH-04")
@pytest.mark.attack("S01")
def test_a_server_with_resource_metadata_is_not_its_own_issuer():
    answers = {PRM: prm("https://as"), f"https://h{OAUTH}": server("https://h")}
    net, error = fail(answers)
    assert net.urls == [PRM, AS, f"https://as{OPENID}"]
    assert "no authorization server that 'https://h/mcp' names" in str(error)
    net, _ = fail(answers | {PRM: prm()})
    assert net.urls == [PRM]


@pytest.mark.attack("S01")
def test_own_metadata_with_another_issuer_is_refused():
    net, error = fail({f"https://h{OAUTH}": server("https://evil")})
    assert net.urls[-1] == f"https://h{OAUTH}"
    assert "https://evil" in str(error)


# What an error contains...


@pytest.mark.pain("P34")
def test_a_discovery_error_lists_tried_urls_without_queries():
    url = parse_url("https://h/mcp?key=s3cret")
    answers = {f"{PRM}?key=s3cret": status(403), PRM: PAGE, ROOT_PRM: prm("https://as")}
    net, error = fail(answers, url=url)
    assert error.tried == (
        (PRM, "HTTP 403"),
        (PRM, "not JSON"),
        (ROOT_PRM, "found"),
        (AS, "HTTP 404"),
        (f"https://as{OPENID}", "HTTP 404"),
    )
    assert net.urls[0] == f"{PRM}?key=s3cret"
    assert "s3cret" not in str(error)
    assert str(error).endswith(f"{AS} (HTTP 404), 1 more")
