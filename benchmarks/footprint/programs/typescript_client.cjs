/* The smallest program with the official TypeScript SDK. NODE_PATH says where it is. */
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const printFigure = (name, value) => console.log(`${name} ${value}`);
const rssKib = () => Math.round(process.memoryUsage().rss / 1024);

async function main(server, repeats = "0") {
    const client = new Client(
        { name: "footprint", version: "1" },
        { versionNegotiation: { mode: "legacy" } },
    );
    await client.connect(new StdioClientTransport({ command: server, args: [] }));
    const call = () => client.callTool({ name: "echo", arguments: { text: "hi" } });
    await call();
    printFigure("call_rss_kib", rssKib());
    if (Number(repeats)) {
        for (let n = 0; n < Number(repeats) * 1.1; n++) await call();
        printFigure("after_rss_kib", rssKib());
    }
    await client.close();
}

const args = process.argv.slice(2);
if (args.length) main(...args);
