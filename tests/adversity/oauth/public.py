"""An MCP server and an authorization server with public host names."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from authorization_server import (
    authorization_server,
    browse,
    json_answer,
    protected_server,
)
from fake_network import LOGIN_ADDRESS, SERVER_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_network import Internet

HOST: Final = "mcp.example"
LOGIN: Final = "login.example"
URL: Final = f"http://{HOST}/mcp"
"""Unencrypted, which a user must allow: it gives an attacker more options."""
ISSUER: Final = f"http://{LOGIN}"
OUTSIDE: Final = {SERVER_ADDRESS, LOGIN_ADDRESS}

NAMES: Final = {
    "a1.example": "127.0.0.1",
    "a2.example": "fd00:ec2::254",
    "a3.example": "::ffff:169.254.169.254",
    "a4.example": "169.254.169.254",
}
"""Host names of an attacker, and the addresses they resolve to."""


def out_there(document: Any, server: Any, auth: Any) -> Any:
    """Return a document with the public names of both servers."""
    text = json.dumps(document)
    text = text.replace(server.raw.origin, f"http://{HOST}")
    # An authorization URL must be https, whatever else is allowed.
    text = text.replace(f"{auth.origin}/authorize", f"https://{LOGIN}/authorize")
    return json.loads(text.replace(auth.origin, ISSUER))


def browse_out_there(url: str) -> str:
    """Open an https URL of a server that has no certificate here."""
    return browse(url.replace(f"https://{LOGIN}/", ISSUER + "/"))


@contextlib.contextmanager
def public_servers(internet: Internet, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Serve both at their own addresses; no other address answers."""
    with authorization_server(**options) as auth, protected_server(auth) as server:
        internet.names |= {HOST: [[SERVER_ADDRESS]], LOGIN: [[LOGIN_ADDRESS]]}
        internet.names |= {name: [[address]] for name, address in NAMES.items()}
        internet.hosts = {SERVER_ADDRESS: server.raw.port, LOGIN_ADDRESS: auth.raw.port}
        usual = server._challenge
        server._challenge = lambda params: usual(params).replace(
            server.raw.origin, f"http://{HOST}"
        )
        server.on_metadata = lambda request: json_answer(
            out_there(server.metadata(), server, auth)
        )
        auth.edit["metadata"] = lambda document: out_there(document, server, auth)
        auth.iss = False  # it would contain its address
        yield server, auth
