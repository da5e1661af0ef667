"""A server that requires access tokens, written with mcpwire's public names.

``--http PORT`` serves it; it prints its tokens as JSON, by kind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from joserfc import jwt
from joserfc.jwk import OctKey

import mcpwire
from mcpwire import Context, JwtVerifier, ResourceServer

ISSUER = "https://login.example.com"
SECRET = b"a secret of 32 bytes or more, for the cases of authorization"
SCOPE = "mcp"

READS = {"annotations": {"readOnlyHint": True}}


def url_of(port: int) -> str:
    """Return the URL of the endpoint."""
    return f"http://127.0.0.1:{port}/mcp"


def make(url: str) -> mcpwire.Server:
    """Return the server."""
    verifier = JwtVerifier(ISSUER, key=SECRET, algorithms=["HS256"])
    server = mcpwire.Server(
        "mcpwire-guarded",
        "1.0",
        auth=ResourceServer(
            url,
            authorization_servers=[ISSUER],
            verifiers=[verifier],
            required_scopes=[SCOPE],
        ),
    )

    @server.tool(**READS)
    def echo(message: str) -> str:
        """Give a text back."""
        return message

    @server.tool(**READS)
    async def slow(seconds: float = 0.2) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)  # the tool takes the requested time
        return "done"

    @server.tool(**READS)
    async def notify(context: Context, steps: int = 3) -> str:
        """Report progress."""
        for step in range(steps):
            context.progress(step + 1, steps)
        return "done"

    return server


def token(url: str, **claims: object) -> str:
    """Return an access token; `claims` replace those of a good one."""
    common = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": url,
        "client_id": "check",
        "scope": SCOPE,
        "iat": int(time.time()),
        "exp": int(time.time()) + 3_600,
    }
    return jwt.encode({"alg": "HS256"}, {**common, **claims}, OctKey.import_key(SECRET))


def tokens(url: str) -> dict[str, str]:
    """Return the tokens by kind."""
    return {
        "good": token(url),
        "other": token(url, sub="bob"),
        "expired": token(url, exp=int(time.time()) - 3_600),
        "audience": token(url, aud="https://elsewhere.example.com/mcp"),
        "issuer": token(url, iss="https://elsewhere.example.com"),
        "scope": token(url, scope="other"),
    }


def main() -> None:
    """Serve over HTTP."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--http", type=int, metavar="PORT", required=True)
    port = parser.parse_args().http
    sys.stdout.write(f"{json.dumps(tokens(url_of(port)))}\n")
    sys.stdout.flush()
    make(url_of(port)).run(http=f"127.0.0.1:{port}")


if __name__ == "__main__":
    main()
