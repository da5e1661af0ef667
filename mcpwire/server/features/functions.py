"""What every function that a server's author registers has: a name, a place to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.server.authoring.signature import Signature

__all__ = ["name_of", "runs_in_thread"]


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called.

    Raises:
        ValueError: It has no name; one must be given.
    """
    inner = getattr(function, "func", function)  # of a partial
    name = getattr(inner, "__name__", None)
    if name is None or name == "<lambda>":
        raise ValueError(f"give {function!r} a name by name=")
    return str(name)


def runs_in_thread(signature: Signature, wanted: bool | None) -> bool:  # noqa: FBT001 - an option as it was given
    """Tell whether a function runs in a worker thread; plain ones do by default.

    Raises:
        ValueError: A thread is wanted for one that is async.
    """
    if wanted and signature.is_async:
        raise ValueError("thread=True is for plain functions, and this one is async")
    return not signature.is_async if wanted is None else wanted
