"""The target of a command: a server that it starts, or a server at a URL."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.cli.auth import flag_errors, make_auth
from mcpwire.cli.failures import UsageError, unknown_name, usage_errors
from mcpwire.cli.options import Process
from mcpwire.cli.output import read_source
from mcpwire.errors import ConnectError, UnknownServer
from mcpwire.transports.targets import Stdio, is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcpwire.cli.options import Options
    from mcpwire.cli.output import Output
    from mcpwire.config import Configuration
    from mcpwire.transports.http.target import Http


def make_target(
    options: Options, output: Output, on_stderr: Callable[[bytes], None] | None = None
) -> Stdio | Http:
    """Return the target that the options describe."""
    if options.is_at_url:
        return _url_target(options, output)
    entry = options.entry
    target = _command_target(options.command) if entry is None else entry.to_target()
    assert isinstance(target, Stdio)
    return attrs.evolve(
        target,
        env={**(target.env or {}), **dict(options.env)},
        inherit_env=options.inherit_env or target.inherit_env,
        cwd=options.cwd or target.cwd,
        stderr=on_stderr or "tail",
    )


def make_second_target(options: Options, output: Output) -> Stdio | Http | None:
    """Return the target of ``--against``, with its own environment and headers."""
    is_at_url = options.against is not None and is_url(options.against)
    for flag, value, is_for_url in (
        ("--against-env", options.against_env, False),
        ("--against-header", options.against_headers, True),
        ("--against-header-env", options.against_header_env, True),
    ):
        if value and options.against is None:
            raise UsageError(f"{flag} needs --against TARGET")
        if value and is_for_url != is_at_url:
            kind = "at a URL" if is_at_url else "started"
            raise UsageError(f"{flag}: the server of --against is {kind}")
    if options.against is None:
        return None
    other = copy(options)
    for entry in Process.options():
        setattr(other, entry.name, entry.default)
    other.command, other.entry = (options.against.strip(),), None
    other.is_at_url = is_at_url
    other.env = options.against_env
    other.headers = options.against_headers
    other.header_env = options.against_header_env
    return make_target(other, output)


def _command_target(command: tuple[str, ...]) -> Stdio:
    """Return the target of a command; one word is a command line or a file's path."""
    is_path = " " in command[0] and os.path.isfile(command[0])  # noqa: PTH113 - one call
    if len(command) == 1 and not is_path:
        command = split_command(command[0], "server")
    if os.path.isdir(command[0]) and os.sep in command[0]:  # noqa: PTH112 - one call
        raise ConnectError(f"cannot start {command[0]!r}: it is a directory")
    return Stdio(command[0], command[1:])


def client_words(options: Options) -> tuple[str, ...]:
    """Return the command line of a client."""
    if len(options.command) == 1:
        return split_command(options.command[0], "client")
    return options.command


def split_command(line: str, owner: str) -> tuple[str, ...]:
    """Split a command line into words as a POSIX shell does."""
    import shlex

    with usage_errors(f"cannot split the command line {line!r}: "):
        words = shlex.split(line)
    if not words:
        raise UsageError(f"the {owner}'s command line is empty")
    return tuple(words)


# URLs


def _url_target(options: Options, output: Output) -> Http:
    from mcpwire import Http

    if options.proxy is not None and "@" in options.proxy:
        raise UsageError(
            "--proxy: every process of the machine can read its password there; set "
            "HTTPS_PROXY or HTTP_PROXY instead"
        )
    entry = options.entry
    configured = entry.http_options() if entry is not None else {}
    own_headers = _headers(options)
    names = {name.lower() for name in own_headers}
    entry_headers = configured.pop("headers", None) or {}
    headers = {
        k: v for k, v in entry_headers.items() if k.lower() not in names
    } | own_headers
    certificate, comma, key = (options.cert or "").partition(",")
    with flag_errors():
        return Http(
            options.command[0],
            headers=headers or None,
            auth=make_auth(options, output, headers, configured.get("auth")),
            ca_file=options.ca or configured.get("ca_file"),
            client_cert=(certificate, key)
            if comma
            else certificate or configured.get("client_cert"),
            proxy=options.proxy or configured.get("proxy"),
            allow_insecure=options.allow_insecure,
        )


def _headers(options: Options) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in (
        *_read_headers(options.headers),
        *map(_parse_header_env, options.header_env),
    ):
        if name.lower() in map(str.lower, headers):
            raise UsageError(f"header {name!r} is given twice")
        headers[name] = value
    return headers


