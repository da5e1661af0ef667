"""Logging in with a user: who asks, for what, where they come back, what is stored."""

from contextlib import suppress

import attrs
import pytest
from driving import (
    EVIL,
    EXPIRED,
    GOOD,
    ISSUER,
    NOW,
    PRM,
    REDIRECT,
    RESOURCE,
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
    wanted,
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
    finish_pending,
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
def test_from_nothing_to_tokens_that_are_stored_with_whose_they_are():
    world = World()
    obtained = world.run(obtain_token(OAUTH, wanted(denial=denied())))
    record = Record(
        RESOURCE,
        metadata(),
        newly_registered("new-client-1"),
        Tokens("access-2", "Bearer", NOW + 3600, "refresh-2"),
    )
    assert obtained == (record, "logged-in")
    assert world.record == record
    assert world.asked == [PRM, well_known(ISSUER), REGISTER, TOKEN]


@pytest.mark.rule("FLOW-01", "FLOW-02")
def test_the_user_is_sent_with_a_challenge_and_the_code_goes_with_its_verifier():
    world = World()
    world.run(obtain_token(OAUTH, wanted(denial=denied(scopes=("a", "b")))))
    [asked] = world.of(AuthorizeUser)
    [form] = world.token_forms()
    query = query_of(asked.url)
    assert query["client_id"] == "new-client-1"
    assert query["state"] == asked.state
    assert query["code_challenge"] == code_challenge(form["code_verifier"])
    assert form == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "code_verifier": form["code_verifier"],
        "redirect_uri": REDIRECT,
        "resource": RESOURCE,
        "client_id": "new-client-1",
    }
    assert asked.state != form["code_verifier"]
    assert (asked.redirect_uri, asked.scopes) == (REDIRECT, ("a", "b"))


@pytest.mark.rule("ASM-07")
def test_a_server_without_pkce_is_refused_before_anybody_registers():
    world = World()
    world.answers[well_known(ISSUER)] = server_document(
        code_challenge_methods_supported=None
    )
    with pytest.raises(DiscoveryError):
        world.run(obtain_token(OAUTH, wanted()))
    assert world.asked == [PRM, well_known(ISSUER)]


# --- giving up --------------------------------------------------------------------

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
def test_a_login_that_comes_to_nothing_costs_no_tokens(back, error):
    world = World(stored(tokens=GOOD))
    world.back = back
    with pytest.raises(error):
        world.run(
            obtain_token(
                OAUTH, wanted(denial=wants_more("b"), refused_token="access-1")
            )
        )
    assert world.record == stored(tokens=GOOD)
    assert world.token_forms() == []


@pytest.mark.fault("F39")
@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("gives_up", [DENIED, TIMEOUT], ids=["denied", "timeout"])
def test_a_registration_is_stored_before_the_user_is_asked(gives_up):
    world = World()
    world.back = gives_up
    with pytest.raises(ConsentDenied):
        world.run(obtain_token(OAUTH, wanted()))
    assert world.record == Record(
        RESOURCE, metadata(), newly_registered("new-client-1")
    )
    world.back = {"code": "code-1"}
    obtained = world.run(obtain_token(OAUTH, wanted()))
    assert obtained.record.identity == newly_registered("new-client-1")
    assert world.asked.count(REGISTER) == 1


