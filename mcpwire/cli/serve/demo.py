"""The command ``demo-server``: the embedded server, on stdio or over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.cli.failures import UsageError

if TYPE_CHECKING:
    from mcpwire.cli.grammar import Options
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.uvicorn import App
    from mcpwire.testing import Issuer

__all__ = ["DemoOverHttp", "serve_demo"]


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
    from mcpwire.cli.serve.command import address_of
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
