"""A port for a process of ours to listen on, which nobody else takes meanwhile."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"


@contextlib.contextmanager
def kept_port() -> Iterator[int]:
    """Give a port that is free, and keep it from others for as long as it is needed.

    A port that was only looked up may be the next connection's of another process: the
    system deals them out of the same range. Linux lets a server listen where a socket
    is bound that does not listen itself, if both say that addresses may be used again,
    as servers do; and it gives such a port to nobody. Elsewhere the two would be in
    each other's way, so there the port is only looked up.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((HOST, 0))
        port: int = keeper.getsockname()[1]
        if sys.platform != "linux":
            keeper.close()
        yield port
