"""A free port for one of our processes, reserved until it is used."""

import contextlib
import socket
import sys
from collections.abc import Iterator

HOST = "127.0.0.1"


@contextlib.contextmanager
def kept_port() -> Iterator[int]:
    """Yield a free port, and reserve it for the duration of the block.

    A port that was only looked up may be taken by a connection of another process: the
    system assigns both from the same range. Linux lets a server listen on a port that a
    bound socket holds without listening, if both set SO_REUSEADDR,
    as servers do; and it assigns such a port to no other socket. Elsewhere the two
    would conflict, so there the port is only looked up.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((HOST, 0))
        port: int = keeper.getsockname()[1]
        if sys.platform != "linux":
            keeper.close()
        yield port
