"""Authorization servers that record what they issue, for many operations in any order.

All that a server issues contains its letter, so that its use elsewhere is detected.
"""

from __future__ import annotations

import re
from base64 import b64decode
from itertools import count
from urllib.parse import parse_qs, unquote_plus, urlsplit

from flow_driver import document, refused, server_document, tokens, well_known

from mcpwire.auth.errors import AuthTemporarilyUnavailable, ConsentDenied
from mcpwire.auth.flow import code_challenge
from mcpwire.auth.steps import Answer

MARKED = re.compile(r"\b([A-Z])\.[a-z]+\.[0-9]+\b")
PAGE = Answer(200, {"content-type": "text/html"}, b"<!doctype html>")
NOT_THERE = Answer(404, {}, b"")
BROKEN = Answer(500, {}, b"")


class Authority:
    """A server that rotates refresh tokens, and revokes all tokens when one is reused.

    Attributes:
        answers: How its token endpoint answers: ``"as it should"`` or otherwise.
        gone: Refresh tokens that it has refused.
        origin: By access token: the refresh token it was issued for; ``None``: a code.
        reuses: How many refresh tokens were reused.
    """

    ANSWERS = ("as it should", "no new refresh token", "broken", "a page", "lost")

    def __init__(self, letter, issuer):
        self.letter = letter
        self.issuer = issuer
        self.answers = "as it should"
        self.describes = "itself"
        self.clients = {f"{letter}.given.0"}
        self.live = set()
        self.spent = set()
        self.gone = set()
        self.codes = {}
        self.origin = {}
        self.holders = {}
        self.reuses = self.lost = 0
        self._numbers = count(1)

    def make(self, kind):
        """Return a new value that contains the letter."""
        return f"{self.letter}.{kind}.{next(self._numbers)}"

    @property
    def urls(self):
        """Return its handlers by URL."""
        return {
            well_known(self.issuer): self.describe,
            f"{self.issuer}/register": self.register,
            f"{self.issuer}/token": self.token,
            f"{self.issuer}/revoke": self.revoke,
        }

    def describe(self, step):
        if self.describes == "itself":
            return server_document(self.issuer)
        if self.describes == "another":
            return server_document(self.issuer + "/")
        return {"nothing": NOT_THERE, "a page": PAGE}.get(self.describes, BROKEN)

    def register(self, step):
        client = self.make("client")
        self.clients.add(client)
        return document(201, client_id=client, token_endpoint_auth_method="none")

    def revoke(self, step):
        token = dict(step.form)["token"]
        self.live.discard(token)
        return Answer(200, {}, b"")

    def authorize(self, url, behaviour):
        """Return the callback parameters of a login there."""
        query = {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}
        if behaviour == "denies":
            return {"error": "access_denied"}
        if behaviour == "leaves" or query["client_id"] not in self.clients:
            raise ConsentDenied("nobody came back", error="timeout")
        code = self.make("code")
        self.codes[code] = query["code_challenge"]
        back = {"code": code}
        if behaviour == "comes from another":
            back["iss"] = "https://another.example"
        if behaviour == "comes with another state":
            back["state"] = "other"
        return back

    def token(self, step):
        form = dict(step.form)
        if self.answers == "broken":
            return BROKEN
        if self.answers == "a page":
            return PAGE
        client = self._client(step, form)
        if client not in self.clients:
            return refused("invalid_client", 401)
        if form["grant_type"] == "refresh_token":
            answer = self._refresh(form["refresh_token"], client)
        else:
            challenge = self.codes.pop(form["code"], None)
            if challenge != code_challenge(form["code_verifier"]):
                return refused("invalid_grant")
            answer = self._give(None, client)
        if self.answers == "lost":
            self.lost += 1
            raise AuthTemporarilyUnavailable("no answer came")
        return answer

    @staticmethod
    def _client(step, form):
        header = dict(step.headers).get("authorization")
        if header is None:
            return form["client_id"]
        client, _, _ = b64decode(header.removeprefix("Basic ")).decode().partition(":")
        return unquote_plus(client)

    def _refresh(self, token, client):
        assert self.holders[token] == client, "of another client"
        if token not in self.live:
            self.reuses += token in self.spent
            self.live.clear()
            self.gone.add(token)
            return refused("invalid_grant")
        if self.answers != "no new refresh token":
            self.live.discard(token)
            self.spent.add(token)
        return self._give(token, client)

    def _give(self, origin, client):
        access, refresh = self.make("access"), None
        self.origin[access] = origin
        if self.answers != "no new refresh token" or origin is None:
            refresh = self.make("refresh")
            self.live.add(refresh)
            self.holders[refresh] = client
        return tokens(access, refresh)


def marks(step):
    """Return the letters of all values that a request contains."""
    text = f"{step.url} {step.form} {step.document}"
    for name, value in step.headers:
        if name == "authorization":
            text += unquote_plus(b64decode(value.removeprefix("Basic ")).decode())
        else:
            text += value
    return set(MARKED.findall(text))
