"""The file of a `FileStorage` during concurrent use, forks, crashes and removal."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import mcpwire
from mcpwire import FileStorage
from mcpwire.auth import steps
from mcpwire.transports.oauth import storage as module

SECRET = b"some-SENTINEL-token"
KEY = "key"
BOUND_S = 20.0


@pytest.fixture
def storage(tmp_path):
    made = FileStorage(tmp_path / "credentials.sqlite")
    made.save(KEY, SECRET, 0)
    return made


# No open files between calls, and no lost locks.


def test_no_file_stays_open_between_calls(storage, tmp_path):
    def opened():
        targets = []
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                targets.append(link.readlink())
        return [target for target in targets if tmp_path in target.parents]

    storage.load("key")
    storage.lease("key", "owner", 30)
    assert opened() == []
    assert len(storage._run(lambda database: opened())) == 1


@pytest.mark.pain("P33")
@pytest.mark.fault("F40")
def test_other_uses_in_the_process_keep_the_transaction_lock(storage):
    attempt = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "try: database.execute('begin immediate')\n"
        "except sqlite3.OperationalError as error: print(error)"
    )

    def meanwhile(database):
        other = FileStorage(storage.path)
        assert other.load("key")[0] == SECRET
        module.make_file(storage.path)
        child = [sys.executable, "-S", "-c", attempt, str(storage.path)]
        return subprocess.run(child, capture_output=True, timeout=BOUND_S, check=True)

    assert storage._run(meanwhile).stdout == b"database is locked\n"


def test_an_interrupted_transaction_is_rolled_back(storage):

    def interrupted(database):
        database.execute("delete from credential")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage._run(interrupted)
    assert storage.load("key") == (SECRET, 1)


@pytest.mark.fault("F40", "F43")
def test_a_store_works_in_parent_and_child_after_fork(tmp_path):
    program = f"""
import os, sys, threading
from mcpwire.transports.oauth import storage as module

storage = module.FileStorage({str(tmp_path / "credentials.sqlite")!r})
storage.save("key", b"0", 0)
goes_on, is_in = threading.Event(), threading.Event()

def slowly(database):
    module._save(database, "key", b"1", 1)
    is_in.set()
    goes_on.wait(20)

# A child that is made in the middle of a transaction must not end or undo it.
thread = threading.Thread(target=storage._run, args=(slowly,))
thread.start()
is_in.wait(20)
made = os.fork()
if not made:
    print(storage.load("key"), flush=True)
    sys.exit(0)
assert os.waitpid(made, 0)[1] == 0
goes_on.set()
thread.join()
if not os.fork():
    print(storage.save("key", b"2", 2), flush=True)
    sys.exit(0)
assert os.wait()[1] == 0
print(storage.load("key"))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, timeout=BOUND_S, check=False)
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == ["(b'0', 1)", "3", "(b'2', 3)"]


@pytest.mark.fault("F40")
def test_a_removed_or_replaced_file_is_a_new_store(storage, tmp_path):
    other = FileStorage(tmp_path / "other.sqlite")
    other.save(KEY, b"another", 0)
    storage.path.unlink()
    assert storage.load(KEY) == (None, 0)
    assert storage.save(KEY, b"late", 1) is None
    other.path.rename(storage.path)
    assert storage.load(KEY) == (b"another", 1)


@pytest.mark.fault("F40")
def test_a_file_removed_during_save_is_not_written(storage, monkeypatch):
    saves = module._save
    seen = []

    def removed(database, *given):
        if not seen:
            storage.path.unlink()
        seen.append(given)
        return saves(database, *given)

    monkeypatch.setattr(module, "_save", removed)
    assert storage.save(KEY, b"late", 1) is None
    assert len(seen) == 2
    assert storage.load(KEY) == (None, 0)


@pytest.mark.fault("F40")
def test_a_file_that_keeps_disappearing_is_given_up(storage, monkeypatch):
    seen = []

    def removed(database, *given):
        storage.path.unlink()
        seen.append(given)
        raise sqlite3.OperationalError("gone")

    monkeypatch.setattr(module, "_lease", removed)
    assert storage.lease(KEY, "one", 30)
    assert len(seen) == module.MAX_ATTEMPTS


@pytest.mark.pain("P33")
@pytest.mark.fault("F40")
def test_a_process_killed_during_a_write_changes_nothing(storage):
    program = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("pragma cache_size = 1")
database.execute("begin immediate")
database.execute("update credential set version = 2, value = zeroblob(200000)")
database.execute("insert into credential values ('b', 1, zeroblob(200000))")
os.kill(os.getpid(), signal.SIGKILL)
"""
    before = storage.path.stat().st_size
    child = [sys.executable, "-S", "-c", program, str(storage.path)]
    assert subprocess.run(child, timeout=BOUND_S, check=False).returncode == -9
    journal = storage.path.with_name(storage.path.name + "-journal")
    assert journal.stat().st_mode & 0o777 == 0o600
    assert storage.path.stat().st_size > before  # the write had begun
    assert storage.load(KEY) == (SECRET, 1)
    assert not journal.exists()


def test_a_lease_granted_after_close_is_released():
    """The thread that acquires it goes on when the operation is cancelled."""

    class Late(mcpwire.MemoryStorage):
        def lease(self, key, owner, seconds):
            has_it = super().lease(key, owner, seconds)
            meanwhile()
            return has_it

    grant = mcpwire.OAuth(storage=Late())
    target = mcpwire.Http("https://host.example/mcp", auth=grant)
    stores = [module.CredentialStore(grant, target, mcpwire.Limits()) for _ in "ab"]
    meanwhile = stores[0].close
    stores[0].perform(steps.AcquireLease(30.0))
    meanwhile = bool
    assert stores[1].perform(steps.AcquireLease(30.0))
