"""Interactive logins: registration, scopes, redirect URIs, and what is stored."""

from contextlib import suppress

import attrs
import pytest
from flow_driver import (
    EVIL,
    EXPIRED,
    GOOD,
    ISSUER,
    NOW,
    PRM,
    REDIRECT,
    RESOURCE,
    STEP_UP,
    Actor,
    World,
    denied,
    metadata,
    newly_registered,
    query_of,
    refused,
    registered,
    resource_document,
    server_document,
    stored,
    tokens,
    wanted_token,
    wants_more,
    well_known,
)

from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    DiscoveryError,
    InsufficientScope,
    RegistrationError,
    ResponseRefused,
    TokenError,
)
from mcpwire.auth.flow import (
    MAX_SAVES,
    PENDING_LOGIN_S,
    code_challenge,
    log_in,
    obtain_token,
)
from mcpwire.auth.jwt import generate_proof_key
from mcpwire.auth.records import Identity, Record, Tokens
from mcpwire.auth.steps import (
    Answer,
    AuthorizeUser,
    Delete,
    Fetch,
    GenerateKey,
    Listen,
    LoadPending,
    ReadClock,
    Save,
    SavePending,
)

OAUTH = OAuth()
AUTHORIZE = f"{ISSUER}/authorize"
TOKEN = f"{ISSUER}/token"
REGISTER = f"{ISSUER}/register"
TIMEOUT = ConsentDenied("nobody came back", error="timeout")
DENIED = ConsentDenied("no", error="access_denied")


@pytest.mark.rule("FLOW-01", "FLOW-02", "REG-15")
def test_a_first_login_registers_and_stores_the_record():
    world = World()
    obtained = world.obtain(OAUTH, denial=denied())
    record = Record(
        RESOURCE,
        metadata(),
        newly_registered("new-client-1"),
        Tokens("access-2", "Bearer", NOW + 3600, "refresh-2"),
    )
    assert obtained == (record, "logged-in")
    assert world.record == record
    assert world.urls == [PRM, well_known(ISSUER), REGISTER, TOKEN]


@pytest.mark.rule("FLOW-01", "FLOW-02")
def test_a_login_sends_challenge_and_verifier():
    world = World()
    world.obtain(OAUTH, denial=denied(scopes=("a", "b")))
    [step] = world.of(AuthorizeUser)
    [form] = world.token_forms()
    query = query_of(step.url)
    assert query["client_id"] == "new-client-1"
    assert query["state"] == step.state
    assert query["code_challenge"] == code_challenge(form["code_verifier"])
    assert form == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "code_verifier": form["code_verifier"],
        "redirect_uri": REDIRECT,
        "resource": RESOURCE,
        "client_id": "new-client-1",
    }
    assert step.state != form["code_verifier"]
    assert (step.redirect_uri, step.scopes) == (REDIRECT, ("a", "b"))


@pytest.mark.rule("ASM-07")
def test_missing_pkce_support_is_refused_before_registration():
    world = World()
    world.answers[well_known(ISSUER)] = server_document(
        code_challenge_methods_supported=None
    )
    with pytest.raises(DiscoveryError):
        world.obtain(OAUTH)
    assert world.urls == [PRM, well_known(ISSUER)]


# --- failures ---------------------------------------------------------------------

UNHAPPY = {
    "denied": (DENIED, ConsentDenied),
    "nobody came": (TIMEOUT, ConsentDenied),
    "an error": ({"error": "access_denied"}, ConsentDenied),
    "another state": ({"state": "other", "code": "c"}, ResponseRefused),
    "another issuer": ({"iss": "https://evil.example", "code": "c"}, ResponseRefused),
    "no code": ({}, ResponseRefused),
}


@pytest.mark.fault("F39")
@pytest.mark.parametrize(("back", "error"), UNHAPPY.values(), ids=UNHAPPY)
def test_a_failed_login_keeps_the_stored_tokens(back, error):
    world = World(stored(tokens=GOOD))
    world.back = back
    with pytest.raises(error):
        world.obtain(OAUTH, **STEP_UP)
    assert world.record == stored(tokens=GOOD)
    assert world.token_forms() == []


