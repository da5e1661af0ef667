"""Unattended grants of programs, workloads and employees; tokens bound to keys."""

import asyncio

import pytest
import token_reader
from authorization_server import (
    ID_JAG,
    JWT_BEARER,
    SENTINEL,
    TOKEN_EXCHANGE,
    authorization_server,
    oauth,
    protected_legacy,
    protected_server,
)
from engine_calls import HOUR_S, connected, echo
from joserfc.jwk import ECKey, RSAKey

import mcpwire

SECRET = f"{SENTINEL}-robot"
KEYS = {"ES256": ECKey.generate_key("P-256"), "RS256": RSAKey.generate_key(2048)}
ASSERTION = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ3b3JrbG9hZCJ9.c2lnbmF0dXJl"


def with_secret(auth, **options):
    auth.add_client("robot", secret=SECRET, method="client_secret_basic")
    return mcpwire.ClientCredentials(
        client_id="robot", client_secret=SECRET, issuer=auth.issuer, **options
    )


def with_key(auth, algorithm="ES256", **options):
    key = KEYS[algorithm]
    auth.add_client(
        "robot", key=key.as_pem(private=False).decode(), method="private_key_jwt"
    )
    return mcpwire.ClientCredentials(
        client_id="robot",
        private_key_pem=key.as_pem(private=True).decode(),
        signing_algorithm=algorithm,
        issuer=auth.issuer,
        **options,
    )


def workload(auth, assertion=ASSERTION, **options):
    auth.add_client("workload")
    return mcpwire.WorkloadIdentity(
        client_id="workload", assertion=assertion, issuer=auth.issuer, **options
    )


def employee(auth, idp, **options):
    auth.add_client("app", secret=SECRET, method="client_secret_basic")
    idp.add_client("app-at-idp")
    return mcpwire.EnterpriseManaged(
        client_id="app",
        client_secret=SECRET,
        issuer=auth.issuer,
        idp_client_id="app-at-idp",
        idp_token_endpoint=idp.url("/token"),
        idp_issuer=idp.issuer,
        id_token=options.pop("id_token", ID_TOKEN),
        **options,
    )


ID_TOKEN = f"{SENTINEL}.id.token"

UNATTENDED = {"secret": with_secret, "key": with_key, "workload": workload}


@pytest.fixture(params=["session"])
def server(request, auth):
    """Yield a server of one era: most of these tests do not depend on it."""
    with protected_server(auth, era=request.param) as made:
        yield made


BOTH = pytest.mark.parametrize("server", ["session", "stateless"], indirect=True)


@pytest.fixture
def idp():
    """Yield the identity provider of the company."""
    with authorization_server() as made:
        yield made


# Without a user.


@pytest.mark.system("U55")
@pytest.mark.rule("CC-01", "CC-05")
@pytest.mark.parametrize("kind", UNATTENDED)
@BOTH
async def test_unattended_grants_get_and_renew_tokens(auth, server, clock, kind):
    async with connected(server, UNATTENDED[kind](auth)) as client:
        await asyncio.gather(*(echo(client) for _ in range(10)))
        assert len(auth.token_requests) == 1
        auth.expire_all()
        await asyncio.gather(*(echo(client) for _ in range(10)))
        assert len(auth.token_requests) == 2
        clock.pass_by(HOUR_S - 30)
        await echo(client)
    assert len(auth.token_requests) == 3
    assert len(set(auth.grants)) == 1
    assert {request.form["resource"] for request in auth.token_requests} == {server.url}
    assert (auth.authorizations, auth.registrations) == ([], [])


@pytest.mark.system("U55")
@pytest.mark.rule("CC-02")
@pytest.mark.parametrize("algorithm", KEYS)
async def test_each_token_request_signs_a_new_assertion(auth, server, algorithm):
    grant = with_key(auth, algorithm, scopes="a b")
    async with connected(server, grant) as client:
        auth.expire_all()
        await echo(client)
    forms = [request.form for request in auth.token_requests]
    assert len({form["client_assertion"] for form in forms}) == 2
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    for form in forms:
        assert form["client_assertion_type"] == kind
        assert (form["grant_type"], form["scope"]) == ("client_credentials", "a b")
        assert "client_id" not in form
        claims = token_reader.claims_of(form["client_assertion"])
        assert (claims["sub"], claims["aud"]) == ("robot", auth.issuer)
    private = KEYS[algorithm].as_pem(private=True)
    assert private not in auth.bodies


