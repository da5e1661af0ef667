"""The cache of servers that do not answer the probe: one timeout a day."""

import os
import stat
import time
from pathlib import Path

import pytest

import mcpwire
from mcpwire.cli.targets import ProbeCache

DAY_S = 24 * 3_600.0
SERVER = mcpwire.Stdio("server", ("--token", "s3cret"))


@pytest.fixture
def impatient(monkeypatch):
    """Give the probe a short timeout, in this process."""

    class Impatient(mcpwire.Client):
        def __init__(self, target, **options):
            super().__init__(target, **{**options, "probe_timeout": 0.05})

    monkeypatch.setattr(mcpwire, "Client", Impatient)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "mcpwire" / "probes"


def probe_cache(server):
    return ProbeCache(mcpwire.Stdio(server.argv[0], server.argv[1:]))


def methods(server):
    return [m["method"] for m in server.messages() if "id" in m]


@pytest.mark.usefixtures("impatient")
def test_second_command_does_not_probe_a_silent_server(cli, scripted):
    silent = scripted(server__discover=[], ping=[{"result": {}}])
    assert cli("ping", silent.line).code == 0
    assert methods(silent) == ["server/discover", "initialize", "ping"]
    silent.log.unlink()
    assert cli("ping", silent.line).code == 0
    assert methods(silent) == ["initialize", "ping"]


def test_mode_option_bypasses_the_cache(cli, scripted):
    newer = scripted(server__discover=[{"result": DISCOVERED}])
    probe_cache(newer).add()
    assert cli("info", "--mode", "stateless", newer.line).code == 0
    assert methods(newer) == ["server/discover"]


@pytest.mark.usefixtures("impatient")
def test_the_cache_can_be_turned_off(cli, scripted, folder, monkeypatch):
    monkeypatch.setenv("MCPWIRE_NO_CACHE", "1")
    silent = scripted(server__discover=[], ping=[{"result": {}}])
    for _ in range(2):
        assert cli("ping", silent.line).code == 0
        assert methods(silent) == ["server/discover", "initialize", "ping"]
        silent.log.unlink()
    assert not folder.exists()


def test_server_that_answers_the_probe_is_not_cached(cli, scripted, folder):
    answering = scripted(ping=[{"result": {}}])
    assert cli("ping", answering.line).code == 0
    assert not folder.exists()


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}},
}


def test_cached_server_that_refuses_initialize_is_probed(cli, scripted):
    refused = {"error": {"code": -32601, "message": "Method not found"}}
    newer = scripted(initialize=[refused], server__discover=[{"result": DISCOVERED}])
    probe_cache(newer).add()
    assert cli("info", newer.line).code == 0
    assert methods(newer) == ["initialize", "server/discover"]
    assert not probe_cache(newer).is_silent


def test_failed_handshake_removes_the_cache_entry(cli, scripted):
    broken = scripted(initialize=[{"exit": 3}])
    probe_cache(broken).add()
    assert cli("ping", broken.line).code == 4
    assert methods(broken) == ["initialize"]
    assert not probe_cache(broken).is_silent


def test_cache_contains_no_secret_and_is_private_to_the_user(folder):
    ProbeCache(SERVER).add()
    (file,) = folder.iterdir()
    assert "s3cret" not in file.name + file.read_text()
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, file)]
    assert modes == [0o700, 0o600]


def test_cache_key_is_the_target_with_its_arguments(tmp_path):
    ProbeCache(SERVER).add()
    url = mcpwire.Http("http://127.0.0.1:1/mcp")
    assert ProbeCache(SERVER).is_silent
    assert not ProbeCache(mcpwire.Stdio("server")).is_silent
    assert not ProbeCache(
        mcpwire.Stdio("server", SERVER.args, cwd=str(tmp_path))
    ).is_silent
    assert not ProbeCache(url).is_silent
    ProbeCache(url).add()
    assert ProbeCache(url).is_silent
    ProbeCache(SERVER).remove()
    ProbeCache(SERVER).remove()
    assert not ProbeCache(SERVER).is_silent
    assert ProbeCache(url).is_silent


@pytest.mark.parametrize(
    ("age", "is_silent"),
    [(DAY_S - 60, True), (DAY_S + 60, False), (-60, False)],
    ids=["a day", "more", "a clock that was set back"],
)
def test_cache_entry_expires_after_a_day(folder, age, is_silent):
    ProbeCache(SERVER).add()
    (file,) = folder.iterdir()
    os.utime(file, (time.time() - age,) * 2)
    assert ProbeCache(SERVER).is_silent is is_silent
    ProbeCache(mcpwire.Stdio("another")).add()
    assert file.exists() is is_silent


def test_unwritable_folder_disables_the_cache(folder):
    folder.parent.parent.write_text("a file where the folder should be")
    ProbeCache(SERVER).add()
    ProbeCache(SERVER).remove()
    assert not ProbeCache(SERVER).is_silent


@pytest.mark.parametrize("variable", [None, "relative"])
def test_cache_is_below_the_home_folder_by_default(variable, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME")
    if variable is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", variable)
    ProbeCache(SERVER).add()
    assert (tmp_path / ".cache" / "mcpwire" / "probes").is_dir()


def test_a_user_without_a_home_folder_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    ProbeCache(SERVER).add()
    assert not ProbeCache(SERVER).is_silent