@pytest.mark.fault("F39")
@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("gives_up", [DENIED, TIMEOUT], ids=["denied", "timeout"])
def test_a_registration_is_stored_before_the_browser_opens(gives_up):
    world = World()
    world.back = gives_up
    with pytest.raises(ConsentDenied):
        world.obtain(OAUTH)
    assert world.record == Record(
        RESOURCE, metadata(), newly_registered("new-client-1")
    )
    world.back = {"code": "code-1"}
    obtained = world.obtain(OAUTH)
    assert obtained.record.identity == newly_registered("new-client-1")
    assert world.urls.count(REGISTER) == 1


OUTDATED = {
    "forgotten": (400, {}),
    "of another port": (200, {"redirect_uri": "http://127.0.0.1:9/callback"}),
    "with fewer scopes": (200, {"scopes": ("a",)}),
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize(("status", "members"), OUTDATED.values(), ids=OUTDATED)
def test_an_aborted_login_without_tokens_keeps_its_new_registration(status, members):
    pages = {"client-1": Answer(status, {}, b"who?")}
    page = Answer(200, {}, b"<p>Log in")
    world = World(
        stored(tokens=None, identity=registered(**members)),
        {AUTHORIZE: lambda step: pages.get(query_of(step.url)["client_id"], page)},
    )
    world.back = DENIED
    for _ in range(3):
        with pytest.raises(ConsentDenied):
            world.obtain(OAuth(scopes="a b"))
    assert world.urls.count(REGISTER) == 1
    assert world.record.identity.client_id == "new-client-1"


@pytest.mark.parametrize("before", [None, stored(tokens=None)])
def test_first_logins_begun_at_the_same_time_have_one_url(before):
    world = World(before)
    grant = OAuth(redirect_uri="https://app.example/callback")
    begun = [Actor(world, obtain_token(grant, wanted_token())) for _ in range(3)]
    while not all(actor.is_over for actor in begun):
        for actor in begun:
            if not actor.is_over:
                actor.step()
    [url] = {actor.error.url for actor in begun}
    response = {"state": query_of(url)["state"], "code": "code-1"}
    record = world.finish(grant, response)
    assert record.identity.client_id == query_of(url)["client_id"]
    assert world.record == record


NARROW = {
    "beside tokens": stored(tokens=GOOD, registered=registered("client-2")),
    "with tokens": stored(tokens=GOOD),
    "without tokens": stored(tokens=None),
    "nothing": None,
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("before", NARROW.values(), ids=NARROW)
def test_invalid_scope_leads_to_a_new_registration_next_time(before):
    world = World(before)
    world.back = {"error": "invalid_scope"}
    request = wanted_token(**STEP_UP)
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.run(log_in(OAUTH, request))
    assert world.urls.count(REGISTER) == (before is None)  # not during this login
    assert world.record.tokens == (before and before.tokens)
    world.back = {"code": "code-1"}
    record = world.run(log_in(OAUTH, request))
    assert world.urls.count(REGISTER) == 1 + (before is None)
    assert record.identity.client_id.startswith("new-client-")
    assert {"b"} <= {*record.identity.scopes}


CHANGED = {
    "forgotten": None,
    "of another client": stored(identity=registered("theirs")),
}


@pytest.mark.parametrize("theirs", CHANGED.values(), ids=CHANGED)
def test_invalid_scope_keeps_a_concurrently_stored_record(theirs):
    world = World(stored(tokens=GOOD))
    world.back = {"error": "invalid_scope"}
    world.on[AuthorizeUser] = lambda step: world.store.put(theirs)
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.log_in(OAUTH, **STEP_UP)
    assert world.record == theirs


def test_invalid_scope_keeps_a_configured_client():
    world = World()
    world.back = {"error": "invalid_scope"}
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.log_in(OAuth(client_id="given", issuer=ISSUER))
    assert world.of(Save) == []


def test_a_registration_is_added_to_a_concurrent_record():
    world = World()
    world.back = DENIED
    other = stored(tokens=GOOD, identity=registered("theirs"))
    world.on[Save] = lambda step: world.on.pop(Save) and world.store.put(other)
    with pytest.raises(ConsentDenied):
        world.log_in(OAUTH)
    assert world.record == attrs.evolve(
        other, registered=newly_registered("new-client-1")
    )


def test_a_login_continues_with_an_unstored_registration():
    world = World()
    world.on[AuthorizeUser] = lambda step: world.on.pop(Save)
    world.on[Save] = lambda step: world.store.put(None)
    assert world.log_in(OAUTH) == world.record
    assert (
        len(world.of(Save)) == MAX_SAVES + 2
    )  # and both saves of the tokens, as the first one failed, too


@pytest.mark.rule("REG-10")
def test_another_port_registers_again_and_keeps_the_tokens():
    world = World(stored(tokens=GOOD))
    world.port = 5005
    world.back = DENIED
    with pytest.raises(ConsentDenied):
        world.obtain(OAUTH, **STEP_UP)
    other = registered(
        "new-client-1", redirect_uri="http://127.0.0.1:5005/callback", scopes=("a", "b")
    )
    assert world.record == stored(tokens=GOOD, registered=other)
    assert world.of(Listen) == [Listen(REDIRECT)]


OLD = stored(tokens=None)


@pytest.mark.fault("F39")
@pytest.mark.parametrize(
    ("record", "left"),
    [
        (OLD, None),
        (
            stored(tokens=GOOD, identity=registered("first"), registered=OLD.identity),
            stored(tokens=GOOD, identity=registered("first")),
        ),
        (stored(tokens=GOOD), stored(tokens=GOOD)),
    ],
)
def test_a_timed_out_login_drops_its_old_registration(record, left):
    world = World(record)
    world.back = TIMEOUT
    with pytest.raises(ConsentDenied):
        world.log_in(OAUTH, denial=wants_more("b"))
    assert world.record == left
    assert REGISTER not in world.urls


NO_REFRESH = {"tokens": attrs.evolve(GOOD, refresh_token=None)}
GONE = {
    "without tokens": (400, {"tokens": None}),
    "with tokens": (400, NO_REFRESH),
    "beside tokens": (
        401,
        {"tokens": GOOD, "identity": registered("first"), "registered": registered()},
    ),
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize(("status", "members"), GONE.values(), ids=GONE)
def test_a_forgotten_client_registers_before_the_login(status, members):
    pages = [Answer(status, {}, b"who?"), Answer(200, {}, b"<p>Log in")]
    world = World(stored(**members), {AUTHORIZE: pages})
    request = wanted_token(refused_token="access-1", must_log_in=True)
    record = world.run(obtain_token(OAUTH, request)).record
    assert record.identity == newly_registered("new-client-1")
    [step] = world.of(AuthorizeUser)
    assert query_of(step.url)["client_id"] == "new-client-1"
    looked = [query_of(url) for url in world.urls if url.startswith(AUTHORIZE)]
    assert [each["client_id"] for each in looked] == ["client-1", "new-client-1"]
    assert step.state not in {each["state"] for each in looked}


NOBODY = {AUTHORIZE: Answer(400, {}, b"")}
KNOWN = {
    "a page": {AUTHORIZE: Answer(200, {}, b"<p>Log in")},
    "a redirect": {AUTHORIZE: Answer(302, {"location": "https://login.example"}, b"")},
    "for browsers only": {AUTHORIZE: Answer(403, {}, b"")},
    "a login": {AUTHORIZE: Answer(401, {"www-authenticate": "Negotiate"}, b"")},
    "broken": {AUTHORIZE: Answer(500, {}, b"")},
    "no answer": {AUTHORIZE: AuthTemporarilyUnavailable("no")},
    "it knows nobody": NOBODY,
    "it registers nobody": NOBODY | {REGISTER: Answer(429, {}, b"")},
}


@pytest.mark.parametrize("answers", KNOWN.values(), ids=KNOWN)
def test_other_authorize_responses_keep_the_client(answers):
    world = World(stored(**NO_REFRESH), answers)
    record = world.obtain(OAUTH, refused_token="access-1").record
    assert record.identity == registered()
    assert (REGISTER in world.urls) == (NOBODY.items() <= answers.items())


@pytest.mark.rule("REG-10")
def test_invalid_client_for_a_code_drops_the_registration():
    world = World(OLD)
    world.answers[TOKEN] = [refused("invalid_client", 401), tokens()]
    with pytest.raises(TokenError):
        world.log_in(OAUTH)
    assert world.record is None
    record = world.log_in(OAUTH)
    assert record.identity == newly_registered("new-client-1")


def test_a_concurrently_deleted_record_is_not_deleted_again():
    world = World(OLD)
    world.answers[TOKEN] = refused("invalid_client", 401)
    world.on[AuthorizeUser] = lambda step: world.store.put(None)
    with pytest.raises(TokenError):
        world.log_in(OAUTH)
    assert not world.of(Delete)


@pytest.mark.rule("REG-09")
def test_a_refused_registration_raises_and_stores_no_record():
    world = World()
    world.answers[REGISTER] = refused("invalid_redirect_uri")
    with pytest.raises(RegistrationError):
        world.obtain(OAUTH)
    assert not world.of(Save)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(503, {}, b""), AuthTemporarilyUnavailable),
        (refused("invalid_grant"), TokenError),
    ],
)
def test_another_error_for_a_code_keeps_the_registration(answer, error):
    world = World(stored())
    world.answers[TOKEN] = [refused("invalid_grant"), answer]
    with pytest.raises(error):
        world.obtain(OAUTH)
    assert world.record == OLD


