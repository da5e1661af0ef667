"""An authorization server on Authlib and Flask, run by its own environment.

It serves on a free port of this machine and prints its issuer. The paths below `/test/`
are for the tests, and need no authorization.
"""

import secrets
import sys
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin
from authlib.oauth2.rfc6749.grants import (
    AuthorizationCodeGrant,
    ClientCredentialsGrant,
    RefreshTokenGrant,
)
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207 import AuthorizationServerMetadata as IssuerMetadata
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, jsonify, request
from joserfc.jwk import import_key
from werkzeug.serving import make_server

USER = "ada"
METHODS = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
GRANTS = ["authorization_code", "refresh_token", "client_credentials"]
SCOPES = ["mcp:read", "mcp:write", "offline_access"]

app = Flask(__name__)
app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = lambda **_: secret("refresh")
app.config["OAUTH2_ACCESS_TOKEN_GENERATOR"] = lambda **_: secret("access")
app.config["OAUTH2_SCOPES_SUPPORTED"] = SCOPES
clients: dict[str, "Client"] = {}
codes: dict[str, "Code"] = {}
tokens: list["Token"] = []
seen: list[dict[str, Any]] = []


def secret(kind: str) -> str:
    """Return a text that tests search for in places where it must not be."""
    return f"SENTINEL-authlib-{kind}-{secrets.token_hex(16)}"


@dataclass
class Client(ClientMixin):
    """A registered client."""

    client_id: str
    client_secret: str
    metadata: dict[str, Any]

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str | None:
        return None

    def get_allowed_scope(self, scope: str | None) -> str:
        return " ".join(each for each in (scope or "").split() if each in SCOPES)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.metadata.get("redirect_uris", ())

    def check_client_secret(self, client_secret: str) -> bool:
        return self.client_secret == client_secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return self.metadata["token_endpoint_auth_method"] == method

    def check_response_type(self, response_type: str) -> bool:
        return response_type in self.metadata.get("response_types", ["code"])

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata["grant_types"]


@dataclass
class Code(AuthorizationCodeMixin):
    """An authorization code and the consent behind it."""

    client_id: str
    redirect_uri: str
    scope: str
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Token(TokenMixin):
    """The tokens issued for a code."""

    client_id: str
    access_token: str
    scope: str
    refresh_token: str | None
    issued_at: float = field(default_factory=time.time)
    is_revoked: bool = False
    is_expired_now: bool = False

    def check_client(self, client: Client) -> bool:
        return self.client_id == client.client_id

    def get_scope(self) -> str:
        return self.scope

    def get_expires_in(self) -> int:
        return 3600

    def is_expired(self) -> bool:
        return self.is_expired_now


class CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def save_authorization_code(self, code: str, request: Any) -> None:
        data = request.payload.data
        codes[code] = Code(
            request.client.client_id,
            request.payload.redirect_uri,
            request.scope,
            data.get("code_challenge"),
            data.get("code_challenge_method"),
        )

    def generate_authorization_code(self) -> str:
        return secret("code")

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        found = codes.get(code)
        return found if found and found.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        for code in [
            each for each, kept in codes.items() if kept is authorization_code
        ]:
            del codes[code]

    def authenticate_user(self, authorization_code: Code) -> str:
        return USER


