"""Drives an authorization without any I/O: a clock, a store, and scripted answers.

::

    world = World()                        # nothing stored, a well-known server
    obtained = world.obtain(OAuth())
    world.urls                             # the URL of each request

Several operations can share one store: each is an `Actor`, whose `step()` performs its
next step.
"""

import json
from itertools import count
from urllib.parse import parse_qs, urlsplit

import attrs

from mcpwire.auth import steps
from mcpwire.auth.discovery import Denial
from mcpwire.auth.flow import TokenRequest, finish_pending, log_in, obtain_token
from mcpwire.auth.records import (
    Identity,
    Record,
    ServerMetadata,
    Tokens,
    dump,
    load,
    load_pending,
)
from mcpwire.auth.steps import Answer
from mcpwire.wire.urls import parse_url

SERVER = parse_url("https://mcp.example/mcp")
RESOURCE = "https://mcp.example/mcp"
PRM = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
ISSUER = "https://as.example"
EVIL = "https://evil.example"
REDIRECT = "http://127.0.0.1:4711/callback"
NOW = 1_700_000_000.0
STEPS_MAX = 5_000
"""More than any operation takes, waiting for a lease to the end included."""

OAUTH_METADATA = "/.well-known/oauth-authorization-server"


def well_known(issuer):
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{OAUTH_METADATA}{path}"


def document(status=200, **members):
    """Return an answer that holds a JSON object."""
    fields = {"content-type": "application/json"}
    return Answer(status, fields, json.dumps(members).encode())


def refused(error, status=400):
    """Return the error response of a token endpoint."""
    return document(status, error=error, error_description="because of reasons")


def tokens(access="access-2", refresh="refresh-2", **members):
    given = {"access_token": access, "token_type": "Bearer", "expires_in": 3600}
    if refresh is not None:
        given["refresh_token"] = refresh
    return document(**given | members)


def resource_document(*issuers, **members):
    """Return the metadata response of a resource with its authorization servers."""
    named = list(issuers) or [ISSUER]
    return document(**{"resource": RESOURCE, "authorization_servers": named} | members)


def server_document(issuer=ISSUER, /, **members):
    """Return the metadata response of an authorization server with all endpoints."""
    return document(**attrs.asdict(metadata(issuer), filter=is_present) | members)


def is_present(_, value):
    return value is not None and value is not False


def metadata(issuer=ISSUER, **members):
    return ServerMetadata(
        **{
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "revocation_endpoint": f"{issuer}/revoke",
            "code_challenge_methods_supported": ("S256",),
        }
        | members
    )


def registered(client_id="client-1", issuer=ISSUER, **members):
    members = {"redirect_uri": REDIRECT, "auth_method": "none"} | members
    return Identity(client_id, issuer=issuer, kind="registered", **members)


def newly_registered(client_id):
    """Return a client that has registered itself, and asked for no scopes."""
    return registered(client_id, scopes=())


EXPIRED = Tokens("access-1", "Bearer", NOW - 1, "refresh-1", ("a",))
GOOD = attrs.evolve(EXPIRED, expires_at=NOW + 100)


def stored(issuer=ISSUER, **members):
    """Return a record with an expired token that can be refreshed."""
    return Record(
        **{
            "resource": RESOURCE,
            "metadata": metadata(issuer),
            "identity": registered(issuer=issuer),
            "tokens": EXPIRED,
            "asked_scopes": ("a",),
        }
        | members
    )


def denied(status=401, **members):
    """Return the denial of a server that accepts bearer tokens."""
    return Denial(status, **{"has_bearer": True} | members)


def wants_more(*scopes):
    """Return the denial of a server that requires more scopes."""
    return denied(403, error="insufficient_scope", scopes=scopes or None)


STEP_UP = {"denial": wants_more("b"), "refused_token": "access-1"}


def wanted_token(**reasons):
    return TokenRequest(SERVER, **reasons)


class Store:
    """A store for several actors: versions, leases that expire, a pending login."""

    def __init__(self, record=None):
        self.version = 1
        self.data = None if record is None else dump(record)
        self.pending = None
        self.holder = None
        self.held_until = 0.0

    @property
    def record(self):
        return None if self.data is None else load(self.data)

    def put(self, record):
        """Store a record, as another process does."""
        self.version += 1
        self.data = None if record is None else dump(record)


