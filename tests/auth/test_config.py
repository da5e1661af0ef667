"""The configuration of grants: accepted options, refused options and reprs."""

import functools

import attrs
import pytest
from joserfc.jwk import ECKey

from mcpwire.auth.config import (
    DISCOVERED,
    ClientCredentials,
    EnterpriseManaged,
    Grant,
    OAuth,
    WorkloadIdentity,
)
from mcpwire.transports.oauth.storage import MemoryStorage

ISSUER = "https://as.example"
PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()

NEEDED = {
    OAuth: {},
    ClientCredentials: {"issuer": ISSUER, "client_id": "me", "client_secret": "s"},
    WorkloadIdentity: {"issuer": ISSUER, "client_id": "me", "assertion": "jwt"},
    EnterpriseManaged: {
        "issuer": ISSUER,
        "client_id": "me",
        "idp_client_id": "me-there",
        "idp_token_endpoint": "https://idp.example/token",
        "id_token": "jwt",
    },
}
UNATTENDED = [ClientCredentials, WorkloadIdentity, EnterpriseManaged]


def make(kind, **options):
    return kind(**NEEDED[kind] | options)


def refusal(kind, **options):
    with pytest.raises(ValueError) as caught:
        make(kind, **options)
    assert type(caught.value) is ValueError
    return str(caught.value)


def plain(url):
    return url


async def later():
    return "jwt"


ACCEPTED = [
    (OAuth, {}),
    (OAuth, {"client_id": "me"}),
    (OAuth, {"client_id": "me", "issuer": ISSUER}),
    (OAuth, {"client_id": "me", "client_secret": "s", "issuer": ISSUER}),
    (OAuth, {"client_id": "me", "client_secret": "s", "issuer": DISCOVERED}),
    (OAuth, {"issuer": "https://as.example/tenant/"}),
    (OAuth, {"issuer": "http://127.0.0.1:8080"}),
    (OAuth, {"client_metadata_url": "https://app.example/client.json"}),
    (OAuth, {"redirect_uri": "https://app.example/cb?tenant=1"}),
    (OAuth, {"redirect_uri": "http://localhost:3000/cb"}),
    (OAuth, {"callback_port": 1}),
    (OAuth, {"callback_port": 65535}),
    (OAuth, {"storage": MemoryStorage(), "profile": "work"}),
    (OAuth, {"interactive": False, "open_browser": False}),
    (OAuth, {"open_browser": plain, "on_url": plain, "ask": later}),
    (OAuth, {"timeout": None}),
    (OAuth, {"timeout": 0.5, "max_step_ups": 0}),
    (OAuth, {"application_type": "web", "client_name": "App", "dpop": True}),
    (ClientCredentials, {}),
    (ClientCredentials, {"issuer": DISCOVERED}),
    (ClientCredentials, {"client_secret": None, "private_key_pem": PEM}),
    (WorkloadIdentity, {}),
    (WorkloadIdentity, {"assertion": later, "issuer": DISCOVERED}),
    (EnterpriseManaged, {}),
    (EnterpriseManaged, {"idp_token_endpoint": "http://localhost:1/token"}),
    (EnterpriseManaged, {"id_token": plain, "idp_issuer": "https://idp.example"}),
]


@pytest.mark.parametrize(("kind", "options"), ACCEPTED)
def test_accepted_options_are_kept_unchanged(kind, options):
    grant = make(kind, **options)
    for name, value in options.items():
        assert getattr(grant, name) == value
    assert isinstance(grant, Grant)


@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize(
    ("given", "scopes"),
    [
        (None, None),
        ("", ()),
        ("a", ("a",)),
        (" b  a b ", ("b", "a")),
        (["a", "b", "a"], ("a", "b")),
        ({"a": 1, "b": 2}, ("a", "b")),
    ],
)
def test_scopes_are_split_and_deduplicated(kind, given, scopes):
    assert make(kind, scopes=given).scopes == scopes


def test_issuer_discovered_is_none_without_a_secret():
    assert OAuth(issuer=DISCOVERED).issuer is None
    assert OAuth(issuer=DISCOVERED, client_id="me").issuer is None


