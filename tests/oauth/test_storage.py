"""What every store does: values that change only from a known version, and leases."""

from __future__ import annotations

import threading

import pytest

from mcpwire import FileStorage, MemoryStorage
from mcpwire.transports.oauth import storage as module

LEASE_S = 30.0
HOUR_S = 3_600.0


@pytest.fixture(params=["file", "memory"])
def storage(request, tmp_path):
    if request.param == "memory":
        return MemoryStorage()
    return FileStorage(tmp_path / "state" / "credentials.sqlite")


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "wall_time", made)
    monkeypatch.setattr(module, "monotonic", made)
    return made


# Values.


def test_what_was_never_stored_has_version_0(storage):
    assert storage.load("key") == (None, 0)
    assert storage.keys() == []


def test_what_is_stored_is_loaded_with_its_version(storage):
    version = storage.save("key", b"value", 0)
    assert storage.load("key") == (b"value", version)
    assert storage.save("key", b"other", version) != version
    assert storage.load("key")[0] == b"other"


@pytest.mark.pain("P33")
@pytest.mark.parametrize("wrong", [0, 2, -1, 1 << 40])
def test_nothing_is_stored_in_place_of_another_version(storage, wrong):
    assert storage.save("key", b"value", 0) == 1
    assert storage.save("key", b"other", wrong) is None
    assert storage.save("key", None, wrong) is None
    assert storage.load("key") == (b"value", 1)


@pytest.mark.pain("P33")
def test_what_was_removed_and_stored_again_has_a_version_of_its_own(storage):
    seen = [storage.save("key", b"value", 0)]
    for _ in range(3):
        assert storage.save("key", None, seen[-1]) == 0
        assert storage.load("key") == (None, 0)
        seen.append(storage.save("key", b"value", 0))
    assert len({*seen, 0}) == 5
    for version in (0, *seen[:-1]):
        assert storage.save("key", b"late", version) is None


def test_keys_are_those_that_have_a_value_in_order(storage):
    for key in ("b", "a", "é", "c"):
        storage.save(key, b"", 0)
    storage.save("c", None, storage.load("c")[1])
    assert storage.keys() == ["a", "b", "é"]


def test_a_value_is_bytes_of_any_kind_and_length(storage):
    value = bytes(range(256)) * 4_096
    storage.save("key", value, 0)
    assert storage.load("key")[0] == value


@pytest.mark.attack("S23")
def test_a_repr_shows_nothing_that_is_stored(storage):
    storage.save("some-SENTINEL-key", b"some-SENTINEL-value", 0)
    assert "SENTINEL" not in repr(storage)
    assert "\n" not in repr(storage)


@pytest.mark.pain("P33")
@pytest.mark.fault("F40")
def test_of_threads_that_change_a_value_together_none_is_lost(storage):
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


# Leases.


@pytest.mark.pain("P33")
def test_one_owner_has_the_lease_until_it_is_given_back(storage):
    assert storage.lease("key", "one", LEASE_S)
    assert not storage.lease("key", "other", LEASE_S)
    assert storage.lease("another key", "other", LEASE_S)
    storage.release("key", "other")  # it is not theirs
    assert not storage.lease("key", "other", LEASE_S)
    storage.release("key", "one")
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "one", LEASE_S)


def test_a_lease_is_given_back_twice_without_harm(storage):
    assert storage.lease("key", "one", LEASE_S)
    storage.release("key", "one")
    storage.release("key", "one")
    storage.release("never had", "one")


@pytest.mark.pain("P33")
def test_whoever_died_with_the_lease_blocks_nobody_for_longer(storage, clock):
    assert storage.lease("key", "dead", LEASE_S)
    clock.now += LEASE_S - 0.1
    assert not storage.lease("key", "other", LEASE_S)
    clock.now += 0.1
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "dead", LEASE_S)


def test_whoever_has_the_lease_may_have_it_again_for_longer(storage, clock):
    for _ in range(3):
        assert storage.lease("key", "one", LEASE_S)
        clock.now += LEASE_S * 0.9
        assert not storage.lease("key", "other", LEASE_S)


@pytest.mark.fault("F40")
@pytest.mark.parametrize("jump", [HOUR_S, -HOUR_S, -24 * HOUR_S])
def test_a_clock_that_jumps_lets_a_dead_owner_block_nobody(tmp_path, clock, jump):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    assert storage.lease("key", "dead", LEASE_S)
    clock.now += jump
    assert storage.lease("key", "other", LEASE_S)
    assert not storage.lease("key", "third", LEASE_S)


@pytest.mark.fault("F40")
@pytest.mark.pain("P33")
def test_a_clock_that_is_set_back_a_little_ends_no_lease(tmp_path, clock):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    assert storage.lease("key", "one", LEASE_S)
    clock.now -= 0.5
    assert not storage.lease("key", "other", LEASE_S)
    clock.now += LEASE_S + 0.5
    assert storage.lease("key", "other", LEASE_S)


@pytest.mark.fault("F40")
def test_no_clock_that_jumps_matters_within_one_process(monkeypatch):
    storage = MemoryStorage()
    assert storage.lease("key", "one", LEASE_S)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert not storage.lease("key", "other", LEASE_S)
