"""Authorization over HTTP: discovery, login and tokens.

The client must be able to log in without a person: it requests the authorization URL
itself and reads the redirect, or uses client credentials. Other clients lack what these
cases test.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcpwire.check.case import MODERN, Family, Start, since
from mcpwire.check.clients.authorization_server import (
    DEFAULT_ENDPOINTS,
    MAX_LOGINS,
    METADATA,
    OPENID_METADATA,
    READ,
    RESOURCE_METADATA,
    WRITE,
    Login,
    begin_login,
    need_login,
    origin_of,
    read_basic,
    shared_login,
)
from mcpwire.check.clients.subject import ENDPOINT, HANDSHAKE
from mcpwire.wire.urls import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.clients.authorization_server import Step
    from mcpwire.check.clients.cases._forms import AddCase
    from mcpwire.check.clients.subject import ClientSubject, Exchange

    Change = Callable[[Login], object]

FAMILY: Final = Family("authorization", defaults={"role": "client"})

case = FAMILY.with_defaults(
    revisions=since("2025-06-18"), transports=("http",), start=Start.OWN
)
newer = case.with_defaults(revisions=since("2025-11-25"))
modern = case.with_defaults(revisions=MODERN)

_PAGE: Final = "basic/authorization"
_RESOURCE: Final = f"{_PAGE}#protected-resource-metadata-discovery-requirements"
_ISSUER: Final = f"{_PAGE}#authorization-server-metadata-discovery"
_CODE: Final = f"{_PAGE}#authorization-code-protection"
_REDIRECTION: Final = f"{_PAGE}#open-redirection"
_REQUIREMENTS: Final = f"{_PAGE}#token-requirements"
_SCOPES: Final = f"{_PAGE}#scope-selection-strategy"
_STEP_UP: Final = f"{_PAGE}#step-up-authorization-flow"
_RESPONSE: Final = f"{_PAGE}#authorization-response-validation"
_EXPIRY_S: Final = 1.1
"""Time after which a token with the shortest lifetime, of one second, has expired."""
_OFFERED: Final = "a server that requires a token"


# --- forms ----------------------------------------------------------------------------


def _login_case(
    add: AddCase,
    id: str,
    title: str,
    *,
    expects: str,
    by_code: bool = False,
    **attributes: Any,
) -> Callable[[Change], Change]:
    """Return a decorator: a case that looks at the login to a correct server.

    The function returns the request or text that breaks the rule, or ``None``.
    """

    def decorate(find_problem: Change) -> Change:
        async def run(client: ClientSubject) -> None:
            login = await need_login(client, by_code=by_code)
            if (problem := find_problem(login)) is not None:
                client.raise_broken(expects, problem)

        add(id, title, expects=expects, **{"sends": _OFFERED, **attributes})(run)
        return find_problem

    return decorate


def _success_case(
    add: AddCase, id: str, title: str, *, paths: tuple[str, ...] = (), **attributes: Any
) -> Callable[[Change], Change]:
    """Return a decorator: a case with an unusual server, to which a client must log in.

    The function changes the server; `paths` are requested in this order, and others
    between them.
    """
    expects = "a login, and a request with its token"

    def decorate(change: Change) -> Change:
        async def run(client: ClientSubject) -> None:
            # Clients of 2025-03-26 need not be able to log in to the usual server.
            is_old = client.revision.name < "2025-06-18"
            login = Login(client) if is_old else await begin_login(client)
            change(login)
            await login.run()
            found = [s.path for s in login.steps if s.kind in {"resource", "metadata"}]
            known = [path for path in dict.fromkeys(found) if path in paths]
            if known != list(paths) or not login.accepted:
                await begin_login(client)  # absent if the client cannot log in
                client.raise_broken(expects, _describe(login))

        add(id, title, expects=expects, **attributes)(run)
        return change

    return decorate


def _refusal_case(
    add: AddCase,
    id: str,
    title: str,
    *,
    after: str,
    unwanted: tuple[str, ...] = ("token",),
    by_code: bool = True,
    **attributes: Any,
) -> Callable[[Change], Change]:
    """Return a decorator: a case with a server at which a client must end the login.

    Args:
        add: A method of the family.
        id: The id of the case.
        title: The rule in one sentence.
        after: The kind of the request whose answer the client must refuse.
        unwanted: The kinds of the requests that the client must not send.
        by_code: Whether the case needs the authorization code grant.
        attributes: Further attributes of the case.
    """
    expects = f"no {' or '.join(unwanted)} request"

    def decorate(change: Change) -> Change:
        async def run(client: ClientSubject) -> None:
            login = await begin_login(client, by_code=by_code)
            change(login)
            await login.run()
            if not login.find(after):
                client.raise_absent(f"{after} request")
            for step in login.steps:
                if step.kind in unwanted:
                    client.raise_broken(expects, step)
            if login.hang is not None:
                raise login.hang

        add(id, title, expects=expects, **attributes)(run)
        return change

    return decorate


def _describe(login: Login) -> str:
    """Return the requests of a login, and the end of the client."""
    lines = [f"{s.request.method} {s.path}" for s in login.steps if s.kind != "mcp"]
    return f"{', '.join(lines) or 'no other request'}; {login.client.ending}"


# --- discovery ------------------------------------------------------------------------


@_success_case(
    case.must,
    "C-AUTH-08.a",
    "a client reads the metadata at the URL that the challenge names",
    source=_RESOURCE,
    rules=("AUTH-04", "AUTH-07"),
    paths=("/metadata/of-mcp",),
    sends="401 with `resource_metadata` at another path than the well-known ones",
    why="the client finds no authorization server",
)
def _elsewhere(login: Login) -> None:
    login.resource_paths = ["/metadata/of-mcp"]
    login.challenge["resource_metadata"] = "{origin}/metadata/of-mcp"


@_success_case(
    newer.must,
    "C-AUTH-07.a",
    "without `resource_metadata` the well-known URIs are requested: with the path, then"
    " at the root",
    source=_RESOURCE,
    paths=(RESOURCE_METADATA + ENDPOINT, RESOURCE_METADATA),
    sends="401 without `resource_metadata`, and metadata at the root only",
    why="the client finds no authorization server, or that of another server",
)
def _at_the_root(login: Login) -> None:
    del login.challenge["resource_metadata"]
    login.resource_paths = [RESOURCE_METADATA]
    login.resource["resource"] = "{origin}"


@_success_case(
    case.robust,
    "C-G30.a",
    "a challenge in other case, after another one with quoted commas, is read",
    sends='`WWW-Authenticate: Basic realm="a, Bearer b", bearer realm="c", ...`',
    why="servers and proxies offer several schemes in one header field",
)
def _quoted_challenges(login: Login) -> None:
    _elsewhere(login)
    login.scheme = 'Basic realm="a, Bearer b", bearer realm="c", '


@_success_case(
    case.must,
    "C-AUTH-12.a",
    "without metadata of the resource, the server's own origin is the issuer",
    revisions=("2025-03-26",),
    source=f"{_PAGE}#server-metadata-discovery",
    paths=(METADATA,),
    sends="401 without metadata of the resource; the server is its own issuer",
    why="servers of this revision are their own authorization servers",
)
def _own_issuer(login: Login) -> None:
    login.challenge = {"realm": "mcp"}
    login.resource_paths = []
    login.is_own_issuer = True


@_success_case(
    case.must,
    "C-AUTH-12.b",
    "without any metadata, /register, /authorize and /token are the endpoints",
    revisions=("2025-03-26",),
    source=f"{_PAGE}#server-metadata-discovery",
    sends="401, and 404 to each request of metadata; the server is its own issuer",
    why="servers of this revision need not have metadata",
)
def _no_metadata(login: Login) -> None:
    _own_issuer(login)
    login.issuer.metadata_paths = []
    login.issuer.endpoints = DEFAULT_ENDPOINTS


@_success_case(
    newer.must,
    "C-ASM-03.a",
    "metadata of an issuer with a path is requested at three URLs, in order",
    source=_ISSUER,
    rules=("ASM-02",),
    paths=(
        METADATA + "/tenant",
        OPENID_METADATA + "/tenant",
        "/tenant" + OPENID_METADATA,
    ),
    sends="metadata at the last of the three URLs only",
    why="providers with several tenants serve their metadata at one of them",
)
def _path_and_openid(login: Login) -> None:
    login.issuer.path = "/tenant"
    login.issuer.metadata_paths = ["/tenant" + OPENID_METADATA]


@_success_case(
    newer.must,
    "C-ASM-04.a",
    "an issuer without a path: OAuth metadata is requested, then OpenID's",
    source=_ISSUER,
    rules=("ASM-02",),
    paths=(METADATA, OPENID_METADATA),
    sends="OpenID metadata only",
    why="OpenID providers often have no other metadata",
)
def _openid_only(login: Login) -> None:
    login.issuer.metadata_paths = [OPENID_METADATA]


_refusal_case(
    case.must,
    "C-AUTH-09.a",
    "metadata whose `resource` is another server is refused",
    source=_RESOURCE,
    after="resource",
    unwanted=("authorization", "token"),
    by_code=False,
    sends="metadata with the `resource` https://mcp.example.com/mcp",
    why="a hostile server obtains a token for another server",
)(lambda login: login.resource.update(resource="https://mcp.example.com/mcp"))

_refusal_case(
    modern.must,
    "C-ASM-05.a",
    "metadata with another `issuer` is not used",
    source=_ISSUER,
    after="metadata",
    unwanted=("registration", "authorization", "token"),
    by_code=False,
    sends="metadata with the `issuer` https://as.example.com",
    why="an attacker mixes up two authorization servers",
)(lambda login: login.issuer.document.update(issuer="https://as.example.com"))

_refusal_case(
    newer.must,
    "C-ASM-07.a",
    "a client refuses an authorization server without PKCE",
    source=_CODE,
    after="metadata",
    unwanted=("authorization", "token"),
    sends="metadata without `code_challenge_methods_supported`",
    why="an intercepted code can be exchanged by anybody",
)(lambda login: login.issuer.document.update(code_challenge_methods_supported=None))


# --- registration ---------------------------------------------------------------------


def _need_registration(login: Login) -> Step:
    steps = login.find("registration")
    if not steps:
        login.client.raise_absent("dynamic registration")
    return steps[0]


@_login_case(
    modern.must,
    "C-REG-08.a",
    "a registration names its `application_type`",
    source=f"{_PAGE}#application-type-and-redirect-uri-constraints",
    expects="`application_type` is `native` or `web`",
    why="servers refuse loopback redirect URIs of the default type `web`",
)
def _without_application_type(login: Login) -> object:
    step = _need_registration(login)
    return None if step.values.get("application_type") in {"native", "web"} else step


def _authentication(step: Step) -> str:
    """Return the authentication method of a token request."""
    if step.request.value("authorization") is not None:
        return "client_secret_basic"
    return "client_secret_post" if step.values.get("client_secret") else "none"


def _add_method_case(letter: str, method: str) -> None:
    expects = f"the method {method}, with the issued credentials"

    @newer.robust(
        f"C-REG-14.{letter}",
        f"the token endpoint's only authentication method `{method}` is used",
        rules=("REG-14",),
        sends=f"`token_endpoint_auth_methods_supported` has `{method}` only",
        expects=expects,
        why="the authorization server refuses the client",
    )
    async def run(client: ClientSubject) -> None:
        _need_registration(await need_login(client))
        login = await begin_login(client)
        name = "token_endpoint_auth_methods_supported"
        login.issuer.document[name] = [method]
        await login.run()
        steps = login.find("token")
        if not steps:
            client.raise_broken(expects, _describe(login))
        step = steps[0]
        sent = step.values.get("client_id"), step.values.get("client_secret")
        if method == "client_secret_basic":
            sent = read_basic(step) or ("", "")
        secret = None if method == "none" else "secret-of-first"
        if _authentication(step) != method or sent != ("client-of-first", secret):
            field = step.request.value("authorization")
            client.raise_broken(expects, f"{step}, Authorization: {field}")


for _letter, _method in zip(
    "abc", ("none", "client_secret_post", "client_secret_basic"), strict=True
):
    _add_method_case(_letter, _method)


@newer.must(
    "C-REG-03.a",
    "the URL of a client id metadata document is https, with a path",
    source=f"{_PAGE}#implementation-requirements",
    rules=("REG-02",),
    sends="metadata with `client_id_metadata_document_supported`",
    expects="an https URL with a path",
    why="authorization servers refuse other client ids",
)
async def metadata_document(client: ClientSubject) -> None:
    login = await begin_login(client, by_code=True)
    login.issuer.document["client_id_metadata_document_supported"] = True
    await login.run()
    for step in login.find("authorization"):
        client_id = str(step.values.get("client_id"))
        if "://" not in client_id:
            continue
        url = urlsplit(client_id)
        if url.scheme != "https" or url.path in {"", "/"}:
            client.raise_broken("an https URL with a path", client_id)
        return
    client.raise_absent("client id metadata document")


@newer.should(
    "C-REG-01.a",
    "a client id metadata document is preferred to a registration",
    source=f"{_PAGE}#client-id-metadata-documents",
    rules=("REG-02",),
    sends="`client_id_metadata_document_supported`, without a registration endpoint, "
    "and then with one",
    expects="no registration by a client that has a metadata document",
    why="each registration leaves a further client at the authorization server",
)
async def document_preferred(client: ClientSubject) -> None:
    await need_login(client, by_code=True)
    for subject in (client.again(), client):
        login = await begin_login(subject)
        login.issuer.document["client_id_metadata_document_supported"] = True
        if subject is not client:
            login.issuer.document["registration_endpoint"] = None
        await login.run()
        ids = [str(s.values.get("client_id")) for s in login.find("authorization")]
        if subject is not client and not any(id.startswith("https:") for id in ids):
            client.raise_absent("client id metadata document")
    for step in login.find("registration"):
        client.raise_broken("the URL of the document as `client_id`", step)


@modern.must(
    "C-REG-10.a",
    "credentials of one authorization server are never sent to another one",
    source=f"{_PAGE}#authorization-server-binding",
    rules=("AUTH-11", "REG-10"),
    sends="401 after the first request with a token, and another authorization server",
    expects="a new registration at the new authorization server",
    why="a hostile server obtains the user's credentials",
)
async def other_issuer(client: ClientSubject) -> None:
    _need_registration(await need_login(client))
    login = await begin_login(client)
    first, second = login.issuers

    async def deny(step: Step) -> bool:
        if login.accepted and login.issuer is first:
            login.issuer = second
            login.tokens.clear()
            await login.refuse(step, 401)
            return True
        return False

    login.deny = deny
    await login.run()
    steps = [s for s in login.steps if s.issuer is second and s.kind != "metadata"]
    if not steps:
        client.raise_absent("login after a change of the authorization server")
    for step in steps:
        basic = read_basic(step) or ()
        if any("-of-first" in str(value) for value in (*step.values.values(), *basic)):
            client.raise_broken("no credential of the first authorization server", step)


# --- the authorization request and its response ---------------------------------------


@_login_case(
    case.must,
    "C-FLOW-01.a",
    "each login uses PKCE",
    source=_CODE,
    by_code=True,
    expects="a `code_challenge`, and a `code_verifier` that matches it",
    why="an intercepted code can be exchanged by anybody",
)
def _wrong_verifier(login: Login) -> object:
    challenges = {}
    for step in login.find("authorization"):
        challenges[step.values.get("code_challenge")] = step
        if not step.values.get("code_challenge"):
            return step
    for step in login.find("token"):
        verifier = str(step.values.get("code_verifier", ""))
        digest = urlsafe_b64encode(sha256(verifier.encode()).digest())
        hashed = digest.rstrip(b"=").decode()
        if "code" in step.values and not {verifier, hashed} & set(challenges):
            return step
    return None


@_login_case(
    newer.must,
    "C-FLOW-01.b",
    "PKCE uses the method S256",
    source=_CODE,
    by_code=True,
    expects="`code_challenge_method=S256`",
    why="the verifier is readable in the authorization URL",
)
def _other_method(login: Login) -> object:
    for step in login.find("authorization"):
        if step.values.get("code_challenge_method") != "S256":
            return step
    return None


def _other_resource(login: Login, *, is_refresh: bool = False) -> object:
    server = origin_of(login.accepted[0].request) + ENDPOINT
    for step in [*login.find("authorization"), *login.find("token")]:
        if is_refresh != ("refresh_token" in step.values):
            continue
        resource = str(step.values.get("resource", "")).rstrip("/")
        if not resource or not f"{server}/".startswith(f"{resource}/"):
            return step
    return None


_login_case(
    case.must,
    "C-FLOW-02.a",
    "authorization and token requests name the server as their `resource`",
    source=f"{_PAGE}#resource-parameter-implementation",
    rules=("FLOW-03",),
    expects="`resource` with the URL of the server",
    why="the token is valid for other servers too, or for none",
)(_other_resource)


_login_case(
    case.should,
    "C-FLOW-09.a",
    "an authorization request has a `state`",
    source=_REDIRECTION,
    by_code=True,
    expects="the parameter `state`",
    why="an attacker logs the user in to a foreign account",
)(
    lambda login: next(
        (s for s in login.find("authorization") if not s.values.get("state")), None
    )
)

_refusal_case(
    case.should,
    "C-FLOW-09.b",
    "a redirect with another `state` is discarded",
    source=_REDIRECTION,
    after="authorization",
    sends="a redirect with a code and `state=another`",
    why="an attacker logs the user in to a foreign account",
)(lambda login: login.issuer.redirect.update(state="another"))


@_login_case(
    case.must,
    "C-FLOW-10.a",
    "the redirect URI is https, or on the user's machine",
    source=f"{_PAGE}#communication-security",
    by_code=True,
    expects="`redirect_uri` with https or a loopback host",
    why="others on the network read the code",
)
def _unsafe_redirect(login: Login) -> object:
    for step in login.find("authorization"):
        url = urlsplit(str(step.values.get("redirect_uri")))
        host = url.hostname or ""
        if url.scheme != "https" and not (url.scheme == "http" and is_loopback(host)):
            return step
    return None


def _without_port(uri: object) -> str:
    url = urlsplit(str(uri))
    if not is_loopback(url.hostname or ""):
        return str(uri)
    return f"{url.scheme}://{url.hostname}{url.path}?{url.query}"


@_login_case(
    case.must,
    "C-FLOW-10.b",
    "the redirect URI is registered, and equal in both requests",
    source=_REDIRECTION,
    by_code=True,
    expects="one `redirect_uri` in the registration and the requests",
    why="authorization servers refuse the request",
)
def _changed_redirect(login: Login) -> object:
    used = {s.values.get("redirect_uri") for s in login.find("authorization")}
    for step in login.find("token"):
        if "code" in step.values and step.values.get("redirect_uri", "") not in used | {
            ""
        }:
            return step
    registrations = login.find("registration")
    lists = [step.values.get("redirect_uris") for step in registrations]
    registered = {
        _without_port(u) for uris in lists if isinstance(uris, list) for u in uris
    }
    # Authorization servers accept each port of a loopback address (RFC 8252).
    if registrations and not {_without_port(uri) for uri in used} <= registered:
        return registrations[0]
    return None


def _change_response(login: Login, iss: str | None, *, is_promised: bool) -> None:
    issuer = login.issuer
    name = "authorization_response_iss_parameter_supported"
    issuer.document[name] = is_promised
    issuer.redirect["iss"] = iss


_refusal_case(
    modern.must,
    "C-FLOW-05.a",
    "a response with another `iss` is refused, also where none is promised",
    source=_RESPONSE,
    rules=("FLOW-04",),
    after="authorization",
    sends="a redirect with `iss=https://as.example.com`",
    why="an attacker mixes up two authorization servers and gets the code",
)(lambda login: _change_response(login, "https://as.example.com", is_promised=False))

_refusal_case(
    modern.must,
    "C-FLOW-05.b",
    "a response without the promised `iss` is refused",
    source=_RESPONSE,
    after="authorization",
    sends="`authorization_response_iss_parameter_supported`, but no `iss`",
    why="an attacker mixes up two authorization servers and gets the code",
)(lambda login: _change_response(login, None, is_promised=True))


@_refusal_case(
    modern.must,
    "C-FLOW-06.a",
    "`iss` is compared without normalization",
    source=_RESPONSE,
    after="authorization",
    sends="a redirect whose `iss` has an additional slash at its end",
    why="issuers that differ only in this may belong to different tenants",
)
def _almost_equal(login: Login) -> None:
    # The origin is known only while the endpoint listens.
    login.on_open = lambda: _change_response(
        login, f"{login.issuer.url}/", is_promised=True
    )


_refusal_case(
    case.robust,
    "C-G31.a",
    "a login that the user refuses ends without a token request",
    after="authorization",
    sends="a redirect with `error=access_denied`",
    why="the client asks the user again, or sends a code that it does not have",
)(lambda login: login.issuer.redirect.update(code=None, error="access_denied"))


# --- scopes ---------------------------------------------------------------------------


def _requested_scopes(login: Login) -> set[str]:
    """Return the scopes of the first login."""
    steps = login.find("authorization") or login.find("token")
    return steps[0].scopes if steps else set()


@_login_case(
    newer.should,
    "C-FLOW-13.a",
    "a login requests the scopes of the challenge",
    source=_SCOPES,
    rules=("FLOW-12", "FLOW-33"),
    sends=f'401 with `scope="{READ}"`; the metadata lists {WRITE} too',
    expects=f"scope={READ}",
    why="the user grants too much, or the token is refused",
)
def _other_scopes(login: Login) -> object:
    scopes = _requested_scopes(login)
    return None if READ in scopes and WRITE not in scopes else f"scope={scopes or ''}"


@newer.should(
    "C-FLOW-13.b",
    "without scopes in the challenge, those of the metadata are requested",
    source=_SCOPES,
    sends=f"401 without `scope`; the metadata lists {READ} and {WRITE}",
    expects="all scopes of the metadata",
    why="the token is refused",
)
async def metadata_scopes(client: ClientSubject) -> None:
    login = await begin_login(client)
    del login.challenge["scope"]
    await login.run()
    scopes = _requested_scopes(login)
    if not {READ, WRITE} <= scopes:
        text = f"scope={' '.join(scopes)}; {_describe(login)}"
        client.raise_broken("all scopes of the metadata", text)


@newer.should(
    "C-FLOW-13.c",
    "without scopes of the server, none of the authorization server's is requested",
    source=_SCOPES,
    rules=("FLOW-33",),
    sends="401 and metadata without scopes; the authorization server lists check:admin",
    expects="no scope check:admin",
    why="the user grants too much, or the authorization server refuses the scope",
)
async def no_scopes(client: ClientSubject) -> None:
    login = await begin_login(client)
    del login.challenge["scope"]
    login.resource["scopes_supported"] = None
    login.issuer.document["scopes_supported"] = ["check:admin"]
    await login.run()
    if not login.find("authorization") + login.find("token"):
        client.raise_broken("a login", _describe(login))
    if "check:admin" in _requested_scopes(login):
        client.raise_broken("no scope check:admin", "scope=check:admin")


def _require_write(login: Login, *, for_ever: bool = False) -> None:
    """Require the scope `WRITE` for all operations after the handshake."""

    async def deny(step: Step) -> bool:
        method = str(step.values.get("method", "notifications/"))
        if method in HANDSHAKE | {"ping"} or method.startswith("notifications/"):
            return False
        if WRITE in login.tokens[str(step.token)] and not for_ever:
            return False
        login.denied = login.denied or step
        await login.refuse(step, 403, error="insufficient_scope", scope=WRITE)
        return True

    login.deny = deny


async def _need_step_up(client: ClientSubject) -> tuple[Login, list[Step]]:
    """Return a login of which an operation needs more scopes, and later logins."""
    await need_login(client, by_code=True)
    login = await shared_login(client, "step-up", _require_write)
    if login.denied is None:
        client.raise_absent("operation after the handshake")
    begin = login.steps.index(login.denied)
    later = [s for s in login.steps[begin:] if s.kind == "authorization"]
    return login, later


@newer.should(
    "C-FLOW-17.a",
    "after `insufficient_scope` the client logs in for the named scope and repeats",
    source=_STEP_UP,
    sends=f'403 with `error="insufficient_scope", scope="{WRITE}"`',
    expects="a login for this scope, and the operation again",
    why="the user cannot use what needs more rights",
)
async def step_up(client: ClientSubject) -> None:
    expected = "a login for this scope, and the operation again"
    login, later = await _need_step_up(client)
    assert login.denied is not None
    if not any(WRITE in step.scopes for step in later):
        client.raise_broken(expected, _describe(login))
    if login.denied.operation not in {step.operation for step in login.accepted}:
        client.raise_broken(expected, f"no second {login.denied.operation}")


@modern.should(
    "C-FLOW-18.a",
    "a further login requests the earlier scopes too",
    source=_STEP_UP,
    sends=f"a login for {READ}; then 403 with the scope {WRITE}",
    expects="both scopes",
    why="the new token is refused for what the old one allowed",
)
async def scope_union(client: ClientSubject) -> None:
    _, later = await _need_step_up(client)
    if not later:
        client.raise_absent("step-up")
    if not {READ, WRITE} <= later[0].scopes:
        client.raise_broken("both scopes", later[0])


def _add_loop_case(
    add: AddCase,
    id: str,
    title: str,
    change: Callable[[Login], object],
    **attributes: Any,
) -> None:
    """Add a case in which no token suffices; `Login.refuse` finds an endless loop."""

    async def run(client: ClientSubject) -> None:
        login = await begin_login(client)
        change(login)
        await login.run()
        if login.denied is None:
            client.raise_absent("request that can be refused")
        if login.hang is not None:
            raise login.hang

    expects = f"at most {MAX_LOGINS - 1} further logins for an operation"
    why = "the user logs in again and again"
    add(id, title, expects=expects, why=why, **attributes)(run)


_add_loop_case(
    newer.should,
    "C-FLOW-19.a",
    "a client logs in for more scopes a few times at most",
    lambda login: _require_write(login, for_ever=True),
    source=_STEP_UP,
    sends="403 with `insufficient_scope` for each token",
)


def _refuse_each_token(login: Login) -> None:
    async def deny(step: Step) -> bool:
        login.denied = step
        await login.refuse(step, 401)
        return True

    login.deny = deny


_add_loop_case(
    case.robust,
    "C-F38.a",
    "a client whose tokens are refused logs in a few times at most",
    _refuse_each_token,
    sends="401 for each token",
)


# --- tokens ---------------------------------------------------------------------------


@_login_case(
    case.must,
    "C-FLOW-20.a",
    "each HTTP request after the login has the token",
    source=_REQUIREMENTS,
    expects="`Authorization: Bearer` in each request",
    why="the server refuses the request",
)
def _without_token(login: Login) -> object:
    begin = login.steps.index(login.accepted[0])
    for step in login.steps[begin:]:
        # A program may begin another session, with a login of its own.
        is_new = step.values.get("method") in HANDSHAKE
        if step.kind == "mcp" and step.token is None and not is_new:
            return step
    return None


_login_case(
    case.must,
    "C-FLOW-20.b",
    "a token is never in the query of a URL",
    source=_REQUIREMENTS,
    expects="the token in `Authorization` only",
    why="servers and proxies log URLs",
)(
    lambda login: next(
        (s for s in login.steps if any(t in s.request.path for t in login.tokens)), None
    )
)


@_success_case(
    case.robust,
    "C-F38.b",
    "a token response in other case, with the required members only, is used",
    sends="`token_type` bEARER, no `expires_in`, `scope`, `refresh_token`",
    why="authorization servers differ in these members",
)
def _other_token_response(login: Login) -> None:
    login.issuer.tokens = {
        "token_type": "bEARER",
        "expires_in": None,
        "refresh_token": None,
        "scope": None,
        "not_before_policy": 0,
    }


@case.robust(
    "C-F38.c",
    "a token response without a token is refused",
    sends="a token response without `access_token`",
    expects="no request with Authorization",
    why="the client sends a token such as `undefined`, and hides the true error",
)
async def no_access_token(client: ClientSubject) -> None:
    login = await begin_login(client)
    login.issuer.tokens = {"access_token": None}
    await login.run()
    if not login.find("token"):
        client.raise_absent("token request")
    for step in login.find("mcp"):
        if step.request.value("authorization") is not None:
            field = f"Authorization: {step.request.value('authorization')}"
            client.raise_broken("no request with Authorization", field)


@case.robust(
    "C-F38.d",
    "a code is sent once, and a refused one ends the login",
    sends="the error `invalid_grant` for each code",
    expects=f"each code once, and at most {MAX_LOGINS} logins",
    why="authorization servers revoke the tokens of a code that is used twice",
)
async def code_once(client: ClientSubject) -> None:
    login = await begin_login(client, by_code=True)

    async def refuse(step: Step) -> bool:
        await step.request.respond(400, {"error": "invalid_grant"})
        return True

    login.issuer.on_token = refuse
    await login.run()
    codes = [s.values["code"] for s in login.find("token") if "code" in s.values]
    if not codes:
        client.raise_absent("token request")
    if len(codes) > len(set(codes)) or len(codes) > MAX_LOGINS:
        expected = f"each code once, and at most {MAX_LOGINS} logins"
        client.raise_broken(expected, f"the codes {', '.join(codes)}")


def _expire(login: Login) -> None:
    """Answer the first request when its token has expired, and refuse this token."""
    login.issuer.tokens["expires_in"] = 1
    login.client.run_s += _EXPIRY_S
    expired: set[str] = set()

    async def answer(exchange: Exchange) -> None:
        if not expired:
            await asyncio.sleep(_EXPIRY_S)
            expired.update(login.tokens)
        await exchange.correct()

    async def deny(step: Step) -> bool:
        if step.token not in expired:
            return False
        login.denied = step
        await login.refuse(step, 401)
        return True

    login.client.answers |= dict.fromkeys(HANDSHAKE, answer)
    login.client.first = answer
    login.deny = deny


async def _need_refresh(client: ClientSubject) -> tuple[Login, list[Step]]:
    """Return a login with a first token that expires, and its refresh requests."""
    await need_login(client, by_code=True)
    login = await shared_login(client, "expired", _expire)
    steps = [s for s in login.find("token") if "refresh_token" in s.values]
    if login.denied is None and len(login.tokens) < 2:
        client.raise_absent("second request with a token")
    return login, steps


@case.robust(
    "C-G32.a",
    "an expired token is renewed with the refresh token",
    sends="401 for a token that has expired",
    expects="a token request with the refresh token",
    why="the user logs in again each time that a token expires",
)
async def refresh(client: ClientSubject) -> None:
    login, steps = await _need_refresh(client)
    if not steps:
        expected = "a token request with the refresh token"
        client.raise_broken(expected, _describe(login))


@case.must(
    "C-FLOW-02.b",
    "a refresh request names the server as its `resource`",
    source=f"{_PAGE}#resource-parameter-implementation",
    sends="401 for a token that has expired",
    expects="`resource` with the URL of the server",
    why="the new token is valid for other servers too, or for none",
)
async def refresh_resource(client: ClientSubject) -> None:
    login, steps = await _need_refresh(client)
    if not steps:
        client.raise_absent("refresh request")
    if (problem := _other_resource(login, is_refresh=True)) is not None:
        client.raise_broken("`resource` with the URL of the server", problem)


@modern.should(
    "C-REG-13.a",
    "a client that refreshes tokens registers for this grant",
    source=f"{_PAGE}#refresh-tokens",
    sends="401 for a token that has expired",
    expects="`refresh_token` in the `grant_types` of the registration",
    why="authorization servers issue no refresh token, or refuse it",
)
async def refresh_grant(client: ClientSubject) -> None:
    login, steps = await _need_refresh(client)
    step = _need_registration(login)
    if not steps:
        client.raise_absent("refresh request")
    if "refresh_token" not in (step.values.get("grant_types") or ()):
        client.raise_broken("`refresh_token` in `grant_types`", step)


@case.robust(
    "C-G32.b",
    "after a refused refresh token the client logs in again",
    sends="401 for an expired token, and `invalid_grant` for the refresh token",
    expects="a second login, and a request with its token",
    why="the client fails until somebody deletes its stored tokens",
)
async def refused_refresh(client: ClientSubject) -> None:
    _, steps = await _need_refresh(client)
    if not steps:
        client.raise_absent("refresh request")
    login = await begin_login(client)
    _expire(login)

    async def refuse(step: Step) -> bool:
        if "refresh_token" not in step.values:
            return False
        await step.request.respond(400, {"error": "invalid_grant"})
        return True

    login.issuer.on_token = refuse
    await login.run()
    expected = "a second login, and a request with its token"
    used = {step.token for step in login.accepted}
    if len(used) < 2:
        client.raise_broken(expected, _describe(login))


@case.robust(
    "C-S02.b",
    "a redirect to another origin does not get the token",
    sends="307 to another origin for each request with a token",
    expects="no token at the other origin",
    why="a server can pass the user's token on to anybody",
)
async def redirected_token(client: ClientSubject) -> None:
    login = await begin_login(client)
    other = login.issuers[1]

    async def deny(step: Step) -> bool:
        login.denied = step
        location = other.endpoint.origin + ENDPOINT
        await step.request.respond(307, fields={"Location": location})
        return True

    login.deny = deny
    await login.run()
    if login.denied is None:
        client.raise_absent("request with a token")
    for step in login.steps:
        if step.issuer is other and step.request.value("authorization") is not None:
            client.raise_broken("no token at the other origin", step)


@case.robust(
    "C-S02.c",
    "a redirect of the token endpoint to another origin does not get the code",
    sends="307 to another origin for each token request",
    expects="no code, secret or verifier at the other origin",
    why="the other server obtains the token",
)
async def redirected_code(client: ClientSubject) -> None:
    login = await begin_login(client)
    other = login.issuers[1]

    async def redirect(step: Step) -> bool:
        location = other.endpoint.origin + step.path
        await step.request.respond(307, fields={"Location": location})
        return True

    login.issuer.on_token = redirect
    await login.run()
    if not login.find("token"):
        client.raise_absent("token request")
    for step in login.steps:
        secrets = {"code", "code_verifier", "client_secret", "refresh_token"}
        has_secret = step.values.keys() & secrets or read_basic(step) is not None
        if step.issuer is other and has_secret:
            client.raise_broken("no code or secret at the other origin", step)
