"""Clients with faults in authorization: mcpwire's client, which logs in by itself.

::

    @login("C-FLOW-01.a", "url")
    def sends_no_challenge(url): ...

`login` changes one hook of `LoginWire`. A change returns the value that takes the place
of its last argument, or ``None`` to leave it as it is.
"""

import contextvars
import json
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs
import client_mutants
import httpx

import mcpwire
from mcpwire.auth.steps import Fetch
from mcpwire.transports.oauth.fetch import Fetcher

_WIRE = contextvars.ContextVar("wire", default=None)
_fetch_unchanged = Fetcher.fetch


async def _fetch(self, step):
    """Send the request of a login, with the changes of the client that runs."""
    wire = _WIRE.get()
    if wire is None:
        return await _fetch_unchanged(self, step)
    step = _apply(wire.step, step)
    try:
        answer = await _fetch_unchanged(self, step)
    except mcpwire.UrlRefused as error:
        if not wire.follows:
            raise
        answer = await _fetch_unchanged(self, attrs.evolve(step, url=error.url))
    return _apply(wire.answer, step, answer)


Fetcher.fetch = _fetch


def _apply(change, *values):
    changed = None if change is None else change(*values)
    return values[-1] if changed is None else changed


@attrs.define(slots=False)
class LoginWire:
    """Changes of a client that logs in.

    Attributes:
        url: Changes the authorization URL.
        redirect: Changes the redirect, which it gets after the authorization URL.
        step: Changes each `Fetch`.
        answer: Changes each answer, which it gets after its `Fetch`.
        request: Changes each HTTP request to the server.
        response: Changes each HTTP response of the server.
        follows: Whether redirects are followed with the token or the form.
        asks_again: Whether the user is asked until no error comes back.
        repeats: Whether a refused request is repeated until it succeeds.
        uses: How often the client is used, whatever error it raises.
        document: The URL of its client id metadata document.
    """

    url: object = None
    redirect: object = None
    step: object = None
    answer: object = None
    request: object = None
    response: object = None
    follows: bool = False
    asks_again: bool = False
    repeats: bool = False
    uses: int = 1
    document: str | None = None

    async def use(self, where):
        _WIRE.set(self)
        for number in range(self.uses):
            try:
                await self.use_once(where)
            except mcpwire.MCPError:
                if number + 1 == self.uses:
                    raise

    async def use_once(self, where):
        auth = mcpwire.OAuth(
            ask=self.ask,
            storage=mcpwire.MemoryStorage(),
            client_metadata_url=self.document,
        )
        async with httpx.AsyncClient(transport=ChangedHttp(self)) as http_client:
            target = mcpwire.Http(where, auth=auth, http_client=http_client)
            await client_mutants.use_all(target)

    async def ask(self, url):
        async with httpx.AsyncClient(verify=False) as browser:
            page = await browser.get(_apply(self.url, url))
            while self.asks_again and "error=" in page.headers["location"]:
                page = await browser.get(_apply(self.url, url))
        return _apply(self.redirect, url, page.headers["location"])


class ChangedHttp(httpx.AsyncHTTPTransport):
    """The transport of a client that changes HTTP requests and responses."""

    def __init__(self, wire):
        super().__init__(verify=False)  # quick: it reads no certificates
        self.wire = wire

    async def handle_async_request(self, request):
        request = _apply(self.wire.request, request)
        response = await super().handle_async_request(request)
        while self.wire.repeats and "authorization" in request.headers:
            if response.status_code not in {401, 403}:
                break
            await response.aread()
            response = await super().handle_async_request(request)
        if self.wire.follows and response.status_code == 307:
            await response.aclose()
            copy = _copy(request, response.headers["location"])
            return await super().handle_async_request(copy)
        return _apply(self.wire.response, response)


def _copy(request, url, **fields):
    """Return a request for another URL; without its extensions, which hold the URL."""
    headers = {**request.headers, **fields, "host": httpx.URL(url).netloc.decode()}
    return httpx.Request(request.method, url, headers=headers, content=request.content)


@attrs.frozen
class LoginMutant:
    """A change of a client that logs in, and the case that finds it."""

    case: str
    name: str
    changes: dict
    transports: tuple[str, ...] = ("http",)
    use: object = None

    def make(self):
        async def client(where):
            # A class makes one change for each client.
            changes = {
                hook: change() if isinstance(change, type) else change
                for hook, change in self.changes.items()
            }
            await LoginWire(**changes).use(where)

        return client


def mutant(case, name, **changes):
    client_mutants.MUTANTS.append(LoginMutant(case, f"{case} {name}", changes))


def login(case, hook, **changes):
    def add(change):
        mutant(case, change.__name__, **{hook: change}, **changes)
        return change

    return add


async def log_in_and_use(where):
    """Be a correct client."""
    await LoginWire().use(where)


# --- changes --------------------------------------------------------------------------


