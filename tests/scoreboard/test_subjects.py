"""Descriptions of subjects are read strictly; errors name file, key and rule."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from mcpwire.check import CASES

ROOT = Path(__file__).parents[2]
PLAIN = """
name = "one"
language = "C"
sdk = "none"
version = "1"
command = ["{bin}/one"]
environment = { HOME = "{scratch}" }
install = { pypi = ["one==1"] }
"""


@pytest.fixture
def read(board, tmp_path):
    def of(text):
        path = tmp_path / "one.toml"
        path.write_text(text)
        return board("subjects").read_subject(path)

    return of


def test_placeholders_are_filled_and_commands_are_relative(board, read):
    subject = read(PLAIN)
    assert subject.filled(subject.command) == [".peers/subjects/one/bin/one"]
    assert subject.variables() == {"HOME": str(subject.scratch)}
    line = board("measure").command_line(subject, subject.command)
    assert line == f"HOME={subject.scratch} .peers/subjects/one/bin/one"
    assert subject.transports() == ["stdio"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('name = "one"', 'name = "two"'), "name: must be the name of the file"),
        (('sdk = "none"', "sdk = 5"), "Expected `str`, got `int` - at `$.sdk`"),
        (('version = "1"', ""), "missing required field `version`"),
        (("sdk =", "sdq ="), "unknown field `sdq`"),
        (("language =", "kind = 'both'\nlanguage ="), "Invalid enum value 'both'"),
        (('pypi = ["one==1"]', ""), "install: must have either pypi or npm"),
        (('"one==1"]', '"one==1"], npm = ["one@1"]'), "install: must have either"),
        (('command = ["{bin}/one"]', ""), "command: a subject needs command"),
        (("{bin}", "{bon}"), "command: takes {bin}, {modules}, {node}"),
        (("{scratch}", "{home}"), "environment: takes {bin}"),
        (("language =", "language"), "line 3"),
    ],
)
def test_invalid_file_error_names_file_key_and_rule(read, tmp_path, change, problem):
    with pytest.raises(ValueError, match=re.escape(problem)) as raised:
        read(PLAIN.replace(*change))
    assert str(raised.value).startswith(f"{tmp_path / 'one.toml'}: ")


def test_subject_with_command_and_http_has_both_transports(read):
    text = PLAIN + 'http = { url = "http://127.0.0.1:1/mcp", command = ["{bin}/one"] }'
    assert read(text).transports() == ["stdio", "http"]


# --- ours -----------------------------------------------------------------------------


def test_at_least_twelve_subjects_and_mcpwire_is_first(board):
    subjects = board("subjects").read_subjects()
    assert subjects[0].name == "mcpwire"
    servers = [each for each in subjects if each.kind == "server"]
    assert len(servers) >= 12
    assert {"Python", "TypeScript", "Go", "Rust", "C#"} <= {s.language for s in servers}


def test_each_subject_has_exact_versions_and_its_own_port(board):
    ports = []
    for subject in board("subjects").read_subjects():
        for pin in subject.install.pypi:
            assert "==" in pin or pin.startswith("{root}"), subject.name
        assert all("@" in pin[1:] for pin in subject.install.npm), subject.name
        if subject.install.constraints:
            assert (ROOT / subject.install.constraints).exists()
        for table in subject.servers().values():
            port = re.search(r"127\.0\.0\.1:(\d+)/", table.url)[1]
            assert port in " ".join(table.command)
            ports.append(port)
    assert len(set(ports)) == len(ports)


def test_disputes_refer_to_existing_cases_and_subjects(board):
    module = board("subjects")
    disputes = module.read_disputes(ROOT / "conformance/disputes.toml")
    known = {"*"}
    for subject in module.read_subjects():
        known |= {subject.name, subject.sdk}
    assert disputes
    for dispute in disputes:
        assert set(dispute.subjects) <= known
        for prefix in dispute.prefixes():
            assert any(f"{case.id}.".startswith(prefix) for case in CASES), prefix


def test_dispute_without_required_fields_is_refused(board, tmp_path):
    path = tmp_path / "disputes.toml"
    path.write_text('[[dispute]]\ncases = ["RPC-13"]\nsubjects = ["*"]\n')
    with pytest.raises(ValueError, match=r"disputes.toml: .* missing .*`objection`"):
        board("subjects").read_disputes(path)


def test_node_is_taken_from_the_environment(board):
    node = board("subjects").node()
    assert node.name == "node"
    _, environment = board("subjects").npm()
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_mcpwire_subject_has_the_version_of_the_package(board):
    from mcpwire import __version__

    description = tomllib.loads(
        (ROOT / "conformance/subjects/mcpwire.toml").read_text()
    )
    assert description["version"] == __version__
