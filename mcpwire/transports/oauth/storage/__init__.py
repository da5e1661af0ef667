"""Where credentials are kept between runs, and who may ask for new ones."""

from __future__ import annotations

from mcpwire.transports.oauth.storage.base import MemoryStorage, Storage, StorageError
from mcpwire.transports.oauth.storage.file import FileStorage

__all__ = ["FileStorage", "MemoryStorage", "Storage", "StorageError"]
