"""Server that requires a token, and the authorization servers that issue it.

::

    client ── no token ──► /mcp                    ─► 401, WWW-Authenticate
           ── GET ───────► /.well-known/...        ─► metadata of the resource
           ── GET ───────► issuer /.well-known/... ─► metadata of the issuer
           ── POST ──────► issuer /oauth/register
           ── GET ───────► issuer /oauth/authorize ─► 302 to redirect_uri, at once
           ── POST ──────► issuer /oauth/token
           ── token ─────► /mcp                    ─► the correct server

A client can log in without a person if it requests the authorization URL itself and
reads the code in the `Location` of the response, or if it uses client credentials. Each
client id, secret and scope is accepted, so that cases can observe wrong requests.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode

import attrs

from mcpwire.check.case import Broken, NoAnswer
from mcpwire.check.clients.http import HttpEndpoint
from mcpwire.check.clients.subject import ENDPOINT
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
METADATA: Final = "/.well-known/oauth-authorization-server"
OPENID_METADATA: Final = "/.well-known/openid-configuration"
READ: Final = "check:read"
"""The scope that the server requires."""
WRITE: Final = "check:write"
MAX_LOGINS: Final = 4
"""The first login, and a few attempts to repeat it."""
_IDLE_SHARE: Final = 0.1
"""Time without a request that ends a login, as a share of the longest run: about the
time of a run against a correct server."""
_STREAMS: Final = 1_000
"""Number of the streams of each listener in the octets of a result."""


@attrs.frozen
class Step:
    """A request of the client to the server or to an authorization server."""

    kind: str
    """``resource``, ``metadata``, ``registration``, ``authorization``, ``token``,
    ``mcp`` or ``other``."""
    request: HttpRequest
    values: dict[str, Any]
    """The parameters of the query or form, or the members of a JSON object."""
    issuer: Issuer | None
    """The authorization server; ``None``: the protected server."""

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.request.path.partition("?")[0]

    @property
    def token(self) -> str | None:
        """The bearer token."""
        scheme, _, token = (self.request.value("authorization") or "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    @property
    def operation(self) -> str:
        """The method and name of the MCP request."""
        params = self.values.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        words = (self.values.get("method") or self.request.method, name)
        return " ".join(str(word) for word in words if word)

    @property
    def scopes(self) -> set[str]:
        """The requested scopes."""
        return set(str(self.values.get("scope", "")).split())

    def __str__(self) -> str:
        body = self.request.body.decode("utf-8", "replace")
        return f"{self.request.method} {self.request.path} {body}".strip()


class Issuer:
    """Authorization server that grants each request.

    Attributes:
        path: The path of its issuer identifier, with a leading slash; "": none.
        metadata_paths: The paths of its metadata.
        endpoints: The path of each endpoint -> its kind.
        document: Changes of its metadata; ``None`` omits a member.
        tokens: Changes of its token responses; ``None`` omits a member.
        redirect: Changes of the parameters of the redirect; ``None`` omits one.
        on_token: Called with each token request; returns whether it has answered it.
    """

    def __init__(self, login: Login, name: str, count: int) -> None:
        self.name = name
        self.path = ""
        self.metadata_paths = [METADATA]
        self.document: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}
        self.redirect: dict[str, Any] = {}
        self.endpoints = _ENDPOINTS
        self.on_token: Callable[[Step], Awaitable[bool]] | None = None
        self._login = login
        self._granted: dict[str, str] = {}  # code or refresh token -> scope
        self.endpoint = HttpEndpoint(self._answer, login.client.transcript, count)

    @property
    def url(self) -> str:
        """The issuer identifier."""
        return self.origin + self.path

    @property
    def origin(self) -> str:
        """The origin of its endpoints."""
        return self._login.own_origin or self.endpoint.origin

    async def _answer(self, request: HttpRequest) -> None:
        self._login.client.add_request(request)
        await self.answer(request)

    async def answer(self, request: HttpRequest) -> None:
        """Answer a request to an endpoint or to the metadata."""
        path = request.path.partition("?")[0]
        is_metadata = "/.well-known/" in path
        kind = "metadata" if is_metadata else self.endpoints.get(path, "other")
        step = self._login.add(kind, request, self)
        if path in self.metadata_paths:
            await request.respond(200, self.metadata())
        elif kind == "registration":
            await request.respond(201, self._register(step))
        elif kind == "authorization" and "redirect_uri" in step.values:
            await request.respond(302, fields={"Location": self._authorize(step)})
        elif kind == "token":
            if self.on_token is None or not await self.on_token(step):
                await request.respond(200, self.token_response(step), _NO_STORE)
        else:
            await request.respond(400 if kind == "authorization" else 404)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of this authorization server."""
        paths = {kind: path for path, kind in self.endpoints.items()}
        endpoints = {f"{k}_endpoint": self.origin + path for k, path in paths.items()}
        document = {
            "issuer": self.url,
            **endpoints,
            "response_types_supported": ["code"],
            "grant_types_supported": [
                *("authorization_code", "refresh_token", "client_credentials")
            ],
            "token_endpoint_auth_methods_supported": [
                *("none", "client_secret_post", "client_secret_basic")
            ],
            "code_challenge_methods_supported": ["S256"],
            # Required in OpenID metadata:
            "jwks_uri": f"{self.origin}/oauth/keys",
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return _changed(document, self.document)

    def _register(self, step: Step) -> dict[str, Any]:
        issued = {**step.values, "client_id": f"client-of-{self.name}"}
        name = "token_endpoint_auth_method"
        methods = self.metadata()[f"{name}s_supported"]
        if issued.get(name, "client_secret_basic") not in methods:
            issued[name] = methods[0]  # the server may choose another one (RFC 7591)
        if issued.setdefault(name, "client_secret_basic") != "none":
            issued |= {
                "client_secret": f"secret-of-{self.name}",
                "client_secret_expires_at": 0,
            }
        return issued

    def _authorize(self, step: Step) -> str:
        """Return the URL of the redirect, with a code."""
        code = f"code-{len(self._granted)}-of-{self.name}"
        self._granted[code] = step.values.get("scope", "")
        usual = {"code": code, "state": step.values.get("state")}
        parameters = urlencode(_changed(usual, self.redirect))
        uri = str(step.values["redirect_uri"])
        return f"{uri}{'&' if '?' in uri else '?'}{parameters}"

    def token_response(self, step: Step) -> dict[str, Any]:
        """Return the response with a new access token and a new refresh token."""
        grant = step.values.get("code") or step.values.get("refresh_token")
        scope = step.values.get("scope") or self._granted.get(str(grant), "")
        number = self._login.next_number()
        refresh = f"refresh-{number}-of-{self.name}"
        self._granted[refresh] = scope
        response = {
            "access_token": f"token-{number}-of-{self.name}",
            "token_type": "Bearer",
            "expires_in": 3_600,
            "refresh_token": refresh,
            "scope": scope or None,
        }
        response = _changed(response, self.tokens)
        if "access_token" in response and self is self._login.issuer:
            self._login.tokens[response["access_token"]] = set(scope.split())
        return response


_ENDPOINTS: Final = {
    "/oauth/register": "registration",
    "/oauth/authorize": "authorization",
    "/oauth/token": "token",
}
"""Path -> kind; clients know no such path without the metadata."""
DEFAULT_ENDPOINTS: Final = {
    path.removeprefix("/oauth"): kind for path, kind in _ENDPOINTS.items()
}
"""The endpoints of a server of 2025-03-26 without metadata."""
_NO_STORE: Final = {"Cache-Control": "no-store"}


def _changed(members: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in {**members, **changes}.items() if v is not None}


class Login:
    """One run of the client against a server that requires a token.

    Attributes:
        client: The run.
        issuers: The authorization server, and a second one at another origin.
        issuer: The authorization server that the protected server names.
        challenge: The parameters of `WWW-Authenticate`, with ``{origin}`` replaced by
            the server's origin.
        scheme: The scheme and further challenges before the parameters.
        resource_paths: The paths of the metadata of the protected server.
        resource: Changes of this metadata; ``None`` omits a member; ``{origin}`` in its
            ``resource`` is replaced.
        deny: Called with each request that has a valid token; returns whether it has
            answered it.
        is_own_issuer: Whether the protected server is its own authorization server.
        own_origin: The origin of such a server, after the first request to it.
        steps: All requests, in order.
        tokens: Issued access tokens that are valid -> their scopes.
        accepted: The requests that the server accepted.
        denied: A request with a valid token that the case has refused.
        hang: The finding that the client did not end in time.
        on_open: Called when the origins of the authorization servers are known.
    """

    def __init__(self, client: ClientSubject) -> None:
        self.client = client
        self.issuers = [Issuer(self, "first", _STREAMS)]
        self.issuers.append(Issuer(self, "second", 2 * _STREAMS))
        self.issuer = self.issuers[0]
        path = RESOURCE_METADATA + ENDPOINT
        self.challenge = {"resource_metadata": "{origin}" + path, "scope": READ}
        self.scheme = "Bearer "
        self.resource_paths = [path]
        self.resource: dict[str, Any] = {}
        self.deny: Callable[[Step], Awaitable[bool]] | None = None
        self.is_own_issuer = False
        self.own_origin = ""
        self.steps: list[Step] = []
        self.tokens: dict[str, set[str]] = {}
        self.accepted: list[Step] = []
        self.denied: Step | None = None
        self.on_open: Callable[[], object] = lambda: None
        self.hang: NoAnswer | None = None
        self._count = 0
        self._refused: dict[str, set[str]] = {}  # operation -> tokens
        client.on_http = self._answer

    async def run(self) -> None:
        """Run the client; it may also wait for a redirect that never comes."""
        self.client.idle_s = max(self.client.bound_s, self.client.run_s * _IDLE_SHARE)
        try:
            for issuer in self.issuers:
                await issuer.endpoint.open()
            self.on_open()
            await self.client.run(must_end=True)
        except NoAnswer as finding:
            self.hang = finding
        finally:
            for issuer in self.issuers:
                await issuer.endpoint.close()

    def add(self, kind: str, request: HttpRequest, issuer: Issuer | None) -> Step:
        """Record a request of the client."""
        step = Step(kind, request, _read_values(request), issuer)
        self.steps.append(step)
        return step

    def next_number(self) -> int:
        """Return the number of the next token."""
        self._count += 1
        return self._count

    def find(self, kind: str, issuer: Issuer | None = None) -> list[Step]:
        """Return the requests of a kind."""
        return [
            step
            for step in self.steps
            if step.kind == kind and issuer in {None, step.issuer}
        ]

    # --- the protected server ---------------------------------------------------------

    async def _answer(self, request: HttpRequest) -> bool:
        """Answer a request, unless the correct server does."""
        path = request.path.partition("?")[0]
        if path in self.resource_paths or path.startswith(RESOURCE_METADATA):
            self.add("resource", request, None)
            is_known = path in self.resource_paths
            body = self._resource_metadata(request) if is_known else b""
            await request.respond(200 if is_known else 404, body)
            return True
        if path != ENDPOINT and self.is_own_issuer:
            self.own_origin = origin_of(request)
            await self.issuer.answer(request)
            return True
        if path != ENDPOINT:
            self.add("other", request, None)
            return False
        step = self.add("mcp", request, None)
        if step.token not in self.tokens:
            await self.refuse(step, 401)
            return True
        if self.deny is not None and await self.deny(step):
            return True
        self.accepted.append(step)
        self.client.idle_s = None
        return False

    def _resource_metadata(self, request: HttpRequest) -> dict[str, Any]:
        document: dict[str, Any] = {
            "resource": origin_of(request) + ENDPOINT,
            "authorization_servers": [self.issuer.url],
            "scopes_supported": [READ, WRITE],
        }
        changed = _changed(document, self.resource)
        resource = changed["resource"].replace("{origin}", origin_of(request))
        return {**changed, "resource": resource}

    async def refuse(self, step: Step, status: int, **parameters: str) -> None:
        """Answer with a challenge; `parameters` are added to the usual ones.

        Raises:
            Broken: The client repeats an operation with ever new tokens.
        """
        if step.token is not None:
            used = self._refused.setdefault(step.operation, set())
            used.add(step.token)
            if len(used) > MAX_LOGINS:
                number = f"{len(used)} tokens for {step.operation}"
                raise Broken(f"at most {MAX_LOGINS - 1} further logins", number)
        challenge = {**self.challenge, **parameters}
        if step.token is not None and status == 401:
            challenge["error"] = "invalid_token"
        text = ", ".join(f'{k}="{v}"' for k, v in challenge.items())
        field = self.scheme + text.replace("{origin}", origin_of(step.request))
        await step.request.respond(status, fields={"WWW-Authenticate": field})


def origin_of(request: HttpRequest) -> str:
    """Return the origin of the server that a request is sent to."""
    return f"http://{request.value('host')}"


def read_basic(step: Step) -> tuple[str, str] | None:
    """Return the client id and secret in the `Authorization` of a token request."""
    scheme, _, value = (step.request.value("authorization") or "").partition(" ")
    try:
        id, _, secret = b64decode(value).decode().partition(":")
    except ValueError:
        return None
    is_basic = scheme.lower() == "basic"
    return (unquote_plus(id), unquote_plus(secret)) if is_basic else None


def _read_values(request: HttpRequest) -> dict[str, Any]:
    text = request.path.partition("?")[2]
    if request.method == "POST":
        body = request.body.decode("utf-8", "replace")
        if "json" in (request.value("content-type") or ""):
            try:
                value = loads(body)
            except JSONDecodeError:
                return {}
            return value if isinstance(value, dict) else {}
        text = f"{text}&{body}"
    return dict(parse_qsl(text, keep_blank_values=True))


async def shared_login(
    client: ClientSubject,
    name: str = "",
    change: Callable[[Login], object] = lambda _: None,
) -> Login:
    """Return a login that several cases look at; the client runs once for them.

    Args:
        client: The run of the case; it gets the octets of the login.
        name: The name of the login; "" is the one with a correct server.
        change: Changes the server before the client runs.
    """
    logins = client.facts.logins
    if name not in logins:
        logins[name] = asyncio.create_task(_run_login(Login(client.again()), change))
    login: Login = await logins[name]
    client.transcript = login.client.transcript
    return login


async def _run_login(login: Login, change: Callable[[Login], object]) -> Login:
    change(login)
    await login.run()
    return login


async def begin_login(client: ClientSubject, *, by_code: bool = False) -> Login:
    """Return the login of a case, which has not run yet.

    Args:
        client: The run of the case.
        by_code: Whether the case needs the authorization code grant.

    Raises:
        Absent: The client does not log in to a correct server.
    """
    transcript = client.transcript
    await need_login(client, by_code=by_code)
    client.transcript = transcript
    return Login(client)


async def need_login(client: ClientSubject, *, by_code: bool = False) -> Login:
    """Return the login to a correct server; arguments and errors: `begin_login`."""
    login = await shared_login(client)
    if not login.accepted:
        client.raise_absent("login without a person")
    if by_code and not login.find("authorization"):
        client.raise_absent("authorization code grant")
    return login
