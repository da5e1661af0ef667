"""A server with one component of each kind, for tests of whole servers."""

from mcpwire import Context, Server


def weather():
    server = Server("weather", "1")

    @server.tool
    async def now(ctx: Context) -> str:
        return ctx.server.name

    @server.prompt
    def ask(city: str) -> str:
        return f"the weather of {city}"

    @server.resource("weather://{city}")
    def of(city: str) -> str:
        return f"rain in {city}"

    server.add_resource("weather://help", "helps")

    @server.completion("ask", "city")
    def cities(value):
        return [c for c in ("Bonn", "Bern") if c.startswith(value)]

    return server