# --- more scopes ------------------------------------------------------------------

STEP_UPS = {
    "those that were asked for and these": (("a",), ("a",), ("b",), ("a", "b")),
    "those that were granted, too": (("a",), ("a", "x"), ("b",), ("a", "x", "b")),
    "nobody said what was granted": (("a",), None, ("b",), ("a", "b")),
}


@pytest.mark.rule("FLOW-18", "FLOW-17")
@pytest.mark.parametrize(
    ("asked", "granted", "more", "chosen"), STEP_UPS.values(), ids=STEP_UPS
)
def test_a_step_up_requests_old_and_new_scopes(asked, granted, more, chosen):
    had = attrs.evolve(GOOD, scopes=granted)
    world = World(stored(tokens=had, asked_scopes=asked))
    reasons = {"denial": wants_more(*more), "refused_token": "access-1"}
    obtained = world.obtain(OAUTH, **reasons)
    [step] = world.of(AuthorizeUser)
    assert step.scopes == chosen
    assert obtained.source == "logged-in"
    assert obtained.record.asked_scopes == chosen
    assert obtained.record.tokens.scopes == chosen  # the server sent no other scopes


@pytest.mark.parametrize("scopes", [("a", "b", "c"), ("a",), None])
def test_a_stored_token_without_the_scopes_leads_to_a_login(scopes):
    other = attrs.evolve(GOOD, access_token="other", scopes=scopes)
    world = World(stored(tokens=other))
    source = "stored" if "b" in (scopes or ()) else "logged-in"
    assert world.obtain(OAUTH, **STEP_UP).source == source


