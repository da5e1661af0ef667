"""What somebody hears of resources that are not there for him."""

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


async def test_nobody_hears_of_changes_of_what_is_hidden_from_him():
    server = make()
    hand = Hand(server.dispatcher)
    uris = ["open://a", "hidden://a", "rows://7", "none://a", "notes://7"]
    try:
        listen = {"notifications": {"resourceSubscriptions": uris}}
        (told,) = await hand.ask(modern(1, "subscriptions/listen", listen))
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
    finally:
        await hand.connection.aclose()


async def test_one_request_listens_to_so_many_resources_at_most():
    hand = Hand(make().dispatcher)
    try:
        for uris in (
            [f"notes://{n}" for n in range(2_000)],
            ["notes://" + "x" * 9_000],
        ):
            listen = {"notifications": {"resourceSubscriptions": uris}}
            (answer,) = await hand.ask(modern(1, "subscriptions/listen", listen))
            assert answer["error"]["code"] == -32602
    finally:
        await hand.connection.aclose()


async def test_a_server_that_reads_resources_by_hand_knows_what_there_is():
    server = make()

    @server.method("resources/read")
    async def read(params, request):
        return {"contents": []}

    hand = Hand(server.dispatcher)
    try:
        listen = {"notifications": {"resourceSubscriptions": ["own://a"]}}
        (told,) = await hand.ask(modern(1, "subscriptions/listen", listen))
        assert told["params"]["notifications"] == listen["notifications"]
    finally:
        await hand.connection.aclose()
