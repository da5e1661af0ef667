"""Two local subjects end to end: our server, and one on the official Python SDK."""

import asyncio
import json
import re
import sys
from pathlib import Path

import msgspec
import pytest
from null_targets import CLIENT_COMMAND
from ports import kept_port
from real_servers import PEERS

pytestmark = pytest.mark.servers

FOREIGN = Path(__file__).parents[2] / "conformance/subjects/servers/python_sdk.py"
PYTHON = PEERS / "python-sdk/bin/python"
FILE = """
name = "{name}"
language = "Python"
sdk = "{name}"
version = "1"
order = {order}
command = {command}
install = {{ pypi = ["none==1"] }}
"""


STARTS = 2


@pytest.fixture
def subjects(board, tmp_path, monkeypatch, warm):
    """Write the descriptions of both, as already installed."""
    if not PYTHON.exists():
        pytest.skip(f"make peers has not installed {PYTHON}")
    folder = tmp_path / "subjects"
    folder.mkdir()
    main = board("__main__")
    installed = {"ours": "", "theirs": "", "missing": "no such package"}
    monkeypatch.setattr(main, "install", lambda subject: installed[subject.name])
    monkeypatch.setattr(board("measure"), "_STARTS", STARTS)
    commands = {
        "ours": [sys.executable, "-m", "mcpwire", "demo-server"],
        "theirs": warm([str(PYTHON), str(FOREIGN)]),
        "missing": ["none"],
    }
    with kept_port() as port:
        for order, (name, command) in enumerate(commands.items()):
            text = FILE.format(name=name, order=order, command=json.dumps(command))
            if name == "ours":
                words = json.dumps([*command, "--http", f"127.0.0.1:{port}"])
                url = f"http://127.0.0.1:{port}/mcp"
                text += f"[http]\ncommand = {words}\nurl = '{url}'\n"
            (folder / f"{name}.toml").write_text(text)
        yield folder


def test_second_site_of_the_same_servers_has_equal_verdicts(
    board, subjects, tmp_path, capsys
):
    main = board("__main__").main
    words = ["--subjects", str(subjects), "--cases", "PING-01", "--cases", "RPC-13.a"]
    first, second = tmp_path / "first", tmp_path / "second"
    words.append("--no-speed")
    assert main([*words, "--site", str(first)]) == 0
    table = json.loads((first / "scoreboard.json").read_text())["subjects"]
    own, peer, missing = table
    assert set(own["scores"]) == {"stdio", "http"}
    assert {p for each in own["scores"].values() for p in each.values()} == {100}
    assert peer["scores"]["stdio"]["2025-03-26"] < 95
    assert peer["findings"]["stdio"]["MUST"] == 1
    assert len(own["start"]) == len(peer["start"]) == STARTS
    assert missing["problem"] == "not installed: no such package"
    second_words = [
        "--no-speed",
        "--only",
        "theirs",
        "--only",
        "ours.http",
        "--against",
        str(first),
    ]
    # Subjects that are not run again are not compared.
    assert main([*words, *second_words, "--site", str(second)]) == 0
    assert "no verdict differs" in capsys.readouterr().out
    assert not (second / "data/ours.stdio.json").exists()


def test_repeat_command_over_http_starts_the_server(board, subjects):
    subject = board("subjects").read_subjects(subjects)[0]
    measure = board("measure")
    report = asyncio.run(measure.check_subject(subject, "http", only=("C01.a",)))
    lines = {each.again for each in report.results}
    command = measure.command_line(subject, subject.http.command)
    assert all(line.startswith(f"{command} & mcpwire check") for line in lines)
    assert all(" --wait 60s http://" in line for line in lines)
    assert all(line.endswith("/mcp; kill $!") for line in lines)


def test_server_that_exits_at_once_is_a_problem_in_its_row(
    board, subjects, tmp_path, monkeypatch
):
    path = subjects / "missing.toml"
    path.write_text(path.read_text().replace('["none"]', f'["{sys.executable}", "-V"]'))
    main = board("__main__")
    monkeypatch.setattr(main, "install", lambda subject: "")
    site = tmp_path / "site"
    words = ["--subjects", str(subjects), "--only", "missing", "--site", str(site)]
    words.append("--no-speed")
    assert main.main(words) == 0
    (row,) = [
        row
        for row in json.loads((site / "scoreboard.json").read_text())["subjects"]
        if row["name"] == "missing"
    ]
    assert row["problem"].startswith("stdio: ")
    assert row["start"] == []


