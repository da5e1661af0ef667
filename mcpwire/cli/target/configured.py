"""Targets by name: ``@time`` is the server that a configuration calls so.

What the command line says beside it counts more than what the configuration says. A
name that is read of a file that merely lies in the working directory is said on stderr,
with the command: whoever gets a folder from somebody else should see what it starts.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from mcpwire.cli.failures import UsageError, close_matches, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.config import Configuration, ServerEntry

__all__ = ["place_entry", "read_configuration", "tell_entry"]


def read_configuration(options: Options, only: str | None = None) -> Configuration:
    """Return the configuration of ``--config``, or that of the usual files.

    Raises:
        UsageError: There is none, or it has no such server.
        ConfigError: Something in it is wrong.
    """
    from mcpwire.config import default_files, load
    from mcpwire.errors import UnknownServer

    files = (options.config,) if options.config else default_files()
    if not files:
        raise UsageError(
            f"there is no configuration that @{only} could be of: --config FILE or "
            "MCPWIRE_CONFIG names one, else ./mcp.json, ./.mcp.json, ./mcpwire.toml "
            "and ~/.config/mcpwire/config.toml are read"
        )
    first, *layers = files
    try:
        with _quietly():
            return load(first, layers, only=None if only is None else (only,))
    except UnknownServer as error:
        similar = close_matches(error.server, error.known)
        known = ", ".join(f"@{name}" for name in error.known[:10])
        raise UsageError(
            f"{', '.join(map(str, files))}: no server is named {error.server!r}"
            f"{did_you_mean(similar) or (f'; there are {known}' if known else '')}",
            suggestions=similar,
        ) from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep warnings out of the log: they are told in the words of a command."""
    logger = logging.getLogger("mcpwire.config")
    kept, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = kept


def place_entry(options: Options) -> None:
    """Put the server that ``@NAME`` stands for in the place of its name.

    Raises:
        UsageError: There is none of that name, or it is not enabled.
        ConfigError: Something in the configuration is wrong.
    """
    name = options.command[0][1:]
    configuration = read_configuration(options, name)
    entry = configuration[name]
    if not entry.enabled:
        raise UsageError(f"{entry.file}: @{name} is not enabled")
    options.entry = entry
    options.warnings = configuration.warnings
    options.command = (entry.url,) if entry.url else (entry.command or "", *entry.args)
    options.allow_insecure = options.allow_insecure or entry.allow_insecure


def tell_entry(options: Options, output: Output) -> None:
    """Say what is odd about the entry, and what it is where nobody named its file."""
    for warning in options.warnings:
        output.tell("warning", warning, f"mcpwire: {warning}")
    entry = options.entry
    if entry is None or not _is_found(options, entry):
        return
    target = str(entry.to_target())
    output.tell(
        "configured",
        {"name": entry.name, "file": entry.file, "target": target},
        f"mcpwire: @{entry.name} of {entry.file} is {target}",
    )


def _is_found(options: Options, entry: ServerEntry) -> bool:
    """Tell whether the entry is from a file that lies in the working directory."""
    from mcpwire.config.loading import HERE, VARIABLE

    is_named = options.config is not None or os.environ.get(VARIABLE)
    return not is_named and entry.file in HERE
