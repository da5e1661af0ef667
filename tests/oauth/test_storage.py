"""The contract of every store: values with compare-and-set versions, and leases."""

import copy
import pickle
import threading

import pytest
from clocks import Clock

from mcpwire import FileStorage, MemoryStorage
from mcpwire.transports.oauth import storage as module

LEASE_S = 30.0
HOUR_S = 3_600.0


@pytest.fixture(params=["file", "memory"])
def storage(request, tmp_path):
    if request.param == "memory":
        return MemoryStorage()
    return FileStorage(tmp_path / "state" / "credentials.sqlite")


@pytest.fixture
def clock(monkeypatch):
    made = Clock(1_800_000_000.0)
    monkeypatch.setattr(module, "wall_time", made)
    monkeypatch.setattr(module, "monotonic", made)
    return made


def test_a_stored_value_is_loaded_with_its_version(storage):
    assert (storage.load("key"), storage.keys()) == ((None, 0), [])
    version = storage.save("key", b"value", 0)
    assert storage.load("key") == (b"value", version)
    assert storage.save("key", b"other", version) != version
    assert storage.load("key")[0] == b"other"


@pytest.mark.pain("P33")
@pytest.mark.parametrize("wrong", [0, 2, -1, 1 << 40])
def test_save_with_a_wrong_version_changes_nothing(storage, wrong):
    assert storage.save("key", b"value", 0) == 1
    assert storage.save("key", b"other", wrong) is None
    assert storage.save("key", None, wrong) is None
    assert storage.load("key") == (b"value", 1)


@pytest.mark.pain("P33")
def test_a_value_stored_after_removal_has_a_new_version(storage):
    seen = [storage.save("key", b"value", 0)]
    for _ in range(3):
        assert storage.save("key", None, seen[-1]) == 0
        assert storage.load("key") == (None, 0)
        seen.append(storage.save("key", b"value", 0))
    assert len({*seen, 0}) == 5
    for version in (0, *seen[:-1]):
        assert storage.save("key", b"late", version) is None


def test_keys_lists_keys_with_a_value_in_order(storage):
    for key in ("b", "a", "é", "c"):
        storage.save(key, b"", 0)
    storage.save("c", None, storage.load("c")[1])
    assert storage.keys() == ["a", "b", "é"]


def test_a_value_may_be_any_bytes(storage):
    value = bytes(range(256)) * 4_096
    storage.save("key", value, 0)
    assert storage.load("key")[0] == value


@pytest.mark.attack("S23")
def test_a_repr_shows_no_stored_key_or_value(storage):
    storage.save("some-SENTINEL-key", b"some-SENTINEL-value", 0)
    assert "SENTINEL" not in repr(storage)
    assert "\n" not in repr(storage)


def test_a_pickled_store_in_memory_is_empty():
    storage = MemoryStorage()
    storage.save("k", b"secret", 0)
    made = [copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))]
    assert [each.keys() for each in (storage, *made)] == [["k"], [], []]


@pytest.mark.pain("P33")
@pytest.mark.fault("F40")
def test_concurrent_updates_by_threads_are_not_lost(storage):
    def add(times: int) -> None:
        for _ in range(times):
            while True:
                value, version = storage.load("key")
                more = str(int(value or 0) + 1).encode()
                if storage.save("key", more, version) is not None:
                    break

    threads = [threading.Thread(target=add, args=(5,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert storage.load("key")[0] == b"40"


@pytest.mark.pain("P33")
def test_a_lease_excludes_other_owners_until_its_release(storage):
    assert storage.lease("key", "one", LEASE_S)
    assert not storage.lease("key", "other", LEASE_S)
    assert storage.lease("another key", "other", LEASE_S)
    storage.release("key", "other")  # not the owner
    assert not storage.lease("key", "other", LEASE_S)
    for key in ("key", "key", "never had"):  # it may be released twice
        storage.release(key, "one")
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "one", LEASE_S)


@pytest.mark.pain("P33")
def test_a_lease_of_a_dead_owner_expires(storage, clock):
    assert storage.lease("key", "dead", LEASE_S)
    clock.now += LEASE_S - 0.1
    assert not storage.lease("key", "other", LEASE_S)
    clock.now += 0.1
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "dead", LEASE_S)


def test_the_owner_can_extend_its_lease(storage, clock):
    for _ in range(3):
        assert storage.lease("key", "one", LEASE_S)
        clock.now += LEASE_S * 0.9
        assert not storage.lease("key", "other", LEASE_S)


@pytest.mark.fault("F40")
@pytest.mark.parametrize("jump", [HOUR_S, -HOUR_S, -24 * HOUR_S])
def test_a_clock_jump_does_not_extend_a_dead_lease(tmp_path, clock, jump):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    assert storage.lease("key", "dead", LEASE_S)
    clock.now += jump
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "third", LEASE_S)


@pytest.mark.fault("F40")
@pytest.mark.pain("P33")
def test_a_small_backward_clock_step_keeps_a_lease(tmp_path, clock):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    assert storage.lease("key", "one", LEASE_S)
    clock.now -= 0.5
    assert not storage.lease("key", "other", LEASE_S)
    clock.now += LEASE_S + 0.5
    assert storage.lease("key", "other", LEASE_S)


@pytest.mark.fault("F40")
def test_memory_leases_ignore_the_wall_clock(monkeypatch):
    storage = MemoryStorage()
    assert storage.lease("key", "one", LEASE_S)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert not storage.lease("key", "other", LEASE_S)
