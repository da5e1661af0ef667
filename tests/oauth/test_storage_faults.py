"""A store that cannot be used: the user logs in again; one warning says why (F40)."""

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from mcpwire import FileStorage, StorageError
from mcpwire.transports.oauth import storage as module

pytestmark = [pytest.mark.fault("F40"), pytest.mark.attack("S23")]

SECRET = b"some-SENTINEL-token"
KEY = "https://mcp.example/mcp?key=SENTINEL OAuth default"
BOUND_S = 20.0


@pytest.fixture(autouse=True)
def secrets_are_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    yield
    assert "SENTINEL" not in caplog.text


@pytest.fixture
def storage(tmp_path):
    made = FileStorage(tmp_path / "credentials.sqlite")
    made.save(KEY, SECRET, 0)
    return made


@pytest.fixture
def as_somebody():
    """Run as a user other than root, so that permissions count; yield its folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield folder
            folder.chmod(0o700)
            return
        os.chown(folder, 65_534, 65_534)
        os.seteuid(65_534)
        try:
            yield folder
        finally:
            os.seteuid(0)


def full(monkeypatch, pages=3):
    """Limit the size of databases: SQLite then raises its error for a full disk."""
    connect = sqlite3.connect

    def limited(*given, **options):
        made = connect(*given, **options)
        made.execute(f"pragma max_page_count = {pages}").fetchall()
        return made

    monkeypatch.setattr(sqlite3, "connect", limited)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "mcpwire"]


def complaint(storage, reason):
    return (
        f"cannot use {str(storage.path)!r} for credentials: {reason}; the file is "
        "not used, and logins are not stored"
    )


def aside(storage):
    return sorted(storage.path.parent.glob("*.broken-*"))


# Values that cannot be stored are kept as long as the store object.


def test_unstorable_values_are_kept_in_memory(as_somebody, caplog):
    as_somebody.chmod(0o500)
    storage = FileStorage(as_somebody / "credentials.sqlite")
    assert storage.load(KEY) == (None, 0)
    assert storage.lease(KEY, "one", 30)
    version = storage.save(KEY, SECRET, 0)
    assert storage.load(KEY) == (SECRET, version)
    version = storage.save(KEY, SECRET * 2, version)
    assert storage.load(KEY) == (SECRET * 2, version)
    storage.release(KEY, "one")
    assert warnings(caplog) == [complaint(storage, "Permission denied")]
    assert FileStorage(storage.path).load(KEY) == (None, 0)
    assert [*as_somebody.iterdir()] == []


def test_a_read_only_store_is_still_read(as_somebody, caplog):
    storage = FileStorage(as_somebody / "credentials.sqlite")
    storage.save(KEY, SECRET, 0)
    as_somebody.chmod(0o500)
    storage.path.chmod(0o400)
    before = storage.path.read_bytes()
    assert storage.load(KEY) == (SECRET, 1)
    assert storage.keys() == [KEY]
    assert warnings(caplog) == []
    assert storage.save(KEY, b"refreshed", 1) == 1
    assert storage.load(KEY) == (b"refreshed", 1)
    assert storage.lease(KEY, "one", 30)
    assert storage.lease(KEY, "other", 30)
    reason = "attempt to write a readonly database"
    assert warnings(caplog) == [complaint(storage, reason)]
    assert storage.path.read_bytes() == before


def test_a_value_in_memory_is_stored_with_the_next_change(as_somebody, caplog):
    storage = FileStorage(as_somebody / "credentials.sqlite")
    storage.save(KEY, SECRET, 0)
    storage.path.chmod(0o400)
    assert storage.save(KEY, b"kept", 1) == 1
    storage.path.chmod(0o600)
    assert storage.load(KEY) == (b"kept", 1)
    assert storage.save(KEY, b"stored", 1) == 2
    assert FileStorage(storage.path).load(KEY) == (b"stored", 2)
    storage.path.chmod(0o400)
    storage.save(KEY, b"again", 2)
    assert len(warnings(caplog)) == 2  # it worked in between


def test_a_newer_value_in_the_file_replaces_one_in_memory(as_somebody):
    storage = FileStorage(as_somebody / "credentials.sqlite")
    storage.save(KEY, SECRET, 0)
    for change in (lambda: storage.load(KEY), lambda: storage.save(KEY, b"late", 1)):
        storage.path.chmod(0o400)
        version = storage.load(KEY)[1]
        storage.save(KEY, b"kept", version)
        storage.path.chmod(0o600)
        other_version = FileStorage(storage.path).save(KEY, b"theirs", version)
        change()
        assert storage.load(KEY) == (b"theirs", other_version)
        assert storage.save(KEY, SECRET, 1) is None


def test_removal_from_a_read_only_file_raises(as_somebody):
    storage = FileStorage(as_somebody / "credentials.sqlite")
    storage.save(KEY, SECRET, 0)
    storage.path.chmod(0o400)
    storage.save(KEY, b"kept", 1)
    with pytest.raises(StorageError) as caught:
        storage.save(KEY, None, 1)
    assert "SENTINEL" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert storage.load(KEY) == (SECRET, 1)


def test_an_unreadable_file_counts_as_empty(as_somebody, caplog):
    storage = FileStorage(as_somebody / "credentials.sqlite")
    storage.save(KEY, SECRET, 0)
    storage.path.chmod(0o000)
    assert storage.load(KEY) == (None, 0)
    with pytest.raises(StorageError, match="unable to open database file"):
        storage.keys()
    version = storage.save(KEY, b"new", 0)
    assert storage.load(KEY) == (b"new", version)
    assert len(warnings(caplog)) == 1
    storage.path.chmod(0o600)
    assert storage.load(KEY) == (SECRET, 1)


def test_a_full_disk_leaves_the_file_unchanged(storage, monkeypatch, caplog):
    before = storage.path.read_bytes()
    full(monkeypatch)
    big = os.urandom(100_000)
    assert storage.save(KEY, big, 1) == 1
    assert storage.load(KEY) == (big, 1)
    assert warnings(caplog) == [complaint(storage, "database or disk is full")]
    monkeypatch.undo()
    assert FileStorage(storage.path).load(KEY) == (SECRET, 1)
    assert storage.path.read_bytes() == before
    assert [*storage.path.parent.iterdir()] == [storage.path]


def test_a_full_disk_at_creation_leaves_an_empty_file(tmp_path, monkeypatch):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    full(monkeypatch, pages=1)
    storage.save(KEY, SECRET, 0)
    assert storage.path.read_bytes() == b""
    monkeypatch.undo()
    assert storage.load(KEY) == (SECRET, 0)
    assert storage.save(KEY, SECRET, 0) == 1
    assert FileStorage(storage.path).load(KEY) == (SECRET, 1)


def test_a_foreign_lock_on_the_file_is_waited_for_briefly(storage, monkeypatch, caplog):
    monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0.05)
    with contextlib.closing(sqlite3.connect(storage.path)) as other:
        other.execute("begin exclusive")
        assert storage.load(KEY) == (None, 0)
        assert storage.lease(KEY, "one", 30)
    assert ["database is locked" in each for each in warnings(caplog)] == [True]
    assert storage.load(KEY) == (SECRET, 1)


def test_values_are_kept_in_memory_without_sqlite3(storage, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    assert storage.load(KEY) == (None, 0)
    assert storage.save(KEY, SECRET, 0) == 0
    assert storage.load(KEY) == (SECRET, 0)
    [warning] = warnings(caplog)
    assert "this Python comes without sqlite3" in warning


def test_a_key_with_a_lone_surrogate_is_kept_in_memory(storage):
    assert storage.save("profile \udcff", SECRET, 0) == 0
    assert storage.load("profile \udcff") == (SECRET, 0)


def test_keys_in_memory_and_in_the_file_are_listed_together(storage, monkeypatch):
    full(monkeypatch)
    storage.save("another", os.urandom(100_000), 0)
    assert storage.keys() == ["another", KEY]


def garbage(path):
    path.write_bytes(os.urandom(8_192))


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_page_of_zeros(path):
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    data[size:] = bytes(len(data) - size)
    path.write_bytes(data)


@pytest.mark.parametrize("breaks", [garbage, half, a_page_of_zeros])
@pytest.mark.parametrize("begins", ["load", "save", "lease", "keys"])
def test_a_broken_file_is_renamed_and_kept(storage, caplog, breaks, begins):
    breaks(storage.path)
    broken = storage.path.read_bytes()
    calls = {
        "load": lambda: storage.load(KEY) == (None, 0),
        "save": lambda: storage.save("another", SECRET, 0) == 1,
        "lease": lambda: storage.lease(KEY, "one", 30),
        "keys": lambda: storage.keys() == [],
    }
    assert calls[begins]()
    [kept] = aside(storage)
    assert kept.read_bytes() == broken
    assert kept.stat().st_mode & 0o777 == 0o600
    assert storage.save(KEY, b"new", 0)
    assert FileStorage(storage.path).load(KEY)[0] == b"new"
    [warning] = warnings(caplog)
    assert f"it was renamed to {kept.name!r}" in warning


def test_a_broken_page_is_found_when_it_is_read(storage):
    for number in range(50):
        storage.save(f"key {number}", SECRET * 50, 0)
    size = storage.path.stat().st_size
    with storage.path.open("r+b") as opened:
        opened.seek(size // 2)
        opened.write(b"\xa5" * (size // 2))
    for number in range(50):
        storage.load(f"key {number}")
    assert len(aside(storage)) == 1
    assert storage.save(KEY, b"new", 0) == 1


def test_side_files_of_a_broken_file_are_renamed_with_it(storage):
    garbage(storage.path)
    for suffix in ("-journal", "-shm"):
        Path(f"{storage.path}{suffix}").write_bytes(b"left over")
    assert storage.save(KEY, SECRET, 0) == 1
    [kept, other] = aside(storage)  # SQLite removes an invalid journal
    assert (other.name, other.read_bytes()) == (f"{kept.name}-shm", b"left over")
    left = {each.name for each in storage.path.parent.iterdir()}
    assert left == {storage.path.name, kept.name, other.name}


def test_an_empty_file_is_an_empty_store(storage, caplog):
    storage.path.write_bytes(b"")
    assert storage.load(KEY) == (None, 0)
    assert storage.save(KEY, SECRET, 0) == 1
    assert (aside(storage), warnings(caplog)) == ([], [])


@pytest.mark.pain("P33")
def test_one_of_several_threads_renames_a_broken_file(storage):
    garbage(storage.path)
    together = threading.Barrier(8)
    outcomes = []

    def use(number):
        own = FileStorage(storage.path)
        together.wait(BOUND_S)
        own.load(KEY)
        outcomes.append(own.save(f"key {number}", SECRET, 0))

    threads = [threading.Thread(target=use, args=(each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    assert sorted(outcomes) == list(range(1, 9))
    assert storage.keys() == sorted(f"key {number}" for number in range(8))
    assert len(aside(storage)) == 1


def test_a_file_is_not_renamed_while_it_is_open(storage):
    """Otherwise SQLite would apply the journal of the new file to the old one."""

    def look(database):
        with pytest.raises(TimeoutError), module.folder_lock(storage.path.parent, 0):
            pass
        return FileStorage(storage.path).load(KEY)  # others may use the file meanwhile

    assert storage._run(look, missing=(None, 0)) == (SECRET, 1)
    with module.folder_lock(storage.path.parent, 0):
        pass


@pytest.mark.parametrize("code", ["ENOLCK", "EOPNOTSUPP", "EIO"])
def test_a_file_system_without_folder_locks_is_supported(storage, monkeypatch, code):
    def flock(opened, how):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(fcntl, "flock", flock)
    expected = (None, 0) if code == "EIO" else (SECRET, 1)
    assert storage.load(KEY) == expected


def test_a_foreign_folder_lock_is_waited_for_briefly(storage, monkeypatch, caplog):
    garbage(storage.path)
    monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0.05)
    with module.folder_lock(storage.path.parent, 1.0):
        assert storage.load(KEY) == (None, 0)
    [warning] = warnings(caplog)
    assert "another process holds its lock" in warning
    assert aside(storage) == []
