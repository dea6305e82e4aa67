// A server on the official TypeScript SDK, for clients to be driven against:
//
//     node typescript_server.mjs NODE_MODULES MODE
//
// The packages are in the directory NODE_MODULES, which need not be one of this file's parents. Once it accepts
// connections it prints one line to stdout, `LISTENING http://127.0.0.1:PORT/mcp`. It exits when its stdin closes.
// MODE chooses how the handshake era is served; 2026-07-28 always is, on the same endpoint:
//
//     sessions   with sessions, SSE streams, and event ids: streams can be resumed with `Last-Event-ID`
//     stateless  without sessions: the SDK's own default
//     modern     not at all: it is refused, so no client falls back unnoticed
//
// The tools are those of python_server.py with the same names, so the same checks can be made of both.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, mode] = process.argv.slice(2);
const require = createRequire(`${resolve(modules)}/`);
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = require("@modelcontextprotocol/node");
const { acceptedContent, createMcpHandler, inputRequired, inputResponse, isLegacyRequest, McpServer } =
  require("@modelcontextprotocol/server");
const z = require("zod");

const text = (text) => ({ content: [{ type: "text", text }] });

// What calls and sessions have in common, by the name that a call gives.
const fates = new Map();
const trips = new Map();
const permits = new Map();

/** Counts up, and lets one waiter go on for each. */
class Semaphore {
  #free = 0;
  #waiting = [];

  release() {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }

  acquire() {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

function permit(name) {
  if (!permits.has(name)) permits.set(name, new Semaphore());
  return permits.get(name);
}

async function report(ctx, progress, total) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total } });
}

const person = z.object({ name: z.string() });

/** Asks the client's model and its user: by `InputRequiredResult`, which the SDK turns into requests in the older era. */
async function consult({ topic }, ctx) {
  const answers = ctx.mcpReq.inputResponses;
  const model = inputResponse(answers, "answer");
  const who = acceptedContent(answers, "person", person);
  if (model.kind === "sampling" && who) {
    const { content, model: name } = model.result;
    return text(`${content.text}, says ${name} to ${who.name}`);
  }
  return inputRequired({
    inputRequests: {
      answer: inputRequired.createMessage({
        messages: [{ role: "user", content: { type: "text", text: `what is ${topic}?` } }],
        maxTokens: 10,
      }),
      person: inputRequired.elicit({ message: `who asks about ${topic}?`, requestedSchema: person }),
    },
  });
}

/** Returns only when cancelled. */
async function linger({ name }, ctx) {
  fates.set(name, "running");
  await new Promise((resolve) => ctx.mcpReq.signal.addEventListener("abort", resolve, { once: true }));
  fates.set(name, "cancelled");
  return text("woken up");
}

/** Reports progress twice in every leg, and waits for `proceed`. */
async function travel({ name, legs }, ctx) {
  trips.set(name, (trips.get(name) ?? 0) + 1);
  for (let leg = 0; leg < legs; leg++) {
    await report(ctx, 2 * leg + 1, 2 * legs);
    await report(ctx, 2 * leg + 2, 2 * legs);
    await permit(name).acquire();
  }
  return text(`trip ${trips.get(name)} arrived after ${legs} legs`);
}

async function slow({ steps }, ctx) {
  for (let step = 1; step <= steps; step++) await report(ctx, step, steps);
  return text(`done after ${steps} steps`);
}

function build() {
  const server = new McpServer({ name: "interop-typescript", version: "1.0" }, { capabilities: { logging: {} } });
  const tool = (name, shape, run) =>
    server.registerTool(name, { description: `Does ${name}.`, inputSchema: z.object(shape) }, run);
  tool("echo", { text: z.string() }, ({ text: said }) => text(said));
  tool("repeat", { text: z.string(), times: z.int() }, ({ text: said, times }) => text(said.repeat(times)));
  tool("slow", { steps: z.int() }, slow);
  tool("consult", { topic: z.string() }, consult);
  tool("linger", { name: z.string() }, linger);
  tool("fate", { name: z.string() }, ({ name }) => text(fates.get(name) ?? "unknown"));
  tool("travel", { name: z.string(), legs: z.int() }, travel);
  tool("proceed", { name: z.string() }, ({ name }) => {
    permit(name).release();
    return text("go");
  });
  // The SDK looks resources up by what a URL is once it is parsed.
  server.registerResource("memo", new URL("memo://grüße").href, { mimeType: "text/plain" }, (uri) => ({
    contents: [{ uri: uri.href, text: "Grüße aus dem Memo" }],
  }));
  return server;
}

/** Keeps every event of every stream of a session; an event's id is its position. */
class MemoryEventStore {
  #events = [];

  async storeEvent(stream, message) {
    this.#events.push({ stream, message });
    return String(this.#events.length - 1);
  }

  async replayEventsAfter(last, { send }) {
    const { stream } = this.#events[Number(last)];
    for (let id = Number(last) + 1; id < this.#events.length; id++) {
      if (this.#events[id].stream === stream) await send(String(id), this.#events[id].message);
    }
    return stream;
  }
}

const sessions = new Map();

/** The handshake era with sessions: every session has a server and a transport of its own. */
async function handleInSession(request, response, body) {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined) {
    const session = sessions.get(id);
    if (session) await session.handleRequest(request, response, body);
    else response.writeHead(404).end();
    return;
  }
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new MemoryEventStore(),
    retryInterval: 100,
    onsessioninitialized: (id) => void sessions.set(id, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await build().connect(transport);
  await transport.handleRequest(request, response, body);
}

const modern = createMcpHandler(build, { legacy: mode === "stateless" ? "stateless" : "reject" });
const handleModern = toNodeHandler(modern);

async function handle(request, response) {
  if (mode !== "sessions") return handleModern(request, response);
  const probe = await toWebRequest(request);
  const body = request.method === "POST" ? await probe.clone().json() : undefined;
  if (await isLegacyRequest(probe, body)) await handleInSession(request, response, body);
  else await handleModern(request, response, body);
}

if (!["sessions", "stateless", "modern"].includes(mode)) {
  console.error("usage: typescript_server.mjs NODE_MODULES sessions|stateless|modern");
  process.exit(2);
}
process.stdin.on("end", () => process.exit(0)).resume();
const listener = createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    if (response.headersSent) response.destroy();
    else response.writeHead(500).end();
  });
});
listener.listen(0, "127.0.0.1", () => {
  process.stdout.write(`LISTENING http://127.0.0.1:${listener.address().port}/mcp\n`);
});
