"""Pictures, sounds and files that a function may return, from bytes or from a path."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs

__all__ = ["Audio", "File", "Image", "Media", "is_text"]

_UNKNOWN: Final = "application/octet-stream"

# What the bytes of common formats begin with.
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"%PDF-", "application/pdf"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

# `mimetypes` asks the system; these are the same everywhere.
_BY_SUFFIX: Final = {
    ".flac": "audio/flac",
    ".json": "application/json",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}

_TEXT_TYPES: Final = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/toml",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
    }
)


def is_text(mime_type: str) -> bool:
    """Tell whether what has that media type is text."""
    bare = mime_type.partition(";")[0].strip().lower()
    return bare.startswith("text/") or bare in _TEXT_TYPES or bare.endswith("+json")


@attrs.frozen
class Media:
    """The bytes of something, given or read from a path when they are needed."""

    expected: ClassVar[str] = ""
    """How a media type of this kind begins."""

    data: bytes | None = attrs.field(default=None, repr=False)
    path: Path | None = attrs.field(
        default=None, kw_only=True, converter=attrs.converters.optional(Path)
    )
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    """Guessed from the name of the file, or from the bytes, where it is not given."""

    def __attrs_post_init__(self) -> None:
        if (self.data is None) == (self.path is None):
            raise ValueError(f"{type(self).__name__} needs either data or a path")
        if self.data is not None and not isinstance(
            self.data, (bytes, bytearray, memoryview)
        ):
            raise TypeError(
                f"{type(self).__name__} needs bytes, got {type(self.data).__name__}"
            )

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            OSError: The file cannot be read.
        """
        if self.path is not None:
            return self.path.read_bytes()
        assert self.data is not None
        return bytes(self.data)

    def media_type(self, data: bytes) -> str:
        """Return the media type: given, else by the file's name, else by its bytes.

        Raises:
            ValueError: It is of another kind than this class stands for.
        """
        found = self.mime_type or self._guess(data)
        if not found.startswith(self.expected):
            raise ValueError(
                f"{type(self).__name__} needs a media type {self.expected}*, got "
                f"{found!r}: give mime_type="
            )
        return found

    def _guess(self, data: bytes) -> str:
        import mimetypes  # it takes long to import, and is for files

        by_name = None
        if self.path is not None:
            suffix = self.path.suffix.lower()
            by_name = _BY_SUFFIX.get(suffix) or mimetypes.guess_type(self.path.name)[0]
        return by_name or _by_magic(data) or _UNKNOWN


def _by_magic(data: bytes) -> str | None:
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    return next((kind for start, kind in _MAGIC if data.startswith(start)), None)


def base64_of(data: bytes) -> str:
    """Return bytes as the protocol carries them."""
    return b64encode(data).decode("ascii")


@attrs.frozen
class Image(Media):
    """A picture: ``Image(data)`` or ``Image(path="plot.png")``."""

    expected: ClassVar[str] = "image/"

    def block(self) -> dict[str, Any]:
        """Return the content block."""
        data = self.read()
        mime_type = self.media_type(data)
        return {"type": "image", "data": base64_of(data), "mimeType": mime_type}


@attrs.frozen
class Audio(Media):
    """A sound: ``Audio(data)`` or ``Audio(path="hello.wav")``."""

    expected: ClassVar[str] = "audio/"

    def block(self) -> dict[str, Any]:
        """Return the content block."""
        data = self.read()
        mime_type = self.media_type(data)
        return {"type": "audio", "data": base64_of(data), "mimeType": mime_type}


@attrs.frozen
class File(Media):
    """Any file, as an embedded resource: text where its media type says so."""

    uri: str | None = attrs.field(default=None, kw_only=True)
    """What the resource is called; by default after the file."""

    def contents(self, uri: str | None = None) -> dict[str, Any]:
        """Return it as the contents of a resource."""
        data = self.read()
        mime_type = self.media_type(data)
        named = self.uri or uri or self._own_uri()
        if is_text(mime_type):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                pass  # it says that it is text, and is not: bytes lose nothing
            else:
                return {"uri": named, "mimeType": mime_type, "text": text}
        return {"uri": named, "mimeType": mime_type, "blob": base64_of(data)}

    def block(self) -> dict[str, Any]:
        """Return the content block."""
        return {"type": "resource", "resource": self.contents()}

    def _own_uri(self) -> str:
        # The name alone: a server's folders are nobody's business.
        from urllib.parse import quote

        name = "data" if self.path is None else quote(self.path.name)
        return f"file:///{name}"
