"""What a scripted peer receives (`Message`) and what it may answer (the outcomes).

An outcome is a result (a dict, or a value of `mcpwire.types`), an `RPCError`, bytes to
send as they are, `SILENCE`, one of the marks below, or a function of the `Message` that
returns any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SILENCE",
    "Later",
    "Message",
    "Repeated",
    "answer_to",
    "in_turn",
    "later",
    "notification",
    "plain",
    "refusal_of",
    "repeated",
]


def plain(value: Any) -> Any:
    """Return a value of `mcpwire.types` as JSON, and anything else as it is."""
    if isinstance(value, (dict, list, str, int, float, type(None))):
        return value
    from mcpwire.types import encode

    return encode(value)


def answer_to(id: Any, result: Any) -> dict[str, Any]:
    """Return the message that answers a request."""
    return {"jsonrpc": "2.0", "id": id, "result": plain(result)}


def refusal_of(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """Return the message that answers a request with an error."""
    error = {"code": code, "message": message}
    error |= {} if data is None else {"data": plain(data)}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    """Return a notification."""
    members = {} if params is None else {"params": plain(params)}
    return {"jsonrpc": "2.0", "method": method, **members}


class _Silence:
    def __repr__(self) -> str:
        return "SILENCE"


SILENCE: Final = _Silence()
"""The outcome that answers nothing: the request waits for `ScriptedPeer.receive`."""


@attrs.frozen(eq=False)
class Message:
    """One message as it came.

    Attributes:
        raw: The decoded JSON, untouched; the line itself, as bytes, where it is none.
    """

    raw: Any
    _send: Callable[[Any], None] = attrs.field(repr=False)

    @property
    def id(self) -> Any:
        """The id; ``None`` where there is none."""
        return self._member("id")

    @property
    def method(self) -> str | None:
        """The method; ``None`` of an answer."""
        method = self._member("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> Any:
        """The params; an empty dict where there are none."""
        return self._member("params", {})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool call; an empty dict where there are none."""
        params = self.params
        found = params.get("arguments") if isinstance(params, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def result(self) -> Any:
        """The result of an answer; ``None`` where there is none."""
        return self._member("result")

    @property
    def error(self) -> Any:
        """The error object of an answer; ``None`` where there is none."""
        return self._member("error")

    @property
    def is_request(self) -> bool:
        """Whether it waits for an answer."""
        return self.method is not None and "id" in self.raw

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request."""
        return self.method is None and isinstance(self.raw, dict) and "id" in self.raw

    def answer(self, result: Any) -> None:
        """Answer it: with a result as a dict, or with a value of `mcpwire.types`."""
        self._send(answer_to(self.id, result))

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """Answer it with an error."""
        self._send(refusal_of(self.id, code, message, data))

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far it has come, if it asked for that."""
        params = self.params
        meta = params.get("_meta") if isinstance(params, dict) else None
        if not isinstance(meta, dict) or "progressToken" not in meta:
            return
        told = {"progressToken": meta["progressToken"], "progress": progress}
        told |= {} if total is None else {"total": total}
        told |= {} if message is None else {"message": message}
        self._send(notification("notifications/progress", told))

    def _member(self, name: str, default: Any = None) -> Any:
        return self.raw.get(name, default) if isinstance(self.raw, dict) else default


@attrs.frozen
class Later:
    """An outcome that takes its time; made by `later`."""

    outcome: Any
    seconds: float
    turns: int


@attrs.frozen
class Repeated:
    """An outcome that is sent more than once; made by `repeated`."""

    outcome: Any
    times: int


def later(outcome: Any, *, seconds: float = 0.0, turns: int = 0) -> Later:
    """Return an outcome that comes after so many seconds or turns of the loop.

    Seconds are those of the loop's clock: with a `VirtualClockLoop` they take no time.
    """
    return Later(outcome, seconds, turns)


def repeated(outcome: Any, times: int = 2) -> Repeated:
    """Return an outcome that answers the same id so many times."""
    return Repeated(outcome, times)


@attrs.define
class _InTurn:
    outcomes: tuple[Any, ...]
    calls: int = 0

    def __call__(self, message: Message) -> Any:
        place = min(self.calls, len(self.outcomes) - 1)
        self.calls += 1
        return self.outcomes[place]


def in_turn(*outcomes: Any) -> _InTurn:
    """Return an outcome that is the first at first, then the second; the last stays.

    Raises:
        ValueError: There is none.
    """
    if not outcomes:
        raise ValueError("in_turn takes at least one outcome")
    return _InTurn(outcomes)
