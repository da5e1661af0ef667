"""An authorization server on a port of this machine, and helpers for logins.

    with authorization_server() as auth, protected_server(auth) as server:
        mcpwire.Http(server.url, auth=oauth())
        ...  # auth.requests, auth.live, server.requests, server.challenges

`auth.on` replaces an answer: keyed as in `KEYS`, a function of the request gives
status, fields and body, or None for the usual answer; it may wait
(`request.conn.wait_for`) and hang up (raise ConnectionError). `auth.edit` changes the
usual document of a JSON answer. Every issued secret contains `SENTINEL`, or the text
of `sentinel` in its place, which tells those of two servers apart.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import itertools
import json
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import token_reader
from protected import answer_bytes, protected_legacy, protected_server
from raw_server import raw_server

import mcpwire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from raw_server import Connection, RawRequest, RawServer

__all__ = [
    "ID_JAG",
    "JWT_BEARER",
    "SENTINEL",
    "TOKEN_EXCHANGE",
    "AuthorizationServer",
    "Recorded",
    "authorization_server",
    "browse",
    "oauth",
    "protected_legacy",
    "protected_server",
]

SENTINEL: Final = "SENTINEL"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"

Reply = tuple[int, dict[str, str], bytes]


class AuthorizationServer:
    """See the module.

    Attributes:
        live: The access tokens that are valid now, and their scopes.
        bound: Those among them that are bound to a key, and its thumbprint.
        clients: The known clients, by client id.
        reuses: How often a refresh token was used again.
        nonce: The nonce that a proof of possession must contain; None: none.
    """

    def __init__(
        self,
        *,
        expires_in: Any = 3600,
        scopes_supported: list[str] | None = None,
        iss: bool = True,
        registration: bool = True,
        auth_methods: list[str] | None = None,
        refresh: bool = True,
        path: str = "",
        dpop: bool = False,
        sentinel: str = SENTINEL,
    ) -> None:
        self.expires_in = expires_in
        self.scopes_supported = scopes_supported
        self.iss = iss
        self.registration = registration
        self.auth_methods = auth_methods
        self.refresh = refresh
        self.path = path
        self.dpop = dpop
        self.sentinel = sentinel
        self.on: dict[str, Callable[[Recorded], Reply | None]] = {}
        self.edit: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.requests: list[Recorded] = []
        self.live: dict[str, tuple[str, ...]] = {}
        self.bound: dict[str, str] = {}
        self.clients: dict[str, Registered] = {}
        self.families: dict[str, Family] = {}
        """By the refresh token that is valid now."""
        self.reuses = 0
        self.nonce: str | None = None
        self.raw: RawServer
        self._codes: dict[str, tuple[dict[str, str], Family]] = {}
        self._spent: dict[str, Family] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    # For assertions...

    @property
    def origin(self) -> str:
        return self.raw.origin

    @property
    def issuer(self) -> str:
        return self.origin + self.path

    def url(self, path: str) -> str:
        return self.origin + path

    @property
    def bodies(self) -> bytes:
        return b"".join(request.raw for request in self.raw.requests)

    def of(self, key: str) -> list[Recorded]:
        return [request for request in self.requests if request.key == key]

    @property
    def token_requests(self) -> list[Recorded]:
        return self.of("token")

    @property
    def registrations(self) -> list[Recorded]:
        return self.of("register")

    @property
    def authorizations(self) -> list[Recorded]:
        """Those by a browser; a client only checks whether it is still known."""
        return [each for each in self.of("authorize") if "accept" not in each.headers]

    @property
    def grants(self) -> list[str]:
        """The grant type of each token request."""
        return [request.form.get("grant_type", "") for request in self.token_requests]

    def wait_until(self, holds: Callable[[], Any], timeout: float = 30.0) -> None:
        self.raw.wait_until(holds, timeout)

    # ... and for setting up.

    def add_client(self, client_id: str, **what: Any) -> Registered:
        """Add a client that has not registered itself; see `Registered`."""
        client = self.clients[client_id] = Registered(client_id, **what)
        return client

    def revoke(self, token: str) -> None:
        """Revoke an access token, or a refresh token with all its access tokens."""
        with self._lock:
            self.live.pop(token, None)
            family = self.families.pop(token, None)
            for access in family.access if family is not None else ():
                self.live.pop(access, None)

    def expire_all(self) -> None:
        self.live.clear()

    def forget_all(self) -> None:
        with self._lock:
            self.live.clear()
            self.families.clear()

    def give(
        self, scopes: tuple[str, ...] = (), client_id: str = "given"
    ) -> dict[str, Any]:
        """Issue tokens as after a login; return the token response."""
        return self._issue(Family(client_id, tuple(scopes), None))

    def metadata(self) -> dict[str, Any]:
        base = self.issuer
        document = {
            "issuer": base,
            "authorization_endpoint": base + "/authorize",
            "token_endpoint": base + "/token",
            "revocation_endpoint": base + "/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": [
                *("authorization_code", "refresh_token", "client_credentials"),
                *(JWT_BEARER, TOKEN_EXCHANGE),
            ],
        }
        optional = {
            "registration_endpoint": self.registration and base + "/register",
            "scopes_supported": self.scopes_supported,
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": self.auth_methods,
            "authorization_response_iss_parameter_supported": self.iss,
            "dpop_signing_alg_values_supported": self.dpop and ["ES256"],
        }
        return document | {name: value for name, value in optional.items() if value}

    # Answering requests.

    def take(self, raw: RawServer) -> None:
        """Store the raw server, before the first connection arrives."""
        self.raw = raw

    def serve(self, conn: Connection) -> None:
        while raw := conn.receive(None):
            key = self.keys().get(urlsplit(raw.target).path, raw.target)
            request = Recorded(raw, key, conn)
            self.requests.append(request)
            self.raw.wake()
            conn.send(answer_bytes(self._answer(request)))

    def keys(self) -> dict[str, str]:
        path = self.path
        return {
            f"/.well-known/oauth-authorization-server{path}": "metadata",
            f"/.well-known/openid-configuration{path}": "openid",
            f"{path}/.well-known/openid-configuration": "openid",
            f"{path}/register": "register",
            f"{path}/authorize": "authorize",
            f"{path}/token": "token",
            f"{path}/revoke": "revoke",
        }

    def _answer(self, request: Recorded) -> Reply:
        handler = self.on.get(request.key)
        replaced = handler(request) if handler is not None else None
        return replaced if replaced is not None else self.usual(request)

    def usual(self, request: Recorded) -> Reply:
        """Return the usual answer, for a function in `on` that extends it."""
        answer = ANSWERS.get(request.key)
        if answer is None:
            return 404, {}, b""
        with self._lock:
            try:
                status, fields, document = answer(self, request)
            except Refused as refused:
                status, fields = refused.status, refused.fields
                document = {"error": refused.error}
        if isinstance(document, bytes):
            return status, fields, document
        edit = self.edit.get(request.key)
        return json_answer(edit(document) if edit else document, status, **fields)

    def _metadata(self, request: Recorded) -> Any:
        return 200, {}, self.metadata()

    def _register(self, request: Recorded) -> Any:
        if not self.registration:
            raise Refused("access_denied", 403)
        fields = request.json
        client = self.add_client(
            f"client-{next(self._numbers)}",
            redirect_uris=fields.get("redirect_uris"),
            method=fields.get("token_endpoint_auth_method", "client_secret_basic"),
        )
        document = {**fields, "client_id": client.client_id}
        if client.method in {"client_secret_basic", "client_secret_post"}:
            client.secret = f"{self.sentinel}-secret-{next(self._numbers)}"
            document |= {"client_secret": client.secret, "client_secret_expires_at": 0}
        return 201, {}, document

    def _authorize(self, request: Recorded) -> Any:
        query = request.query
        client = self.clients.get(query["client_id"])
        back = query["redirect_uri"]
        known = client is not None and (
            client.redirect_uris is None or back in client.redirect_uris
        )
        if not known:
            return 400, {}, b"no such client, or not its redirect URI"
        if (query["response_type"], query["code_challenge_method"]) != ("code", "S256"):
            return 400, {}, b"code and S256 it must be"
        family = Family(
            query["client_id"],
            tuple(query.get("scope", "").split()),
            query.get("resource"),
        )
        code = f"{self.sentinel}-code-{next(self._numbers)}"
        self._codes[code] = query, family
        params = {"code": code, "state": query["state"]}
        if self.iss:
            params["iss"] = self.issuer
        joint = "&" if "?" in back else "?"
        return 302, {"location": f"{back}{joint}{urlencode(params)}"}, b""

    def _revoke(self, request: Recorded) -> Any:
        self.revoke(request.form.get("token", ""))
        return 200, {}, b""

    # The token endpoint...

    def _token(self, request: Recorded) -> Any:
        grant = GRANTS.get(request.form.get("grant_type", ""))
        if grant is None:
            raise Refused("unsupported_grant_type")
        client = self._authenticated(request)
        thumbprint = self._proved(request)
        return (
            200,
            {"cache-control": "no-store"},
            grant(self, request.form, client, thumbprint),
        )

    def _authenticated(self, request: Recorded) -> Registered:
        form, line = request.form, request.headers.get("authorization", "")
        secret = form.get("client_secret")
        method = "none" if secret is None else "client_secret_post"
        client_id = form.get("client_id", "")
        if line.lower().startswith("basic "):
            pair = base64.b64decode(line[6:]).decode().split(":")
            client_id, secret = (unquote_plus(part) for part in pair)
            method = "client_secret_basic"
        assertion = form.get("client_assertion")
        if assertion is not None:
            client_id = token_reader.claims_of(assertion)["sub"]
            method = "private_key_jwt"
        client = self.clients.get(client_id)
        wrong = (
            client is None
            or client.method not in {None, method}
            or (method.startswith("client_secret") and client.secret != secret)
            or (method == "none" and client.secret is not None)
        )
        if wrong:
            raise Refused("invalid_client", 401)
        if assertion is not None:
            claims = token_reader.verified(assertion, client.key)
            if (claims["iss"], claims["aud"]) != (client_id, self.issuer):
                raise Refused("invalid_client", 401)
        return client

    def _proved(self, request: Recorded) -> str | None:
        """Return the thumbprint of the key of a proof, if there is a proof."""
        proof = request.headers.get("dpop")
        if proof is None or not self.dpop:
            return None
        thumbprint, claims = token_reader.read(proof)
        if self.nonce is not None and claims.get("nonce") != self.nonce:
            raise Refused("use_dpop_nonce", **{"dpop-nonce": self.nonce})
        if (claims["htm"], claims["htu"]) != ("POST", self.issuer + "/token"):
            raise Refused("invalid_dpop_proof")
        return thumbprint

    def _from_code(
        self, form: dict[str, str], client: Registered, thumbprint: str | None
    ) -> Any:
        query, family = self._codes.pop(form["code"], (None, None))
        if query is None or family.client_id != client.client_id:
            raise Refused("invalid_grant")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (query["code_challenge"], query["redirect_uri"]) != (
            challenge,
            form["redirect_uri"],
        ):
            raise Refused("invalid_grant")
        family.thumbprint = thumbprint
        return self._issue(family)

    def _from_refresh(
        self, form: dict[str, str], client: Registered, thumbprint: str | None
    ) -> Any:
        token = form["refresh_token"]
        family = self.families.get(token)
        if family is None:
            spent = self._spent.get(token)
            if spent is not None:  # it may be stolen: revoke the whole family
                self.reuses += 1
                self.revoke(spent.refresh or "")
            raise Refused("invalid_grant")
        if (family.client_id, family.thumbprint) != (client.client_id, thumbprint):
            raise Refused("invalid_grant")
        self._spent[token] = self.families.pop(token)
        family.refresh = None
        return self._issue(family)

    def _from_itself(
        self, form: dict[str, str], client: Registered, thumbprint: str | None
    ) -> Any:
        scopes = tuple(form.get("scope", "").split())
        family = Family(client.client_id, scopes, form.get("resource"))
        answer = self._issue(family)
        self.families.pop(answer.pop("refresh_token", ""), None)
        return answer

    def _exchanged(
        self, form: dict[str, str], client: Registered, thumbprint: str | None
    ) -> Any:
        return {
            "access_token": f"{self.sentinel}-id-jag-{next(self._numbers)}",
            "issued_token_type": ID_JAG,
            "token_type": "N_A",
            "expires_in": 300,
        }

    def _issue(self, family: Family) -> dict[str, Any]:
        with self._lock:
            number = next(self._numbers)
            token = f"{self.sentinel}-access-{number}"
            self.live[token] = family.scopes
            family.access.append(token)
            if family.thumbprint is not None:
                self.bound[token] = family.thumbprint
            bound = family.thumbprint is not None
            document = {
                "access_token": token,
                "token_type": "DPoP" if bound else "Bearer",
            }
            if self.refresh:
                if family.refresh is None:
                    family.refresh = f"{self.sentinel}-refresh-{number}"
                    self.families[family.refresh] = family
                document["refresh_token"] = family.refresh
            if self.expires_in is not None:
                document["expires_in"] = self.expires_in
            if family.scopes:
                document["scope"] = " ".join(family.scopes)
            return document


GRANTS: Final = {
    "authorization_code": AuthorizationServer._from_code,
    "refresh_token": AuthorizationServer._from_refresh,
    "client_credentials": AuthorizationServer._from_itself,
    JWT_BEARER: AuthorizationServer._from_itself,
    TOKEN_EXCHANGE: AuthorizationServer._exchanged,
}
ANSWERS: Final = {
    "metadata": AuthorizationServer._metadata,
    "register": AuthorizationServer._register,
    "authorize": AuthorizationServer._authorize,
    "token": AuthorizationServer._token,
    "revoke": AuthorizationServer._revoke,
}
KEYS: Final = (*ANSWERS, "openid")


def json_answer(document: Any, status: int = 200, **fields: str) -> Reply:
    """Return an answer for a function in `on`, with the document as JSON."""
    fields = {"content-type": "application/json", **fields}
    return status, fields, json.dumps(document).encode()


@contextlib.contextmanager
def authorization_server(**options: Any) -> Iterator[AuthorizationServer]:
    auth = AuthorizationServer(**options)
    with raw_server(auth.serve, starts=auth.take):
        yield auth


def browse(url: str) -> str:
    """Log in like a browser and a user, and return the URL of the redirect."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        text = response.read()
        location = response.getheader("location")
        assert location is not None, f"{response.status}: {text[:200]!r}"
        return location
    finally:
        connection.close()


