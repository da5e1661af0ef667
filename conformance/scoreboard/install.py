"""Installation of the subjects' packages, each subject in its own folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from scoreboard.subjects import ROOT, Subject, npm

if TYPE_CHECKING:
    from pathlib import Path

_STAMP_NAME: Final = ".made"
_INSTALL_TIMEOUT_S: Final = 900


def install(subject: Subject) -> str:
    """Install a subject unless it is installed; return the failure or ""."""
    pins = msgspec.json.encode(subject.install)
    stamp = subject.folder / _STAMP_NAME
    is_ours = any("{root}" in pin for pin in subject.install.pypi)
    if not is_ours and stamp.exists() and stamp.read_bytes() == pins:
        return ""
    shutil.rmtree(subject.folder, ignore_errors=True)
    subject.folder.mkdir(parents=True)
    try:
        for command, environment in _commands(subject):
            subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
                timeout=_INSTALL_TIMEOUT_S,
            )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "no output").strip().splitlines()
        return lines[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    program = ROOT / subject.fill((subject.command or ("",))[0])
    if program.is_relative_to(subject.folder) and program.exists():
        program.chmod(0o755)  # as the skipped install script would do
    stamp.write_bytes(pins)
    return ""


def _commands(subject: Subject) -> list[tuple[list[str], dict[str, str] | None]]:
    folder, packages = subject.folder, subject.install
    if packages.npm:
        command, environment = npm()
        (folder / "package.json").write_text(json.dumps({"private": True}))
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
        install_command = [
            *command,
            "install",
            "--prefix",
            str(folder),
            *options,
            *packages.npm,
        ]
        return [(install_command, environment)]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install_command = [*pip, "--quiet", "install", *subject.filled(packages.pypi)]
    if packages.constraints:
        install_command += ["-c", packages.constraints]
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    return [(venv, None), (install_command, None)]


def size_of(folder: Path) -> int:
    """Return the size in bytes of all files below a folder, without symbolic links."""
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    )