@pytest.mark.parametrize(
    ("options", "listens"),
    [
        ({}, True),
        ({"callback_port": 7}, True),
        ({"redirect_uri": "https://app.example/cb"}, False),
        ({"ask": plain}, False),
    ],
)
def test_listens_is_false_with_redirect_uri_or_ask(options, listens):
    assert OAuth(**options).listens is listens


NOT_HTTPS = "must be https: tokens would be sent unencrypted"
NO_QUERY = "must have no query and no fragment"
BLANK = "must be a text that is not blank"

REFUSED = [
    (OAuth, {"client_id": " "}, f"client_id {BLANK}"),
    (OAuth, {"client_secret": "s"}, "client_secret goes with a client_id"),
    (OAuth, {"issuer": ""}, f"issuer {BLANK}"),
    (
        OAuth,
        {"issuer": "http://as.example"},
        f"the issuer 'http://as.example/' {NOT_HTTPS}",
    ),
    (
        OAuth,
        {"issuer": "https://as.example/?key=SENTINEL"},
        f"the issuer 'https://as.example/?***' {NO_QUERY}",
    ),
    (
        OAuth,
        {"issuer": "https://me:SENTINEL@as.example"},
        (
            "cannot use URL 'https://***@as.example': it must not hold a user name or "
            "password"
        ),
    ),
    (
        OAuth,
        {"client_metadata_url": "https://app.example/"},
        "cannot use client_metadata_url 'https://app.example/': it must have a path",
    ),
    (
        OAuth,
        {"redirect_uri": "http://app.example/cb"},
        "cannot use redirect_uri 'http://app.example/cb': use https, or localhost",
    ),
    (
        OAuth,
        {"redirect_uri": "https://app.example/cb#SENTINEL"},
        "cannot use redirect_uri 'https://app.example/cb#***': it holds a fragment",
    ),
    *(
        (
            OAuth,
            {"callback_port": port},
            f"callback_port must be 1 to 65535, got {port!r}",
        )
        for port in (0, 65536, -1, True, "80", 8.0)
    ),
    (
        OAuth,
        {"storage": {}},
        (
            "storage must have the methods of Storage, and dict has no load, save, "
            "lease, release"
        ),
    ),
    (OAuth, {"profile": ""}, f"profile {BLANK}"),
    (OAuth, {"interactive": "no"}, "interactive must be True or False, got 'no'"),
    (OAuth, {"open_browser": "no"}, "open_browser must be True or False, got 'no'"),
    (OAuth, {"on_url": 1}, "on_url must be a function, got 1"),
    (OAuth, {"ask": "me"}, "ask must be a function, got 'me'"),
    (OAuth, {"timeout": 0}, "timeout must be above zero, got 0"),
    (OAuth, {"timeout": "1"}, "timeout must be a number of seconds or None, got '1'"),
    (OAuth, {"max_step_ups": -1}, "max_step_ups must be 0 or more, got -1"),
    (OAuth, {"max_step_ups": True}, "max_step_ups must be 0 or more, got True"),
    (OAuth, {"dpop": 1}, "dpop must be True or False, got 1"),
    (OAuth, {"scopes": 5}, "scopes must be texts, got 5"),
    (
        OAuth,
        {"scopes": ["a b"]},
        (
            "a scope must be visible ASCII without quotation marks, backslashes and "
            "spaces, got 'a b'"
        ),
    ),
    (
        ClientCredentials,
        {"client_secret": None},
        "give either client_secret or private_key_pem",
    ),
    (
        ClientCredentials,
        {"private_key_pem": PEM},
        "give either client_secret or private_key_pem",
    ),
    (ClientCredentials, {"client_secret": " "}, f"client_secret {BLANK}"),
    *(
        (kind, {name: value}, f"{name} {BLANK}")
        for kind in UNATTENDED
        for name, value in (("client_id", None), ("profile", " "), ("issuer", 4))
    ),
    (WorkloadIdentity, {"assertion": ""}, f"assertion {BLANK}"),
    (WorkloadIdentity, {"assertion": b"SENTINEL"}, f"assertion {BLANK}"),
    (EnterpriseManaged, {"idp_client_secret": ""}, f"idp_client_secret {BLANK}"),
    (EnterpriseManaged, {"id_token": None}, f"id_token {BLANK}"),
    (
        EnterpriseManaged,
        {"idp_token_endpoint": "http://idp.example/token?key=SENTINEL"},
        "cannot use idp_token_endpoint 'http://idp.example/token?***': use https",
    ),
    (
        EnterpriseManaged,
        {"idp_issuer": "http://idp.example"},
        f"the idp_issuer 'http://idp.example/' {NOT_HTTPS}",
    ),
]


