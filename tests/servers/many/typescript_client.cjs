/* Uses the gateway by the official TypeScript SDK's client; writes what came as JSON.
 *
 * The argument is JSON: [[name, mode, [program, ...] or url, words], ...], as in
 * python_client.py. NODE_PATH says where the SDK is installed.
 */
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

async function use(transport, mode, words) {
    const client = new Client(
        { name: "typescript", version: "1" },
        { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
    );
    client.setRequestHandler("elicitation/create", async () => ({
        action: "accept",
        content: { name: "Bob" },
    }));
    await client.connect(transport);
    const steps = [];
    const call = async (name, args = {}, options = {}) => {
        const result = await client.callTool({ name, arguments: args }, options);
        if (result.isError) {
            throw new Error(JSON.stringify(result));
        }
        return result.content.map(({ text }) => text).join("\n");
    };
    const { tools } = await client.listTools();
    const { resources } = await client.listResources();
    const prompt = await client.getPrompt({
        name: "pipe_args-prompt",
        arguments: { city: "Ulm" },
    });
    const uri = resources.at(-1).uri;
    const results = {
        version: client.getNegotiatedProtocolVersion(),
        server: client.getServerVersion().name,
        tools: tools.map((tool) => tool.name),
        pipe: await call("pipe_echo", { message: "one" }),
        web: await call("web_echo", { message: "two" }),
        time: await call("time_convert_time", words.time),
        git: await call("git_git_status", words.git),
        long: await call(
            "web_trigger-long-running-operation",
            { duration: 0.2, steps: 2 },
            {
                onprogress: ({ progress, total, message }) =>
                    steps.push([progress, total, message ?? null]),
            },
        ),
        steps,
        asked: await call("pipe_trigger-elicitation-request"),
        prompt: prompt.messages[0].content.text,
        read: (await client.readResource({ uri: "demo://resource/dynamic/text/5" }))
            .contents[0].text,
        last: [uri, (await client.readResource({ uri })).contents[0].uri],
    };
    await client.close();
    return results;
}

async function main() {
    const results = {};
    for (const [name, mode, where, words] of JSON.parse(process.argv[2])) {
        const transport = Array.isArray(where)
            ? new StdioClientTransport({
                  command: where[0],
                  args: where.slice(1),
                  stderr: "inherit",
              })
            : new StreamableHTTPClientTransport(new URL(where));
        results[name] = await use(transport, mode, words);
    }
    console.log(JSON.stringify(results));
    process.exit(0); // a keep-alive connection is no reason to stay
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
