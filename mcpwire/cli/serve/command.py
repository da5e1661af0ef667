"""The command ``serve`` itself: its options, and what they do."""

from __future__ import annotations

import argparse
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.cli.failures import Exit, UsageError
from mcpwire.cli.serve.loading import load_server, split_target
from mcpwire.cli.streams import write_text
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from mcpwire.server.server import Server

__all__ = ["address_of", "serve"]

DESCRIPTION: Final = """\
Run a server: TARGET is `module:name` or `path/to/file.py:name`, where the name is that
of an mcpwire.Server or of a function that makes one; without a name it is `server`,
`mcp`, `app`, or the only server there is.

Without --http it serves one client on stdin and stdout; what it prints goes to stderr.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence, instead of printing the usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> _Parser:
    parser = _Parser(
        prog="mcpwire serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add = parser.add_argument
    add("target", metavar="TARGET", nargs="?")
    add("-h", "--help", action="store_true", help="show this")
    add("--http", metavar="[HOST]:PORT", help="serve HTTP there; port 0: a free one")
    add("--path", metavar="PATH", help="where the endpoint is (default: /mcp)")
    add(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a name that the server is asked by; may be repeated",
    )
    add(
        "--allow-origin",
        action="append",
        metavar="ORIGIN",
        help="a page that may ask, such as https://example.com; may be repeated",
    )
    add("--cors", action="store_true", help="let those pages read the answers")
    add("--stateless", action="store_true", help="keep no sessions")
    add("--legacy-sse", action="store_true", help="serve clients of 2024-11-05, too")
    add("--quiet", action="store_true", help="say nothing of start and requests")
    add("--reload", action="store_true", help="start again when a source file changes")
    return parser


def serve(argv: Sequence[str]) -> int:
    """Run the command; return its exit code.

    Raises:
        UsageError: The options make no sense, or there is no such server.
    """
    parser = _parser()
    options = parser.parse_args(list(argv))
    if options.help:
        write_text(parser.format_help())
        return Exit.OK
    if options.target is None:
        raise UsageError("name the server: mcpwire serve module:server")
    for_http = _http_options(options)
    if options.http is None and for_http:
        name = next(iter(for_http))
        raise UsageError(f"--{name.replace('_', '-')} is for --http")
    address = None if options.http is None else address_of(options.http)
    if options.reload:
        return _reload(options, argv)
    try:
        server = load_server(options.target)
        if address is None:
            server.run()
        else:
            _run_http(server, address, _renamed(for_http))
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:  # whatever the author's module and lifespan raise
        if isinstance(error, LocalProtocolError) and _is_of_an_extra(error):
            raise UsageError(f"{options.target}: {error}") from error
        traceback.print_exception(type(error), error, _from_authors(error))
        return Exit.INTERNAL
    return Exit.OK


def _from_authors(error: Exception) -> TracebackType | None:
    """Return the traceback from where the author's code begins."""
    found = error.__traceback__
    while found is not None:
        name = found.tb_frame.f_globals.get("__name__", "")
        if not f"{name}.".startswith(("mcpwire.cli.", "importlib.")):
            break
        found = found.tb_next
    return found


def _is_of_an_extra(error: Exception) -> bool:
    """Tell whether a package of ours is missing: then the sentence says it all."""
    return isinstance(error.__cause__ or error.__context__, ImportError)


def _run_http(server: Server, address: str, options: dict[str, Any]) -> None:
    from mcpwire.server.http.serving import CannotListen

    try:
        server.run(http=address, **options)
    except CannotListen as error:
        raise UsageError(str(error.strerror)) from error


def _http_options(options: argparse.Namespace) -> dict[str, Any]:
    names = (
        "path",
        "allow_host",
        "allow_origin",
        "cors",
        "stateless",
        "legacy_sse",
        "quiet",
    )
    return {name: getattr(options, name) for name in names if getattr(options, name)}


def _renamed(given: dict[str, Any]) -> dict[str, Any]:
    names = {"allow_host": "allowed_hosts", "allow_origin": "allowed_origins"}
    return {names.get(name, name): value for name, value in given.items()}


def address_of(given: str) -> str:
    """Return the address with the host that it leaves out: this machine's own.

    Raises:
        UsageError: It is none.
    """
    from mcpwire.server.http.serving import read_address

    address = f"127.0.0.1{given}" if given.startswith(":") else given
    try:
        read_address(address)
    except ValueError as error:
        raise UsageError(f"--http: {error}") from error
    return address


def _reload(options: argparse.Namespace, argv: Sequence[str]) -> int:
    if options.http is None:
        # The client behind a pipe began its session with the process that ends.
        raise UsageError("--reload is for --http: a client on stdio would lose its end")
    from mcpwire.cli.output import Output
    from mcpwire.cli.serve.reloading import run_reloading

    where, _ = split_target(options.target)
    folder = Path(where).parent if where.endswith(".py") else Path.cwd()
    rest = [word for word in argv if word != "--reload"]
    output = Output(is_json=False, verbose=True)
    return run_reloading(rest, [folder], output.detail)