def _read_headers(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    from mcpwire.transports.http.target import is_credential

    for word in words:
        if word.startswith("@"):
            text = read_source(word)
            yield from (
                _parse_header(line, f"-H {word}") for line in text.splitlines() if line
            )
            continue
        name, value = _parse_header(word, "-H")
        if is_credential(name):
            raise UsageError(
                f"-H {name}: every process of the machine can read a command line; "
                f"--header-env {name}=VARIABLE takes it from a variable"
            )
        yield name, value


def _parse_header(line: str, source: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:  # not shown, since the line may be a secret
        raise UsageError(f"{source}: a header is written 'NAME: VALUE'")
    return name.strip(), value.strip()


HEADER_VARIABLE: Final = re.compile(r"([^=]+)=(?:(.*) )?([A-Za-z_][A-Za-z0-9_]*)")


def _parse_header_env(word: str) -> tuple[str, str]:
    match = HEADER_VARIABLE.fullmatch(word)
    if match is None:  # not shown, since the word may be the secret itself
        raise UsageError(
            "--header-env must be NAME=VARIABLE, such as "
            "'Authorization=Bearer TOKEN', where TOKEN is a variable's name"
        )
    name, text, variable = match.groups()
    if variable not in os.environ:
        raise UsageError(f"--header-env {name}: {variable} is not set")
    value = os.environ[variable]
    return name, f"{text} {value}" if text else value


def read_configuration(options: Options, only: str | None = None) -> Configuration:
    """Return the configuration of ``--config``, or of the default files."""
    from mcpwire.config import default_files, load

    files = (options.config,) if options.config else default_files()
    if not files:
        raise UsageError(
            f"no configuration for @{only}: name a file by --config or MCPWIRE_CONFIG; "
            "otherwise ./mcp.json, ./.mcp.json, ./mcpwire.toml and "
            "~/.config/mcpwire/config.toml are read"
        )
    first, *layers = files
    try:
        with _silenced_log():
            return load(first, layers, only=None if only is None else (only,))
    except UnknownServer as error:
        known = ", ".join(f"@{name}" for name in error.known[:10])
        raise unknown_name(
            f"{', '.join(map(str, files))}: no server is named {error.server!r}",
            error.server,
            error.known,
            f"; there are {known}" if known else "",
        ) from error


@contextlib.contextmanager
def _silenced_log() -> Iterator[None]:
    """Disable the log of configuration warnings: the command prints them itself."""
    logger = logging.getLogger("mcpwire.config")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def apply_entry(options: Options) -> None:
    """Replace ``@NAME`` by the configured server."""
    name = options.command[0][1:]
    configuration = read_configuration(options, name)
    entry = configuration[name]
    if not entry.enabled:
        raise UsageError(f"{entry.file}: @{name} is not enabled")
    options.entry = entry
    options.warnings = configuration.warnings
    options.command = (entry.url,) if entry.url else (entry.command or "", *entry.args)
    options.allow_insecure = options.allow_insecure or entry.allow_insecure
    options.mode = options.mode or entry.revision or entry.mode


def timeouts(options: Options) -> dict[str, Any]:
    """Return the client's timeouts that are set: by the option, or by the entry."""
    names = ("timeout", "connect_timeout")
    values = {n: options.timeout or getattr(options.entry, n, None) for n in names}
    return {name: value for name, value in values.items() if value is not None}


def report_entry(options: Options, output: Output) -> None:
    """Report configuration warnings, and the target of an entry in a default file."""
    for warning in options.warnings:
        output.event("warning", warning, f"mcpwire: {warning}")
    entry = options.entry
    if entry is None or options.config is not None:
        return
    from mcpwire.config.loading import CONFIG_VARIABLE, LOCAL_FILES

    if os.environ.get(CONFIG_VARIABLE) or entry.file not in LOCAL_FILES:
        return
    target = str(entry.to_target())
    output.event(
        "configured",
        {"name": entry.name, "file": entry.file, "target": target},
        f"mcpwire: @{entry.name} of {entry.file} is {target}",
    )


RECORD_LIFETIME_S: Final = 24 * 3_600.0


class ProbeCache:
    """A folder that records for a day which servers did not answer the probe.

    A server is an empty file. Its command line may hold secrets, so the name of the
    file is a hash.
    """

    def __init__(self, target: Stdio | Http, *, enabled: bool = True) -> None:
        folder = _cache_folder() if enabled else None
        self._file = None if folder is None else folder / _cache_key(target)

    @property
    def is_silent(self) -> bool:
        """Whether the server did not answer the probe within the last day."""
        return self._file is not None and _is_recent(self._file)

    def add(self) -> None:
        """Record that the server did not answer the probe; remove old records."""
        if self._file is None:
            return
        folder = self._file.parent
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.touch(mode=0o600)
            os.utime(self._file, (now := time.time(), now))  # not a file server's clock
            for file in folder.iterdir():
                if not _is_recent(file):
                    file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the record, so that the next command probes again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()


def _is_recent(file: Path) -> bool:
    try:
        return 0 <= time.time() - file.stat().st_mtime <= RECORD_LIFETIME_S
    except OSError:
        return False


def _cache_folder() -> Path | None:
    configured = Path(os.environ.get("XDG_CACHE_HOME") or "")
    try:
        # The XDG specification: a relative path is to be ignored.
        folder = configured if configured.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # the user has no home directory
        return None
    return folder / "mcpwire" / "probes"


def _cache_key(target: Stdio | Http) -> str:
    from hashlib import sha256

    identity: list[str] = (
        [target.command, *target.args, str(Path(target.cwd or ".").absolute())]
        if isinstance(target, Stdio)
        else [target.url]
    )
    return sha256(json.dumps(identity).encode()).hexdigest()[:32]