NARROW = {
    "beside tokens": stored(tokens=GOOD, registered=registered("client-2")),
    "with tokens": stored(tokens=GOOD),
    "without tokens": stored(tokens=None),
    "nothing": None,
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("before", NARROW.values(), ids=NARROW)
def test_a_client_that_may_not_ask_for_its_scopes_registers_anew_the_next_time(before):
    world = World(before)
    world.back = {"error": "invalid_scope"}
    request = wanted(denial=wants_more("b"), refused_token="access-1")
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.run(log_in(OAUTH, request))
    assert world.asked.count(REGISTER) == (before is None)  # not within this login
    assert world.record.tokens == (before and before.tokens)
    world.back = {"code": "code-1"}
    record = world.run(log_in(OAUTH, request))
    assert world.asked.count(REGISTER) == 1 + (before is None)
    assert record.identity.client_id.startswith("new-client-")
    assert {"b"} <= {*record.identity.scopes}


CHANGED = {
    "forgotten": None,
    "of another client": stored(identity=registered("theirs")),
}


@pytest.mark.parametrize("theirs", CHANGED.values(), ids=CHANGED)
def test_what_somebody_else_stores_meanwhile_stays_where_scopes_are_refused(theirs):
    world = World(stored(tokens=GOOD))
    world.back = {"error": "invalid_scope"}
    world.on[AuthorizeUser] = lambda step: world.store.put(theirs)
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.run(
            log_in(OAUTH, wanted(denial=wants_more("b"), refused_token="access-1"))
        )
    assert world.record == theirs


def test_a_client_that_the_user_gave_stays_where_scopes_are_refused():
    world = World()
    world.back = {"error": "invalid_scope"}
    with pytest.raises(ConsentDenied, match="invalid_scope"):
        world.run(log_in(OAuth(client_id="given", issuer=ISSUER), wanted()))
    assert world.of(Save) == []


def test_it_is_stored_beside_tokens_that_somebody_else_stores_meanwhile():
    world = World()
    world.back = DENIED
    theirs = stored(tokens=GOOD, identity=registered("theirs"))
    world.on[Save] = lambda step: world.on.pop(Save) and world.store.put(theirs)
    with pytest.raises(ConsentDenied):
        world.run(log_in(OAUTH, wanted()))
    assert world.record == attrs.evolve(
        theirs, registered=newly_registered("new-client-1")
    )


def test_a_registration_that_cannot_be_stored_does_not_end_a_login():
    world = World()
    world.on[AuthorizeUser] = lambda step: world.on.pop(Save)
    world.on[Save] = lambda step: world.store.put(None)
    assert world.run(log_in(OAUTH, wanted())) == world.record
    assert (
        len(world.of(Save)) == MAX_SAVES + 2
    )  # and both of the tokens, as the first lost too


@pytest.mark.rule("REG-10")
def test_another_port_is_another_registration_and_the_tokens_stay_with_the_first():
    world = World(stored(tokens=GOOD))
    world.port = 5005
    world.back = DENIED
    with pytest.raises(ConsentDenied):
        world.run(
            obtain_token(
                OAUTH, wanted(denial=wants_more("b"), refused_token="access-1")
            )
        )
    other = registered(
        "new-client-1",
        redirect_uri="http://127.0.0.1:5005/callback",
        scopes=("a", "b"),
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
def test_a_registration_of_before_with_which_nobody_comes_back_is_doubted(record, left):
    world = World(record)
    world.back = TIMEOUT
    with pytest.raises(ConsentDenied):
        world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert world.record == left
    assert REGISTER not in world.asked


NO_REFRESH = {"tokens": attrs.evolve(GOOD, refresh_token=None)}
GONE = {
    "without tokens": (400, {"tokens": None}),
    "with tokens": (400, NO_REFRESH),
    "beside tokens": (
        401,
        {
            "tokens": GOOD,
            "identity": registered("first"),
            "registered": registered(),
        },
    ),
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize(("status", "members"), GONE.values(), ids=GONE)
def test_a_client_that_the_server_forgot_registers_before_the_user_is_asked(
    status, members
):
    pages = [Answer(status, {}, b"who?"), Answer(200, {}, b"<p>Log in")]
    world = World(stored(**members), {AUTHORIZE: pages})
    request = wanted(refused_token="access-1", must_log_in=True)
    record = world.run(obtain_token(OAUTH, request)).record
    assert record.identity == newly_registered("new-client-1")
    [asked] = world.of(AuthorizeUser)
    assert query_of(asked.url)["client_id"] == "new-client-1"
    looked = [query_of(url) for url in world.asked if url.startswith(AUTHORIZE)]
    assert [each["client_id"] for each in looked] == ["client-1", "new-client-1"]
    assert asked.state not in {each["state"] for each in looked}


KNOWN = {
    "a page": Answer(200, {}, b"<p>Log in"),
    "a redirect": Answer(302, {"location": "https://login.example"}, b""),
    "for browsers only": Answer(403, {}, b""),
    "with a login of its own": Answer(401, {"www-authenticate": "Negotiate"}, b""),
    "broken": Answer(500, {}, b""),
    "no answer": AuthTemporarilyUnavailable("no"),
}


@pytest.mark.parametrize("answer", KNOWN.values(), ids=KNOWN)
def test_any_other_answer_is_for_the_browser(answer):
    world = World(stored(**NO_REFRESH), {AUTHORIZE: answer})
    record = world.run(obtain_token(OAUTH, wanted(refused_token="access-1"))).record
    assert record.identity == registered()
    assert REGISTER not in world.asked


def test_a_server_that_turns_every_client_away_keeps_the_one_that_it_has():
    world = World(stored(**NO_REFRESH), {AUTHORIZE: Answer(400, {}, b"")})
    record = world.run(obtain_token(OAUTH, wanted(refused_token="access-1"))).record
    assert record.identity == registered()


def test_a_client_that_cannot_register_anew_stays_the_one_that_it_is():
    unable = {AUTHORIZE: Answer(400, {}, b""), REGISTER: Answer(429, {}, b"")}
    world = World(stored(**NO_REFRESH), unable)
    record = world.run(obtain_token(OAUTH, wanted(refused_token="access-1"))).record
    assert record.identity == registered()


@pytest.mark.rule("REG-10")
def test_a_registration_that_the_token_endpoint_does_not_know_is_made_anew():
    world = World(OLD)
    world.answers[TOKEN] = [refused("invalid_client", 401), tokens()]
    with pytest.raises(TokenError):
        world.run(log_in(OAUTH, wanted()))
    assert world.record is None
    record = world.run(log_in(OAUTH, wanted()))
    assert record.identity == newly_registered("new-client-1")


def test_what_somebody_else_forgot_meanwhile_needs_no_forgetting():
    world = World(OLD)
    world.answers[TOKEN] = refused("invalid_client", 401)
    world.on[AuthorizeUser] = lambda step: world.store.put(None)
    with pytest.raises(TokenError):
        world.run(log_in(OAUTH, wanted()))
    assert not world.of(Delete)


def test_a_code_that_is_refused_for_another_reason_forgets_no_registration():
    world = World(OLD)
    world.answers[TOKEN] = refused("invalid_grant")
    with pytest.raises(TokenError):
        world.run(log_in(OAUTH, wanted()))
    assert world.record == OLD


@pytest.mark.rule("REG-09")
def test_who_is_not_registered_is_told_and_nothing_is_stored():
    world = World()
    world.answers[REGISTER] = refused("invalid_redirect_uri")
    with pytest.raises(RegistrationError):
        world.run(obtain_token(OAUTH, wanted()))
    assert not world.of(Save)


def test_a_server_that_cannot_answer_now_loses_nothing():
    world = World(stored())
    world.answers[TOKEN] = [refused("invalid_grant"), Answer(503, {}, b"")]
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(obtain_token(OAUTH, wanted()))
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
def test_a_step_up_asks_for_all_at_once(asked, granted, more, chosen):
    had = attrs.evolve(GOOD, scopes=granted)
    world = World(stored(tokens=had, asked_scopes=asked))
    reasons = {"denial": wants_more(*more), "refused_token": "access-1"}
    obtained = world.run(obtain_token(OAUTH, wanted(**reasons)))
    [step] = world.of(AuthorizeUser)
    assert step.scopes == chosen
    assert obtained.source == "logged-in"
    assert obtained.record.asked_scopes == chosen
    assert obtained.record.tokens.scopes == chosen  # the server did not say otherwise


def test_scopes_that_somebody_else_got_meanwhile_are_enough():
    wide = attrs.evolve(GOOD, access_token="wide", scopes=("a", "b", "c"))
    world = World(stored(tokens=wide))
    reasons = {"denial": wants_more("b"), "refused_token": "access-1"}
    assert world.run(obtain_token(OAUTH, wanted(**reasons))).source == "stored"


@pytest.mark.parametrize("scopes", [("a",), None])
def test_scopes_of_another_token_that_are_not_enough_are_asked_for(scopes):
    other = attrs.evolve(GOOD, access_token="other", scopes=scopes)
    world = World(stored(tokens=other))
    reasons = {"denial": wants_more("b"), "refused_token": "access-1"}
    assert world.run(obtain_token(OAUTH, wanted(**reasons))).source == "logged-in"


def test_a_step_up_without_tokens_asks_for_what_was_asked_for_and_these():
    world = World(OLD)
    world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert world.of(AuthorizeUser)[0].scopes == ("a", "b")


@pytest.mark.rule("FLOW-13", "FLOW-25")
def test_without_a_step_up_the_scopes_are_chosen_as_at_first():
    world = World(stored(tokens=None))
    world.answers[PRM] = resource_document(scopes_supported=["x", "y"])
    world.answers[well_known(ISSUER)] = server_document(
        scopes_supported=["x", "offline_access"]
    )
    world.run(obtain_token(OAUTH, wanted(denial=denied())))
    assert world.of(AuthorizeUser)[0].scopes == ("x", "y", "offline_access")


# --- the way back -----------------------------------------------------------------

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
def test_nobody_listens_where_the_way_back_is_not_ours(options, uri):
    world = World()
    with suppress(AuthRequired):
        world.run(obtain_token(OAuth(**options), wanted()))
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
def test_the_way_back_of_before_is_preferred(record, uri):
    world = World(record)
    world.run(log_in(OAUTH, wanted()))
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
def test_tokens_are_bound_where_that_is_wanted_and_possible(
    options, resource, server, denial, is_bound
):
    world = World()
    world.answers[PRM] = resource_document(**resource)
    world.answers[well_known(ISSUER)] = server_document(**server)
    world.answers[TOKEN] = tokens(token_type="DPoP" if is_bound else "Bearer")
    record = world.run(obtain_token(OAuth(**options), wanted(denial=denial))).record
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


def test_the_key_of_before_stays_as_long_as_the_server_takes_it():
    world = World(WITH_KEY, answers())
    record = world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert record.dpop_key == KEY
    assert not world.of(GenerateKey)


def test_a_server_that_knows_no_keys_any_more_gives_plain_tokens():
    world = World(WITH_KEY, answers({}, "Bearer"))
    record = world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert record.dpop_key is None
    assert record.tokens.token_type == "Bearer"


def test_the_key_goes_with_its_issuer():
    other = "https://other.example"
    world = World(WITH_KEY)
    world.answers |= {
        PRM: resource_document(other),
        well_known(other): server_document(other, **BINDS),
        f"{other}/register": world.answers[f"{ISSUER}/register"],
        f"{other}/token": tokens(token_type="DPoP"),
    }
    record = world.run(log_in(OAuth(dpop=True), wanted()))
    assert record.dpop_key is not None
    assert record.dpop_key != KEY
    assert len(world.of(GenerateKey)) == 1


def test_a_key_that_tokens_are_bound_to_is_kept_where_the_login_is_given_up():
    world = World(WITH_KEY, answers({}))
    with pytest.raises(AuthRequired):
        world.run(log_in(OAuth(interactive=False), wanted(denial=wants_more("b"))))
    assert (world.record.dpop_key, world.record.tokens) == (KEY, BOUND)


def test_a_token_that_is_not_bound_although_it_should_be_is_not_used():
    world = World(None, answers(token_type="Bearer"))
    with pytest.raises(TokenError):
        world.run(log_in(OAuth(dpop=True), wanted()))
    assert world.record.tokens is None


def test_a_login_that_is_finished_elsewhere_has_its_key():
    grant = OAuth(dpop=True, interactive=False)
    world = World(None, answers())
    urls = []
    for _ in range(2):  # the key of the first is the one that counts
        with pytest.raises(AuthRequired) as caught:
            world.run(log_in(grant, wanted()))
        urls.append(caught.value.url)
    assert urls[0] == urls[1]
    state = urls[0].partition("state=")[2].partition("&")[0]
    record = world.run(finish_pending(grant, wanted(), {"state": state, "code": "c"}))
    assert record.tokens.token_type == "DPoP"
    assert record.dpop_key is not None


# --- begun here and finished elsewhere, or never ----------------------------------

ALONE = OAuth(interactive=False)
ANYWHERE = registered(redirect_uri=None)
LIVE = stored(tokens=GOOD, identity=ANYWHERE)


def begin(world, grant=ALONE, **reasons):
    """Begin a login; return the error that says where to go."""
    with pytest.raises(AuthRequired) as caught:
        world.run(obtain_token(grant, wanted(**reasons)))
    return caught.value


def back(error, /, **params):
    """Return what the user comes back with from there."""
    return {"state": query_of(error.url)["state"], "code": "code-1"} | params


@pytest.mark.rule("FLOW-04")
def test_who_may_ask_nobody_says_where_to_log_in_and_keeps_what_that_takes():
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


@pytest.mark.pain("P35")
@pytest.mark.parametrize(
    ("required", "scopes", "said"),
    [(("b", "c"), ("a", "b", "c"), "b c"), ((), ("a",), "unnamed")],
)
def test_too_few_scopes_are_an_error_of_their_own(required, scopes, said):
    world = World(LIVE)
    error = begin(world, denial=wants_more(*required), refused_token="access-1")
    assert isinstance(error, InsufficientScope)
    assert (error.required, error.scopes) == (required, scopes)
    assert str(error).endswith(f"wants more scopes: {said}")
    assert query_of(error.url)["scope"] == " ".join(scopes)
    assert world.record == LIVE


def test_a_login_can_be_finished_by_somebody_else():
    world = World()
    error = begin(world)
    record = world.run(finish_pending(OAuth(), wanted(), back(error)))
    assert record.tokens.access_token == "access-2"
    assert world.record == record
    assert world.store.pending is None
    assert world.run(obtain_token(ALONE, wanted())).source == "stored"


def test_tokens_of_before_are_replaced_when_it_is_finished_and_not_before():
    world = World(LIVE)
    error = begin(world, denial=wants_more("b"), refused_token="access-1")
    assert world.record == LIVE
    record = world.run(finish_pending(ALONE, wanted(), back(error)))
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
def test_it_can_be_finished_within_an_hour(passed, is_in_time):
    world = World()
    error = begin(world)
    world.now += passed
    if is_in_time:
        assert world.run(finish_pending(ALONE, wanted(), back(error)))
        return
    with pytest.raises(AuthRequired) as caught:
        world.run(finish_pending(ALONE, wanted(), back(error)))
    assert caught.value.url is None
    assert world.token_forms() == []


@pytest.mark.attack("S22")
def test_what_was_finished_is_not_finished_again():
    world = World()
    error = begin(world)
    world.run(finish_pending(ALONE, wanted(), back(error)))
    with pytest.raises(AuthRequired):
        world.run(finish_pending(ALONE, wanted(), back(error)))
    assert len(world.token_forms()) == 1


@pytest.mark.attack("S22")
@pytest.mark.rule("FLOW-09")
@pytest.mark.parametrize("params", [{"state": "other"}, {"state": ""}, {}])
def test_a_browser_with_another_state_is_not_the_users(params):
    world = World()
    error = begin(world)
    for _ in range(3):
        with pytest.raises(ResponseRefused) as caught:
            world.run(finish_pending(ALONE, wanted(), {"code": "evil"} | params))
        assert caught.value.parameter == "state"
    assert world.token_forms() == []
    assert world.run(finish_pending(ALONE, wanted(), back(error)))
    assert [form["code"] for form in world.token_forms()] == ["code-1"]


NO_GOOD = {
    "another issuer": ({"iss": EVIL}, ResponseRefused),
    "an error": ({"error": "access_denied"}, ConsentDenied),
    "an error of another issuer": ({"error": "x", "iss": EVIL}, ResponseRefused),
    "no code": ({"code": ""}, ResponseRefused),
}


@pytest.mark.attack("S06")
@pytest.mark.parametrize(("params", "error"), NO_GOOD.values(), ids=NO_GOOD)
def test_an_answer_to_that_login_is_the_only_one_whatever_it_says(params, error):
    world = World()
    begun = begin(world)
    with pytest.raises(error):
        world.run(finish_pending(ALONE, wanted(), back(begun, **params)))
    with pytest.raises(AuthRequired):
        world.run(finish_pending(ALONE, wanted(), back(begun)))
    assert world.token_forms() == []


@pytest.mark.rule("REG-10")
@pytest.mark.attack("S01")
@pytest.mark.parametrize(
    "grant",
    [OAuth(issuer=EVIL), OAuth(client_id="another", issuer=ISSUER)],
)
def test_a_login_with_another_server_or_client_is_not_gone_on_with(grant):
    world = World()
    begun = begin(world)
    with pytest.raises(ConsentDenied):
        world.run(finish_pending(grant, wanted(), back(begun)))
    assert world.token_forms() == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(503, {}, b""), AuthTemporarilyUnavailable),
        (refused("invalid_grant"), TokenError),
    ],
)
def test_a_code_that_gives_no_tokens_stores_none(answer, error):
    world = World(LIVE)
    begun = begin(world, denial=wants_more("b"), refused_token="access-1")
    world.answers[TOKEN] = answer
    with pytest.raises(error):
        world.run(finish_pending(ALONE, wanted(), back(begun)))
    assert world.record == LIVE


