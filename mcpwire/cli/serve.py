"""The commands that serve: ``serve``, ``gateway`` and ``demo-server``."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.cli.failures import (
    Exit,
    UsageError,
    close_matches,
    did_you_mean,
    usage_errors,
)
from mcpwire.cli.options import Endpoint, Quiet, Serve
from mcpwire.cli.output import Output
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType, TracebackType

    from mcpwire.cli.options import Options
    from mcpwire.config import Configuration
    from mcpwire.gateway import Gateway
    from mcpwire.group import Member
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.uvicorn import App
    from mcpwire.server.server import Server
    from mcpwire.testing import Issuer


def parse_address(text: str) -> str:
    """Return the address if it is valid."""
    from mcpwire.server.http.uvicorn import read_address

    with usage_errors("--http: "):
        read_address(text)
    return text


@contextlib.contextmanager
def listen_errors() -> Iterator[None]:
    """Convert the error of an address that is not available to a usage error."""
    from mcpwire.server.http.uvicorn import CannotListen

    try:
        yield
    except CannotListen as error:
        raise UsageError(str(error.strerror)) from error


# --- serve


def serve(options: Options) -> int:
    """Run a server that the user has written."""
    target = options.words[0]
    address = None if options.http is None else parse_address(options.http)
    if options.reload:
        return _run_reloading(options)
    try:
        server = load_server(target)
        if address is None:
            server.run()
        else:
            with listen_errors():
                server.run(http=address, **options.values(Endpoint, Serve, Quiet))
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:  # raised by the author's module or lifespan
        if isinstance(error, LocalProtocolError) and isinstance(
            error.__cause__ or error.__context__, ImportError
        ):
            raise UsageError(f"{target}: {error}") from error  # a missing package
        traceback.print_exception(type(error), error, _author_traceback(error))
        return Exit.INTERNAL
    return Exit.OK


def _author_traceback(error: Exception) -> TracebackType | None:
    """Return the traceback without the leading frames of this package and importlib."""
    frames = error.__traceback__
    while frames is not None:
        name = frames.tb_frame.f_globals.get("__name__", "")
        if not f"{name}.".startswith(("mcpwire.cli.", "importlib.")):
            break
        frames = frames.tb_next
    return frames


DEFAULT_NAMES: Final = ("server", "mcp", "app")
"""Names of a server that are tried if none is given."""


def split_target(target: str) -> tuple[str, str | None]:
    """Return the module or the path of a file, and the name after the colon."""
    location, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name or name.endswith(".py"):
        return target, None
    if not name.replace(".", "_").isidentifier():
        raise UsageError(f"{name!r} is not the name of an object, in {target!r}")
    return location, name


def load_server(target: str) -> Server:
    """Import a module or a file, and return its server."""
    location, name = split_target(target)
    module = _import(location)
    server = _find_server(module, name, location)
    from mcpwire.server.server import Server

    if not isinstance(server, Server) and callable(server):
        server = server()
    if not isinstance(server, Server):
        raise UsageError(
            f"{target!r} is a {type(server).__name__}; expected an mcpwire.Server"
        )
    return server


def _import(location: str) -> ModuleType:
    if location.endswith(".py") or "/" in location or "\\" in location:
        return _import_file(Path(location))
    if not location or location.startswith("."):
        raise UsageError(f"{location!r} is not the name of a module")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        # The missing module may also be an import of the user's module.
        if error.name is not None and f"{location}.".startswith(f"{error.name}."):
            raise UsageError(f"unknown module {location!r}") from error
        raise


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise UsageError(f"{str(path)!r} {problem}")
    # Others need the module of that name, such as `time` for a file time.py.
    if path.stem in sys.stdlib_module_names:
        with contextlib.suppress(ImportError):  # of another system
            importlib.import_module(path.stem)
    name = f"{path.stem}_" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{str(path)!r} is not a Python file")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find_server(module: ModuleType, name: str | None, location: str) -> Any:
    if name is not None:
        value: Any = module
        for part in name.split("."):
            if not hasattr(value, part):
                raise UsageError(
                    f"{location!r} has no {name!r}"
                    f"{did_you_mean(close_matches(name, _server_names(module)))}"
                )
            value = getattr(value, part)
        return value
    for default in DEFAULT_NAMES:
        if default in vars(module):
            return getattr(module, default)
    servers = _server_names(module)
    if len(servers) == 1:
        return getattr(module, servers[0])
    if not servers:
        raise UsageError(
            f"{location!r} has no mcpwire.Server; write the name of a function that "
            f"makes one after a colon"
        )
    raise UsageError(
        f"{location!r} has several servers: name one of {', '.join(servers)}"
    )


def _server_names(module: ModuleType) -> list[str]:
    from mcpwire.server.server import Server

    return [name for name, value in vars(module).items() if isinstance(value, Server)]


POLL_INTERVAL_S: Final = 0.4
"""Seconds between two checks for changed files."""

STOP_TIMEOUT_S: Final = 5.0
"""Seconds between the termination signal and the kill of a server."""

_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def scan_sources(folder: Path) -> dict[Path, int]:
    """Return the Python files below a folder with their modification times in ns."""
    times = {}
    for parent, folders, files in os.walk(folder):
        visible = {name for name in folders if not name.startswith(".")}
        folders[:] = visible - _SKIPPED_FOLDERS
        for name in files:
            if name.endswith(".py") and not name.startswith("."):
                path = Path(parent, name)
                # An editor may be replacing the file.
                with contextlib.suppress(FileNotFoundError):
                    times[path] = path.stat().st_mtime_ns
    return times


def find_change(before: Mapping[Path, int], now: Mapping[Path, int]) -> Path | None:
    """Return the first file that was added, removed or written between two scans."""
    paths = sorted(before.keys() | now.keys())
    return next((path for path in paths if before.get(path) != now.get(path)), None)


def _run_reloading(options: Options) -> int:
    """Run the command in a child until a signal; restart it after each change."""
    location, _ = split_target(options.words[0])
    folder = Path(location).parent if location.endswith(".py") else Path.cwd()
    stop = threading.Event()
    received: list[int] = []

    def on_signal(number: int, _: object) -> None:
        received.append(number)
        stop.set()

    handlers = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    words = [word for word in options.raw_words if word != "--reload"]
    command = [sys.executable, "-m", "mcpwire", "serve", *words]
    before = scan_sources(folder)
    child = subprocess.Popen(command)  # noqa: S603 - this program, the user's words
    try:
        while not stop.wait(POLL_INTERVAL_S):
            now = scan_sources(folder)
            path = find_change(before, now)
            before = now
            if path is not None:
                Output().note(f"{path.name} changed: starting again")
                _stop_child(child)
                child = subprocess.Popen(command)  # noqa: S603 - as above
    finally:
        _stop_child(child)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 128 + received[0]


def _stop_child(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


# --- gateway


_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def gateway(options: Options) -> int:
    """Run a gateway that serves many servers as one."""
    has_servers = bool(options.words or options.config)
    if options.from_headers and (has_servers or options.watch):
        raise UsageError(
            "--from-headers excludes --config, NAME=TARGET and --watch: clients name "
            "all servers"
        )
    if not has_servers and not options.from_headers:
        raise UsageError("name the servers: --config FILE, or NAME=TARGET")
    if options.watch and not options.config:
        raise UsageError("--watch needs --config FILE")
    address = None if options.http is None else parse_address(options.http)
    http_options = options.values(Endpoint)
    http_options |= {"paths": options.paths} if options.paths else {}
    http_options |= {"status": options.status} if options.status else {}
    try:
        server = _gateway(options)
        if address is not None:
            server.asgi(**http_options)  # checks the options before the start
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    if address is None:
        server.run(watch=options.watch)
    else:
        with listen_errors():
            server.run(
                http=address, watch=options.watch, quiet=options.quiet, **http_options
            )
    return Exit.OK


def _gateway(options: Options) -> Gateway:
    from mcpwire.cli.targets import read_configuration
    from mcpwire.gateway import FromHeaders, Gateway
    from mcpwire.gateway.gateway import WatchedFiles

    targets: dict[str, str] = {}
    for name, target in map(_parse_named, options.words):
        if name in targets:
            raise UsageError(f"server {name!r} is given twice")
        targets[name] = target
    settings = _settings(options)
    if options.from_headers:
        return Gateway(FromHeaders(), **settings)
    if not options.config:
        return Gateway(targets, **settings)
    configuration = read_configuration(options)
    for warning in configuration.warnings:
        Output().note(f"mcpwire: {warning}")

    may_ask = options.http is None

    def servers(configuration: Configuration) -> Mapping[str, Any]:
        members = configuration.members().items()
        return {
            name: _with_login(member, may_ask=may_ask) for name, member in members
        } | targets

    server = Gateway(servers(configuration), **settings)
    server.watched = WatchedFiles(
        files=configuration.files, load=lambda: servers(read_configuration(options))
    )
    return server


def _with_login(member: Member, *, may_ask: bool) -> Member:
    """Return the server with a login that prints its URL, with a browser if allowed."""
    from mcpwire import OAuth

    target = member.target
    grant = getattr(target, "grant", None)
    if not isinstance(grant, OAuth):
        return member
    auth = attrs.evolve(
        grant,
        interactive=may_ask and grant.interactive,
        on_url=lambda url: Output().note(f"mcpwire: log in at {url}"),
    )
    return attrs.evolve(member, target=attrs.evolve(target, auth=auth))


def _parse_named(word: str) -> tuple[str, str]:
    name, equals, target = word.partition("=")
    if not equals or not _NAME_PATTERN.fullmatch(name) or not target.strip():
        raise UsageError(f"{word!r} is not NAME=TARGET, such as time='uvx server-time'")
    return name, target


def _settings(options: Options) -> dict[str, Any]:
    from mcpwire.gateway import JsonLines, SealedIds

    settings: dict[str, Any] = {
        "allow": options.allow,
        "deny": options.deny,
        "on_error": "raise" if options.strict else "skip",
        "forward_headers": options.forward_headers,
    }
    if options.timeout is not None:
        settings["timeout"] = options.timeout
    if options.trace:
        try:
            settings["trace"] = JsonLines(options.trace)
        except OSError as error:
            raise UsageError(f"--trace: {error}") from error
    if variable := options.session_key_env:
        text = os.environ.get(variable, "")
        if not text.strip():
            raise UsageError(f"--session-key-env: the variable {variable} is empty")
        try:
            settings["sessions"] = SealedIds.from_text(text)
        except (LocalProtocolError, ValueError) as error:
            raise UsageError(f"--session-key-env {variable}: {error}") from error
    return settings


# --- demo-server


class DemoOverHttp:
    """The embedded server with the interface that `run_http` expects."""

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
        """Return the application, with the issuer (if any) at the same origin."""
        from mcpwire.server.http.app import AsgiApp

        app = AsgiApp(self._dispatcher, **options)
        return app if self._issuer is None else self._issuer.beside(app)


def demo_server(options: Options) -> int:
    """Run the embedded server."""
    if options.http is None:
        from mcpwire.server.demo import main

        return main()
    address = parse_address(options.http)
    extra: dict[str, Any] = {}
    with listen_errors():
        from mcpwire.server.http.uvicorn import print_url, run_http

        if not options.requires_tokens:
            server = DemoOverHttp()
        else:
            # Users and browsers reach a port without a host as localhost.
            host = "localhost" if address.startswith(":") else ""
            server = _server_with_issuer(f"{host}{address}")
            if not options.quiet:  # announce the URL that its tokens are for
                extra["announce"] = lambda _: print_url(server.resource, server)
        run_http(server, address, quiet=options.quiet, **extra)
    return Exit.OK


def _server_with_issuer(address: str) -> DemoOverHttp:
    from mcpwire.testing import Issuer
    from mcpwire.wire.urls import is_loopback

    host, _, port = address.rpartition(":")
    if int(port) == 0:
        raise UsageError("--auth needs a port that its tokens can name, got 0")
    if not is_loopback(host.strip("[]")):
        raise UsageError(
            "--auth is for this machine only, for its issuer gives tokens to all: give "
            f"--http :{port}, got {host!r}"
        )
    issuer = Issuer(f"http://{address}")
    issuer.add_client("my-service", "s3cret")
    issuer.add_client("my-app")
    return DemoOverHttp(issuer, f"{issuer.url}/mcp")
