"""An MCP server and its authorization server on the official Python SDK 2.x.

It serves on a free port of this machine and prints its issuer. Its user agrees to
everything at once. The paths below `/test/` are for the tests.
"""

import secrets
import socket
import sys
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import (
    AuthSettings,
    ClientRegistrationOptions,
    RevocationOptions,
)
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

SCOPES = ["mcp:read", "mcp:write"]
LIFETIME_S = 3600

seen: list[str] = []


def secret(kind: str) -> str:
    """Return a text that tests search for in places where it must not be."""
    return f"SENTINEL-sdk-{kind}-{secrets.token_hex(16)}"


class Provider:
    """Clients, codes and tokens in memory, as the examples of the SDK keep them."""

    def __init__(self) -> None:
        self.gives_refresh_tokens = True
        self.forget()

    def forget(self) -> None:
        """Lose everything, as a restart does."""
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        seen.append("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        seen.append("authorize")
        code = AuthorizationCode(
            code=secret("code"),
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            **params.model_dump(exclude={"state", "scopes"}),
        )
        self.codes[code.code] = code
        return construct_redirect_uri(
            str(params.redirect_uri), code=code.code, state=params.state
        )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, code: AuthorizationCode
    ) -> OAuthToken:
        seen.append("authorization_code")
        del self.codes[code.code]
        return self.give(client, code.scopes, code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        seen.append("refresh_token")
        self.end(refresh_token)
        return self.give(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        seen.append("revoke")
        self.end(token)

    def end(self, token: AccessToken | RefreshToken) -> None:
        """End it, and with a refresh token all access tokens of its client."""
        self.access.pop(token.token, None)
        if self.refresh.pop(token.token, None):
            for each in [*self.access.values()]:
                if each.client_id == token.client_id:
                    del self.access[each.token]

    def give(
        self,
        client: OAuthClientInformationFull,
        scopes: list[str],
        resource: str | None,
    ) -> OAuthToken:
        common = {"client_id": client.client_id, "scopes": scopes, "resource": resource}
        access, refresh = secret("access"), None
        until = int(time.time()) + LIFETIME_S
        self.access[access] = AccessToken(token=access, expires_at=until, **common)
        if self.gives_refresh_tokens:
            refresh = secret("refresh")
            self.refresh[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(
            access_token=access,
            expires_in=LIFETIME_S,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )


listening = socket.create_server(("127.0.0.1", 0))
issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
provider = Provider()
server = MCPServer(
    "foreign-sdk-authorized",
    auth_server_provider=provider,
    auth=AuthSettings(
        issuer_url=issuer,
        resource_server_url=f"{issuer}/mcp",
        required_scopes=SCOPES[:1],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=SCOPES
        ),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
def echo(text: str) -> str:
    """Answer with the text."""
    return text


@server.custom_route("/test/forget", methods=["POST"])
async def forget(request: Request) -> Response:
    """Forget clients and tokens."""
    provider.forget()
    return Response()


@server.custom_route("/test/no-refresh-tokens", methods=["POST"])
async def give_no_refresh_tokens(request: Request) -> Response:
    """Give access tokens alone from now on, as the examples of the SDK do."""
    provider.gives_refresh_tokens = False
    return Response()


@server.custom_route("/test/expire", methods=["POST"])
async def expire(request: Request) -> Response:
    """End all access tokens."""
    provider.access.clear()
    return Response()


@server.custom_route("/test/token/{text}", methods=["GET"])
async def look_up(request: Request) -> Response:
    """Return the scopes of a token."""
    found = provider.access.get(request.path_params["text"])
    return JSONResponse(found and found.scopes, 200 if found else 404)


@server.custom_route("/test/seen", methods=["GET"])
async def tell(request: Request) -> Response:
    """Return what was asked for so far, and forget it."""
    told = [*seen]
    seen.clear()
    return JSONResponse(told)


if __name__ == "__main__":
    sys.stdout.write(f"{issuer}\n")
    sys.stdout.flush()
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])
