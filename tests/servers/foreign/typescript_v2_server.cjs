/* A server over HTTP on the official TypeScript SDK 2.x: both eras on one URL.
 *
 * Sessions of 2025-11-25 and before have a transport each, later requests a server each.
 * NODE_PATH says where the SDK is installed, PORT where to listen.
 */
const { createServer } = require("node:http");
const { randomUUID } = require("node:crypto");
const {
    McpServer,
    createMcpHandler,
    fromJsonSchema,
    inputRequired,
    inputResponse,
    isLegacyRequest,
} = require("@modelcontextprotocol/server");
const {
    NodeStreamableHTTPServerTransport,
    toNodeHandler,
    toWebRequest,
} = require("@modelcontextprotocol/node");

const NOTE = "note://shared";
let note = "first";
const sessions = new Map(); // id -> { server, transport, subscribed }

const text = (said) => ({ content: [{ type: "text", text: said }] });

const object = (properties) =>
    fromJsonSchema({ type: "object", properties, required: Object.keys(properties) });

const FORM = {
    type: "object",
    properties: { name: { type: "string", title: "Name" } },
    required: ["name"],
};

function addTools(server) {
    const string = { type: "string" };
    server.registerTool(
        "echo",
        { description: "Say it back.", inputSchema: object({ message: string }) },
        async ({ message }) => text(message),
    );
    server.registerTool(
        "work",
        { description: "Report progress.", inputSchema: object({ steps: { type: "integer" } }) },
        async ({ steps }, { mcpReq }) => {
            const progressToken = mcpReq._meta?.progressToken;
            for (let progress = 1; progressToken !== undefined && progress <= steps; progress++)
                await mcpReq.notify({
                    method: "notifications/progress",
                    params: { progressToken, progress, total: steps, message: `step ${progress}` },
                });
            return text(`${steps} steps`);
        },
    );
    // What needs input is said once: in a session the SDK asks, later the result does.
    server.registerTool(
        "haiku",
        { description: "Have the client's model write.", inputSchema: object({ topic: string }) },
        async ({ topic }, { mcpReq }) => {
            const answer = inputResponse(mcpReq.inputResponses, "poem");
            if (answer.kind === "sampling") return text(answer.result.content.text);
            const content = { type: "text", text: `A haiku on ${topic}` };
            const messages = [{ role: "user", content }];
            const poem = inputRequired.createMessage({ messages, maxTokens: 64 });
            return inputRequired({ inputRequests: { poem } });
        },
    );
    server.registerTool("order", { description: "Ask the user." }, async ({ mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, "form");
        if (answer.kind === "elicit")
            return text(answer.action === "accept" ? answer.content.name : answer.action);
        const form = inputRequired.elicit({ message: "Who is it for?", requestedSchema: FORM });
        return inputRequired({ inputRequests: { form } });
    });
    server.registerTool(
        "write",
        { description: "Change the note.", inputSchema: object({ text: string }) },
        async (given) => {
            note = given.text;
            modern.notify.resourceUpdated(NOTE);
            for (const { server, subscribed } of sessions.values())
                if (subscribed.has(NOTE)) await server.server.sendResourceUpdated({ uri: NOTE });
            return text("written");
        },
    );
}

function makeServer(subscribed = new Set()) {
    const options = { capabilities: { resources: { subscribe: true } } };
    const server = new McpServer({ name: "foreign-typescript", version: "1.2.3" }, options);
    addTools(server);
    server.registerResource("shared", NOTE, { mimeType: "text/plain" }, async () => ({
        contents: [{ uri: NOTE, mimeType: "text/plain", text: note }],
    }));
    server.server.setRequestHandler("resources/subscribe", async ({ params }) => {
        subscribed.add(params.uri);
        return {};
    });
    server.server.setRequestHandler("resources/unsubscribe", async ({ params }) => {
        subscribed.delete(params.uri);
        return {};
    });
    return server;
}

const modern = createMcpHandler(() => makeServer(), { legacy: "reject" });
const serveModern = toNodeHandler(modern);

async function begin() {
    const subscribed = new Set();
    const server = makeServer(subscribed);
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => {
            sessions.set(id, { server, transport, subscribed });
        },
        onsessionclosed: (id) => {
            sessions.delete(id);
        },
    });
    await server.connect(transport);
    return transport;
}

function refuse(response) {
    const error = { code: -32001, message: "Session not found" };
    response.writeHead(404, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
}

async function body(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return parts.length ? JSON.parse(Buffer.concat(parts)) : undefined;
}

const http = createServer(async (request, response) => {
    const parsed = await body(request);
    if (!(await isLegacyRequest(await toWebRequest(request, parsed), parsed)))
        return serveModern(request, response, parsed);
    const id = request.headers["mcp-session-id"];
    if (id && !sessions.has(id)) return refuse(response);
    const transport = id ? sessions.get(id).transport : await begin();
    return transport.handleRequest(request, response, parsed);
});

http.listen(Number(process.env.PORT), "127.0.0.1", () => console.error("listening"));
