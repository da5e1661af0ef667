"""Subscriptions to resources that are hidden from the client."""

import contextlib

from raw_client import Hand, modern

from mcpwire import Server

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def build_server():
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
    server = build_server()
    hand = Hand(server.dispatcher)
    yield server, hand
    await hand.connection.aclose()


def listen(*uris):
    params = {"notifications": {"resourceSubscriptions": [*uris]}}
    return modern(1, "subscriptions/listen", params)


async def test_hidden_resource_sends_no_update_notifications():
    uris = ["open://a", "hidden://a", "rows://7", "none://a", "notes://7"]
    async with serving() as (server, hand):
        (acknowledgement,) = await hand.ask(listen(*uris))
        assert acknowledgement["method"] == ACKNOWLEDGED
        honoured = acknowledgement["params"]["notifications"]
        # Missing and hidden resources look the same.
        assert honoured == {"resourceSubscriptions": ["open://a", "notes://7"]}
        for uri in uris:
            server.notify_resource_updated(uri)
        updates = [await hand.next() for _ in range(2)]
        hand.send(modern(2, "server/discover"))
        assert (await hand.next())["id"] == 2
    updated = [message["params"]["uri"] for message in updates]
    assert updated == ["open://a", "notes://7"]


async def test_listen_limits_its_number_and_size_of_uris():
    several, long = (f"notes://{n}" for n in range(2_000)), ["notes://" + "x" * 9_000]
    async with serving() as (_, hand):
        for uris in (several, long):
            (answer,) = await hand.ask(listen(*uris))
            assert answer["error"]["code"] == -32602


async def test_custom_resources_read_handler_accepts_any_subscription():
    async with serving() as (server, hand):

        @server.method("resources/read")
        async def read(params, request):
            return {"contents": []}

        (acknowledgement,) = await hand.ask(listen("own://a"))
    honoured = acknowledgement["params"]["notifications"]
    assert honoured == {"resourceSubscriptions": ["own://a"]}
