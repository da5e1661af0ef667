"""The command ``serve`` itself: its options, and what they do."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.cli.escape import one_line
from mcpwire.cli.failures import Exit, UsageError, close_matches, did_you_mean
from mcpwire.cli.output import write_text
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType, TracebackType

    from mcpwire.cli.grammar import Options
    from mcpwire.config import Configuration
    from mcpwire.gateway import Gateway
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.uvicorn import App
    from mcpwire.server.server import Server
    from mcpwire.testing import Issuer


__all__ = [
    "DemoOverHttp",
    "Watch",
    "address_of",
    "gateway",
    "load_server",
    "run_reloading",
    "serve",
    "serve_demo",
    "split_target",
]

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


def _new_parser(prog: str, description: str) -> _Parser:
    return _Parser(
        prog=prog,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )


def _parser() -> _Parser:
    parser = _new_parser("mcpwire serve", DESCRIPTION)
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
    from mcpwire.server.http.uvicorn import CannotListen

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
    from mcpwire.server.http.uvicorn import read_address

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
    from mcpwire.cli.serve import run_reloading

    where, _ = split_target(options.target)
    folder = Path(where).parent if where.endswith(".py") else Path.cwd()
    rest = [word for word in argv if word != "--reload"]
    output = Output(is_json=False, verbose=True)
    return run_reloading(rest, [folder], output.detail)


GATEWAY_DESCRIPTION: Final = """\
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


def _gateway_parser() -> _Parser:
    parser = _new_parser("mcpwire gateway", GATEWAY_DESCRIPTION)
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
    parser = _gateway_parser()
    options = parser.parse_intermixed_args(list(argv))
    if options.help:
        write_text(parser.format_help())
        return Exit.OK
    _check(options)
    if options.http is None:
        _gateway(options).run(watch=options.watch)
        return Exit.OK
    from mcpwire.cli.serve import address_of
    from mcpwire.errors import LocalProtocolError
    from mcpwire.server.http.uvicorn import CannotListen

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
    from mcpwire.cli.targets import read_configuration

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


NAMES: Final = ("server", "mcp", "app")
"""What a server is called where nobody says it."""


def split_target(target: str) -> tuple[str, str | None]:
    """Return the module, or the path of a file, and the name behind the colon."""
    where, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name or name.endswith(".py"):
        return target, None
    if not name.replace(".", "_").isidentifier():
        raise UsageError(f"{name!r} is no name of an object, in {target!r}")
    return where, name


def load_server(target: str) -> Server:
    """Import the module or the file, and return its server.

    Raises:
        UsageError: There is no such module, or no server in it.
        Exception: What importing it raised.
    """
    where, name = split_target(target)
    module = _import(where)
    found = _find(module, name, where)
    from mcpwire.server.server import Server

    if not isinstance(found, Server) and callable(found):
        found = found()
    if not isinstance(found, Server):
        raise UsageError(
            f"{target!r} is a {type(found).__name__}, and no mcpwire.Server"
        )
    return found


def _import(where: str) -> ModuleType:
    if where.endswith(".py") or "/" in where or "\\" in where:
        return _import_file(Path(where))
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        # What is missing may be something that the module needs.
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise UsageError(f"there is no module {where!r}") from error
        raise
    except ValueError as error:  # an empty name
        raise UsageError(f"{where!r} is no name of a module") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{str(path)!r} is no Python file")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str | None, where: str) -> Any:
    if name is not None:
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                raise UsageError(
                    f"there is no {name!r} in {where!r}"
                    f"{did_you_mean(close_matches(name, _servers(module)))}"
                )
            found = getattr(found, part)
        return found
    for usual in NAMES:
        if usual in vars(module):
            return getattr(module, usual)
    servers = _servers(module)
    if len(servers) == 1:
        return getattr(module, servers[0])
    if not servers:
        raise UsageError(
            f"there is no mcpwire.Server in {where!r}; the name of a function that "
            f"makes one goes behind a colon"
        )
    raise UsageError(
        f"which server of {where!r} is meant: name one of {', '.join(servers)}"
    )


def _servers(module: ModuleType) -> list[str]:
    from mcpwire.server.server import Server

    return [name for name, value in vars(module).items() if isinstance(value, Server)]


INTERVAL_S: Final = 0.4
"""How often the files are looked at."""

