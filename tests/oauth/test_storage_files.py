"""The file of a `FileStorage`: owner, location and permissions."""

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from mcpwire import FileStorage, StorageError
from mcpwire.transports.oauth import storage as module

SECRET = b"some-SENTINEL-token"


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def at_home(monkeypatch, tmp_path):
    """Put the default file below the folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "mcpwire" / "credentials.sqlite"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def refused(storage: FileStorage) -> str:
    """Return the error of a removal, which is never kept in memory for later."""
    with pytest.raises(StorageError) as caught:
        storage.save("key", None, 0)
    assert caught.value.path == str(storage.path)
    return str(caught.value)


@pytest.mark.attack("S23")
@pytest.mark.usefixtures("umask")
def test_the_file_and_new_folders_are_private(tmp_path):
    storage = FileStorage(tmp_path / "a" / "b" / "credentials.sqlite")
    storage.save("key", SECRET, 0)
    modes = [mode_of(storage.path), *map(mode_of, storage.path.parents[:2])]
    assert modes == [0o600, 0o700, 0o700]
    assert [path.name for path in storage.path.parent.iterdir()] == [storage.path.name]
    assert storage.load("key") == (SECRET, 1)


@pytest.mark.attack("S23")
@pytest.mark.usefixtures("umask")
def test_the_journal_is_private_too(tmp_path):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    storage.save("key", SECRET, 0)

    def look(database):
        database.execute("update credential set value = zeroblob(10)")
        return {path.name: mode_of(path) for path in tmp_path.iterdir()}

    assert storage._run(look) == {
        "credentials.sqlite": 0o600,
        "credentials.sqlite-journal": 0o600,
    }


@pytest.mark.attack("S23")
def test_a_readable_file_is_made_private(tmp_path):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    storage.save("key", SECRET, 0)
    storage.path.chmod(0o644)
    assert storage.load("key")[0] == SECRET
    assert mode_of(storage.path) == 0o600


@pytest.mark.attack("S23")
def test_replaced_and_removed_values_are_overwritten(tmp_path):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    version = 0
    for number in range(20):
        version = storage.save("key", b"%s-%d" % (SECRET * 200, number), version)
    version = storage.save("key", SECRET, version)
    assert storage.path.read_bytes().count(b"SENTINEL") == 1
    storage.save("key", None, version)
    storage.save("https://mcp.example/?key=SENTINEL", SECRET, 0)
    storage.lease("https://mcp.example/?key=SENTINEL", "owner", 1e-9)
    storage.save("https://mcp.example/?key=SENTINEL", None, version + 1)
    storage.lease("another", "owner", 30)
    assert b"SENTINEL" not in storage.path.read_bytes()


def test_the_default_folder_is_made_private_again(at_home):
    at_home.parent.mkdir(parents=True)
    at_home.parent.chmod(0o777)
    for version in (0, 1):
        assert FileStorage().save("key", SECRET, version) == version + 1
        assert (mode_of(at_home.parent), mode_of(at_home)) == (0o700, 0o600)


@pytest.mark.attack("S23")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_a_folder_writable_by_others_is_refused_unchanged(tmp_path, mode):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    storage = FileStorage(folder / "credentials.sqlite")
    assert "other users may write to its folder" in refused(storage)
    assert (mode_of(folder), [*folder.iterdir()]) == (mode, [])


@pytest.mark.parametrize(("group", "is_refused"), [(0, False), (1, True)])
def test_a_folder_of_the_private_group_is_accepted(
    tmp_path, monkeypatch, group, is_refused
):
    found = tmp_path.lstat()
    tmp_path.chmod(0o770)
    # Only root can give files to another group: the result of `lstat` is made up.
    user = found.st_uid
    shown = os.stat_result(
        (found.st_mode | 0o070, 0, 0, 0, user, user + group, *[0] * 4)
    )
    monkeypatch.setattr(module, "_check_owner", lambda path, is_kind: shown)
    storage = FileStorage(tmp_path / "credentials.sqlite")
    if is_refused:
        assert "other users may write" in refused(storage)
    else:
        assert storage.save("key", SECRET, 0) == 1


def test_a_folder_readable_by_others_is_left_unchanged(tmp_path):
    tmp_path.chmod(0o755)
    storage = FileStorage(tmp_path / "credentials.sqlite")
    assert storage.save("key", SECRET, 0) == 1
    assert (mode_of(tmp_path), mode_of(storage.path)) == (0o755, 0o600)


@pytest.mark.attack("S23")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        *((path, "is a symbolic link") for path in ("link", "dangling", "linked/x")),
        *((path, "ot a directory") for path in ("file/x", "file/state/x")),
        *((path, "is not a file") for path in (".", "folder", "pipe")),
    ],
)
def test_a_path_that_is_not_a_file_in_a_folder_is_refused(tmp_path, path, text):
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "file").write_bytes(b"text")
    os.mkfifo(tmp_path / "pipe", 0o600)
    links = {"link": "file", "dangling": "nowhere", "linked": "folder"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    before = {each: each.lstat().st_size for each in tmp_path.rglob("*")}
    assert text in refused(FileStorage(tmp_path / path))
    assert {each: each.lstat().st_size for each in tmp_path.rglob("*")} == before


@pytest.mark.attack("S23")
@pytest.mark.parametrize("has_file", [False, True])
def test_a_path_owned_by_another_user_is_refused(tmp_path, monkeypatch, has_file):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    if has_file:
        storage.save("key", SECRET, 0)
    own_uid = os.geteuid()
    monkeypatch.setattr(module.os, "geteuid", lambda: own_uid + 1)
    assert "belongs to another user" in refused(storage)
    assert storage.load("key") == (None, 0)


@pytest.mark.attack("S23")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_with_another_owner_is_refused(tmp_path):
    storage = FileStorage(tmp_path / "credentials.sqlite")
    storage.save("key", SECRET, 0)
    os.chown(storage.path, 65_534, 65_534)
    assert "belongs to another user" in refused(storage)


def test_make_folder_refuses_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    with pytest.raises(PermissionError, match="is not a folder"):
        module.make_folder(tmp_path / "file", is_ours=True)


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_STATE_HOME": "/state"}, "/state/mcpwire"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "~/.local/state/mcpwire"),
        ("linux", {"XDG_STATE_HOME": ""}, "~/.local/state/mcpwire"),
        ("linux", {}, "~/.local/state/mcpwire"),
        ("darwin", {}, "~/Library/Application Support/mcpwire"),
        (
            "darwin",
            {"XDG_STATE_HOME": "/state"},
            "~/Library/Application Support/mcpwire",
        ),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/mcpwire"),
        ("win32", {}, "~/AppData/Local/mcpwire"),
    ],
)
def test_the_default_path_follows_the_platform(
    monkeypatch, tmp_path, platform, environment, expected
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.sys, "platform", platform)
    folder = expected.replace("~", str(tmp_path))
    assert str(FileStorage().path) == f"{folder}/credentials.sqlite"


def test_a_missing_home_raises_an_error_with_advice(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(module.Path, "home", no_home)
    with pytest.raises(StorageError, match="give a storage, or its path"):
        FileStorage()


def test_a_relative_path_survives_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = FileStorage("credentials.sqlite")
    storage.save("key", SECRET, 0)
    monkeypatch.chdir("/")
    assert storage.load("key")[0] == SECRET


@pytest.mark.parametrize(
    "name", [":memory:", "file:x?mode=memory", "a b%20#?.sqlite", "ü", "\udcff"]
)
def test_special_sqlite_names_are_plain_paths(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    FileStorage(name).save("key", SECRET, 0)
    assert (tmp_path / name).is_file()
    assert FileStorage(tmp_path / name).load("key")[0] == SECRET


def test_a_path_may_begin_with_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FileStorage("~/credentials.sqlite").path == tmp_path / "credentials.sqlite"


def test_reading_a_missing_store_creates_no_file(tmp_path):
    storage = FileStorage(tmp_path / "state" / "credentials.sqlite")
    assert (storage.load("key"), storage.keys()) == ((None, 0), [])
    assert [*tmp_path.iterdir()] == []


def test_permissions_are_not_checked_on_other_platforms(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "IS_POSIX", False)
    storage = FileStorage(tmp_path / "state" / "credentials.sqlite")
    storage.save("key", SECRET, 0)
    assert storage.load("key")[0] == SECRET
    storage.path.write_bytes(b"no database" * 100)
    assert storage.load("key") == (None, 0)


@pytest.mark.fault("F40")
@pytest.mark.parametrize(
    "statement", ["create table theirs (a)", "pragma user_version = 2"]
)
def test_a_foreign_database_is_refused_unchanged(tmp_path, statement):
    path = tmp_path / "theirs.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(statement)
    before = path.read_bytes()
    storage = FileStorage(path)
    assert "belongs to another program or to a newer mcpwire" in refused(storage)
    assert storage.load("key") == (None, 0)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]
