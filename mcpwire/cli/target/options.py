"""The options that say how to start a server, or how to reach one at a URL."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from mcpwire.cli.failures import UsageError
from mcpwire.cli.target.configured import place_entry
from mcpwire.cli.target.tokens import LOGIN_OPTIONS

if TYPE_CHECKING:
    from mcpwire.cli.grammar import Options

__all__ = ["add_http_options", "add_process_options", "check_options", "is_url"]

PROCESS_OPTIONS: Final = {
    "given_env": "--env",
    "inherit_env": "--inherit-env",
    "cwd": "--cwd",
}
HTTP_OPTIONS: Final = {
    "given_headers": "-H",
    "header_env": "--header-env",
    "ca": "--ca",
    "cert": "--cert",
    "proxy": "--proxy",
    "allow_insecure": "--allow-insecure",
    **LOGIN_OPTIONS,
}


def is_url(word: str) -> bool:
    """Tell whether a target is a URL; if not, it is a command line."""
    return "://" in word.strip().partition(" ")[0]


def add_process_options(parser: argparse.ArgumentParser) -> None:
    """Add what is about a server that is started."""
    group = parser.add_argument_group("the server's process")
    group.add_argument(
        "--env",
        dest="given_env",
        type=_variable,
        action="append",
        metavar="NAME[=VALUE]",
        help="set a variable, or pass ours on; else it gets PATH, HOME and the like",
    )
    group.add_argument(
        "--inherit-env", action="store_true", help="pass our whole environment on"
    )
    group.add_argument("--cwd", metavar="DIR", help="its working directory")


def add_http_options(parser: argparse.ArgumentParser) -> None:
    """Add what is about a server at a URL."""
    group = parser.add_argument_group("a server at a URL")
    group.add_argument(
        "-H",
        "--header",
        dest="given_headers",
        action="append",
        metavar="'NAME: VALUE'",
        help="send a header with each request, or those in @FILE (@-: standard input)",
    )
    group.add_argument(
        "--header-env",
        action="append",
        metavar="NAME=[TEXT ]VARIABLE",
        help="send one whose value a variable holds, as secrets have to be: "
        "'Authorization=Bearer TOKEN' sends the value of TOKEN",
    )
    group.add_argument(
        "--ca", metavar="FILE", help="trust these authorities only (PEM)"
    )
    group.add_argument(
        "--cert", metavar="FILE[,KEY]", help="our own certificate and its key (PEM)"
    )
    group.add_argument(
        "--proxy", metavar="URL", help="a proxy; else HTTPS_PROXY and NO_PROXY say"
    )
    group.add_argument(
        "--allow-insecure",
        action="store_true",
        help="send secrets to http URLs of other machines too",
    )


def _variable(text: str) -> str:
    if not text.partition("=")[0]:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE or NAME, got {text!r}")
    return text


def check_options(options: Options) -> None:
    """Check that the options are those of the target, and read the variables.

    Raises:
        UsageError: One makes no sense here.
    """
    is_named = len(options.command) == 1 and options.command[0].startswith("@")
    if is_named:
        place_entry(options)
    elif options.config is not None and options.command:
        raise UsageError("--config goes with @NAME as TARGET, or with ls alone")
    entry = options.entry
    at_url = (
        entry.transport == "http"
        if entry is not None
        else len(options.command) == 1 and is_url(options.command[0])
    )
    if entry is None and options.command and is_url(options.command[0]) and not at_url:
        raise UsageError(
            f"a URL stands alone, {options.command[1]!r} behind it has no place"
        )
    options.is_at_url = at_url
    if options.config is not None and not options.command:
        for name, option in (PROCESS_OPTIONS | HTTP_OPTIONS).items():
            if getattr(options, name):
                raise UsageError(f"{option} is for one server, and this lists all")
        return
    for name, option in (PROCESS_OPTIONS if at_url else HTTP_OPTIONS).items():
        if getattr(options, name):
            raise UsageError(
                f"{option} is for servers that are started, and this one is at a URL"
                if at_url
                else f"{option} is for servers at a URL, and this one is started"
            )
    _read_env(options)


def _read_env(options: Options) -> None:
    """Tell ``--env NAME=VALUE`` from ``--env NAME``, which passes ours on."""
    pairs = [item.partition("=") for item in options.given_env]
    options.env = {name: value for name, equals, value in pairs if equals}
    options.passed_env = tuple(name for name, equals, _ in pairs if not equals)
    for name in options.passed_env:
        if name not in os.environ:
            raise UsageError(f"--env {name}: {name} is not set")
