"""Clients whose connecting a test can hold up, count and make fail."""

from __future__ import annotations

import threading
from typing import Any

from mcpwire.errors import ConnectError
from mcpwire.sync import Client

BOUND_S = 30.0


class Pace:
    """How the clients that it makes connect.

    Attributes:
        at_once: The most that were connecting at the same time.
        hold: While it is not set, connecting waits until the client is closed.
        failing: The names of servers that cannot be connected.
        broken: The names of servers that cannot be closed.
        threads: In which threads clients connected.
    """

    def __init__(self, *failing: str) -> None:
        self.at_once = 0
        self.busy = 0
        self.hold = threading.Event()
        self.hold.set()
        self.failing = set(failing)
        self.broken: set[str] = set()
        self.threads: set[str] = set()
        self.order: list[str] = []
        self.meeting: threading.Barrier | None = None
        self.guard = threading.Lock()

    def __call__(self, name: str, target: Any, **options: Any) -> Paced:
        client = Paced(target, **options)
        client.name, client.pace = name, self
        return client


class Paced(Client):
    """A client that connects at its own pace."""

    name: str
    pace: Pace
    ended: threading.Event | None = None

    def connect(self) -> None:
        pace = self.pace
        self.ended = threading.Event()
        with pace.guard:
            pace.busy += 1
            pace.at_once = max(pace.at_once, pace.busy)
            pace.threads.add(threading.current_thread().name)
            pace.order.append(self.name)
        try:
            if pace.meeting is not None:
                pace.meeting.wait(BOUND_S)
            if self.name in pace.failing:
                raise ConnectError(f"no {self.name} today")
            while not pace.hold.wait(0.005):
                if self.ended.is_set():
                    raise ConnectError("closed while connecting")
            super().connect()
        finally:
            with pace.guard:
                pace.busy -= 1

    def close(self) -> None:
        if self.ended is not None:
            self.ended.set()
        super().close()
        if self.name in self.pace.broken:
            raise ConnectError(f"{self.name} cannot be closed")
