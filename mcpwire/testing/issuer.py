"""An authorization server for tests and demonstrations, as an ASGI application.

::

    issuer = Issuer("http://localhost:9000")
    auth = issuer.protect("http://localhost:9000/mcp")     ─► ResourceServer
    server = mcpwire.Server("guarded", auth=auth)
    app = issuer.beside(server.asgi())                     both at one origin

It registers every client, and its only user approves every request at once. It is for
tests only, since it issues tokens to every client.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import attrs

from mcpwire.errors import MCPError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.server.auth.resource_server import InvalidToken, Principal, ResourceServer
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.limits import Limits
    from mcpwire.server.http.exchange import Receive, Scope, Send
    from mcpwire.server.http.uvicorn import App

METADATA: Final = "/.well-known/oauth-authorization-server"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - its name
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"

_Document = dict[str, Any]
_Fields = dict[str, str]


class _OAuthError(MCPError):
    """An OAuth error response (RFC 6749, 5.2)."""

    def __init__(
        self, description: str, error: str = "invalid_request", status: int = 400
    ) -> None:
        super().__init__(description)
        self.document = {"error": error, "error_description": description}
        self.status = status


@attrs.frozen
class _Client:
    id: str
    secret: str | None
    redirect_uris: tuple[str, ...] | None
    """The allowed redirect URIs; ``None``: any."""


@attrs.frozen
class _Grant:
    """The permissions of one login, or of a client that acts for itself."""

    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str | None
    proof: tuple[str, str] = ("", "")
    """The challenge and the redirect URI that an exchange of its code must match."""


class Issuer:
    """An authorization server for tests; see the module's text.

    It is an ASGI application, and a verifier of its own tokens for a `ResourceServer`.

    Args:
        url: The issuer identifier: the origin at which it is served, without a path,
            such as ``"http://localhost:9000"``.
        scopes: The scopes granted to a request that names none.
        subject: The subject identifier of the user.
        lifetime: The lifetime of an access token, in seconds.
        clock: Returns the current time in seconds since 1970.

    Raises:
        ValueError: `url` is not an HTTP URL, or has a path.
    """

    def __init__(
        self,
        url: str,
        *,
        scopes: Iterable[str] = ("mcp",),
        subject: str = "user",
        lifetime: float = 3_600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or parts.path or not parts.netloc:
            raise ValueError(
                f"an issuer's url must be like http://host:port, got {url!r}"
            )
        self.url = url
        self.scopes = tuple(scopes)
        self.subject = subject
        self.lifetime = lifetime
        self._clock = clock
        self._next_number = itertools.count(1)
        self._clients: dict[str, _Client] = {}
        self._code_grants: dict[str, _Grant] = {}
        self._refresh_grants: dict[str, _Grant] = {}
        self._access_tokens: dict[str, Principal] = {}

    def __repr__(self) -> str:
        return f"<Issuer {self.url!r}>"

    # Use in tests

    def add_client(self, client_id: str, secret: str | None = None) -> None:
        """Register a client in advance; it may use any redirect URI."""
        self._clients[client_id] = _Client(client_id, secret, None)

    def protect(self, resource: str, **options: Any) -> ResourceServer:
        """Return the `auth` of a server that requires tokens of this issuer.

        Args:
            resource: The URL of the MCP server.
            options: Options of `ResourceServer`; the default of `required_scopes` is
                `scopes` of the issuer.
        """
        options.setdefault("required_scopes", self.scopes)
        return ResourceServer(
            resource, authorization_servers=[self.url], verifiers=[self], **options
        )

    def token(
        self,
        resource: str,
        *,
        scopes: Iterable[str] | None = None,
        client_id: str = "test",
    ) -> str:
        """Return a new access token for a resource, as after a login of the user."""
        granted = self.scopes if scopes is None else tuple(scopes)
        return self._issue_access_token(
            _Grant(client_id, self.subject, granted, resource)
        )

    def expire(self) -> None:
        """Invalidate all access tokens; refresh tokens stay valid."""
        self._access_tokens.clear()

    def approve(self, url: str) -> str:
        """Approve as the user does, and return the redirect, for ``OAuth(ask=...)``.

        Args:
            url: The authorization URL.

        Raises:
            MCPError: The request is refused; a browser would show an error page.
        """
        return self._authorize(_parse_form(urlsplit(url).query))

    def beside(self, app: Any) -> App:
        """Return an application that serves this issuer and another application.

        Args:
            app: The application of a `Server` or a gateway, for all other paths.
        """
        return _IssuerRouter(self, app)

    async def verify(self, token: str) -> Principal:
        """Return the principal of an access token.

        Raises:
            InvalidToken: The token is unknown, revoked or expired.
        """
        principal = self._access_tokens.get(token)
        if principal is None or (principal.expires_at or 0) <= self._clock():
            raise InvalidToken("this issuer does not know the token")
        return principal

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request (ASGI)."""
        if scope["type"] != "http":
            raise RuntimeError(f"an issuer serves http, got {scope['type']!r}")
        exchange = Exchange(scope, receive, send, DEFAULT_LIMITS)
        try:
            status, document, headers = await self._answer(exchange)
            await exchange.reply(status, document, headers)
        except _OAuthError as error:
            await exchange.reply(error.status, error.document)
        except HttpProblem as error:
            await exchange.reply(error.status, {"error": "invalid_request"})
        except ClientGone:
            pass

    async def _answer(
        self, exchange: Exchange
    ) -> tuple[int, _Document | None, tuple[tuple[str, str], ...]]:
        verb, path = exchange.verb, exchange.path
        if (verb, path) == ("GET", METADATA):
            return 200, self.metadata(), ()
        if (verb, path) == ("GET", "/authorize"):
            query = exchange.scope.get("query_string", b"").decode("latin-1")
            return 302, None, (("location", self._authorize(_parse_form(query))),)
        body = (await exchange.body()).decode("utf-8", "replace")
        if (verb, path) == ("POST", "/register"):
            return 201, self._register(body), ()
        if (verb, path) == ("POST", "/token"):
            form = _parse_form(body)
            grant_tokens = self._grants.get(form.get("grant_type", ""))
            if grant_tokens is None:
                raise _OAuthError(
                    "this issuer does not support the grant", "unsupported_grant_type"
                )
            client = self._check_client(form, exchange.headers.get("authorization"))
            return 200, grant_tokens(form, client), (("cache-control", "no-store"),)
        if (verb, path) == ("POST", "/revoke"):
            token = _parse_form(body).get("token", "")
            self._access_tokens.pop(token, None)
            self._refresh_grants.pop(token, None)
            return 200, {}, ()
        raise _OAuthError(f"this issuer does not answer {verb} {path}", status=404)

    def metadata(self) -> _Document:
        """Return the authorization server metadata (RFC 8414)."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": list(self._grants),
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": list(self.scopes),
            "authorization_response_iss_parameter_supported": True,
        }

    def _register(self, body: str) -> _Document:
        """Register a client (RFC 7591); return the response."""
        try:
            request = loads(body)
            uris = tuple(map(str, request["redirect_uris"]))
        except (ValueError, TypeError, KeyError):
            raise _OAuthError(
                "redirect_uris must be a list of URIs", "invalid_client_metadata"
            ) from None
        client_id = f"client-{next(self._next_number)}"
        method = request.get("token_endpoint_auth_method", "client_secret_basic")
        secret = None if method == "none" else secrets.token_urlsafe()
        self._clients[client_id] = _Client(client_id, secret, uris)
        document = {**request, "client_id": client_id}
        if secret is not None:
            document |= {"client_secret": secret, "client_secret_expires_at": 0}
        return document

    def _authorize(self, request: _Fields) -> str:
        """Grant an authorization request; return the redirect URL with its code."""
        client = self._clients.get(request.get("client_id", ""))
        redirect_uri = request.get("redirect_uri", "")
        if client is None or redirect_uri not in (
            client.redirect_uris or (redirect_uri,)
        ):
            raise _OAuthError("this issuer does not know the client")
        kinds = request.get("response_type"), request.get("code_challenge_method")
        if kinds != ("code", "S256"):
            raise _OAuthError("the request must be for a code, with S256")
        if not (redirect_uri.isascii() and redirect_uri.isprintable()):
            raise _OAuthError("redirect_uri must be a URI")
        code = secrets.token_urlsafe()
        self._code_grants[code] = _Grant(
            client.id,
            self.subject,
            self._requested_scopes(request),
            request.get("resource"),
            (request.get("code_challenge", ""), redirect_uri),
        )
        answer = {"code": code, "state": request.get("state", ""), "iss": self.url}
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(answer)}"

    def _requested_scopes(self, request: _Fields) -> tuple[str, ...]:
        return tuple(request.get("scope", "").split()) or self.scopes

    @property
    def _grants(self) -> Mapping[str, Callable[[_Fields, _Client], _Document]]:
        return {
            "authorization_code": self._exchange_code,
            "refresh_token": self._exchange_refresh_token,
            "client_credentials": self._grant_client_credentials,
            JWT_BEARER: self._grant_client_credentials,
            TOKEN_EXCHANGE: self._exchange_token,
        }

    def _check_client(self, form: _Fields, authorization: str | None) -> _Client:
        id, secret = form.get("client_id", ""), form.get("client_secret")
        if authorization is not None and authorization[:6].lower() == "basic ":
            try:
                pair = b64decode(authorization[6:]).decode().partition(":")
            except ValueError:
                pair = ("", "", "")
            id, secret = unquote_plus(pair[0]), unquote_plus(pair[2])
        client = self._clients.get(id)
        if client is None or (client.secret or None) != (secret or None):
            raise _OAuthError(
                "this issuer does not know the client", "invalid_client", 401
            )
        return client

    def _exchange_code(self, form: _Fields, client: _Client) -> _Document:
        grant = self._code_grants.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
        proof = challenge, form.get("redirect_uri", "")
        if grant is None or (grant.client_id, grant.proof) != (client.id, proof):
            raise _OAuthError("this issuer did not issue the code", "invalid_grant")
        return self._refreshable_response(grant)

    def _exchange_refresh_token(self, form: _Fields, client: _Client) -> _Document:
        grant = self._refresh_grants.get(form.get("refresh_token", ""))
        if grant is None or grant.client_id != client.id:
            raise _OAuthError("this issuer did not issue the token", "invalid_grant")
        del self._refresh_grants[form["refresh_token"]]
        return self._refreshable_response(grant)

    def _grant_client_credentials(self, form: _Fields, client: _Client) -> _Document:
        scopes, resource = self._requested_scopes(form), form.get("resource")
        grant = _Grant(client.id, client.id, scopes, resource)
        return self._token_response(grant)

    def _exchange_token(self, form: _Fields, client: _Client) -> _Document:
        return {
            "access_token": secrets.token_urlsafe(),
            "issued_token_type": ID_JAG,
            "token_type": "N_A",
        }

    def _refreshable_response(self, grant: _Grant) -> _Document:
        refresh = secrets.token_urlsafe()
        self._refresh_grants[refresh] = grant
        return self._token_response(grant) | {"refresh_token": refresh}

    def _token_response(self, grant: _Grant) -> _Document:
        return {
            "access_token": self._issue_access_token(grant),
            "token_type": "Bearer",
            "expires_in": int(self.lifetime),
            "scope": " ".join(grant.scopes),
        }

    def _issue_access_token(self, grant: _Grant) -> str:
        token = secrets.token_urlsafe()
        self._access_tokens[token] = Principal(
            issuer=self.url,
            client_id=grant.client_id,
            subject=grant.subject,
            scopes=grant.scopes,
            audience=() if grant.resource is None else (grant.resource,),
            expires_at=self._clock() + self.lifetime,
        )
        return token


_ISSUER_PATHS: Final = frozenset(
    {METADATA, "/authorize", "/register", "/revoke", "/token"}
)


class _IssuerRouter:
    """Routes an issuer's paths to it, and all others to another application."""

    def __init__(self, issuer: Issuer, app: Any) -> None:
        self._issuer = issuer
        self._app = app
        self.limits: Limits = app.limits
        self.start, self.drain, self.aclose = app.start, app.drain, app.aclose

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_issuer_path = scope["type"] == "http" and scope["path"] in _ISSUER_PATHS
        await (self._issuer if is_issuer_path else self._app)(scope, receive, send)


def _parse_form(text: str) -> _Fields:
    return dict(parse_qsl(text, keep_blank_values=True))