class World:
    """Scripted answers, a clock and a store; the performed steps are in `ledger`.

    Attributes:
        answers: By URL, with or without its query: an answer, an exception, a list of
            those for one request each, or a function of the `Fetch`. Elsewhere there
            is a 404.
        on: By class of step: a function that is called before the step is performed.
        back: The callback parameters beside the state; or an exception.
        ledger: Each step of each actor, in order.
    """

    def __init__(self, record=None, answers=()):
        self.now = NOW
        self.store = Store(record)
        self.ledger = []
        self.on = {}
        self.back = {"code": "code-1"}
        self.supplies = "supplied-1"
        self.port = 4711
        self._drawn = count()
        self._clients = count(1)
        self.answers = {
            PRM: resource_document(),
            well_known(ISSUER): server_document(),
            f"{ISSUER}/register": self._register,
            f"{ISSUER}/token": tokens(),
            f"{ISSUER}/revoke": Answer(200, {}, b""),
        } | dict(answers)

    def _register(self, step):
        return document(
            201,
            client_id=f"new-client-{next(self._clients)}",
            token_endpoint_auth_method="none",
            redirect_uris=step.document["redirect_uris"],
        )

    # The performed steps...

    def of(self, kind):
        return [step for step in self.ledger if type(step) is kind]

    @property
    def kinds(self):
        return [type(step).__name__ for step in self.ledger]

    @property
    def urls(self):
        return [step.url for step in self.of(steps.Fetch)]

    @property
    def posted(self):
        """Return each form that was sent: (URL, its fields)."""
        return [
            (step.url, dict(step.form))
            for step in self.of(steps.Fetch)
            if step.form is not None
        ]

    def token_forms(self, issuer=ISSUER):
        """Return the forms that the token endpoint was sent."""
        return [form for url, form in self.posted if url == f"{issuer}/token"]

    @property
    def sent(self):
        """Return (host, all that was sent) for each request."""
        return [
            (
                urlsplit(step.url).netloc,
                f"{step.url} {step.form} {step.document} {step.headers}",
            )
            for step in self.of(steps.Fetch)
        ]

    @property
    def record(self):
        return self.store.record

    # Running...

    def run(self, operation):
        """Run one operation to its end, alone; return what it returns."""
        actor = Actor(self, operation)
        while not actor.is_over:
            actor.step()
        return actor.result()

    def obtain(self, grant, **reasons):
        return self.run(obtain_token(grant, wanted_token(**reasons)))

    def log_in(self, grant, **reasons):
        return self.run(log_in(grant, wanted_token(**reasons)))

    def finish(self, grant, params):
        return self.run(finish_pending(grant, wanted_token(), params))


class Actor:
    """One operation, with its own view of the store; like `CredentialStore`."""

    def __init__(self, world, operation, name="actor"):
        self.world = world
        self.operation = operation
        self.name = name
        self.is_over = False
        self.steps = 0
        self._version = 0
        self._pending = None
        self._value = self._error = None
        self._outcome = self._thrown = None

    def result(self):
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def error(self):
        return self._error

    def step(self):
        """Perform the next step of the operation, and send its outcome back."""
        self.steps += 1
        assert self.steps <= STEPS_MAX, "the operation does not end"
        try:
            if self._thrown is not None:
                step = self.operation.throw(self._thrown)
            else:
                step = self.operation.send(self._outcome)
        except StopIteration as stop:
            self._value, self.is_over = stop.value, True
        except Exception as error:  # noqa: BLE001 - the test decides
            self._error, self.is_over = error, True
        if self.is_over:
            self._releaselease(None)
            return
        self._outcome = self._thrown = None
        self.world.ledger.append(step)
        try:
            hook = self.world.on.get(type(step))
            if hook is not None:
                hook(step)
            self._outcome = getattr(self, f"_{type(step).__name__.lower()}")(step)
        except Exception as error:  # noqa: BLE001 - as the shells do
            self._thrown = error

    def die(self):
        """End it like a killed process: the lease is not released."""
        self.operation.close()
        self.is_over = True

    # The steps...

    def _fetch(self, step):
        answers = self.world.answers
        to_all = answers.get(step.url.partition("?")[0], Answer(404, {}, b""))
        answer = answers.get(step.url, to_all)
        if isinstance(answer, list):
            answer = answer.pop(0)
        if callable(answer):
            answer = answer(step)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _listen(self, step):
        if step.preferred is not None:
            port = urlsplit(step.preferred).port
            if port == self.world.port:
                return step.preferred
        return f"http://127.0.0.1:{self.world.port}/callback"

    def _authorizeuser(self, step):
        back = self.world.back
        if callable(back):
            back = back(step)
        if isinstance(back, Exception):
            raise back
        return {"state": step.state} | back

    def _callfunction(self, step):
        if isinstance(self.world.supplies, Exception):
            raise self.world.supplies
        return self.world.supplies

    def _readclock(self, step):
        return self.world.now

    def _randombytes(self, step):
        return next(self.world._drawn).to_bytes(step.count, "big")

    def _generatekey(self, step):
        from mcpwire.auth.jwt import generate_proof_key

        return generate_proof_key()

    def _sleep(self, step):
        self.world.now += step.seconds

    def _load(self, step):
        self._version = self.world.store.version
        return self.world.store.record

    def _save(self, step):
        return self._put(dump(step.record))

    def _delete(self, step):
        self.world.store.pending = None
        return self._put(None)

    def _put(self, data):
        store = self.world.store
        if store.version != self._version:
            return False
        store.version += 1
        self._version = store.version
        store.data = data
        return True

    def _savepending(self, step):
        if self.world.store.pending != self._pending:
            return False
        self.world.store.pending = dump(step.pending)
        return True

    def _loadpending(self, step):
        data = self._pending = self.world.store.pending
        pending = None if data is None else load_pending(data)
        if pending is not None and pending.state == step.state:
            self.world.store.pending = None
        return pending

    def _acquirelease(self, step):
        store, now = self.world.store, self.world.now
        if store.holder in {None, self} or store.held_until <= now:
            store.holder, store.held_until = self, now + step.seconds
            return True
        return False

    def _releaselease(self, step):
        if self.world.store.holder is self:
            self.world.store.holder = None


def query_of(url):
    return {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}
