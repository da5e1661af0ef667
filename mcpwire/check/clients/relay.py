"""Program that a client starts as its server; it passes all octets to the check.

::

    client ── stdin ──► relay ── frames ──► mcpwire check
    client ◄─ stdout ── relay ◄─ frames ─── mcpwire check

A frame is a letter, the size of the data as four octets, and the data. To the check:
``I`` input, ``E`` end of the input, ``S`` SIGTERM. From the check: ``O`` output, ``R``
stderr, ``C`` close the output, ``X`` exit with the code in the data. The relay ends
with the connection, also if the client does not read its output. Only the standard
library is used, for a quick start.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_SIZE: Final = 5
_READ_SIZE: Final = 65_536


def frame(kind: bytes, data: bytes = b"") -> bytes:
    """Return a frame."""
    return kind + len(data).to_bytes(4, "big") + data


def main() -> None:
    """Relay until the check ends the process or the connection."""
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    lock = threading.RLock()  # the signal handler interrupts the main thread

    def report(kind: bytes, data: bytes = b"") -> None:
        try:
            with lock:
                connection.sendall(frame(kind, data))
        except OSError:
            os._exit(0)  # the check has ended

    signal.signal(signal.SIGTERM, lambda *_: report(b"S"))
    work: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_read_input, args=(report,), daemon=True).start()
    threading.Thread(target=_do, args=(work,), daemon=True).start()
    with contextlib.suppress(OSError):
        frames = connection.makefile("rb")
        while head := frames.read(HEAD_SIZE):
            work.put((head[:1], frames.read(int.from_bytes(head[1:], "big"))))
    os._exit(0)


def _do(work: queue.SimpleQueue[tuple[bytes, bytes]]) -> None:
    """Do the work of each frame; a write may wait for the client."""
    while True:
        kind, data = work.get()
        match kind:
            case b"O" | b"R":
                with contextlib.suppress(OSError):  # the client has closed it
                    _write(1 if kind == b"O" else 2, data)
            case b"C":
                os.close(1)
            case b"X":
                os._exit(data[0])


def _read_input(report: Callable[..., None]) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, _READ_SIZE):
            report(b"I", data)
    report(b"E")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
