/* The official TypeScript SDK's client: `client.callTool`.
 *
 *   node typescript_client.cjs TARGET "SHAPE ERA PLACEMENT SERVER"
 *
 * Answers lines of JSON as mcpwire/bench/code_child.py does. TARGET has no meaning here;
 * NODE_PATH is the folder of the SDK.
 */
const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const CALL = { name: "echo", arguments: { text: "hi" } };
const ANSWER = "hello";
const VERSIONS = { "--legacy": "2025-11-25", "--modern": "2026-07-28" };
const MODES = { "--legacy": "legacy", "--modern": "auto" };
// After so many calls V8 has compiled what runs often; over HTTP a call does more.
const COMPILED_CALLS = { stdio: 2000, json: 1000, sse: 1000 };

// Measurement...

function cpuNanoseconds() {
    const { user, system } = process.cpuUsage();
    return 1000 * (user + system);
}

const now = () => Number(process.hrtime.bigint());

async function measure(call, { users, seconds, calls }) {
    let remaining = calls ?? Infinity;
    const latencies = [];
    const [began, cpu] = [now(), cpuNanoseconds()];
    const end = seconds === undefined ? Infinity : began + 1e9 * seconds;
    async function runUser() {
        let start = now();
        while (remaining-- > 0) {
            await call();
            const answered = now();
            latencies.push(answered - start);
            if (answered >= end) return;
            start = answered;
        }
    }
    await Promise.all(Array.from({ length: users }, runUser));
    return {
        cpu: cpuNanoseconds() - cpu,
        elapsed: now() - began,
        latencies,
    };
}

// Calls...

async function listening(server, options) {
    const child = spawn(server, options, { stdio: ["pipe", "pipe", "inherit"] });
    const [port] = await new Promise((resolve) =>
        createInterface({ input: child.stdout }).once("line", (line) => resolve([line])),
    );
    return { url: `http://127.0.0.1:${port}/mcp`, close: () => child.stdin.end() };
}

async function connect(argument) {
    const [shape, era, , ...words] = argument.split(" ");
    const server = words.join(" ");
    const client = new Client(
        { name: "benchmark", version: "1" },
        { versionNegotiation: { mode: MODES[era] } },
    );
    let close = () => {};
    if (shape === "stdio") {
        await client.connect(
            new StdioClientTransport({ command: server, args: [era], stderr: "inherit" }),
        );
    } else {
        const null_ = await listening(server, [era, `--${shape}`]);
        await client.connect(new StreamableHTTPClientTransport(new URL(null_.url)));
        close = null_.close;
    }
    const version = client.getNegotiatedProtocolVersion();
    if (version !== VERSIONS[era]) throw new Error(`the era is that of ${version}`);
    const call = () => client.callTool(CALL);
    const [{ text }] = (await call()).content;
    if (text !== ANSWER) throw new Error(`the call was answered ${text}`);
    return [
        call,
        async () => {
            await client.close();
            close();
        },
    ];
}

async function main() {
    const [call, close] = await connect(process.argv[3]);
    const calls = COMPILED_CALLS[process.argv[3].split(" ")[0]];
    await measure(call, { users: 1, calls });
    console.log("{}");
    for await (const line of createInterface({ input: process.stdin }))
        console.log(JSON.stringify(await measure(call, JSON.parse(line))));
    await close();
    process.exit(0); // a keep-alive connection is no reason to stay
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