class RotatingGrant(RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
        for token in tokens:
            if token.refresh_token == refresh_token and not token.is_revoked:
                return token
        return None

    def authenticate_user(self, refresh_token: Token) -> str:
        return USER

    def revoke_old_credential(self, refresh_token: Token) -> None:
        refresh_token.is_revoked = True


class OwnGrant(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = METHODS

    def query_token(self, token_string: str, token_type_hint: str) -> Token | None:
        for token in tokens:
            if token_string in {token.access_token, token.refresh_token}:
                return token
        return None

    def revoke_token(self, token: Token, request: Any) -> None:
        token.is_revoked = True


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, request: Any) -> bool:
        return True  # no authorization needed

    def generate_client_secret(self, request: Any) -> str:
        return secret("client-secret")

    def get_server_metadata(self) -> dict[str, Any]:
        return metadata()

    def save_client(self, info: Any, metadata: Any, request: Any) -> Client:
        client = Client(info["client_id"], info["client_secret"], metadata)
        clients[client.client_id] = client
        return client


class Issuer(IssuerParameter):
    def get_issuer(self) -> str:
        return issuer


class Assertion(JWTBearerClientAssertion):
    CLIENT_AUTH_METHOD = "private_key_jwt"
    used: ClassVar[set[str]] = set()

    def get_audiences(self) -> list[str]:
        return [issuer]

    def validate_jti(self, claims: Any, jti: str) -> bool:
        is_new = jti not in self.used
        self.used.add(jti)
        return is_new

    def resolve_client_public_key(self, client: Client, headers: Any = None) -> Any:
        return import_key(client.metadata["public_key"], "EC")


def save_token(token: dict[str, Any], request: Any) -> None:
    tokens.append(
        Token(
            request.client.client_id,
            token["access_token"],
            token.get("scope", ""),
            token.get("refresh_token"),
        )
    )


def metadata() -> dict[str, Any]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "response_types_supported": ["code"],
        "grant_types_supported": GRANTS,
        "scopes_supported": SCOPES,
        "token_endpoint_auth_methods_supported": METHODS,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }


@app.before_request
def note() -> None:
    seen.append(
        {
            "path": request.path,
            "query": request.args.to_dict(),
            "form": request.form.to_dict(),
        }
    )


@app.get("/.well-known/oauth-authorization-server")
def describe() -> Any:
    return jsonify(metadata())


@app.get("/authorize")
def show() -> Any:
    """Show a user what is asked for, as a page with two buttons."""
    try:
        grant = server.get_consent_grant(end_user=USER)
    except OAuth2Error as error:
        return server.handle_error_response(request, error)
    return f"<form method=post>{grant.client.client_id} <button>yes</button></form>"


@app.post("/authorize")
def agree() -> Any:
    user = USER if request.form["answer"] == "yes" else None
    grant = server.get_consent_grant(end_user=USER)
    return server.create_authorization_response(grant=grant, grant_user=user)


@app.post("/token")
def give() -> Any:
    return server.create_token_response()


@app.post("/register")
def register() -> Any:
    return server.create_endpoint_response("client_registration")


@app.post("/revoke")
def revoke() -> Any:
    return server.create_endpoint_response("revocation")


@app.get("/test/token/<text>")
def look_up(text: str) -> Any:
    """Say which scopes a token has, as a resource server would ask."""
    for token in tokens:
        is_good = not (token.is_revoked or token.is_expired_now)
        if token.access_token == text and is_good:
            return jsonify(token.scope.split())
    return "none", 404


@app.post("/test/expire")
def expire() -> Any:
    for token in tokens:
        token.is_expired_now = True
    return ""


@app.post("/test/client")
def add_client() -> Any:
    given = request.get_json()
    clients[given["client_id"]] = Client(
        given["client_id"], given.get("client_secret", ""), given
    )
    return ""


@app.get("/test/seen")
def tell() -> Any:
    """Tell which requests came, and forget them."""
    told = [each for each in seen if not each["path"].startswith("/test/")]
    seen.clear()
    return jsonify(told)


server = AuthorizationServer(app, query_client=clients.get, save_token=save_token)
server.register_grant(CodeGrant, [CodeChallenge(required=True)])
server.register_grant(RotatingGrant)
server.register_grant(OwnGrant)
server.register_endpoint(Revocation)
server.register_endpoint(Registration())
server.register_extension(Issuer())

if __name__ == "__main__":
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    issuer = f"http://127.0.0.1:{listening.server_port}"
    server.register_client_auth_method("private_key_jwt", Assertion())
    # The metadata must pass the validation of Authlib itself.
    AuthorizationServerMetadata(metadata()).validate(metadata_classes=[IssuerMetadata])
    sys.stdout.write(f"{issuer}\n")
    sys.stdout.flush()
    listening.serve_forever()