def test_a_step_up_without_tokens_adds_to_the_asked_scopes():
    world = World(OLD)
    world.log_in(OAUTH, denial=wants_more("b"))
    assert world.of(AuthorizeUser)[0].scopes == ("a", "b")


@pytest.mark.rule("FLOW-13", "FLOW-25")
def test_a_new_login_selects_the_initial_scopes():
    world = World(stored(tokens=None))
    world.answers[PRM] = resource_document(scopes_supported=["x", "y"])
    world.answers[well_known(ISSUER)] = server_document(
        scopes_supported=["x", "offline_access"]
    )
    world.obtain(OAuth(prompt="login"), denial=denied())
    [step] = world.of(AuthorizeUser)
    assert step.scopes == ("x", "y", "offline_access")
    assert "&prompt=login&" in step.url


# --- redirect URIs----------------------------------------------------------------

BACK = {
    "given": ({"redirect_uri": "https://app.example/cb"}, "https://app.example/cb"),
    "ours, not asking": ({"interactive": False}, "http://127.0.0.1/callback"),
    "asked by the user's": ({"ask": len}, "http://127.0.0.1/callback"),
    "and at a port": (
        {"ask": len, "callback_port": 7000},
        "http://127.0.0.1:7000/callback",
    ),
}


@pytest.mark.parametrize(("options", "uri"), BACK.values(), ids=BACK)
def test_a_custom_redirect_uri_opens_no_listener(options, uri):
    world = World()
    with suppress(AuthRequired):
        world.obtain(OAuth(**options))
    assert not world.of(Listen)
    assert world.of(Fetch)[2].document["redirect_uris"] == [uri]


