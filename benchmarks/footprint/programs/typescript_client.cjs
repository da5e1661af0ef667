/* The smallest program with the official TypeScript SDK. NODE_PATH says where it is. */
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const tell = (name, value) => console.log(`${name} ${value}`);
const rssKib = () => Math.round(process.memoryUsage().rss / 1024);

async function main(server, many = "0") {
    const client = new Client(
        { name: "footprint", version: "1" },
        { versionNegotiation: { mode: "legacy" } },
    );
    await client.connect(new StdioClientTransport({ command: server, args: [] }));
    const call = () => client.callTool({ name: "echo", arguments: { text: "hi" } });
    await call();
    tell("call_rss_kib", rssKib());
    if (Number(many)) {
        for (let n = 0; n < Number(many) * 1.1; n++) await call();
        tell("after_rss_kib", rssKib());
    }
    await client.close();
}

const words = process.argv.slice(2);
if (words.length) main(...words);