def test_another_server_at_the_port_of_a_subject_is_an_error(board, subjects):
    subject = board("subjects").read_subjects(subjects)[0]
    measure = board("measure")
    port = int(re.search(r":(\d+)/", subject.http.url)[1])

    async def check_with_a_server():
        async def answer(_, writer):
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", port):
            await measure.check_subject(subject, "http", only=("C01.a",))

    with pytest.raises(ConnectionError, match="another server is at"):
        asyncio.run(check_with_a_server())


def test_unknown_subject_name_is_a_usage_error(board, subjects, tmp_path, capsys):
    words = ["--subjects", str(subjects), "--site", str(tmp_path), "--only", "nobody"]
    with pytest.raises(SystemExit) as raised:
        board("__main__").main(words)
    assert raised.value.code == 2
    assert "got 'nobody'" in capsys.readouterr().err


TWICE = {"p50": (1.0, 1000.0)}


def test_speed_is_measured_beside_the_floor(
    board, subjects, tmp_path, monkeypatch, capsys
):
    import attrs

    for name in ("theirs", "missing"):
        (subjects / f"{name}.toml").unlink()
    path = subjects / "caller.toml"
    command = json.dumps(CLIENT_COMMAND)
    text = FILE.format(name="caller", order=1, command=command)
    path.write_text(f'kind = "client"\n{text}')
    tool = 'speed = { tool = "echo", arguments = { message = "hi" } }\n'
    own = subjects / "ours.toml"
    own.write_text(tool + own.read_text())
    main, speed = board("__main__"), board("speed")
    monkeypatch.setattr(main, "install", lambda subject: "")
    short = attrs.evolve(speed._LOAD, seconds=0.1, warm_up=0)
    monkeypatch.setattr(speed, "_LOAD", short)
    monkeypatch.setattr(speed, "PASSES", 1)
    site = tmp_path / "site"
    words = ["--subjects", str(subjects), "--no-check", "--site", str(site)]
    assert main.main(words) == 0
    page = (site / "speed.html").read_text()
    own, _ = board("subjects").read_subjects(subjects)
    for transport in ("stdio", "http"):
        found = speed.load_stored(site, own, transport)
        assert list(found) == [
            "ping",
            "tools/list",
            "tools/call echo",
            "tools/call echo, 32 users",
        ]
        for result in found.values():
            assert set(speed.multiples(result)) == {"p50", "cpu", "rate"}
            assert result.targets[0].errors == {}
    facts = json.loads((site / "data/facts.json").read_text())
    assert set(facts["caller"]["caller"]) == {"stdio", "http"}
    (one,) = facts["caller"]["caller"]["stdio"]
    assert set(one) == set(speed.CLIENT_FIGURES)
    assert "speed: pass 1 of 1" in capsys.readouterr().out
    assert "tools/call echo, 32 users" in page
    assert page.count("not measured") == 0
    tables = [(own, speed.rows(site, own))]
    assert speed.better_servers(tables) == []
    slower = [(own, [{**row, "figures": TWICE} for row in tables[0][1]])]
    lines = speed.better_servers([*slower, *tables])
    assert len(lines) == 6
    assert lines[0].startswith("stdio, ping, p50: ours 1000.00; ours ")
    # A site compared with itself: nothing has changed.
    monkeypatch.setattr(speed, "PASSES", 8)
    assert main.main([*words, "--pages", "--against", str(site)]) == 0
    out = capsys.readouterr().out
    assert "of before" not in out
    assert "24 figures of speed have too few passes to be compared" in out


def test_missing_package_returns_a_reason(board, subjects, tmp_path, monkeypatch):
    module, install = board("subjects"), board("install").install
    monkeypatch.setattr(module, "INSTALLED", tmp_path / "installed")
    path = subjects / "missing.toml"
    path.write_text(path.read_text().replace("none==1", f"{tmp_path}/nothing"))
    subject = module.read_subject(path)
    assert "nothing" in install(subject)
    stamp = subject.folder / ".made"
    assert not stamp.exists()
    stamp.write_bytes(msgspec.json.encode(subject.install))
    assert install(subject) == ""
