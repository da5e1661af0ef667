/* Calls the tool `echo` 1,000 times, one after the other, or with `once` uses all. */
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

async function useAll(client) {
    await client.listTools();
    await client.callTool({ name: "echo", arguments: { text: "hi" } });
    await client.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    for (const { uri } of (await client.listResources()).resources) {
        await client.readResource({ uri });
    }
    for (const { name } of (await client.listPrompts()).prompts) {
        await client.getPrompt({ name });
    }
}

async function main(target, mode) {
    const client = new Client(
        { name: "client", version: "1" },
        { versionNegotiation: { mode: "auto" } },
    );
    const [command, ...args] = target.split(" ");
    const transport = target.startsWith("http")
        ? new StreamableHTTPClientTransport(new URL(target))
        : new StdioClientTransport({ command, args });
    await client.connect(transport);
    if (mode === "once") {
        await useAll(client);
    }
    for (let turn = 0; mode !== "once" && turn < 1000; turn++) {
        await client.callTool({ name: "echo", arguments: { text: "hi" } });
    }
    await client.close();
}

main(process.argv[2], process.argv[3]);
