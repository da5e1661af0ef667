"""What somebody hears of resources that are not there for him."""

import contextlib

from by_hand import Hand, modern

from mcpwire import Server

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def make():
    server = Server("hidden", "1", visible=lambda _, c: "secret" not in c.tags)
    server.add_resource("open://a", "text")
    server.add_resource("hidden://a", "text", tags={"secret"})

    @server.resource("rows://{id}", tags={"secret"})
    def row(id: str) -> str:
        return id

    @server.resource("notes://{id}")
    def note(id: str) -> str:
        return id

    return server


@contextlib.asynccontextmanager
async def serving():
    """Give the server, and a connection to it."""
    server = make()
    hand = Hand(server.dispatcher)
    yield server, hand
    await hand.connection.aclose()


def listen(*uris):
    wanted = {"notifications": {"resourceSubscriptions": [*uris]}}
    return modern(1, "subscriptions/listen", wanted)


async def test_nobody_hears_of_changes_of_what_is_hidden_from_him():
    uris = ["open://a", "hidden://a", "rows://7", "none://a", "notes://7"]
    async with serving() as (server, hand):
        (told,) = await hand.ask(listen(*uris))
        assert told["method"] == ACKNOWLEDGED
        honoured = told["params"]["notifications"]
        # What there is not and what is hidden look the same.
        assert honoured == {"resourceSubscriptions": ["open://a", "notes://7"]}
        for uri in uris:
            server.notify_resource_updated(uri)
        told = [await hand.next() for _ in range(2)]
        hand.send(modern(2, "server/discover"))
        assert (await hand.next())["id"] == 2
    heard = [message["params"]["uri"] for message in told]
    assert heard == ["open://a", "notes://7"]


async def test_one_request_listens_to_so_many_resources_at_most():
    many, long = (f"notes://{n}" for n in range(2_000)), ["notes://" + "x" * 9_000]
    async with serving() as (_, hand):
        for uris in (many, long):
            (answer,) = await hand.ask(listen(*uris))
            assert answer["error"]["code"] == -32602


async def test_a_server_that_reads_resources_by_hand_knows_what_there_is():
    async with serving() as (server, hand):

        @server.method("resources/read")
        async def read(params, request):
            return {"contents": []}

        (told,) = await hand.ask(listen("own://a"))
    honoured = told["params"]["notifications"]
    assert honoured == {"resourceSubscriptions": ["own://a"]}