def query(**members):
    """Return a change of a URL's query; ``None`` omits a parameter."""

    def change(*urls):
        base, _, text = urls[-1].partition("?")
        fields = {**dict(parse_qsl(text)), **members}
        return f"{base}?{urlencode({k: v for k, v in fields.items() if v is not None})}"

    return change


def form(grant="", **members):
    """Return a change of the forms of token requests; ``None`` omits a member."""

    def change(step):
        if step.form is None or grant not in dict(step.form)["grant_type"]:
            return None
        fields = {**dict(step.form), **members}
        kept = {k: v for k, v in fields.items() if v is not None}
        return attrs.evolve(step, form=tuple(kept.items()))

    return change


def registration(**members):
    """Return a change of the registration; ``None`` omits a member."""

    def change(step):
        if step.document is None:
            return None
        fields = {**step.document, **members}
        kept = {k: v for k, v in fields.items() if v is not None}
        return attrs.evolve(step, document=kept)

    return change


def document(**members):
    """Return a change of each JSON document that has one of the members."""

    def change(step, answer):
        try:
            fields = json.loads(answer.body)
        except ValueError:
            return None
        if not fields.keys() & members.keys():
            return None
        changed = {
            k: v(fields, step) if callable(v) else v
            for k, v in members.items()
            if k in fields
        }
        body = json.dumps({**fields, **changed}).encode()
        return attrs.evolve(answer, body=body)

    return change


def drop(path):
    """Return a change that finds nothing at a path."""

    def change(step, answer):
        found = urlsplit(step.url).path == path
        return attrs.evolve(answer, status=404, body=b"") if found else None

    return change


def _skip(path):
    """Return a change that sends nothing to a path."""

    def change(step):
        url = getattr(step, "url", "")
        is_path = urlsplit(url).path == path
        return attrs.evolve(step, url=f"{url}-unknown") if is_path else None

    return change


def _own(name, path=""):
    """Return a function that returns the own URL in place of a foreign one."""

    def change(fields, step):
        url = urlsplit(step.url)
        own = f"{url.scheme}://{url.netloc}{path}"
        return own if ".example.com" in fields[name] else fields[name]

    return change


# --- discovery ------------------------------------------------------------------------

WELL_KNOWN = "/.well-known/oauth-protected-resource"
METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

for _case, _path in (
    ("C-AUTH-08.a", "/metadata/of-mcp"),
    ("C-AUTH-07.a", WELL_KNOWN),
    ("C-ASM-03.a", f"/tenant{OPENID}"),
    ("C-ASM-04.a", OPENID),
):
    mutant(_case, f"does_not_know_{_path}", answer=drop(_path))
mutant(
    "C-AUTH-09.a",
    "accepts_each_resource",
    answer=document(resource=_own("resource", "/mcp")),
)
mutant("C-ASM-05.a", "accepts_each_issuer", answer=document(issuer=_own("issuer")))


@login("C-ASM-07.a", "answer")
def assumes_pkce(step, answer):
    if METADATA in step.url and answer.status == 200:
        fields = {"code_challenge_methods_supported": ["S256"]}
        body = json.dumps(json.loads(answer.body) | fields).encode()
        return attrs.evolve(answer, body=body)
    return None


@login("C-G30.a", "response")
def reads_only_the_first_challenge(response):
    if response.headers.get("www-authenticate", "").startswith("Basic"):
        response.headers["www-authenticate"] = "Basic"


@login("C-AUTH-12.a", "answer")
class NeedsResourceMetadata:
    is_missing = False

    def __call__(self, step, answer):
        self.is_missing |= WELL_KNOWN in step.url and answer.status == 404
        return drop(METADATA)(step, answer) if self.is_missing else None


for _path in ("/register", "/token"):
    mutant("C-AUTH-12.b", f"does_not_know_{_path}", step=_skip(_path))


# --- registration ---------------------------------------------------------------------

mutant("C-REG-08.a", "names_no_type", step=registration(application_type=None))
mutant("C-REG-13.a", "registers_no_refresh", step=registration(grant_types=None))
mutant("C-REG-14.a", "sends_a_secret", step=form(client_secret="secret"))
mutant("C-REG-14.b", "sends_no_secret", step=form(client_secret=None))


@login("C-REG-14.c", "step")
def sends_no_basic(step):
    return None if step.form is None else attrs.evolve(step, headers=())


mutant("C-REG-03.a", "client_id_is_http", url=query(client_id="http://example.com/a"))


DOCUMENT = "https://example.com/client"


@login("C-REG-01.a", "answer", document=DOCUMENT)
def registers_if_it_can(step, answer):
    if b'"registration_endpoint"' in answer.body:
        return document(client_id_metadata_document_supported=False)(step, answer)
    return None


@login("C-REG-10.a", "step")
class KeepsFirstClientId:
    client_id = None

    def __call__(self, step):
        if step.form is None:
            return None
        self.client_id = self.client_id or dict(step.form).get("client_id")
        return form(client_id=self.client_id)(step)


