/* Calls the tool `echo` 1,000 times, one call after the other. */
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

async function main(target) {
    const client = new Client(
        { name: "client", version: "1" },
        { versionNegotiation: { mode: "auto" } },
    );
    const [command, ...args] = target.split(" ");
    const transport = target.startsWith("http")
        ? new StreamableHTTPClientTransport(new URL(target))
        : new StdioClientTransport({ command, args });
    await client.connect(transport);
    for (let turn = 0; turn < 1000; turn++) {
        await client.callTool({ name: "echo", arguments: { text: "hi" } });
    }
    await client.close();
}

main(process.argv[2]);