async def test_a_valid_token_is_used_while_the_assertion_function_fails(
    auth, server, clock
):
    platform = {"jwt": ASSERTION}
    grant = workload(auth, assertion=lambda: platform["jwt"])
    async with connected(server, grant) as client:
        del platform["jwt"]
        clock.pass_by(HOUR_S - 30)
        await echo(client)
        clock.pass_by(HOUR_S)
        with pytest.raises(KeyError):
            await echo(client)
        platform["jwt"] = ASSERTION
        await echo(client)
    assert len(auth.token_requests) == 2


@pytest.mark.parametrize("how", ["text", "function", "awaited"])
async def test_a_workload_sends_the_assertion_of_its_platform(auth, server, how):
    given = iter(range(100))

    def make_assertion():
        return f"{ASSERTION}{next(given)}"

    async def make_assertion_async():
        return make_assertion()

    ways = {
        "text": ASSERTION,
        "function": make_assertion,
        "awaited": make_assertion_async,
    }
    grant = workload(auth, ways[how])
    async with connected(server, grant) as client:
        auth.expire_all()
        await echo(client)
    assert auth.grants == [JWT_BEARER] * 2
    first, other = (request.form["assertion"] for request in auth.token_requests)
    assert (first == other) == (how == "text")
    assert SENTINEL not in repr(grant)


@pytest.mark.system("U55")
@pytest.mark.rule("EMA-01", "EMA-02", "EMA-04")
async def test_the_id_token_is_sent_to_the_identity_provider_only(auth, idp, server):
    grant = employee(auth, idp)
    async with connected(server, grant) as client:
        await echo(client)
        auth.expire_all()
        await echo(client)
    assert idp.grants == [TOKEN_EXCHANGE] * 2
    assert auth.grants == [JWT_BEARER] * 2
    exchange = idp.token_requests[0].form
    assert exchange["requested_token_type"] == ID_JAG
    assert (exchange["audience"], exchange["resource"]) == (auth.issuer, server.url)
    assert exchange["subject_token"] == ID_TOKEN
    redeemed = auth.token_requests[0]
    assert redeemed.form["assertion"].startswith(f"{SENTINEL}-id-jag")
    assert redeemed.headers["authorization"].startswith("Basic ")
    assert auth.authorizations + idp.authorizations == []
    # The credentials of one server are not sent to another.
    assert ID_TOKEN.encode() not in auth.bodies + server.bodies
    assert SECRET.encode() not in idp.bodies + server.bodies


# Tokens bound to keys.


@pytest.fixture
def binding():
    with authorization_server(dpop=True) as made:
        yield made


@pytest.mark.system("L-U12")
@pytest.mark.parametrize("era", ["session", "stateless"])
@pytest.mark.parametrize("nonces", [False, True])
async def test_a_bound_token_is_sent_with_dpop_proofs(binding, clock, era, nonces):
    with protected_server(binding, era=era, dpop=True) as server:
        if nonces:
            binding.nonce, server.nonce = "at-issuer-1", "at-server-1"
        async with connected(server) as client:
            await echo(client)
            if nonces:
                binding.nonce, server.nonce = "at-issuer-2", "at-server-2"
            await echo(client)
            binding.expire_all()
            await echo(client)
            await asyncio.gather(*(echo(client) for _ in range(5)))
    assert set(binding.grants) == {"authorization_code", "refresh_token"}
    assert len(binding.authorizations) == 1
    shown = [
        request.headers["dpop"]
        for request in [*server.messages, *binding.token_requests]
        if "dpop" in request.headers
    ]
    claims = [token_reader.read(proof) for proof in shown]
    assert len({thumbprint for thumbprint, _ in claims}) == 1
    assert len({each["jti"] for _, each in claims}) == len(claims)
    bound = [message for message in server.messages if "dpop" in message.headers]
    assert all(each.headers["authorization"].startswith("DPoP ") for each in bound)


async def test_dpop_works_with_a_2024_server(binding):
    with protected_legacy(binding) as server:
        async with connected(server, oauth(dpop=True)) as client:
            await echo(client)
    assert binding.bound
