/* The official TypeScript SDK 2.x: on stdio, or over HTTP where PORT says so.
 *
 * Over HTTP sessions have a transport each, later requests a server each, as its own
 * documentation has it. NODE_PATH says where the SDK is installed.
 */
const { createServer } = require("node:http");
const { randomUUID } = require("node:crypto");
const {
    McpServer,
    createMcpHandler,
    fromJsonSchema,
    isLegacyRequest,
} = require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");
const {
    NodeStreamableHTTPServerTransport,
    toNodeHandler,
    toWebRequest,
} = require("@modelcontextprotocol/node");

const object = (name) =>
    fromJsonSchema({
        type: "object",
        properties: { [name]: { type: "string" } },
        required: [name],
    });

const LATER = "2026-07-28";

// A schema is compiled once, and not for each server that a request gets.
const INPUT = object("text");
const OUTPUT = object("result");

function makeServer() {
    const server = new McpServer({ name: "benchmark", version: "1" });
    server.registerTool(
        "echo",
        { description: "Answer with the text.", inputSchema: INPUT, outputSchema: OUTPUT },
        async ({ text }) => ({
            content: [{ type: "text", text }],
            structuredContent: { result: text },
        }),
    );
    return server;
}

const sessions = new Map();

async function begin() {
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: true,
        onsessioninitialized: (id) => {
            sessions.set(id, transport);
        },
    });
    await makeServer().connect(transport);
    return transport;
}

async function body(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return parts.length ? JSON.parse(Buffer.concat(parts)) : undefined;
}

function serveHttp(port) {
    const modern = createMcpHandler(makeServer, { legacy: "reject" });
    const serveModern = toNodeHandler(modern);
    const http = createServer(async (request, response) => {
        const parsed = await body(request);
        // The documentation's own test is an exact one, and costs as much as a call.
        if (request.headers["mcp-protocol-version"] === LATER)
            return serveModern(request, response, parsed);
        const known = sessions.get(request.headers["mcp-session-id"]);
        if (known) return known.handleRequest(request, response, parsed);
        if (await isLegacyRequest(await toWebRequest(request, parsed), parsed))
            return (await begin()).handleRequest(request, response, parsed);
        return serveModern(request, response, parsed);
    });
    http.keepAliveTimeout = 3_600_000;
    http.listen(port, "127.0.0.1");
}

if (process.env.PORT) serveHttp(Number(process.env.PORT));
else serveStdio(makeServer);