@pytest.mark.system("U56")
@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_an_invalid_option_is_refused_in_one_sentence(kind, options, message):
    assert refusal(kind, **options) == message
    assert "SENTINEL" not in message


@pytest.mark.parametrize("application_type", ["desktop", "", 1])
def test_application_type_must_be_native_or_web(application_type):
    assert "application_type" in refusal(OAuth, application_type=application_type)


@pytest.mark.attack("S01")
@pytest.mark.rule("REG-10")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in UNATTENDED),
        (OAuth, {"client_id": "me", "client_secret": "SENTINEL"}),
    ],
)
@pytest.mark.parametrize("issuer", [..., None])
def test_a_secret_needs_an_issuer(kind, options, issuer):
    given = NEEDED[kind] | options | {"issuer": issuer}
    if issuer is ...:
        del given["issuer"]
    with pytest.raises(ValueError) as caught:
        kind(**given)
    assert str(caught.value) == (
        "issuer is missing: a secret goes to one authorization server; name it, or "
        "pass issuer='discovered' to trust the one that the MCP server names"
    )


@pytest.mark.parametrize(
    ("pem", "algorithm"),
    [("no key", "ES256"), (PEM, "RS256"), (PEM, "none"), (PEM, "HS256")],
    ids=["no PEM", "of another type", "none", "symmetric"],
)
def test_a_private_key_is_checked_by_the_constructor(pem, algorithm):
    options = {"private_key_pem": pem, "signing_algorithm": algorithm}
    message = refusal(ClientCredentials, client_secret=None, **options)
    assert pem not in message
    assert PEM.splitlines()[1] not in message


SHOWN = [
    (OAuth, {"client_id": "me", "client_secret": "SENTINEL", "issuer": ISSUER}),
    (OAuth, {"redirect_uri": "https://app.example/cb?key=SENTINEL"}),
    (OAuth, {"storage": MemoryStorage()}),
    (OAuth, {"ask": functools.partial(plain, "SENTINEL"), "on_url": plain}),
    (OAuth, {"open_browser": functools.partial(plain, "SENTINEL")}),
    (ClientCredentials, {"client_secret": "SENTINEL"}),
    (ClientCredentials, {"client_secret": None, "private_key_pem": PEM}),
    (WorkloadIdentity, {"assertion": "SENTINEL"}),
    (WorkloadIdentity, {"assertion": functools.partial(plain, "SENTINEL")}),
    (EnterpriseManaged, {"client_secret": "SENTINEL", "idp_client_secret": "SENTINEL"}),
    (EnterpriseManaged, {"id_token": "SENTINEL"}),
    (EnterpriseManaged, {"id_token": functools.partial(plain, "SENTINEL")}),
    (EnterpriseManaged, {"idp_token_endpoint": "https://idp.example/?key=SENTINEL"}),
]


@pytest.mark.attack("S23")
@pytest.mark.parametrize(("kind", "options"), SHOWN)
def test_no_repr_shows_a_secret(kind, options):
    grant = make(kind, **options)
    shown = f"{grant!r} {grant} {[grant]} {attrs.evolve(grant, profile='other')!r}"
    assert "SENTINEL" not in shown
    assert PEM.splitlines()[1] not in shown
    assert " at 0x" not in shown


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        (OAuth, {}, "client_secret=None"),
        (OAuth, {"storage": MemoryStorage()}, "storage=<MemoryStorage>"),
        (OAuth, {"on_url": plain}, "on_url=<plain>"),
        (OAuth, {"on_url": functools.partial(plain)}, "on_url=<partial>"),
        (OAuth, {}, "redirect_uri=None"),
        (ClientCredentials, {}, "client_secret='***'"),
        (WorkloadIdentity, {}, "assertion='***'"),
        (WorkloadIdentity, {"assertion": later}, "assertion=<later>"),
    ],
)
def test_a_repr_masks_secrets_and_names_functions(kind, options, part):
    assert part in repr(make(kind, **options))
