"""Operations, server behaviour, users and concurrent changes, in any order.

Secrets stay with their issuer, each operation ends, and a refresh token is dropped
only by ``invalid_grant``, a new login or a logout.
"""

import re
from base64 import b64decode
from itertools import count
from urllib.parse import parse_qs, unquote_plus, urlsplit

import attrs
import pytest
import unmeasured
from flow_driver import (
    PRM,
    RESOURCE,
    SERVER,
    Actor,
    World,
    denied,
    document,
    refused,
    resource_document,
    server_document,
    tokens,
    wanted_token,
    wants_more,
    well_known,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthRequired, AuthTemporarilyUnavailable, ConsentDenied
from mcpwire.auth.flow import code_challenge, finish_pending, obtain_token, revoke_login
from mcpwire.auth.steps import Answer
from mcpwire.errors import AuthError

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


A, B, C = "https://as.example", "https://evil.example", "https://as.example/c"
GRANTS = (
    OAuth(),
    OAuth(interactive=False),
    OAuth(issuer=A),
    OAuth(client_id="A.given.0", client_secret="A.secret.0", issuer=A),
)
RESOURCES = {
    "one": resource_document(A),
    "another": resource_document(B),
    "one like it": resource_document(C),
    "both": resource_document(B, A),
    "for all": resource_document(A, resource=RESOURCE.removesuffix("/mcp")),
    "nobody": NOT_THERE,
    "a page": PAGE,
    "broken": BROKEN,
}
BEHAVIOURS = (
    *("agrees", "denies", "leaves", "comes from another", "comes with another state"),
)
CHANGES = (
    [("resource", named) for named in RESOURCES]
    + [("describes", how) for how in ("another", "nothing", "a page", "broken")]
    + [("answers", how) for how in Authority.ANSWERS] * 2
    + [("forgets", what) for what in ("clients", "live")] * 4
    + [("behaviour", what) for what in BEHAVIOURS]
    + [("port", number) for number in (4711, 5005)] * 4
)
REASONS = ("a token", "a better one", "a better one", "a login", "more scopes")
ALL = 10_000
ACTORS = 3
TOUCHES = 4
"""Fewer than the conflicts after which an operation gives up."""


class CheckedActor(Actor):
    """An operation whose steps are all checked."""

    def __init__(self, world, operation, *, may_forget=False, may_ask=True):
        super().__init__(world, operation)
        self.may_forget = may_forget
        self.may_ask = may_ask
        self.count = {}

    def _fetch(self, step):
        owner = self.world.owner(step.url)
        held = marks(step)
        assert held <= {owner}, f"{held} went to {step.url}"
        if step.form is not None and step.url.endswith("/token"):
            self._note("token requests", 3)
        if step.document is not None:
            self._note("registrations", 1)
        return super()._fetch(step)

    def _authorizeuser(self, step):
        assert self.may_ask
        assert self.world.store.holder is not self, "asked with a lease"
        self._note("questions", 1)
        return super()._authorizeuser(step)

    def _note(self, what, most):
        self.count[what] = self.count.get(what, 0) + 1
        assert self.count[what] <= most, what

    def _acquirelease(self, step):
        store = self.world.store
        is_taken = store.holder not in {None, self}
        has_it = super()._acquirelease(step)
        self.world.takeovers += is_taken and has_it
        return has_it

    def _put(self, data):
        before = self.world.store.record
        done = super()._put(data)
        if done and before is not None and not self.may_forget:
            self._check_kept(before, self.world.store.record)
        return done

    def _check_kept(self, before, after):
        had = before.tokens.refresh_token if before.tokens is not None else None
        fresh = after.tokens if after is not None else None
        if had is None or (fresh is not None and fresh.refresh_token == had):
            return
        authorities = self.world.authorities.values()
        if fresh is None:
            assert any(had in each.gone for each in authorities), "lost"
            return
        [maker] = [each for each in authorities if fresh.access_token in each.origin]
        assert maker.origin[fresh.access_token] in {None, had}


class Crowd(World):
    """Several authorization servers, one of them at the server itself."""

    def __init__(self):
        super().__init__()
        self.authorities = {
            letter: Authority(letter, issuer)
            for letter, issuer in zip("ABCO", (A, B, C, SERVER.origin), strict=True)
        }
        self.behaviour = "agrees"
        self.takeovers = 0
        self.answers = {PRM: resource_document(A)}
        for authority in self.authorities.values():
            self.answers |= authority.urls
        self.back = self.authorize

    def owner(self, url):
        """Return the letter of the server of a URL; the longest issuer counts."""
        found = [
            each for each in self.authorities.values() if url.startswith(each.issuer)
        ]
        if not found or "oauth-protected-resource" in url:
            return None
        return max(found, key=lambda each: len(each.issuer)).letter

    def authorize(self, step):
        return self.authorities[self.owner(step.url)].authorize(
            step.url, self.behaviour
        )


class Logins(RuleBasedStateMachine):
    """One store, a few concurrent operations, and servers that change."""

    def __init__(self):
        super().__init__()
        unmeasured.example()
        self.world = Crowd()
        self.actors = []
        self.url = None
        self.touches = 0

    @initialize(grant=st.sampled_from(GRANTS))
    def somebody_has_logged_in(self, grant):
        self.begin(obtain_token(attrs.evolve(grant, interactive=True), wanted_token()))
        self.actors_go_on(0, ALL)
        assert self.world.record.tokens is not None

    # The world changes...

    @rule(letter=st.sampled_from("AAAAABCO"), change=st.sampled_from(CHANGES))
    def something_is_different(self, letter, change):
        what, value = change
        authority = self.world.authorities[letter]
        if what == "resource":
            self.world.answers[PRM] = RESOURCES[value]
        elif what == "forgets":
            getattr(authority, value).clear()
        elif what in {"behaviour", "port"}:
            setattr(self.world, what, value)
        else:
            setattr(authority, what, value)

    @rule()
    def all_is_well_again(self):
        self.world.answers[PRM] = RESOURCES["one"]
        self.world.behaviour = "agrees"
        for authority in self.world.authorities.values():
            authority.answers, authority.describes = "as it should", "itself"

    @rule(seconds=st.sampled_from([4_000.0, 20.0, 40.0]))
    def time_passes(self, seconds):
        self.world.now += seconds

    @precondition(lambda self: self.touches < TOUCHES)
    @rule()
    def somebody_stores_the_same_again(self):
        """Just before the next save."""
        self.touches += 1
        self.world.on[steps.Save] = self.touch

    def touch(self, step):
        del self.world.on[steps.Save]
        self.world.store.version += 1

    # Operations...

    def begin(self, operation, **options):
        self.actors = [actor for actor in self.actors if not actor.is_over]
        while len(self.actors) >= ACTORS:
            self.actors_go_on(0, ALL)
            self.actors = [actor for actor in self.actors if not actor.is_over]
        self.actors.append(CheckedActor(self.world, operation, **options))

    @rule(
        grant=st.sampled_from(GRANTS),
        reason=st.sampled_from(REASONS),
        is_unattended=st.sampled_from([False, False, True]),
        count=st.sampled_from([ALL, ALL, 7, 9, 11, 13, 20]),
    )
    def somebody_wants(self, grant, reason, is_unattended, count):
        record = self.world.record
        had = record.tokens if record is not None else None
        reasons = {"is_unattended": is_unattended}
        if reason != "a token" and had is not None:
            reasons |= {"refused_token": had.access_token, "denial": denied()}
            reasons["must_log_in"] = reason == "a login"
        if reason == "more scopes":
            reasons["denial"] = wants_more("b")
        may_ask = grant.interactive and not is_unattended
        self.begin(obtain_token(grant, wanted_token(**reasons)), may_ask=may_ask)
        self.actors_go_on(-1, count)

    @precondition(lambda self: self.url is not None)
    @rule(is_ours=st.booleans())
    def a_login_is_finished(self, is_ours):
        authority = self.world.authorities[self.world.owner(self.url)]
        try:
            params = authority.authorize(self.url, "agrees")
        except ConsentDenied:
            return
        state = self.url.partition("state=")[2].partition("&")[0]
        params["state"] = state if is_ours else "other"
        self.begin(finish_pending(GRANTS[1], wanted_token(), params), may_ask=False)
        self.actors_go_on(-1, ALL)

    @precondition(lambda self: self.touches)
    @rule()
    def somebody_logs_out(self):
        self.begin(revoke_login(wanted_token()), may_forget=True, may_ask=False)
        self.actors_go_on(-1, 3)

    @precondition(lambda self: self.actors)
    @rule(
        which=st.integers(0, ACTORS - 1),
        count=st.sampled_from([1, 2, 3, 5, 8, 30, ALL]),
    )
    def actors_go_on(self, which, count):
        actor = self.actors[which % len(self.actors)]
        for _ in range(count):
            if actor.is_over:
                break
            actor.step()
        if isinstance(actor.error, AssertionError):
            raise actor.error
        if isinstance(actor.error, AuthRequired) and actor.error.url:
            self.url = actor.error.url

    @precondition(lambda self: self.actors)
    @rule(which=st.integers(0, ACTORS - 1))
    def a_process_is_killed(self, which):
        self.actors.pop(which % len(self.actors)).die()

    # What always holds...

    @invariant()
    def errors_are_ours_and_show_no_secret(self):
        for actor in self.actors:
            if actor.error is not None:
                assert isinstance(actor.error, AuthError), repr(actor.error)
                text = f"{actor.error} {actor.error!r} {actor.error.args}"
                assert not [kind for kind in SECRET if kind in text]

    @invariant()
    def what_is_stored_is_of_one_issuer(self):
        record = self.world.record
        assert (record is None) == (self.world.store.data is None)
        if record is not None:
            assert record.metadata.issuer == record.issuer == record.identity.issuer

    @invariant()
    def no_refresh_token_is_sent_twice(self):
        """Except after a lease was taken over, or a response was lost."""
        authorities = self.world.authorities.values()
        if not self.world.takeovers and not any(each.lost for each in authorities):
            assert not any(each.reuses for each in authorities)

    def teardown(self):
        while any(not actor.is_over for actor in self.actors):
            for which in range(len(self.actors)):
                self.actors_go_on(which, 7)
        self.errors_are_ours_and_show_no_secret()
        self.what_is_stored_is_of_one_issuer()


SECRET = (".access.", ".refresh.", ".secret.", ".code.")


@pytest.mark.attack("S01", "S24")
@pytest.mark.pain("P32", "P33")
@pytest.mark.rule("REG-10", "AUTH-11", "FLOW-21")
def test_any_order_of_operations_and_changes():
    run_state_machine_as_test(
        Logins, settings=settings(stateful_step_count=40, report_multiple_bugs=False)
    )
