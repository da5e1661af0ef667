// A small server on the TypeScript SDK: over stdio, or over HTTP on the port given.
// PACKAGES is the folder of packages that it is installed in.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import path from "node:path";

const require = createRequire(path.resolve(process.env.PACKAGES, "index.js"));
const { McpServer, createMcpHandler, fromJsonSchema } = require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");
const { toNodeHandler, localhostHostValidation, localhostOriginValidation } = require(
    "@modelcontextprotocol/node",
);

const text = (said) => ({ content: [{ type: "text", text: said }] });

function tool(server, name, properties, required, run) {
    const inputSchema = fromJsonSchema({ type: "object", properties, required });
    const annotations = { readOnlyHint: true };
    server.registerTool(name, { description: name, inputSchema, annotations }, run);
}

function make() {
    const server = new McpServer({ name: "typescript", version: "1.0.0" });
    const number = { type: "number" };
    const string = { type: "string" };
    tool(server, "echo", { message: string }, ["message"], ({ message }) => text(message));
    tool(server, "add", { a: number, b: number }, ["a", "b"], ({ a, b }) => text(String(a + b)));
    tool(server, "slow", { seconds: number }, [], async ({ seconds = 0.05 }) => {
        await new Promise((done) => setTimeout(done, seconds * 1000));
        return text("done");
    });
    server.registerResource("text", "subject://text", { mimeType: "text/plain" }, (uri) => ({
        contents: [{ uri: uri.href, text: "a text" }],
    }));
    const argsSchema = fromJsonSchema({
        type: "object",
        properties: { name: string },
        required: ["name"],
    });
    server.registerPrompt("greet", { description: "greet", argsSchema }, ({ name }) => ({
        messages: [{ role: "user", content: { type: "text", text: `hi ${name}` } }],
    }));
    return server;
}

const port = process.argv[2];
if (port) {
    const handle = toNodeHandler(createMcpHandler(make));
    const host = localhostHostValidation();
    const origin = localhostOriginValidation();
    createServer((request, response) => {
        if (host(request, response) && origin(request, response)) handle(request, response);
    }).listen(Number(port), "127.0.0.1");
} else serveStdio(make);
