"""`mcpwire check` in CI: the composite action and the pre-commit hook."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mcpwire.cli.main import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACTION = yaml.safe_load((ROOT / "conformance/action/action.yml").read_text("utf-8"))
FAULT = "an unknown method is invalid params"
BAD = shlex.join([sys.executable, str(HERE / "mutants.py"), FAULT])
ONE = "--only RPC-31.a --revision 2025-11-25"


def run_action_step(folder, target, baseline=""):
    """Run the last step of the action as a workflow does."""
    _, last = ACTION["runs"]["steps"]
    assert last["shell"] == "bash"
    inputs = {"target": target, "arguments": ONE, "baseline": baseline}
    variables = {
        name: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in last["env"].items()
    }
    files = {
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RUNNER_TEMP": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", last["run"]],
        env={**os.environ, **variables, **files},
        capture_output=True,
        text=True,
        check=False,
    )


def test_action_fails_on_findings_and_writes_its_files(tmp_path):
    done = run_action_step(tmp_path, BAD)
    assert (done.returncode, "RPC-31.a" in done.stdout) == (6, True)
    assert "RPC-31.a" in (tmp_path / "summary").read_text()
    (line,) = (tmp_path / "output").read_text().splitlines()
    name, _, path = line.partition("=")
    assert ACTION["outputs"][name]["value"] == f"${{{{ steps.check.outputs.{name} }}}}"
    assert "RPC-31.a" in Path(path).read_text()


def test_action_accepts_a_baseline(tmp_path):
    known = tmp_path / "known findings"
    known.write_text("RPC-31.a stdio 2025-11-25 fail\n")
    assert run_action_step(tmp_path, BAD, str(known)).returncode == 0


def test_action_reports_a_server_that_cannot_be_started(tmp_path):
    done = run_action_step(tmp_path, "/no/such/program")
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert "command not found" in line


@pytest.mark.parametrize(("target", "code"), [(BAD, 6), ("/no/such/program", 4)])
def test_hook_runs_check_with_its_arguments(target, code):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    program, *words = shlex.split(hook["entry"])
    assert (program, hook["pass_filenames"]) == ("mcpwire", False)
    assert main([*words, *shlex.split(ONE), target]) == code
