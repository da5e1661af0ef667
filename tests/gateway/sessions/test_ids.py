"""Session ids: sealed ids that contain the session, and random handles."""

from base64 import b64encode

import attrs
import pytest
from clocks import Clock

from mcpwire.errors import InvalidRequest
from mcpwire.gateway import HandleIds, SealedIds, SessionData
from mcpwire.gateway import sessions as ids_module

OLD, NEW = b"o" * 32, b"n" * 32
SESSION = SessionData(nonce="n", revision="2025-11-25")


def same(data: SessionData | None, other: SessionData) -> bool:
    return data is not None and attrs.evolve(data, expires_at=None) == other


@pytest.mark.system("O20", "O21")
def test_sealed_ids_contain_the_session_and_differ_each_time():
    ids = SealedIds([NEW])
    first, second = ids.issue(SESSION), ids.issue(SESSION)
    assert first != second
    assert same(ids.read(first), SESSION)
    assert same(ids.read(second), SESSION)


@pytest.mark.system("O20")
@pytest.mark.parametrize("id", ["", "garbage", "a.b.c.d.e", "0" * 500, "\0\0", "é"])
def test_invalid_id_reads_as_none_and_can_be_withdrawn(id):
    for ids in (SealedIds([NEW]), HandleIds()):
        assert ids.read(id) is None
        ids.withdraw(id)


@pytest.mark.system("O22")
def test_newest_key_seals_and_all_keys_of_the_ring_open():
    before = SealedIds([OLD])
    rotated = SealedIds([NEW, OLD])
    after = SealedIds([NEW])
    old, new = before.issue(SESSION), rotated.issue(SESSION)
    assert same(rotated.read(old), SESSION)
    assert same(after.read(new), SESSION)
    assert after.read(old) is None
    assert before.read(new) is None


@pytest.mark.system("O22", "L-O7")
@pytest.mark.parametrize("make", [lambda **o: SealedIds([NEW], **o), HandleIds])
def test_id_expires_after_its_lifetime(make):
    clock = Clock()
    ids = make(lifetime=10.0, clock=clock)
    id = ids.issue(SESSION)
    clock.now += 9
    assert ids.read(id) is not None
    clock.now += 1
    assert ids.read(id) is None
    unlimited = make(lifetime=None, clock=clock)
    id = unlimited.issue(SESSION)
    clock.now += 1e9
    assert unlimited.read(id) is not None


@pytest.mark.system("O29", "L-O10")
@pytest.mark.parametrize("make", [lambda: SealedIds([NEW]), HandleIds])
def test_withdrawn_id_is_not_read_again(make):
    ids = make()
    id, other = ids.issue(SESSION), ids.issue(attrs.evolve(SESSION, nonce="other"))
    ids.withdraw(id)
    ids.withdraw(id)
    assert ids.read(id) is None
    assert ids.read(other) is not None


def test_only_the_newest_withdrawn_ids_are_remembered(monkeypatch, caplog):
    monkeypatch.setattr(ids_module, "MAX_WITHDRAWN", 2)
    ids = SealedIds([NEW])
    issued = [ids.issue(attrs.evolve(SESSION, nonce=str(n))) for n in range(3)]
    for id in issued:
        ids.withdraw(id)
    assert [ids.read(id) is None for id in issued] == [False, True, True]
    assert "too many ended sessions" in caplog.text


@pytest.mark.system("L-O10")
def test_sealed_id_over_max_length_is_refused():
    ids = SealedIds([NEW], max_length=300)
    large = attrs.evolve(SESSION, client_capabilities={"x": "y" * 300})
    with pytest.raises(InvalidRequest, match="the limit of 300"):
        ids.issue(large)
    assert ids.read(SealedIds([NEW]).issue(large)) is None
    assert HandleIds().issue(large)


@pytest.mark.system("L-O10")
def test_handles_are_random_and_the_oldest_is_dropped_at_the_maximum():
    ids = HandleIds(maximum=2)
    issued = [ids.issue(SESSION) for _ in range(3)]
    assert len(set(issued)) == 3
    assert all(len(id) == 43 + 17 for id in issued)
    assert [ids.read(id) is not None for id in issued] == [False, True, True]


@pytest.mark.attack("X07")
def test_one_clients_handles_do_not_evict_those_of_another():
    store = {}
    ids = HandleIds(maximum=3, store=store)
    honest = ids.issue(attrs.evolve(SESSION, client="198.51.100.1"))
    greedy = [ids.issue(attrs.evolve(SESSION, client="192.0.2.1")) for _ in range(9)]
    assert ids.read(honest) is not None
    assert [ids.read(id) is not None for id in greedy] == [False] * 7 + [True] * 2
    # The same holds for handles that a store kept from an earlier process.
    again = HandleIds(maximum=3, store=store)
    again.issue(attrs.evolve(SESSION, client="192.0.2.1"))
    assert again.read(honest) is not None
    assert len(store) == 3


def test_session_over_the_size_limit_is_refused():
    store: dict[str, bytes] = {}
    ids = HandleIds(store=store)
    large = attrs.evolve(
        SESSION, client_capabilities={"experimental": {"x": "y" * 70_000}}
    )
    with pytest.raises(InvalidRequest, match="the limit of 65536"):
        ids.issue(large)
    assert store == {}


def test_handles_in_a_persistent_store_survive_a_restart():
    store: dict[str, bytes] = {}
    id = HandleIds(store=store).issue(SESSION)
    assert same(HandleIds(store=store).read(id), SESSION)


@pytest.mark.system("O22")
def test_keys_are_read_from_base64_text():
    text = f"{b64encode(NEW).decode()}, {b64encode(OLD).decode()}\n"
    ids = SealedIds.from_text(text)
    assert ids.read(SealedIds([OLD]).issue(SESSION)) is not None
    assert SealedIds([NEW]).read(ids.issue(SESSION)) is not None


@pytest.mark.system("O22")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "32 random bytes"),
        ("hidden!", "session key 1 is not base64"),
        (b64encode(b"hidden").decode(), "32 random bytes"),
        (b64encode(NEW).decode() + " hidden!", "session key 2 is not base64"),
    ],
)
def test_invalid_keys_are_refused_and_not_shown(text, says):
    with pytest.raises(ValueError, match=says) as caught:
        SealedIds.from_text(text)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SealedIds([]), "at least one key"),
        (lambda: SealedIds(NEW), "list of keys"),  # type: ignore[arg-type] # the point
        (lambda: SealedIds(["x"]), "32 random bytes"),  # type: ignore[list-item] # same
        (lambda: SealedIds([NEW], lifetime=0), "lifetime"),
        (lambda: SealedIds([NEW], undecodable=403), "undecodable"),
        (lambda: HandleIds(maximum=0), "maximum"),
        (lambda: HandleIds(lifetime=float("nan")), "lifetime"),
    ],
)
def test_invalid_option_is_refused_at_construction(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_repr_does_not_show_keys():
    assert repr(SealedIds([NEW, OLD])) == "SealedIds(2 keys)"
    assert repr(HandleIds()) == "HandleIds(0 kept)"
