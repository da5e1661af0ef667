"""What the token endpoint of an `authorization_server` does."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

import proofs
from oauth_parts import Family, Refused

if TYPE_CHECKING:
    from oauth_parts import Recorded, Registered

SENTINEL: Final = "SENTINEL"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


class TokenDesk:
    """Answers requests for tokens, by what an `AuthorizationServer` knows."""

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
            client_id = proofs.claims_of(assertion)["sub"]
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
            claims = proofs.verified(assertion, client.key)
            if (claims["iss"], claims["aud"]) != (client_id, self.issuer):
                raise Refused("invalid_client", 401)
        return client

    def _proved(self, request: Recorded) -> str | None:
        """Return the thumbprint of the key that a proof shows, if one is there."""
        proof = request.headers.get("dpop")
        if proof is None or not self.dpop:
            return None
        thumbprint, claims = proofs.read(proof)
        if self.nonce is not None and claims.get("nonce") != self.nonce:
            raise Refused("use_dpop_nonce", **{"dpop-nonce": self.nonce})
        if (claims["htm"], claims["htu"]) != ("POST", self.issuer + "/token"):
            raise Refused("invalid_dpop_proof")
        return thumbprint

    def _from_code(
        self, form: dict[str, str], client: Registered, thumbprint: str | None
    ) -> Any:
        asked, family = self._codes.pop(form["code"], (None, None))
        if asked is None or family.client_id != client.client_id:
            raise Refused("invalid_grant")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (asked["code_challenge"], asked["redirect_uri"]) != (
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
            if spent is not None:  # somebody has stolen it: nobody keeps anything
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
            says = {"access_token": token, "token_type": "DPoP" if bound else "Bearer"}
            if self.refresh:
                if family.refresh is None:
                    family.refresh = f"{self.sentinel}-refresh-{number}"
                    self.families[family.refresh] = family
                says["refresh_token"] = family.refresh
            if self.expires_in is not None:
                says["expires_in"] = self.expires_in
            if family.scopes:
                says["scope"] = " ".join(family.scopes)
            return says


GRANTS: Final = {
    "authorization_code": TokenDesk._from_code,
    "refresh_token": TokenDesk._from_refresh,
    "client_credentials": TokenDesk._from_itself,
    JWT_BEARER: TokenDesk._from_itself,
    TOKEN_EXCHANGE: TokenDesk._exchanged,
}