PREFERRED = {
    "nothing stored": (None, None),
    "where it was registered": (OLD, REDIRECT),
    "where it was registered last": (
        stored(registered=registered("c", redirect_uri="http://127.0.0.1:9/callback")),
        "http://127.0.0.1:9/callback",
    ),
    "never what another issuer knows": (stored("https://other.example"), None),
}


@pytest.mark.parametrize(("record", "uri"), PREFERRED.values(), ids=PREFERRED)
def test_the_registered_redirect_uri_is_preferred(record, uri):
    world = World(record)
    world.log_in(OAUTH)
    assert world.of(Listen) == [Listen(uri)]


# --- tokens that are bound to a key (RFC 9449) ------------------------------------

BINDS = {"dpop_signing_alg_values_supported": ["ES256"]}
DEMANDED = {"dpop_bound_access_tokens_required": True}
ONLY_DPOP = denied(has_bearer=False, has_dpop=True)
EITHER = denied(has_dpop=True)
KEYS = {
    "not configured": ({}, {}, BINDS, denied(), False),
    "configured": ({"dpop": True}, {}, BINDS, denied(), True),
    "configured, not supported": ({"dpop": True}, {}, {}, denied(), False),
    "demanded by the resource": ({}, DEMANDED, {}, denied(), True),
    "demanded by the challenge": ({}, {}, {}, ONLY_DPOP, True),
    "one of two ways": ({}, {}, BINDS, EITHER, False),
    "no denial": ({}, {}, BINDS, None, False),
}


@pytest.mark.parametrize(
    ("options", "resource", "server", "denial", "is_bound"), KEYS.values(), ids=KEYS
)
def test_dpop_is_used_when_requested_and_supported(
    options, resource, server, denial, is_bound
):
    world = World()
    world.answers[PRM] = resource_document(**resource)
    world.answers[well_known(ISSUER)] = server_document(**server)
    world.answers[TOKEN] = tokens(token_type="DPoP" if is_bound else "Bearer")
    record = world.obtain(OAuth(**options), denial=denial).record
    assert len(world.of(GenerateKey)) == is_bound
    assert (record.dpop_key is not None) == is_bound
    [request] = [step for step in world.of(Fetch) if step.form]
    assert ("dpop" in dict(request.headers)) == is_bound
    assert world.record == record


KEY = generate_proof_key()
BOUND = Tokens("access-1", "DPoP", GOOD.expires_at, "refresh-1", ("a",))
WITH_KEY = stored(
    tokens=BOUND,
    dpop_key=KEY,
    metadata=metadata(dpop_signing_alg_values_supported=("ES256",)),
)


