"""What engines feed: the event stream, and the answers to our POSTs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from mcpwire.errors import MCPError, MessageTooLarge, TransportError
from mcpwire.protocol.http import exchange
from mcpwire.wire.json import loads
from mcpwire.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from asyncio import Future, TimerHandle

    from mcpwire.limits import Limits
    from mcpwire.transports.http.legacy.owner import Fields
    from mcpwire.wire.sse import SSEEvent
    from mcpwire.wire.urls import Url

__all__ = ["CANCELLED", "Answer", "Post", "Stream"]

CANCELLED: Final = "notifications/cancelled"

ERROR_BODY_BYTES: Final = 64 * 1024


class Link(Protocol):
    """What is told of what comes."""

    target: str
    limits: Limits

    def leads_to(self, answer: Answer) -> Url | None:
        """Return where else to ask, if a redirect says so and may be followed."""

    def head_came(self, answer: Answer) -> None:
        """The head of an answer came."""

    def stream_began(self, stream: Stream) -> None:
        """The head of the stream came."""

    def take_events(self, events: list[SSEEvent]) -> None:
        """Events came."""

    def post_refused(self, post: Post) -> None:
        """The head came, and it is none of success."""


class Answer:
    """What an engine feeds; keeps the beginning of a body that tells of an error.

    Attributes:
        url: What was asked.
        there: Where to ask next; ``None`` where this is the answer.
        status: The status; 0 before the head.
        fields_came: The head's fields, names in lower case.
        body: What came of a body that is of no use.
        is_over: Whether nothing more is waited for.
    """

    __slots__ = ("body", "fields_came", "is_over", "link", "status", "there", "url")

    what: str

    def __init__(self, link: Link, url: Url) -> None:
        self.link = link
        self.ask(url)

    def ask(self, url: Url) -> None:
        """Wait for what comes from there."""
        self.url = url
        self.there: Url | None = None
        self.status = 0
        self.fields_came: dict[bytes, bytes] = {}
        self.body = b""
        self.is_over = False

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head."""
        self.status = status
        self.fields_came = fields
        self.link.head_came(self)
        if 300 <= status < 400:
            self.there = self.link.leads_to(self)
        # A redirect that is followed is over with its body: what is fed after this
        # would be taken for a part of the next answer.
        if self.there is None:
            self.judge()

    def judge(self) -> None:
        """Say what the head means."""
        raise NotImplementedError

    def data(self, chunk: bytes) -> None:
        """Keep as much of the body as tells what is wrong."""
        if not self.is_over:
            self.body += chunk
            self.is_over = len(self.body) >= ERROR_BODY_BYTES

    def end(self) -> None:
        """Take note that the body is complete."""
        self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        """Say that it took too long; asyncio's engines do not ask."""
        del now
        return TransportError("no answer in time", target=self.link.target)


class Stream(Answer):
    """The answer to the GET.

    Attributes:
        decoder: Reads the events, where there are some.
    """

    __slots__ = ("decoder",)

    what = "GET"

    def __init__(self, link: Link, url: Url) -> None:
        super().__init__(link, url)
        self.decoder: SSEDecoder | None = None

    def judge(self) -> None:
        """See whether this is an event stream."""
        if self.status == 200 and exchange.body_kind(self.fields_came) == "stream":
            self.decoder = SSEDecoder(self.link.limits.message)
        self.link.stream_began(self)

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        decoder = self.decoder
        if decoder is None:
            super().data(chunk)
            return
        self.link.take_events(decoder.feed(chunk))
        if decoder.overflow:
            limit = self.link.limits.message
            raise MessageTooLarge(
                f"an event is longer than {limit} bytes (Limits.message)", limit=limit
            )


class Post(Answer):
    """One message of ours and what the server says to its POST.

    Attributes:
        line: The message.
        size: How many bytes it counts for, newline included.
        method: Its method; ``None``: it is an answer of ours.
        id: Its id, where it is a request.
        names: The request that it is, or cancels.
        fields: What its head has beside what all have.
        after: The POSTs that it must not overtake.
        begun: When it left; ``None`` while not a byte of it has.
        timer: Ends it.
        is_through: Done when it is over.
    """

    __slots__ = (
        "after",
        "begun",
        "fields",
        "id",
        "is_through",
        "line",
        "method",
        "names",
        "size",
        "timer",
        "what",
    )

    def __init__(
        self, link: Link, url: Url, line: bytes, is_through: Future[None]
    ) -> None:
        super().__init__(link, url)
        message = loads(line)
        if type(message) is not dict:
            message = {}  # the answers to a batch
        id = message.get("id")
        self.line = line
        self.size = len(line) + 1
        self.method: str | None = message.get("method")
        self.what = self.method or "an answer"
        self.id = id if self.method is not None and type(id) is int else None
        self.names: int | None = self.id
        if self.method == CANCELLED:
            named = (message.get("params") or {}).get("requestId")
            self.names = named if type(named) is int else None
        self.fields: Fields = ()
        self.after: list[Post] = []
        self.begun: float | None = None
        self.timer: TimerHandle | None = None
        self.is_through = is_through

    def judge(self) -> None:
        """See whether the message was accepted."""
        if exchange.is_success(self.status):
            self.is_over = True  # whatever else it says is no message
        else:
            self.link.post_refused(self)
