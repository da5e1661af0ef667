"""The asyncio client and its call options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.client.client import CallOptions as CallOptions
    from mcpwire.client.client import Client as Client

# Imported on first use: sibling modules do not need `Client`.
_load, __dir__, __all__ = lazy_names(__name__, {"client": "CallOptions Client"})

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
