"""The command ``gateway``: many servers as one, on stdio or over HTTP."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.cli.failures import Exit, UsageError
from mcpwire.cli.streams import write_text
from mcpwire.cli.text.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.config import Configuration
    from mcpwire.gateway import Gateway

__all__ = ["gateway"]

DESCRIPTION: Final = """\
Serve many servers as one: those of --config FILE, and NAME=TARGET, where TARGET is a
URL or a command line as one word. Tools and prompts are called NAME_TOOL.

Without --http it serves one client on stdin and stdout.
"""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_FOR_HTTP: Final = {
    "path": "path",
    "path_per_server": "paths",
    "status": "status",
    "allow_host": "allowed_hosts",
    "allow_origin": "allowed_origins",
    "cors": "cors",
}
"""Options that make no sense on stdio, and what `Gateway.asgi` calls them."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence, instead of printing the usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> _Parser:
    parser = _Parser(
        prog="mcpwire gateway",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add = parser.add_argument
    add("servers", metavar="NAME=TARGET", nargs="*")
    add("-h", "--help", action="store_true", help="show this")
    add("--config", metavar="FILE", help="a TOML or JSON file with servers")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--http", metavar="[HOST]:PORT", help="serve HTTP there; port 0: a free one"
    )
    where.add_argument(
        "--stdio", action="store_true", help="serve stdin and stdout (the default)"
    )
    _add_servers(parser)
    _add_http(parser)
    return parser


def _add_servers(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the servers").add_argument
    add("--allow", action="append", metavar="GLOB", help="only such tools; repeatable")
    add("--deny", action="append", metavar="GLOB", help="no such tools; repeatable")
    add("--strict", action="store_true", help="refuse sessions if a server is missing")
    add("--watch", action="store_true", help="reload when the file changes")
    add(
        "--trace",
        metavar="FILE",
        help="append a line of JSON for each exchange, credentials masked",
    )
    add("--timeout", type=float, metavar="S", help="for each request (300)")
    add(
        "--from-headers",
        action="store_true",
        help="clients choose the servers themselves, by X-MCP-Servers",
    )
    add(
        "--forward-header",
        action="append",
        metavar="NAME",
        help="a field of requests that goes along to the servers; repeatable",
    )


def _add_http(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("over HTTP").add_argument
    add("--path", metavar="PATH", help="where the endpoint is (default: /mcp)")
    add(
        "--path-per-server",
        action="store_true",
        help="each server at PATH/NAME as well, with its own names",
    )
    add("--status", metavar="PATH", help="show there how the servers are, as JSON")
    add(
        "--session-key-env",
        metavar="VAR",
        help="the variable with the keys that seal session ids, base64 of 32 bytes "
        "each, the newest first",
    )
    add("--allow-host", action="append", metavar="NAME", help="a name it is asked by")
    add("--allow-origin", action="append", metavar="ORIGIN", help="a page that may ask")
    add("--cors", action="store_true", help="let those pages read the answers")
    add("--quiet", action="store_true", help="say nothing of start and requests")


def gateway(argv: Sequence[str]) -> int:
    """Run the command; return its exit code.

    Raises:
        UsageError: The options make no sense.
        ConfigError: The configuration breaks a rule.
    """
    parser = _parser()
    options = parser.parse_intermixed_args(list(argv))
    if options.help:
        write_text(parser.format_help())
        return Exit.OK
    _check(options)
    if options.http is None:
        _gateway(options).run(watch=options.watch)
        return Exit.OK
    from mcpwire.cli.serve.command import address_of
    from mcpwire.errors import LocalProtocolError
    from mcpwire.server.http.serving import CannotListen

    given = {key: getattr(options, name) for name, key in _FOR_HTTP.items()}
    for_http = {key: value for key, value in given.items() if value}
    address = address_of(options.http)
    made = _gateway(options, for_http)
    try:
        made.run(http=address, watch=options.watch, quiet=options.quiet, **for_http)
    except CannotListen as error:
        raise UsageError(str(error.strerror)) from error
    except LocalProtocolError as error:
        if isinstance(error.__context__, ImportError):  # of an extra
            raise UsageError(str(error)) from error
        raise
    return Exit.OK


def _check(options: argparse.Namespace) -> None:
    """Check what goes with what.

    Raises:
        UsageError: Something does not.
    """
    if options.http is None:
        names = (
            *_FOR_HTTP,
            "quiet",
            "session_key_env",
            "from_headers",
            "forward_header",
        )
        for name in names:
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} is for --http")
    has_servers = bool(options.servers or options.config)
    if options.from_headers and (has_servers or options.watch):
        raise UsageError("--from-headers is for clients that name all servers")
    if not has_servers and not options.from_headers:
        raise UsageError("name the servers: --config FILE, or NAME=TARGET")
    if options.watch and not options.config:
        raise UsageError("--watch is for --config FILE")


def _gateway(
    options: argparse.Namespace, for_http: Mapping[str, Any] | None = None
) -> Gateway:
    """Return the gateway, and check how it would be served over HTTP.

    Raises:
        UsageError: An option is wrong.
        ConfigError: The configuration breaks a rule.
    """
    try:
        made = _made(options)
        if for_http is not None:
            made.asgi(**for_http)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    return made


def _made(options: argparse.Namespace) -> Gateway:
    from mcpwire.gateway import FromHeaders, Gateway
    from mcpwire.gateway.gateway import Watched

    named = dict(_named(word) for word in options.servers)
    settings = _settings(options)
    if options.from_headers:
        return Gateway(FromHeaders(), **settings)
    if not options.config:
        return Gateway(named, **settings)
    configuration = _read(options)
    for warning in configuration.warnings:
        sys.stderr.write(f"mcpwire: {one_line(warning)}\n")

    def servers() -> Mapping[str, Any]:
        return {**_read(options).members(), **named}

    made = Gateway({**configuration.members(), **named}, **settings)
    made.watched = Watched(files=configuration.files, load=servers)
    return made


def _read(options: argparse.Namespace) -> Configuration:
    from mcpwire.cli.target.configured import read_configuration

    given: Any = options  # it has the one option that is looked at
    return read_configuration(given)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "allow": options.allow or (),
        "deny": options.deny or (),
        "on_error": "raise" if options.strict else "skip",
        "forward_headers": options.forward_header or (),
    }
    if options.timeout is not None:
        settings["timeout"] = options.timeout
    if options.trace:
        settings["trace"] = _trace(options.trace)
    if options.session_key_env:
        settings["sessions"] = _sealed(options.session_key_env)
    return settings


def _trace(path: str) -> Any:
    from mcpwire.gateway import JsonLines

    try:
        return JsonLines(path)
    except OSError as error:
        raise UsageError(f"--trace: {error}") from error


def _sealed(variable: str) -> Any:
    from mcpwire.errors import LocalProtocolError
    from mcpwire.gateway import SealedIds

    text = os.environ.get(variable, "")
    if not text.strip():
        raise UsageError(f"--session-key-env: the variable {variable} is empty")
    try:
        return SealedIds.from_text(text)
    except (LocalProtocolError, ValueError) as error:
        raise UsageError(f"--session-key-env {variable}: {error}") from error


def _named(word: str) -> tuple[str, str]:
    """Return the name and the target of one word.

    Raises:
        UsageError: It is none of the form NAME=TARGET.
    """
    name, equals, target = word.partition("=")
    if not equals or not _NAME.fullmatch(name) or not target.strip():
        raise UsageError(f"{word!r} is not NAME=TARGET, such as time='uvx server-time'")
    return name, target