def answers(server=BINDS, token_type="DPoP"):
    return {
        well_known(ISSUER): server_document(**server),
        TOKEN: tokens(token_type=token_type),
    }


@pytest.mark.parametrize(("server", "kind"), [(BINDS, "DPoP"), ({}, "Bearer")])
def test_a_stored_dpop_key_is_reused_while_the_server_supports_it(server, kind):
    world = World(WITH_KEY, answers(server, kind))
    record = world.log_in(OAUTH, denial=wants_more("b"))
    assert record.dpop_key == (KEY if server else None)
    assert record.tokens.token_type == kind
    assert not world.of(GenerateKey)


def test_another_issuer_gets_a_new_dpop_key():
    other = "https://other.example"
    world = World(WITH_KEY)
    world.answers |= {
        PRM: resource_document(other),
        well_known(other): server_document(other, **BINDS),
        f"{other}/register": world.answers[f"{ISSUER}/register"],
        f"{other}/token": tokens(token_type="DPoP"),
    }
    record = world.log_in(OAuth(dpop=True))
    assert record.dpop_key is not None
    assert record.dpop_key != KEY
    assert len(world.of(GenerateKey)) == 1


def test_an_unfinished_login_keeps_the_dpop_key():
    world = World(WITH_KEY, answers({}))
    with pytest.raises(AuthRequired):
        world.log_in(OAuth(interactive=False), denial=wants_more("b"))
    assert (world.record.dpop_key, world.record.tokens) == (KEY, BOUND)


def test_a_bearer_token_in_response_to_dpop_is_refused():
    world = World(None, answers(token_type="Bearer"))
    with pytest.raises(TokenError):
        world.log_in(OAuth(dpop=True))
    assert world.record.tokens is None


def test_a_pending_login_keeps_its_dpop_key():
    grant = OAuth(dpop=True, interactive=False)
    world = World(None, answers())
    urls = []
    for _ in range(2):  # the key of the first one is used
        with pytest.raises(AuthRequired) as caught:
            world.log_in(grant)
        urls.append(caught.value.url)
    assert urls[0] == urls[1]
    state = urls[0].partition("state=")[2].partition("&")[0]
    record = world.finish(grant, {"state": state, "code": "c"})
    assert record.tokens.token_type == "DPoP"
    assert record.dpop_key is not None


# --- pending logins ----------------------------------------------------------------

ALONE = OAuth(interactive=False)
ANYWHERE = registered(redirect_uri=None)
LIVE = stored(tokens=GOOD, identity=ANYWHERE)


def begin(world, grant=ALONE, **reasons):
    """Begin a login; return the error that has its URL."""
    with pytest.raises(AuthRequired) as caught:
        world.obtain(grant, **reasons)
    return caught.value


def back(error, /, **params):
    return {"state": query_of(error.url)["state"], "code": "code-1"} | params


@pytest.mark.rule("FLOW-04")
def test_a_noninteractive_login_raises_and_saves_its_state():
    world = World()
    error = begin(world, denial=denied(scopes=("a",)))
    assert type(error) is AuthRequired
    assert error.scopes == ("a",)
    assert error.url.startswith(f"{ISSUER}/authorize?")
    assert error.url not in str(error)
    assert query_of(error.url)["state"] not in f"{error} {error!r} {error.args}"
    [keep] = world.of(SavePending)
    assert keep.pending.record.issuer == ISSUER
    assert keep.pending.begun_at == NOW
    assert not world.of(AuthorizeUser)
    assert world.token_forms() == []


def test_a_pending_login_that_others_keep_replacing_is_not_waited_for():
    world = World()
    begin(world)

    def write_again(_):
        world.store.pending += b" "

    world.on[SavePending] = write_again
    world.now += 3_600
    with pytest.raises(AuthTemporarilyUnavailable, match="keep changing"):
        world.obtain(ALONE)


