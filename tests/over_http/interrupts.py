"""An interrupt at any moment that may get one: what Ctrl-C does, without the luck."""

from __future__ import annotations

import dis
import gc
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import mcpwire

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

PACKAGE = str(Path(mcpwire.__file__).parent)

SIGNALS = ("CALL", "JUMP_BACKWARD", "RESUME")
"""After these Python looks for signals, and nowhere else does an interrupt come."""


class Interrupts:
    """Raises `KeyboardInterrupt` at some of the moments when the engine may get one."""

    def __init__(self, *moments: int) -> None:
        self.moments = set(moments)
        self.passed = 0
        self._at: dict[FrameType, str] = {}
        self._finaliser: FrameType | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        # What earlier clients left behind is finalised at no moment of this one's.
        gc.disable()
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._at.clear()
        gc.enable()

    def _enter_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if self._finaliser is not None or not self._is_of_interest(code):
            return None
        if code.co_name == "__del__":
            self._finaliser = frame
            return self._in_finaliser
        frame.f_trace_opcodes = True
        return self._in_frame

    def _in_finaliser(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Let pass whatever a finaliser calls: what is raised there goes to nobody."""
        if event == "return":
            self._finaliser = None
        return self._in_finaliser

    def _in_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            before = self._at.get(frame, "RESUME")
            self._at[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(SIGNALS):
                self.passed += 1
                if self.passed in self.moments:
                    self._act()
        elif event == "exception":
            self._at[frame] = ""
        return self._in_frame

    def _is_of_interest(self, code: CodeType) -> bool:
        return code.co_filename.startswith(PACKAGE)

    def _act(self) -> None:
        raise KeyboardInterrupt

    @property
    def is_through(self) -> bool:
        """Whether no moment was left."""
        return self.passed < min(self.moments)


class SignalHandlers(Interrupts):
    """Calls a function at such a moment, as a signal handler is called there.

    Also within `threading`, where a thread may hold a lock that the handler needs.
    """

    def __init__(self, function: Callable[[], object], *moments: int) -> None:
        super().__init__(*moments)
        self._function = function

    def _is_of_interest(self, code: CodeType) -> bool:
        return code.co_filename == threading.__file__ or super()._is_of_interest(code)

    def _act(self) -> None:
        before = sys.gettrace()
        sys.settrace(None)
        try:
            self._function()
        finally:
            sys.settrace(before)
