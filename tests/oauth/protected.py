"""MCP servers that require a token of an `authorization_server`."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import token_reader
from http_bytes import json_reply, reply
from legacy_server import LegacyServer
from mcp_server import SERVER_OPTIONS, ScriptedMcp
from raw_server import WAIT_S, Connection, RawRequest, raw_server

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def answer_bytes(answer: tuple[int, dict[str, str], bytes]) -> bytes:
    """Return a response of an answer: its status, fields and body."""
    status, fields, body = answer
    named = {name.replace("-", "_"): text for name, text in fields.items()}
    return reply(status, body, **named)


class Guarded:
    """Passes only requests with a valid token to a server.

    Attributes:
        scopes: The scopes that a challenge names; None: it names none.
        refused: The requests that it answered with 401 or 403.
        needs: The scopes that a JSON-RPC method, or a verb, requires.
        on_metadata: Replaces the resource metadata, as `on` of the other server does.
        resource: The `resource` of its metadata.
        nonce: The nonce that a proof of possession must contain; None: none.
        is_open: Whether no request requires a token.
        free: The JSON-RPC methods, or verbs, that require no token.
    """

    def guard(
        self, auth: Any, scopes: tuple[str, ...] | None = None, *, dpop: bool = False
    ) -> None:
        """Require tokens of that server from now on."""
        self.auth = auth
        self.scopes = scopes
        self.dpop = dpop
        self.refused: list[RawRequest] = []
        self.needs: dict[str, tuple[str, ...]] = {}
        self.on_metadata: Callable[[Any], Any] = lambda request: None
        self.resource: str | None = None
        self.nonce: str | None = None
        self.is_open = False
        self.free: set[str] = set()

    def serve(self, conn: Connection) -> None:
        usual = conn.receive

        def receive(timeout: float | None = WAIT_S) -> RawRequest | None:
            while True:
                request = usual(timeout)
                if request is None or not self._turns_away(request, conn):
                    return request

        conn.receive = receive
        super().serve(conn)

    @property
    def challenges(self) -> int:
        return len(self.refused)

    @property
    def messages(self) -> list[RawRequest]:
        """The requests other than those for metadata."""
        return [
            request
            for request in self.requests
            if "/.well-known/" not in request.target
        ]

    @property
    def bodies(self) -> bytes:
        return b"".join(request.raw for request in self.requests)

    def metadata(self) -> dict[str, Any]:
        document = {
            "resource": self.resource or self.url,
            "authorization_servers": [self.auth.issuer],
        }
        if self.scopes is not None:
            document["scopes_supported"] = list(self.scopes)
        if self.dpop:
            document["dpop_bound_access_tokens_required"] = True
        return document

    def _turns_away(self, request: RawRequest, conn: Connection) -> bool:
        path = request.target.partition("?")[0]
        if "/.well-known/" in path:
            conn.send(self._known(path, request))
            return True
        if self.is_open or self._kind(request) in self.free:
            return False
        complaint = self._complaint(request)
        if complaint is None:
            return False
        status, params = complaint
        self.refused.append(request)
        fields = {} if self.nonce is None else {"dpop_nonce": self.nonce}
        conn.send(reply(status, www_authenticate=self._challenge(params), **fields))
        return True

    def _known(self, path: str, request: RawRequest) -> bytes:
        replaced = self.on_metadata(request)
        if replaced is not None:
            return answer_bytes(replaced)
        if path in {WELL_KNOWN, WELL_KNOWN + self.raw.path}:
            return json_reply(self.metadata())
        return reply(404)

    def _complaint(self, request: RawRequest) -> tuple[int, dict[str, str]] | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token:
            return 401, self._named(self.scopes)
        granted = self.auth.live.get(token)
        thumbprint = self.auth.bound.get(token)
        expected = "bearer" if thumbprint is None else "dpop"
        if (
            granted is None
            or scheme.lower() != expected
            or (self.dpop > bool(thumbprint))
        ):
            return 401, {"error": "invalid_token", **self._named(self.scopes)}
        if thumbprint is not None:
            error = self._disproved(request, token, thumbprint)
            if error is not None:
                return 401, {"error": error}
        needed = self.needs.get(self._kind(request), ())
        if not {*needed} <= {*granted}:
            return 403, {"error": "insufficient_scope", **self._named(needed)}
        return None

    def _disproved(self, request: RawRequest, token: str, owner: str) -> str | None:
        proof = request.headers.get("dpop")
        if proof is None:
            return "invalid_dpop_proof"
        thumbprint, claims = token_reader.read(proof)
        url = self.raw.origin + request.target.partition("?")[0]
        if self.nonce is not None and claims.get("nonce") != self.nonce:
            return "use_dpop_nonce"
        right = (owner, request.verb, url, token_reader.token_hash(token))
        shown = (thumbprint, claims["htm"], claims["htu"], claims.get("ath"))
        return None if shown == right else "invalid_dpop_proof"

    @staticmethod
    def _kind(request: RawRequest) -> str:
        return (request.method if request.verb == "POST" else request.verb) or ""

    @staticmethod
    def _named(scopes: tuple[str, ...] | None) -> dict[str, str]:
        return {"scope": " ".join(scopes)} if scopes else {}

    def _challenge(self, params: dict[str, str]) -> str:
        known = self.raw.origin + WELL_KNOWN + self.raw.path
        params = {"resource_metadata": known, **params}
        text = ", ".join(
            f"{name}={json.dumps(value)}" for name, value in params.items()
        )
        return f"DPoP {text}" if self.dpop else f"Bearer {text}"


class ProtectedMcp(Guarded, ScriptedMcp):
    """Streamable HTTP, both eras."""


class ProtectedLegacy(Guarded, LegacyServer):
    """HTTP+SSE."""


@contextlib.contextmanager
def protected_server(
    auth: Any,
    scopes: tuple[str, ...] | None = None,
    era: str = "session",
    **options: Any,
) -> Iterator[ProtectedMcp]:
    """Serve a `ScriptedMcp` that requires tokens; `dpop`: with proofs."""
    of_raw = {name: options.pop(name) for name in SERVER_OPTIONS if name in options}
    dpop = options.pop("dpop", False)
    server = ProtectedMcp(era, **options)
    server.guard(auth, scopes, dpop=dpop)
    with raw_server(server.serve, starts=server.take, **of_raw):
        yield server
    assert not server.complaints, "\n".join(server.complaints)


@contextlib.contextmanager
def protected_legacy(
    auth: Any, scopes: tuple[str, ...] | None = None, **options: Any
) -> Iterator[ProtectedLegacy]:
    server = ProtectedLegacy(**options)
    server.guard(auth, scopes)
    with raw_server(server.serve, starts=server.take, path="/sse"):
        yield server
