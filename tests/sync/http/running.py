"""Something that runs in a thread, and how it ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from waiting import BOUND_S

if TYPE_CHECKING:
    from collections.abc import Callable


class Running:
    """A function in a thread of its own."""

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any):
        self._work = (function, args, options)
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        function, args, options = self._work
        try:
            self._result = function(*args, **options)
        except BaseException as error:  # noqa: BLE001 - for whoever asks
            self._error = error

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def result(self, timeout: float = BOUND_S) -> Any:
        """Wait for its end; return or raise what it did."""
        self._thread.join(timeout)
        assert self.is_over, "it goes on"
        if self._error is not None:
            raise self._error
        return self._result

    def error(self, timeout: float = BOUND_S) -> BaseException:
        """Wait for its end; return what it raised."""
        self._thread.join(timeout)
        assert self.is_over, "it goes on"
        assert self._error is not None, f"it returned {self._result!r}"
        return self._error


def ours() -> list[str]:
    """Return the names of the threads that mcpwire has started."""
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("mcpwire")
    ]
