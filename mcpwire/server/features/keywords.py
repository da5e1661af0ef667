"""The options with which functions are registered, named once.

Type checkers read them, and so does `check_options`: an option that is spelled wrongly
would else protect, hide or bound nothing, without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.server.features.components import Visible
    from mcpwire.types import Annotations, Icon, PromptArgument
    from mcpwire.types.tools import ToolAnnotations

__all__ = [
    "ComponentKeywords",
    "DirectoryKeywords",
    "FileKeywords",
    "PromptKeywords",
    "ResourceKeywords",
    "ToolKeywords",
    "check_options",
]


class ComponentKeywords(TypedDict, total=False):
    """What every kind of component takes."""

    name: str | None
    """Its name; that of the function where it is left out."""

    title: str | None
    """Its name for people."""

    description: str | None
    """What it is for; the function's docstring where it is left out."""

    icons: Iterable[Icon | str] | None
    meta: Mapping[str, Any] | None
    """Its `_meta`."""

    scopes: Iterable[str]
    """What a principal must have been granted to use it over HTTP."""

    tags: Iterable[str]
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None
    """Takes a `Context` and the component; whether it is there for who asks."""


class ToolKeywords(ComponentKeywords, total=False):
    """What a tool takes beside that."""

    input_schema: Mapping[str, Any] | None
    """The JSON Schema of the arguments; the function then takes them as one dict."""

    output_schema: Mapping[str, Any] | None
    """The JSON Schema of the structured result."""

    structured: bool | None
    """Whether there is a structured result; ``None``: where the return hint has one."""

    annotations: ToolAnnotations | Mapping[str, Any] | None
    """Hints for clients: whether it reads only, destroys, may be repeated."""

    timeout: float | None
    """How long a call may take, in seconds."""

    concurrency: int | None
    """How many calls run at once; others wait."""

    task: Literal["forbidden", "optional", "required"]
    """Whether calls may or must be tasks."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""

    coerce: bool | None
    """Whether arguments of a wrong type are converted where that is plain."""


class ResourceKeywords(ComponentKeywords, total=False):
    """What a resource takes, or a template."""

    mime_type: str | None
    size: int | None
    """How many bytes it has, where that is known; templates have none."""

    annotations: Annotations | Mapping[str, Any] | None
    """For whom it is, and how important."""

    ttl_ms: int | None
    """How long what was read may be kept, in milliseconds (2026-07-28)."""

    cache_scope: Literal["public", "private"] | None
    """Whether what was read may be given to others (2026-07-28)."""

    unchecked: Iterable[str]
    """Variables of a template whose values may be ``..`` or absolute paths."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""


class FileKeywords(ResourceKeywords, total=False):
    """What a file takes beside that."""

    max_bytes: int
    """How large a file may be that is read."""


class DirectoryKeywords(FileKeywords, total=False):
    """What a folder takes beside that."""

    listed: bool
    """Whether its files are in the list of resources."""

    hidden: bool
    """Whether what begins with a dot is there."""


class PromptKeywords(ComponentKeywords, total=False):
    """What a prompt takes."""

    arguments: Iterable[PromptArgument | Mapping[str, Any]] | None
    """Its arguments, where the function's parameters do not say them."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""


_KNOWN: Final = {
    "tool": ToolKeywords.__optional_keys__,
    # The last two are for what makes its own resources: folders, extensions.
    "resource": ResourceKeywords.__optional_keys__ | {"is_raw", "suggestions"},
    "prompt": PromptKeywords.__optional_keys__,
}

_TEXTS: Final = frozenset({"name", "title", "description", "mime_type"})

_SEVERAL: Final = frozenset({"scopes", "tags", "icons", "unchecked", "arguments"})
"""What takes a list, of which a text would be one of letters."""


def check_options(
    kind: Literal["tool", "resource", "prompt"], given: Mapping[str, Any]
) -> None:
    """Refuse options that there are not, and values that cannot be meant.

    Raises:
        TypeError: There is such an option; names it.
    """
    for name, value in given.items():
        if name not in _KNOWN[kind]:
            from difflib import get_close_matches

            close = get_close_matches(name, _KNOWN[kind], n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"a {kind} has no option {name!r}{meant}")
        if value is None:
            continue
        if name in _TEXTS and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, got {value!r}")
        if name in _SEVERAL and isinstance(value, str):
            raise TypeError(f"{name} takes a list, got {value!r}")
        if name == "visible" and not callable(value):
            raise TypeError(f"visible must be a function, got {value!r}")
