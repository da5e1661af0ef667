"""A server that does not answer the probe costs its wait once a day."""

from __future__ import annotations

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
    """Let silence be noticed at once, in this process."""

    class Impatient(mcpwire.Client):
        def __init__(self, target, **options):
            super().__init__(target, **{**options, "probe_timeout": 0.05})

    monkeypatch.setattr(mcpwire, "Client", Impatient)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "mcpwire" / "probes"


def probe_cache(server):
    return ProbeCache(mcpwire.Stdio(server.argv[0], server.argv[1:]))


def kept(server):
    """Have it that the server was silent before."""
    probe_cache(server).add()


def methods(server):
    """Return the requests that it was sent."""
    return [m["method"] for m in server.messages() if "id" in m]


@pytest.mark.usefixtures("impatient")
def test_the_second_command_does_not_probe_a_server_that_was_silent(cli, scripted):
    silent = scripted(server__discover=[], ping=[{"result": {}}])
    assert cli("ping", silent.line).code == 0
    assert methods(silent) == ["server/discover", "initialize", "ping"]
    silent.log.unlink()
    assert cli("ping", silent.line).code == 0
    assert methods(silent) == ["initialize", "ping"]


def test_who_names_a_mode_is_not_answered_from_the_cache(cli, scripted):
    newer = scripted(server__discover=[{"result": DISCOVERED}])
    kept(newer)
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


def test_a_server_that_answers_the_probe_is_not_kept(cli, scripted, folder):
    answering = scripted(ping=[{"result": {}}])
    assert cli("ping", answering.line).code == 0
    assert not folder.exists()


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}},
}


def test_a_server_of_a_newer_era_in_its_place_is_probed_again(cli, scripted):
    refused = {"error": {"code": -32601, "message": "Method not found"}}
    newer = scripted(initialize=[refused], server__discover=[{"result": DISCOVERED}])
    kept(newer)
    assert cli("info", newer.line).code == 0
    assert methods(newer) == ["initialize", "server/discover"]
    assert not probe_cache(newer).is_silent


def test_a_server_that_fails_in_another_way_is_probed_by_the_next_command(
    cli, scripted
):
    broken = scripted(initialize=[{"exit": 3}])
    kept(broken)
    assert cli("ping", broken.line).code == 4
    assert methods(broken) == ["initialize"]
    assert not probe_cache(broken).is_silent


# What is in the folder...


def test_the_folder_has_no_secret_and_is_for_its_user_alone(folder):
    ProbeCache(SERVER).add()
    (file,) = folder.iterdir()
    assert "s3cret" not in file.name + file.read_text()
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, file)]
    assert modes == [0o700, 0o600]


def test_each_server_is_kept_by_how_it_is_reached(tmp_path):
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
def test_what_is_kept_is_forgotten_after_a_day(folder, age, is_silent):
    ProbeCache(SERVER).add()
    (file,) = folder.iterdir()
    os.utime(file, (time.time() - age,) * 2)
    assert ProbeCache(SERVER).is_silent is is_silent
    ProbeCache(mcpwire.Stdio("another")).add()
    assert file.exists() is is_silent


def test_without_a_folder_to_write_in_nothing_is_kept(folder):
    folder.parent.parent.write_text("a file where the folder should be")
    ProbeCache(SERVER).add()
    ProbeCache(SERVER).remove()
    assert not ProbeCache(SERVER).is_silent


@pytest.mark.parametrize("variable", [None, "relative"])
def test_it_is_below_the_home_folder_by_default(variable, tmp_path, monkeypatch):
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
