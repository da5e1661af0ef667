/* The official TypeScript SDK's client: `client.callTool`.
 *
 *   node typescript_client.cjs TARGET "SHAPE ERA PLACEMENT SERVER"
 *
 * Answers and measures what harness/child.py and harness/measure.py do, line by line of
 * JSON; TARGET means nothing here. NODE_PATH says where the SDK is installed.
 */
const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const CALL = { name: "echo", arguments: { text: "hi" } };
const ANSWER = "hello";
const VERSIONS = { "--legacy": "2025-11-25", "--modern": "2026-07-28" };
const MODES = { "--legacy": "legacy", "--modern": "auto" };
const WARM_UP_CALLS = 50;
const WARM_UP_SHARE = 2;
// After so many calls V8 has compiled what runs often; over HTTP a call does more.
const COMPILED_CALLS = { stdio: 2000, json: 1000, sse: 1000 };
const PERCENTILES = { p50_us: 0.5, p99_us: 0.99, p999_us: 0.999 };

// What is measured...

function cpuMicroseconds() {
    const { user, system } = process.cpuUsage();
    return user + system;
}

const warmUpCalls = (calls) => Math.min(WARM_UP_CALLS, WARM_UP_SHARE * calls);

async function repeat(call, calls) {
    for (let turn = 0; turn < calls; turn++) await call();
}

async function oneAtATime(call, calls) {
    await repeat(call, warmUpCalls(calls));
    const before = cpuMicroseconds();
    await repeat(call, calls);
    return { cpu_us: (cpuMicroseconds() - before) / calls };
}

async function timeCalls(call, calls, latencies) {
    await repeat(call, warmUpCalls(calls));
    for (let turn = 0; turn < calls; turn++) {
        const start = process.hrtime.bigint();
        await call();
        latencies.push(Number(process.hrtime.bigint() - start));
    }
}

function percentiles(latencies) {
    const ordered = [...latencies].sort((a, b) => a - b);
    const at = (share) => Math.max(0, Math.ceil(share * ordered.length) - 1);
    return Object.fromEntries(
        Object.entries(PERCENTILES).map(([name, share]) => [name, ordered[at(share)] / 1e3]),
    );
}

async function inFlight(call, calls, width) {
    async function runCalls(count) {
        let turns = count;
        const work = async () => {
            while (turns-- > 0) await call();
        };
        await Promise.all(Array.from({ length: width }, work));
    }
    await runCalls(Math.max(width, warmUpCalls(calls)));
    const [wall, cpu] = [process.hrtime.bigint(), cpuMicroseconds()];
    await runCalls(calls);
    const spent = cpuMicroseconds() - cpu;
    return {
        [`calls_per_s@${width}`]: (calls / Number(process.hrtime.bigint() - wall)) * 1e9,
        [`cpu_us@${width}`]: spent / calls,
    };
}

async function handleRequest(call, { calls, width }, latencies) {
    if (width) return inFlight(call, calls, width);
    if (!calls) return percentiles(latencies);
    const figures = await oneAtATime(call, calls);
    await timeCalls(call, calls, latencies);
    return figures;
}

// What is called...

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
    const latencies = [];
    await repeat(call, COMPILED_CALLS[process.argv[3].split(" ")[0]]);
    console.log("{}");
    for await (const line of createInterface({ input: process.stdin }))
        console.log(JSON.stringify(await handleRequest(call, JSON.parse(line), latencies)));
    await close();
    process.exit(0); // a keep-alive connection is no reason to stay
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