def oauth(**options: Any) -> mcpwire.OAuth:
    """Return the grant of a user who consents to everything immediately."""
    usual = {"ask": browse, "storage": mcpwire.MemoryStorage()}
    return mcpwire.OAuth(**usual | options)


class Recorded:
    """One received request, parsed in each way that a test may need."""

    def __init__(self, raw: RawRequest, key: str, conn: Connection) -> None:
        parts = urlsplit(raw.target)
        self.verb = raw.verb
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.headers = raw.headers
        self.raw = raw.raw
        self.body = raw.body
        self.key = key
        """Its key in `KEYS`; its path where it has none."""
        self.conn = conn

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode(), keep_blank_values=True)

    @cached_property
    def form(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.verb} {self.path} {self.form.get('grant_type', '')}>"


@dataclass
class Registered:
    client_id: str
    secret: str | None = None
    redirect_uris: list[str] | None = None
    """None: any is accepted."""
    method: str | None = None
    """The required authentication method; None: any."""
    key: str | None = None
    """The public key of its assertions, PEM."""


@dataclass
class Family:
    """The tokens that result from one consent."""

    client_id: str
    scopes: tuple[str, ...]
    resource: str | None
    refresh: str | None = None
    thumbprint: str | None = None
    access: list[str] = field(default_factory=list)


class Refused(Exception):
    """An error of RFC 6749 section 5.2."""

    def __init__(self, error: str, status: int = 400, **fields: str) -> None:
        super().__init__(error)
        self.error, self.status, self.fields = error, status, fields
