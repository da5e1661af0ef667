/* Uses our server by the official TypeScript SDK's client; writes what came as JSON.
 *
 * The argument is JSON: {"stdio": [program, ...], "http": url}. Each of them is connected
 * to in both eras. NODE_PATH says where the SDK is installed.
 */
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { SkillsClient } = require("@modelcontextprotocol/client/ext/skills");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const NOTE = "note://today";
const PATIENCE = 20_000;
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

function connected(mode) {
    const client = new Client(
        { name: "typescript", version: "1" },
        {
            capabilities: { elicitation: {}, sampling: {}, roots: {} },
            versionNegotiation: { mode },
        },
    );
    const heard = { logs: [], steps: [], changes: new Set() };
    heard.changed = new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error("nothing changed")), PATIENCE);
        heard.hear = (change) => {
            heard.changes.add(change);
            if (heard.changes.size === 2) {
                clearTimeout(timer);
                resolve();
            }
        };
    });
    client.setRequestHandler("elicitation/create", async () => ({
        action: "accept",
        content: { name: "Bob", age: 7 },
    }));
    client.setRequestHandler("sampling/createMessage", async ({ params }) => ({
        role: "assistant",
        model: "m",
        content: { type: "text", text: params.messages.at(-1).content.text.toUpperCase() },
    }));
    client.setRequestHandler("roots/list", async () => ({
        roots: [{ uri: "file:///work" }],
    }));
    client.setNotificationHandler("notifications/message", ({ params }) => {
        heard.logs.push([params.level, params.data]);
    });
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
        heard.hear(`updated ${params.uri}`);
    });
    client.setNotificationHandler("notifications/tools/list_changed", () => {
        heard.hear("tools");
    });
    return [client, heard];
}

function outcome(result) {
    return {
        text: result.content[0].text,
        structured: result.structuredContent ?? null,
        is_error: result.isError ?? false,
    };
}

async function use(transport, mode) {
    const [client, heard] = connected(mode);
    await client.connect(transport);
    const call = async (name, args = {}) =>
        outcome(await client.callTool({ name, arguments: args }));
    if (mode === "legacy") {
        await client.setLoggingLevel("debug");
    }
    const counted = await client.callTool(
        { name: "count", arguments: { to: 3 }, _meta: { [LOG_LEVEL]: "debug" } },
        {
            onprogress: ({ progress, total, message }) =>
                heard.steps.push([progress, total, message]),
        },
    );
    const { tools } = await client.listTools();
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const { prompts } = await client.listPrompts();
    const prompt = await client.getPrompt({ name: "review", arguments: { code: "x = 1" } });
    const { completion } = await client.complete({
        ref: { type: "ref/prompt", name: "review" },
        argument: { name: "style", value: "s" },
    });
    const results = {
        version: client.getNegotiatedProtocolVersion(),
        server: [client.getServerVersion().name, client.getServerVersion().version],
        instructions: client.getInstructions(),
        tools: tools.map((tool) => tool.name),
        schema: tools[0].inputSchema,
        add: await call("add", { a: 2, b: 3 }),
        thread: await call("thread", { word: "abc" }),
        person: await call("person"),
        fail: await call("fail"),
        counted: [counted.content[0].text, heard.steps, heard.logs],
        resources: resources.map((each) => each.uri),
        templates: resourceTemplates.map((each) => each.uriTemplate),
        note: (await client.readResource({ uri: NOTE })).contents[0].text,
        greeting: (await client.readResource({ uri: "greet://Ada" })).contents[0].text,
        prompts: prompts.map((each) => each.name),
        prompt: prompt.messages[0].content.text,
        completed: completion.values,
        elicited: (await call("ask_person")).text,
        sampled: (await call("ask_model", { question: "why" })).text,
        roots: (await call("ask_roots")).text,
    };
    const skills = new SkillsClient(client);
    results.skills = [];
    for (const skill of skills.supported ? (await skills.list()).skills : []) {
        const { frontmatter, body, verified } = await skills.read(skill);
        results.skills.push([frontmatter.name, body, verified]);
    }
    let subscription;
    if (mode === "legacy") {
        await client.subscribeResource({ uri: NOTE });
    } else {
        subscription = await client.listen({
            toolsListChanged: true,
            resourceSubscriptions: [NOTE],
        });
    }
    await call("change");
    await heard.changed;
    results.changes = [...heard.changes].sort();
    await subscription?.close();
    await client.close();
    return results;
}

async function main() {
    const { stdio, http } = JSON.parse(process.argv[2]);
    const [command, ...args] = stdio;
    const results = {};
    for (const mode of ["legacy", "auto"]) {
        const pipe = new StdioClientTransport({ command, args, stderr: "inherit" });
        results[`stdio ${mode}`] = await use(pipe, mode);
        const socket = new StreamableHTTPClientTransport(new URL(http));
        results[`http ${mode}`] = await use(socket, mode);
    }
    console.log(JSON.stringify(results));
    process.exit(0); // a keep-alive connection is no reason to stay
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