@pytest.mark.pain("P35")
@pytest.mark.parametrize(
    ("required", "scopes", "said"),
    [(("b", "c"), ("a", "b", "c"), "b c"), ((), ("a",), "unnamed")],
)
def test_missing_scopes_raise_insufficient_scope(required, scopes, said):
    world = World(LIVE)
    error = begin(world, denial=wants_more(*required), refused_token="access-1")
    assert isinstance(error, InsufficientScope)
    assert (error.required, error.scopes) == (required, scopes)
    assert str(error).endswith(f"requires more scopes: {said}")
    assert query_of(error.url)["scope"] == " ".join(scopes)
    assert world.record == LIVE


def test_a_pending_login_can_be_finished_elsewhere():
    world = World()
    error = begin(world)
    record = world.finish(OAuth(), back(error))
    assert record.tokens.access_token == "access-2"
    assert world.record == record
    assert world.store.pending is None
    assert world.obtain(ALONE).source == "stored"


def test_finishing_a_pending_login_replaces_the_tokens():
    world = World(LIVE)
    error = begin(world, **STEP_UP)
    assert world.record == LIVE
    record = world.finish(ALONE, back(error))
    assert record.tokens.scopes == ("a", "b")
    assert world.record == record


@pytest.mark.parametrize(
    ("passed", "is_in_time"),
    [
        (0, True),
        (PENDING_LOGIN_S - 1, True),
        (PENDING_LOGIN_S, False),
        (-1, False),
        (1e9, False),
    ],
)
def test_a_pending_login_expires_after_an_hour(passed, is_in_time):
    world = World()
    error = begin(world)
    world.now += passed
    if is_in_time:
        assert world.finish(ALONE, back(error))
        return
    with pytest.raises(AuthRequired) as caught:
        world.finish(ALONE, back(error))
    assert caught.value.url is None
    assert world.token_forms() == []


@pytest.mark.attack("S22")
def test_a_pending_login_cannot_be_finished_twice():
    world = World()
    error = begin(world)
    world.finish(ALONE, back(error))
    with pytest.raises(AuthRequired):
        world.finish(ALONE, back(error))
    assert len(world.token_forms()) == 1


@pytest.mark.attack("S22")
@pytest.mark.rule("FLOW-09")
@pytest.mark.parametrize("params", [{"state": "other"}, {"state": ""}, {}])
def test_a_callback_with_another_state_keeps_the_pending_login(params):
    world = World()
    error = begin(world)
    for _ in range(3):
        with pytest.raises(ResponseRefused) as caught:
            world.finish(ALONE, {"code": "evil"} | params)
        assert caught.value.parameter == "state"
    assert world.token_forms() == []
    assert world.finish(ALONE, back(error))
    assert [form["code"] for form in world.token_forms()] == ["code-1"]


NO_GOOD = {
    "another issuer": ({"iss": EVIL}, ResponseRefused),
    "an error": ({"error": "access_denied"}, ConsentDenied),
    "an error of another issuer": ({"error": "x", "iss": EVIL}, ResponseRefused),
    "no code": ({"code": ""}, ResponseRefused),
}


@pytest.mark.attack("S06")
@pytest.mark.parametrize(("params", "error"), NO_GOOD.values(), ids=NO_GOOD)
def test_an_invalid_callback_consumes_the_pending_login(params, error):
    world = World()
    begun = begin(world)
    with pytest.raises(error):
        world.finish(ALONE, back(begun, **params))
    with pytest.raises(AuthRequired):
        world.finish(ALONE, back(begun))
    assert world.token_forms() == []


@pytest.mark.rule("REG-10")
@pytest.mark.attack("S01")
@pytest.mark.parametrize(
    "grant", [OAuth(issuer=EVIL), OAuth(client_id="another", issuer=ISSUER)]
)
def test_a_pending_login_needs_the_same_issuer_and_client(grant):
    world = World()
    begun = begin(world)
    with pytest.raises(ConsentDenied):
        world.finish(grant, back(begun))
    assert world.token_forms() == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(503, {}, b""), AuthTemporarilyUnavailable),
        (refused("invalid_grant"), TokenError),
    ],
)
def test_a_refused_code_keeps_the_stored_record(answer, error):
    world = World(LIVE)
    begun = begin(world, **STEP_UP)
    world.answers[TOKEN] = answer
    with pytest.raises(error):
        world.finish(ALONE, back(begun))
    assert world.record == LIVE


