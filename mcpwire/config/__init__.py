"""Configurations: files and dicts to `ServerEntry`, checked where they stand.

What is wrong raises `ConfigError`, one sentence that names the file, the entry and the
field. No value of `env`, `headers` or `auth`, and no userinfo or query of a URL, is in
a message, a log record or a repr.
"""

from __future__ import annotations

from mcpwire.config.document import expand
from mcpwire.config.entry import ServerEntry
from mcpwire.config.loading import Configuration, default_files, load
from mcpwire.config.schema import schema
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import ConfigError

__all__ = [
    "ConfigError",
    "Configuration",
    "ServerEntry",
    "UrlDenyList",
    "default_files",
    "expand",
    "load",
    "schema",
]
