"""Calls users' callbacks for what comes in, in order, never blocking a reader.

What belongs to no call goes to a thread that lives as long as something waits. What
belongs to a call, its progress, is told in the thread that makes the call.
"""

from __future__ import annotations

import logging
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits

__all__ = [
    "Delivery",
    "ProgressSink",
    "Waiting",
    "check_handlers",
    "check_outcome",
    "check_plain",
    "discard_awaitable",
]

LINGER_S: Final = 0.1
"""How long the thread of a callback waits for one item more."""

logger = logging.getLogger("mcpwire")


class Waiting(Protocol):
    """Items that wait for a callback, bounded."""

    dropped: int
    """Items forgotten because the callback was too slow."""

    def put(self, *item: Any) -> object:
        """Let one more wait."""

    def pop(self) -> tuple[Any, ...]:
        """Take the oldest out."""

    def clear(self) -> None:
        """Forget all."""

    def __bool__(self) -> bool:
        """Tell whether any waits."""


def check_plain(function: Any, name: str) -> None:
    """Refuse an async function: in a blocking client nothing could run it.

    Raises:
        ValueError: It is one; names the argument.
    """
    import inspect

    call = getattr(function, "__call__", None)  # noqa: B004 - its own kind is asked
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise ValueError(
            f"{name} must be a plain function in mcpwire.sync, got {function!r}"
        )


def check_handlers(**given: Any) -> None:
    """Refuse async functions among what a client is made with, also wrapped ones.

    Raises:
        ValueError: There is one; names the argument.
    """
    for name, value in given.items():
        parts = (getattr(value, part, None) for part in ("handler", "form", "url"))
        for function in (value, *parts):
            if callable(function):
                check_plain(function, name)


def check_outcome(value: Any, function: Any) -> None:
    """Refuse what a handler gave back to be awaited.

    Raises:
        LocalProtocolError: It did.
    """
    if discard_awaitable(value):
        raise LocalProtocolError(
            "handlers of mcpwire.sync are plain functions, "
            f"but {function!r} gave back something to be awaited"
        )


def discard_awaitable(value: Any) -> bool:
    """Tell whether a function gave back something to be awaited, and let go of it."""
    if not hasattr(value, "__await__"):
        return False
    close = getattr(value, "close", None)
    if close is not None:
        close()  # else Python warns that nobody awaited it
    return True


class Delivery:
    """One callback and the items that wait for it.

    The callback runs in the context (`contextvars`) in which this was made, one item
    at a time, in a thread that ends soon after the queue: to start one costs more than
    most callbacks, and items come in floods.
    """

    def __init__(self, callback: Callable[..., Any], waiting: Waiting) -> None:
        self._callback = callback
        self._context = copy_context()
        self._waiting = waiting
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Items forgotten because the callback was too slow."""
        return self._waiting.dropped

    def put(self, *item: Any) -> None:
        """Hand one item to the callback, or queue it behind those before it."""
        with self._changed:
            self._waiting.put(*item)
            if self._thread is not None:
                self._changed.notify()
                return
            self._is_closing = False
            thread = self._thread = threading.Thread(
                target=self._drain, name="mcpwire-callback", daemon=True
            )
        try:
            thread.start()
        except RuntimeError:
            logger.exception("callback %r cannot be called", self._callback)
            with self._changed:
                self._thread = None

    def _drain(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    told = not self._is_closing and self._changed.wait(LINGER_S)
                    if not told and not self._waiting:
                        self._thread = None
                        return
                item = self._waiting.pop()
            self._call(item)

    def _call(self, item: tuple[Any, ...]) -> None:
        try:
            outcome = self._context.copy().run(self._callback, *item)
        except BaseException:  # whatever it was: the thread is ours, and goes on
            logger.exception("callback %r raised", self._callback)
            return
        if discard_awaitable(outcome):
            logger.error("callback %r is no plain function", self._callback)

    def close(self) -> threading.Thread | None:
        """Forget what waits; return the thread of a callback that still runs."""
        with self._changed:
            self._waiting.clear()
            self._is_closing = True
            self._changed.notify()
            thread = self._thread
        return None if thread is threading.current_thread() else thread


class ProgressSink:
    """The way from notifications to ``on_progress(progress, total, message)``.

    The channel tells a call's notifications in the thread that waits for the call, so
    nothing is queued here. Over HTTP one may come on another stream, in its thread: the
    callback runs for one at a time all the same, and holds up no other call's.
    """

    def __init__(
        self,
        on_progress: Callable[[float, float | None, str | None], Any],
        limits: Limits,
    ) -> None:
        # How many notifications may wait is the channel's to see to.
        del limits
        check_plain(on_progress, "on_progress")
        self._on_progress = on_progress
        self._telling = threading.RLock()  # it may close the client, or call

    def take(self, _: str, params: dict[str, Any] | None) -> None:
        """Take a notification; one that carries no number is passed over."""
        fields = params or {}
        progress = _number(fields.get("progress"))
        if progress is None:
            return
        message = fields.get("message")
        try:
            with self._telling:
                outcome = self._on_progress(
                    progress,
                    _number(fields.get("total")),
                    message if type(message) is str else None,
                )
        except Exception:
            logger.exception("callback %r raised", self._on_progress)
            return
        if discard_awaitable(outcome):
            logger.error("callback %r is no plain function", self._on_progress)

    def settle(self, seconds: float | None) -> None:
        """Nothing is queued, so nothing is waited for."""

    def close(self) -> None:
        """Nothing is queued, so nothing is forgotten."""


def _number(value: Any) -> float | None:
    return value if type(value) in {int, float} else None
