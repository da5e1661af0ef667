"""A server and an authorization server that are out in the world, by name."""

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
from net import LOGIN_ADDRESS, SERVER_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from net import Internet

HOST: Final = "mcp.example"
LOGIN: Final = "login.example"
URL: Final = f"http://{HOST}/mcp"
"""Unencrypted, which a user must allow: then less stands in an attacker's way."""
ISSUER: Final = f"http://{LOGIN}"
OUTSIDE: Final = {SERVER_ADDRESS, LOGIN_ADDRESS}

ADDRESSES: Final = (
    "127.0.0.1",
    "127.8.8.8",
    "::1",
    "::ffff:127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "fd00:ec2::254",
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "fe80::1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "192.0.2.1",
    "255.255.255.255",
)
SPELLINGS: Final = (
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "10.1",
    "0xa000001",
    "2852039166",
    "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[0000::1]",
    "[fe80::1%25eth0]",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
    "x@127.0.0.1",
    "login.example@127.0.0.1",
    "²130706433",
)
LITERALS: Final = (
    *(f"[{each}]" if ":" in each else each for each in ADDRESSES),
    *SPELLINGS,
)
NAMES: Final = {
    f"a{number}.example": address
    for number, address in enumerate(
        (
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "fd00:ec2::254",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
        )
    )
}
"""Names of an attacker's, and where they lead."""


def out_there(document: Any, server: Any, auth: Any) -> Any:
    """Return a document with the public names of both in it."""
    text = json.dumps(document)
    text = text.replace(server.raw.origin, f"http://{HOST}")
    # A user is sent nowhere by http, whatever is allowed.
    text = text.replace(f"{auth.origin}/authorize", f"https://{LOGIN}/authorize")
    return json.loads(text.replace(auth.origin, ISSUER))


def browse_out_there(url: str) -> str:
    """Browse at a server that has no certificate here."""
    return browse(url.replace(f"https://{LOGIN}/", ISSUER + "/"))


@contextlib.contextmanager
def public_servers(internet: Internet, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Serve both at addresses of their own; nobody else answers anywhere."""
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
        auth.iss = False  # it would say its address
        yield server, auth