STOP_S: Final = 5.0
"""How long a server may take to end before it is killed."""

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Watch:
    """The Python files below some folders, and when they were written."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen = self._look()

    def _look(self) -> dict[Path, int]:
        seen = {}
        for folder in self._folders:
            for path in _sources(folder):
                # Editors put a new file in the place of the old one meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    seen[path] = path.stat().st_mtime_ns
        return seen

    def changed(self) -> Path | None:
        """Return a file that came, went or was written since the last time."""
        seen, self._seen = self._seen, self._look()
        for path in sorted(seen.keys() | self._seen.keys()):
            if seen.get(path) != self._seen.get(path):
                return path
        return None


def _sources(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*.py")
        if not any(
            part in _SKIPPED or part.startswith(".")
            for part in path.relative_to(folder).parts
        )
    ]


def run_reloading(
    arguments: Sequence[str], folders: Sequence[Path], say: Callable[[str], object]
) -> int:
    """Run ``mcpwire serve`` with these arguments, again after each change.

    Ends with SIGINT or SIGTERM, and takes the server along.
    """
    stop = threading.Event()
    received: list[int] = []

    def end(number: int, _: object) -> None:
        received.append(number)
        stop.set()

    kept = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    watch = Watch(folders)
    command = [sys.executable, "-m", "mcpwire", "serve", *arguments]
    child = _start(command)
    try:
        while not stop.wait(INTERVAL_S):
            path = watch.changed()
            if path is not None:
                say(f"{path.name} changed: starting again")
                _end(child)
                child = _start(command)
    finally:
        _end(child)
        for number, handler in kept.items():
            signal.signal(number, handler)
    return 128 + received[0]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command)  # noqa: S603 - ourselves, with the user's words


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class DemoOverHttp:
    """The embedded server as what `run_http` serves.

    Args:
        issuer: Gives the tokens that it wants; without it everybody may use it.
        resource: Its URL, where there is an issuer.
    """

    name = "mcpwire-demo"

    def __init__(self, issuer: Issuer | None = None, resource: str = "") -> None:
        from mcpwire.server.demo import demo_dispatcher

        self.auth: ResourceServer | None = (
            None if issuer is None else issuer.protect(resource)
        )
        self.resource = resource
        self._issuer = issuer
        self._dispatcher = demo_dispatcher(auth=self.auth)
        self.revisions = self._dispatcher.revisions

    def asgi(self, **options: Any) -> App:
        """Return the application, with the issuer beside it."""
        from mcpwire.server.http.app import AsgiApp

        app = AsgiApp(self._dispatcher, **options)
        return app if self._issuer is None else self._issuer.beside(app)


def serve_demo(options: Options) -> int:
    """Run the command; return its exit code.

    Raises:
        UsageError: The options make no sense, or nothing can listen there.
    """
    from mcpwire.server.demo import main

    if options.http is None:
        if options.is_guarded or options.quiet:
            raise UsageError(
                f"--{'auth' if options.is_guarded else 'quiet'} is for --http"
            )
        return main()
    from mcpwire.cli.serve import address_of
    from mcpwire.errors import LocalProtocolError
    from mcpwire.server.http.uvicorn import CannotListen, run_http, say_where

    address = address_of(options.http)
    more: dict[str, Any] = {}
    if options.is_guarded:
        # A port alone means this machine, which people and browsers call so.
        server = _guarded(
            f"localhost{options.http}" if options.http.startswith(":") else address
        )
        if not options.quiet:  # its tokens are for that URL only
            more["announce"] = lambda _: say_where(server.resource, server)
    else:
        server = DemoOverHttp()
    try:
        run_http(server, address, quiet=options.quiet, **more)
    except CannotListen as error:
        raise UsageError(str(error.strerror)) from error
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error
    return 0


def _guarded(place: str) -> DemoOverHttp:
    from mcpwire.testing import Issuer
    from mcpwire.wire.urls import is_loopback

    host, _, port = place.rpartition(":")
    if int(port) == 0:
        raise UsageError("--auth needs a port that its tokens can name, got 0")
    if not is_loopback(host.strip("[]")):
        raise UsageError(
            "--auth is for this machine only, for its issuer gives tokens to all: give "
            f"--http :{port}, got {host!r}"
        )
    issuer = Issuer(f"http://{place}")
    issuer.add_client("my-service", "s3cret")
    issuer.add_client("my-app")
    return DemoOverHttp(issuer, f"{issuer.url}/mcp")