# --- the authorization request and its response ---------------------------------------


def repair(**members):
    """Return a change of the redirect, to what the client waits for."""

    def change(url, location):
        sent = dict(parse_qsl(urlsplit(url).query))
        return query(**{k: sent.get(v, v) for k, v in members.items()})(location)

    return change


def _accept_issuer(is_accepted):
    """Return a change of the redirect: an accepted `iss` becomes the correct one."""

    def change(url, location):
        parts = urlsplit(url)
        issuer = f"{parts.scheme}://{parts.netloc}"
        given = dict(parse_qsl(urlsplit(location).query)).get("iss")
        return query(iss=issuer)(location) if is_accepted(given, issuer) else None

    return change


mutant("C-FLOW-01.a", "sends_no_challenge", url=query(code_challenge=None))
mutant("C-FLOW-01.a", "sends_another_verifier", step=form("code", code_verifier="a"))
mutant("C-FLOW-01.b", "uses_plain", url=query(code_challenge_method="plain"))
mutant("C-FLOW-02.a", "no_resource_in_url", url=query(resource=None))
mutant("C-FLOW-02.a", "no_resource_in_form", step=form(resource=None))
mutant("C-FLOW-02.b", "no_resource_in_refresh", step=form("refresh", resource=None))
mutant("C-FLOW-09.a", "no_state", url=query(state=None), redirect=repair(state="state"))
mutant("C-FLOW-09.b", "accepts_each_state", redirect=repair(state="state"))
mutant("C-FLOW-10.a", "redirect_is_http", url=query(redirect_uri="http://example.com"))
mutant("C-FLOW-10.b", "other_redirect", step=form(redirect_uri="http://127.0.0.1:1"))
for _case, _name, _is_accepted in (
    ("C-FLOW-05.a", "accepts_another", lambda iss, ours: iss and iss[:-1] != ours),
    ("C-FLOW-05.b", "accepts_none", lambda iss, _: iss is None),
    ("C-FLOW-06.a", "ignores_a_slash", lambda iss, ours: iss == f"{ours}/"),
):
    mutant(_case, f"{_name}_iss", redirect=_accept_issuer(_is_accepted))
mutant(
    "C-G31.a",
    "ignores_the_error",
    redirect=lambda _, location: (
        query(error=None, code="none")(location) if "error=" in location else None
    ),
)
mutant("C-G31.a", "asks_again_and_again", asks_again=True)


# --- scopes ---------------------------------------------------------------------------

for _case, _scope in (
    ("C-FLOW-13.a", "check:read check:write"),
    ("C-FLOW-13.b", None),
    ("C-FLOW-13.c", "check:admin"),
    ("C-FLOW-17.a", "check:read"),
):
    mutant(_case, f"requests_{_scope}", url=query(scope=_scope))


@login("C-FLOW-18.a", "url")
def requests_only_the_missing_scope(url):
    return query(scope="check:write")(url) if "check%3Awrite" in url else None


mutant("C-FLOW-19.a", "never_gives_up", uses=5)
mutant("C-F38.a", "never_gives_up", uses=5)
mutant("C-FLOW-19.a", "repeats_with_the_same_token", repeats=True)
mutant("C-F38.a", "repeats_with_the_same_token", repeats=True)


# --- tokens ---------------------------------------------------------------------------


@login("C-FLOW-20.a", "request")
class SendsTokenOnce:
    sent = False

    def __call__(self, request):
        if self.sent:
            del request.headers["authorization"]
        self.sent = "authorization" in request.headers


@login("C-FLOW-20.b", "request")
def token_in_query(request):
    token = request.headers.get("authorization", "").partition(" ")[2]
    return _copy(request, f"{request.url}?access_token={token}") if token else None


@login("C-F38.b", "answer")
def knows_only_the_usual_type(step, answer):
    if b"bEARER" in answer.body:
        return attrs.evolve(answer, body=b"{}")
    return None


@login("C-F38.c", "answer")
def takes_undefined(step, answer):
    if isinstance(step, Fetch) and b"token_type" in answer.body:
        body = json.dumps({"access_token": "undefined", **json.loads(answer.body)})
        return attrs.evolve(answer, body=body.encode())
    return None


@login("C-F38.d", "step", uses=2)
class RepeatsCode:
    code = None

    def __call__(self, step):
        if step.form is None:
            return None
        self.code = self.code or dict(step.form)["code"]
        return form(code=self.code)(step)


def _hide_refusal(fields, _):
    is_refusal = fields["error"] == "invalid_grant"
    return "server_error" if is_refusal else fields["error"]


mutant("C-G32.a", "ignores_refresh_tokens", answer=document(refresh_token=None))
mutant("C-G32.b", "keeps_refused_refresh", answer=document(error=_hide_refusal))
mutant("C-S02.b", "follows_redirects", follows=True)
mutant("C-S02.c", "follows_redirects", follows=True)
