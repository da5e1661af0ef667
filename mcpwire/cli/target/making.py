"""Makes the target of a command: a `Stdio` of words, an `Http` of a URL and options."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.failures import UsageError
from mcpwire.cli.streams import read_file, read_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.config import ServerEntry
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.targets import Stdio

__all__ = ["target_of"]


def target_of(
    options: Options,
    on_stderr: Callable[[bytes], None] | None,
    output: Output | None = None,
) -> Stdio | Http:
    """Return what to start, or where to go.

    Raises:
        UsageError: It is no command line, or no URL.
        ConnectError: It is a folder.
    """
    if options.is_at_url:
        return _at_url(options, output)
    if options.entry is not None:
        return _of_entry(options, options.entry, on_stderr)
    from mcpwire import ConnectError, Stdio

    command = options.command
    if len(command) == 1 and not _is_program(command[0]):
        command = _split(command[0])
    if os.path.isdir(command[0]) and os.sep in command[0]:  # noqa: PTH112 - one call
        raise ConnectError(f"cannot start {command[0]!r}: it is a directory")
    return Stdio(
        command[0],
        command[1:],
        env=options.env,
        inherit_env=options.inherit_env or options.passed_env,
        cwd=options.cwd,
        stderr=on_stderr or "tail",
    )


def _of_entry(
    options: Options, entry: ServerEntry, on_stderr: Callable[[bytes], None] | None
) -> Stdio:
    """Return what a configuration starts, with what the command line adds."""
    import attrs

    target: Any = entry.to_target()
    names = entry.inherit_env if isinstance(entry.inherit_env, tuple) else ()
    is_all = options.inherit_env or entry.inherit_env is True
    changed: Stdio = attrs.evolve(
        target,
        env={**(entry.env or {}), **options.env},
        inherit_env=is_all or (*names, *options.passed_env),
        cwd=options.cwd or entry.cwd,
        stderr=on_stderr or "tail",
    )
    return changed


def _is_program(word: str) -> bool:
    """Tell whether a line with spaces is one file's path all the same."""
    return " " in word and os.path.isfile(word)  # noqa: PTH113 - one call


def _split(line: str) -> tuple[str, ...]:
    import shlex

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"cannot split the command line {line!r}: {error}") from error
    if not words:
        raise UsageError("the server's command line is empty")
    return tuple(words)


# URLs...

AS_OPTIONS: Final = (
    ("use https, or say allow_insecure=True", "use https, or say --allow-insecure"),
    ("ca_file", "--ca"),
    ("client_cert", "--cert"),
    ("proxy", "--proxy"),
)
"""What the library calls things, and what they are called here; the first that fits."""


def _at_url(options: Options, output: Output | None) -> Http:
    from mcpwire import Http

    entry = options.entry
    configured = entry.http_options() if entry is not None else {}
    headers = _joined(configured.pop("headers", None), _headers(options))
    certificate, comma, key = (options.cert or "").partition(",")
    try:
        _check_proxy(options.proxy)
        return Http(
            options.command[0].strip(),
            headers=headers or None,
            auth=_auth(options, headers, output, configured.get("auth")),
            ca_file=options.ca or configured.get("ca_file"),
            client_cert=(certificate, key)
            if comma
            else certificate or configured.get("client_cert"),
            proxy=options.proxy or configured.get("proxy"),
            allow_insecure=options.allow_insecure,
        )
    except ValueError as error:
        raise UsageError(_in_words_of_options(str(error))) from error


def _joined(
    configured: Mapping[str, str] | None, given: dict[str, str]
) -> dict[str, str]:
    """Return the headers of a configuration, and over them those that are given."""
    names = {name.lower() for name in given}
    kept = {k: v for k, v in (configured or {}).items() if k.lower() not in names}
    return {**kept, **given}


def _auth(
    options: Options, headers: dict[str, str], output: Output | None, configured: Any
) -> Any:
    """Return what logs in; a header of the user's own takes its place."""
    from mcpwire.cli.target.tokens import auth_of, login_options

    if any(name.lower() == "authorization" for name in headers):
        is_login = options.verb.startswith("auth ")
        for option in [options.verb] if is_login else login_options(options):
            raise UsageError(f"a header Authorization and {option} exclude each other")
        return None
    return auth_of(options, output, configured)


def _in_words_of_options(text: str) -> str:
    for word, option in AS_OPTIONS:
        if word in text:
            return text.replace(word, option, 1)
    return text


def _check_proxy(proxy: str | None) -> None:
    if proxy is not None and "@" in proxy:
        raise UsageError(
            "--proxy: every process of the machine can read its password there; set "
            "HTTPS_PROXY or HTTP_PROXY instead"
        )


def _headers(options: Options) -> dict[str, str]:
    """Return the headers of all options.

    Raises:
        UsageError: One is malformed, given twice, or a secret in the command line.
    """
    headers: dict[str, str] = {}
    for name, value in (
        *_given_headers(options.given_headers),
        *map(_header_of_variable, options.header_env),
    ):
        if name.lower() in map(str.lower, headers):
            raise UsageError(f"header {name!r} is given twice")
        headers[name] = value
    return headers


def _given_headers(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    from mcpwire.transports.http.target import is_credential

    for word in words:
        if word.startswith("@"):
            text = read_input() if word == "@-" else read_file(word[1:])
            yield from (
                _header(line, f"-H {word}") for line in text.splitlines() if line
            )
            continue
        name, value = _header(word, "-H")
        if is_credential(name):
            raise UsageError(
                f"-H {name}: every process of the machine can read what stands in a "
                f"command line; --header-env {name}=VARIABLE takes it from a variable"
            )
        yield name, value


def _header(line: str, what: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:  # the line stays hidden, it may be a secret
        raise UsageError(f"{what}: a header is written 'NAME: VALUE'")
    return name.strip(), value.strip()


VARIABLE: Final = re.compile(r"([^=]+)=(?:(.*) )?([A-Za-z_][A-Za-z0-9_]*)")


def _header_of_variable(word: str) -> tuple[str, str]:
    match = VARIABLE.fullmatch(word)
    if match is None:  # hidden, for it may be the secret itself
        raise UsageError(
            "--header-env must be NAME=VARIABLE, such as "
            "'Authorization=Bearer TOKEN', where TOKEN is a variable's name"
        )
    name, text, variable = match.groups()
    if variable not in os.environ:
        raise UsageError(f"--header-env {name}: {variable} is not set")
    value = os.environ[variable]
    return name, f"{text} {value}" if text else value
