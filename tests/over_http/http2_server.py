"""An HTTP/2 server over TLS, as a script for a `raw_server`.

    with http2_server(answer) as server:
        ...  # server.url, server.requests, server.reset

`answer(stream)` is called with each complete request, in the thread of its connection,
and may respond at once, later (with the next request), or never.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from certificates import server_context
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from raw_server import Connection, RawServer, raw_server


class Stream:
    def __init__(self, h2: H2Connection, id: int, fields: dict[str, str]) -> None:
        self.h2 = h2
        self.id = id
        self.fields = fields
        self.body = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def head(self, status: int = 200, **fields: str) -> None:
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self.h2.send_headers(self.id, [(":status", str(status)), *named.items()])

    def data(self, chunk: bytes, *, ends: bool = False) -> None:
        self.h2.send_data(self.id, chunk, end_stream=ends)

    def answer(self, obj: object) -> None:
        self.head(content_type="application/json")
        self.data(json.dumps(obj).encode(), ends=True)


class Http2Server:
    """The requests that were received, and the address of the server."""

    def __init__(self, answer: Callable[[Stream], None]) -> None:
        self.answer = answer
        self.requests: list[Stream] = []
        self.reset: list[int] = []
        self.changed = threading.Condition()
        self.server: RawServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def connections(self) -> int:
        assert self.server is not None
        return self.server.connections

    def wait_until(self, holds: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, 30), "the condition did not become true"

    def serve(self, conn: Connection) -> None:
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        h2.initiate_connection()
        conn.send(h2.data_to_send())
        streams: dict[int, Stream] = {}
        while data := conn.read_some(timeout=None):
            with contextlib.suppress(ProtocolError):  # frames after our GOAWAY
                for event in h2.receive_data(data):
                    with self.changed:
                        self._take(event, h2, streams)
                        self.changed.notify_all()
            conn.send(h2.data_to_send())

    def _take(self, event: Any, h2: H2Connection, streams: dict[int, Stream]) -> None:
        if isinstance(event, RequestReceived):
            fields = dict(event.headers)
            streams[event.stream_id] = Stream(h2, event.stream_id, fields)
        elif isinstance(event, DataReceived):
            streams[event.stream_id].body += event.data
            h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.requests.append(streams[event.stream_id])
            self.answer(streams[event.stream_id])
        elif isinstance(event, StreamReset):
            self.reset.append(event.stream_id)


@contextlib.contextmanager
def http2_server(answer: Callable[[Stream], None]) -> Iterator[Http2Server]:
    context = server_context()
    context.set_alpn_protocols(["h2"])
    made = Http2Server(answer)
    with raw_server(made.serve, ssl_context=context) as made.server:
        yield made
