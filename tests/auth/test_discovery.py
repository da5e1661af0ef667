"""Discovery as a whole: who is asked, in which order, and where it ends."""

import pytest
from driving import World, document

from mcpwire.auth.discovery import Denial, assumed_metadata, discover
from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    UrlRefused,
)
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
    """Return a net that answers that, and a discovery to be run over it."""
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
OF_OLD = ResourceMetadata("https://h/mcp", ("https://h",))

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
    assert net.asked == asked


def test_metadata_is_asked_for_with_a_get_that_may_be_redirected():
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
    "a page": PAGE,
    "nothing at all": status(204),
}


@pytest.mark.pain("P34")
@pytest.mark.case("G06")
@pytest.mark.parametrize("answer", ABSENT.values(), ids=ABSENT)
def test_where_nothing_stands_the_next_place_is_asked(answer):
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
    assert net.asked == ["https://h/x", PRM, ROOT_PRM, AS, f"https://as{OPENID}"]


UNAVAILABLE = {
    "broken": (status(500), None),
    "away": (status(503, **{"retry-after": "7"}), 7.0),
    "too often": (status(429, **{"retry-after": "nine"}), None),
}


@pytest.mark.pain("P34")
@pytest.mark.case("G06")
@pytest.mark.parametrize("place", [PRM, ROOT_PRM, AS, f"https://as{OPENID}"])
@pytest.mark.parametrize(("answer", "after"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_who_cannot_answer_now_is_not_passed_over(place, answer, after):
    answers = {ROOT_PRM: prm("https://as"), place: answer}
    net, error = fail(answers, AuthTemporarilyUnavailable)
    assert net.asked[-1] == place
    assert (error.status, error.retry_after) == (answer.status, after)


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
def test_what_the_shell_throws_ends_it(place, thrown):
    net, error = fail({ROOT_PRM: prm("https://as"), place: thrown}, type(thrown))
    assert error is thrown
    assert net.asked[-1] == place


WRONG = {
    "a list": Answer(200, {}, b"[]"),
    "an error": Answer(200, {}, b'{"error": "not_found"}'),
    "null": Answer(200, {}, b"null"),
}


@pytest.mark.case("G06")
@pytest.mark.system("U44")
@pytest.mark.parametrize("place", [PRM, AS])
@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_where_something_wrong_stands_it_ends(place, answer):
    net, error = fail({PRM: prm("https://as"), place: answer})
    assert net.asked[-1] == error.tried[-1][0] == place


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
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
]


@pytest.mark.rule("SEC-04")
@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.system("U46")
@pytest.mark.parametrize("url", REFUSED_URLS.values(), ids=REFUSED_URLS)
def test_nobody_is_asked_who_must_not_be(url):
    net, _ = fail({PRM: prm(url)}, UrlRefused)
    assert net.asked == [PRM]
    net, _ = fail({}, UrlRefused, challenged=url)
    assert net.asked == []
    for name in ENDPOINTS:
        answers = {PRM: prm("https://as"), AS: server("https://as", **{name: url})}
        net, _ = fail(answers, UrlRefused)
        assert net.asked == [PRM, AS]


@pytest.mark.attack("S30")
def test_a_server_by_http_is_asked_only_where_that_is_allowed():
    url = parse_url("http://h/mcp")
    net, _ = fail({}, UrlRefused, url=url)
    assert net.asked == []
    net, (resource, found) = find({}, url=url, allow_insecure=True)
    assert (resource.resource, found) == ("http://h/mcp", assumed_metadata(url))


# Several authorization servers...


@pytest.mark.rule("AUTH-10")
def test_of_several_servers_the_first_that_works_is_used():
    answers = {
        PRM: prm(
            "http://plain", "https://gone", "https://wrong", "https://as", "https://b"
        ),
        f"https://wrong{OAUTH}": server("https://evil"),
        AS: server("https://as"),
    }
    net, (_, found) = find(answers)
    assert found.issuer == "https://as"
    assert net.asked == [
        PRM,
        f"https://gone{OAUTH}",
        f"https://gone{OPENID}",
        f"https://wrong{OAUTH}",
        AS,
    ]


@pytest.mark.rule("AUTH-10")
@pytest.mark.attack("S01")
def test_of_several_servers_the_one_that_is_known_is_used_and_no_other():
    answers = {PRM: prm("https://a", "https://as"), AS: server("https://as")}
    net, (_, found) = find(answers, known="https://as")
    assert found.issuer == "https://as"
    assert net.asked == [PRM, AS]
    net, _ = fail({PRM: prm("https://a", "https://as")}, known="https://as")
    assert net.asked == [PRM, AS, f"https://as{OPENID}"]
    # One that is not named any more is not asked.
    net, (_, found) = find({PRM: prm("https://as"), AS: answers[AS]}, known="https://o")
    assert found.issuer == "https://as"
    assert net.asked == [PRM, AS]


def test_a_thousand_servers_are_not_all_asked():
    names = [f"https://as{number}" for number in range(1_000)]
    net, error = fail({PRM: prm(*names)})
    assert len(net.asked) == len(error.tried) == 17
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
    assert found == (OF_OLD, metadata("https://h"))
    assert net.asked == [PRM, ROOT_PRM, f"https://h{OAUTH}"]
    version = ("mcp-protocol-version", "2025-03-26")
    assert [version in step.headers for step in net.of(Fetch)] == [False, False, True]


@pytest.mark.rule("AUTH-12")
@pytest.mark.system("U42")
def test_a_server_that_says_nothing_is_taken_for_one_of_old():
    net, found = find({})
    assert found == (OF_OLD, assumed_metadata(SERVER))
    assert net.asked == [PRM, ROOT_PRM, f"https://h{OAUTH}", f"https://h{OPENID}"]


@pytest.mark.case("G06")
@pytest.mark.parametrize("place", [PRM, f"https://h{OAUTH}"])
@pytest.mark.parametrize("answer", [PAGE, ABSENT["a redirect elsewhere"]])
def test_nobody_is_sent_to_a_page_because_everything_is_a_page(place, answer):
    _, error = fail({place: answer})
    assert "cannot find the authorization server of 'https://h/mcp'" in str(error)


def test_a_page_does_not_hide_what_a_server_of_old_says_of_itself():
    answers = {PRM: PAGE, ROOT_PRM: PAGE, f"https://h{OAUTH}": server("https://h")}
    _, found = find(answers)
    assert found == (OF_OLD, metadata("https://h"))


@pytest.mark.rule("AUTH-04")
@pytest.mark.attack("S01")
def test_a_server_that_names_others_is_never_its_own_authorization_server():
    answers = {
        PRM: prm("https://as"),
        f"https://h{OAUTH}": server("https://h"),
    }
    net, error = fail(answers)
    assert net.asked == [PRM, AS, f"https://as{OPENID}"]
    assert "no authorization server that 'https://h/mcp' names" in str(error)
    net, _ = fail(answers | {PRM: prm()})
    assert net.asked == [PRM]


@pytest.mark.attack("S01")
def test_a_server_of_old_that_is_another_issuer_is_not_believed():
    net, error = fail({f"https://h{OAUTH}": server("https://evil")})
    assert net.asked[-1] == f"https://h{OAUTH}"
    assert "https://evil" in str(error)


# What an error tells...


@pytest.mark.pain("P34")
def test_an_error_holds_all_that_was_tried_without_queries():
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
    assert net.asked[0] == f"{PRM}?key=s3cret"
    assert "s3cret" not in str(error)
    assert str(error).endswith(f"{AS} (HTTP 404), 1 more")