# --- begun twice ------------------------------------------------------------------


def test_a_second_request_returns_the_pending_login_url():
    world = World()
    first = begin(world)
    world.now += 60
    second = begin(world)
    assert first.url == second.url
    assert [step.pending.begun_at for step in world.of(SavePending)] == [NOW]
    assert world.finish(ALONE, back(first))


def test_a_pending_login_can_be_finished_while_it_is_returned_again():
    world = World()
    first = begin(world)
    again = Actor(world, obtain_token(ALONE, wanted_token()))
    seen = len(world.of(LoadPending))
    while len(world.of(LoadPending)) == seen:
        again.step()
    assert world.finish(ALONE, back(first))
    while not again.is_over:
        again.step()
    assert again.error.url == first.url
    assert world.store.pending is None  # it is for one response


def test_logins_that_begin_at_the_same_time_have_one_url():
    world = World(stored(tokens=None, identity=ANYWHERE))

    def tick(step):
        world.now += 1

    world.on[ReadClock] = tick
    actors = [Actor(world, obtain_token(ALONE, wanted_token())) for _ in range(3)]
    while not world.of(LoadPending):
        for actor in actors:
            actor.step()
    for actor in reversed(actors):
        while not actor.is_over:
            actor.step()
    assert len({actor.error.url for actor in actors}) == 1
    assert world.finish(ALONE, back(actors[0].error))


OTHERS = {"it would end soon": {}, "other scopes": {"denial": denied(scopes=("b",))}}


@pytest.mark.parametrize("reasons", OTHERS.values(), ids=OTHERS)
def test_a_new_login_replaces_an_old_or_different_one(reasons):
    world = World()
    first = begin(world)
    world.now += 60 if reasons else PENDING_LOGIN_S / 2
    second = begin(world, **reasons)
    assert query_of(first.url)["state"] != query_of(second.url)["state"]
    with pytest.raises(ResponseRefused):
        world.finish(ALONE, back(first))
    assert world.finish(ALONE, back(second))


def test_an_interactive_login_ignores_a_pending_one():
    world = World()
    first = begin(world)
    world.obtain(OAuth())
    [step] = world.of(AuthorizeUser)
    assert step.state != query_of(first.url)["state"]
    assert len(world.of(LoadPending)) == 1


def test_the_registration_of_a_pending_login_is_stored():
    world = World()
    begin(world)
    [keep] = world.of(SavePending)
    assert world.record == attrs.evolve(keep.pending.record, tokens=None)
    begin(world)
    assert world.urls.count(f"{ISSUER}/register") == 1


def test_invalid_client_for_a_pending_login_registers_again():
    expired = stored(tokens=EXPIRED, identity=ANYWHERE)
    world = World(expired)
    world.answers[TOKEN] = [
        refused("invalid_client", 401),
        refused("invalid_client", 401),
        refused("invalid_client", 401),
        tokens(),
    ]
    first = begin(world)
    assert world.record.registered.client_id == "new-client-1"
    with pytest.raises(TokenError):
        world.finish(ALONE, back(first))
    assert world.record == expired
    second = begin(world)
    record = world.finish(ALONE, back(second))
    assert record.identity.client_id == "new-client-2"


def test_invalid_client_keeps_a_configured_client():
    given = Identity("given-1", issuer=ISSUER)
    world = World(stored(tokens=None, identity=given))
    world.answers[TOKEN] = refused("invalid_client", 401)
    grant = OAuth(client_id="given-1", interactive=False)
    begun = begin(world, grant)
    with pytest.raises(TokenError):
        world.finish(grant, back(begun))
    assert world.record == stored(tokens=None, identity=given)