# --- begun twice ------------------------------------------------------------------


def test_who_was_told_where_to_log_in_finds_the_way_back_whoever_asks_again():
    world = World()
    first = begin(world)
    world.now += 60
    second = begin(world)
    assert first.url == second.url
    assert [step.pending.begun_at for step in world.of(SavePending)] == [NOW, NOW]
    assert world.run(finish_pending(ALONE, wanted(), back(first)))


OTHERS = {
    "it would end soon": {},
    "other scopes": {"denial": denied(scopes=("b",))},
}


@pytest.mark.parametrize("reasons", OTHERS.values(), ids=OTHERS)
def test_another_login_takes_the_place_of_the_one_that_was_begun(reasons):
    world = World()
    first = begin(world)
    world.now += 60 if reasons else PENDING_LOGIN_S / 2
    second = begin(world, **reasons)
    assert query_of(first.url)["state"] != query_of(second.url)["state"]
    with pytest.raises(ResponseRefused):
        world.run(finish_pending(ALONE, wanted(), back(first)))
    assert world.run(finish_pending(ALONE, wanted(), back(second)))


def test_a_user_who_can_be_asked_is_asked_anew():
    world = World()
    first = begin(world)
    world.run(obtain_token(OAuth(), wanted()))
    [asked] = world.of(AuthorizeUser)
    assert asked.state != query_of(first.url)["state"]
    assert len(world.of(LoadPending)) == 1


def test_a_registration_of_a_login_that_was_begun_is_stored():
    world = World()
    begin(world)
    [keep] = world.of(SavePending)
    assert world.record == attrs.evolve(keep.pending.record, tokens=None)
    begin(world)
    assert world.asked.count(f"{ISSUER}/register") == 1


def test_a_server_that_forgot_the_client_of_a_login_is_asked_to_register_another():
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
        world.run(finish_pending(ALONE, wanted(), back(first)))
    assert world.record == expired
    second = begin(world)
    record = world.run(finish_pending(ALONE, wanted(), back(second)))
    assert record.identity.client_id == "new-client-2"


def test_a_client_that_was_given_is_not_forgotten_by_anything():
    given = Identity("given-1", issuer=ISSUER)
    world = World(stored(tokens=None, identity=given))
    world.answers[TOKEN] = refused("invalid_client", 401)
    grant = OAuth(client_id="given-1", interactive=False)
    begun = begin(world, grant)
    with pytest.raises(TokenError):
        world.run(finish_pending(grant, wanted(), back(begun)))
    assert world.record == stored(tokens=None, identity=given)
