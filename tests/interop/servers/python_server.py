"""A server on the official Python SDK, for the interoperability suite to drive.

    python python_server.py MODE [PORT]

Once it accepts connections it prints one line to stdout, `LISTENING http://127.0.0.1:PORT/mcp`. It exits when its
stdin closes, so it cannot outlive the test that started it. Logs go to stderr.

The SDK serves both eras on one endpoint: a request whose `MCP-Protocol-Version` is 2026-07-28 (or unknown) takes the
stateless path of that revision, any other takes the path of the `initialize` handshake. MODE chooses what is on offer:

    sse        handshake with sessions; every request is answered by an SSE stream
    json       handshake with sessions; every request is answered by one JSON body
    stateless  handshake without sessions; SSE streams
    resume     as `sse`, with event ids: streams can be resumed with `Last-Event-ID`
    modern     2026-07-28 only: requests of the handshake era are refused, so no client falls back unnoticed
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import threading
import warnings
from collections import Counter, defaultdict
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, CreateMessageResult, SamplingMessage, TextContent
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, Field, WithJsonSchema

server = MCPServer(
    "interop-python",
    version="1.0",
    instructions="For tests.",
    log_level="ERROR",
)


def echo(text: str) -> str:
    """Return the text."""
    return text


# The other names must be base64-encoded in the `Mcp-Name` header: not ASCII, edge whitespace, looks encoded already.
for name in ["echo", "grüße", " padded ", "=?base64?ZWNobw==?="]:
    server.add_tool(echo, name=name)


@server.tool()
def repeat(text: str, times: int) -> str:
    """Return the text so many times: the answer may be larger than a request can be."""
    return text * times


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.tool()
async def slow(steps: int, ctx: Context) -> str:
    """Report progress `steps` times, 50 ms apart, then return."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.05)
        await ctx.report_progress(step, steps, f"step {step}")
    return f"done after {steps} steps"


@server.tool()
def locate(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """2026-07-28: the argument must also be in the `Mcp-Param-Region` header."""
    return f"located in {region}"


ABSENT = object()


def anything(**schema: Any) -> Any:
    """An argument that is taken as it comes, or not at all, whatever its schema says."""
    return Annotated[Any, WithJsonSchema(schema), Field(default_factory=lambda: ABSENT)]


def mirrored(kind: str, header: str) -> dict[str, str]:
    return {"type": kind, "x-mcp-header": header}


Text = anything(**mirrored("string", "Text"))
Number = anything(**mirrored("integer", "Number"))
Flag = anything(**mirrored("boolean", "Flag"))
House = {"type": "object", "properties": {"number": mirrored("integer", "House-Number")}}
Place = anything(type="object", properties={"city": mirrored("string", "City"), "house": House})
Plain = anything(type="string")


@server.tool()
async def mirror(text: Text, number: Number, flag: Flag, place: Place, plain: Plain) -> str:
    """2026-07-28: all but `plain` must also be in headers. Returns the arguments that are there, as JSON."""
    arguments = {"text": text, "number": number, "flag": flag, "place": place, "plain": plain}
    return json.dumps({name: value for name, value in arguments.items() if value is not ABSENT})


annotated: set[str] = set()


@server.tool()
async def annotate(name: str, header: str | None = None) -> str:
    """Offer another `echo` from now on, whose argument must also be in this header (2026-07-28)."""
    annotation = {} if header is None else {"x-mcp-header": header}

    async def echo_again(text: Annotated[str, Field(json_schema_extra=annotation)]) -> str:
        return text

    if name in annotated:
        server.remove_tool(name)
    annotated.add(name)
    server.add_tool(echo_again, name=name)
    return "annotated"


@server.tool()
async def announce(ctx: Context) -> str:
    """Tell listeners that the tool list changed: on the GET stream, or to `subscriptions/listen` (2026-07-28)."""
    if ctx.protocol_version == LATEST_MODERN_VERSION:
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "announced"


subscriptions: Counter[str] = Counter()


async def count_subscriptions(ctx, call_next):
    """Middleware of all modes."""
    if ctx.method != "subscriptions/listen":
        return await call_next(ctx)
    resources = ctx.params["notifications"].get("resourceSubscriptions", [])
    subscriptions.update(resources)
    try:
        return await call_next(ctx)
    finally:
        subscriptions.subtract(resources)


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    """Tell whoever has subscribed to it (2026-07-28) that this resource has changed. Returns how many these are."""
    await ctx.notify_resource_updated(uri)
    return str(subscriptions[uri])


class Person(BaseModel):
    """What the client's user is asked for."""

    name: str


def ask_model(topic: str) -> Sample:
    content = TextContent(type="text", text=f"what is {topic}?")
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=10)


def ask_person(topic: str) -> Elicit[Person]:
    return Elicit(f"who asks about {topic}?", Person)


@server.tool()
def consult(
    topic: str,
    answer: Annotated[CreateMessageResult, Resolve(ask_model)],
    person: Annotated[Person, Resolve(ask_person)],
) -> str:
    """Ask the client's model and its user: on the stream of the call, or by `InputRequiredResult` (2026-07-28)."""
    return f"{answer.content.text}, says {answer.model} to {person.name}"


@server.tool()
async def consult_apart(topic: str, ctx: Context) -> str:
    """Ask the same on the GET stream. Who does not listen yet is asked in vain."""
    sample = ask_model(topic).params
    answer = await ctx.session.create_message(sample.messages, max_tokens=sample.max_tokens)
    question = ask_person(topic)
    reply = await ctx.session.elicit_form(question.message, question.schema.model_json_schema())
    return f"{answer.content.text}, says {answer.model} to {Person.model_validate(reply.content).name}"


fates: dict[str, str] = {}


@server.tool()
async def linger(name: str) -> str:
    """Return only when cancelled."""
    fates[name] = "running"
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        fates[name] = "cancelled"
        raise
    return "woken up"


@server.tool()
def fate(name: str) -> str:
    """What became of the call of `linger` with this name."""
    return fates.get(name, "unknown")


class Gathering:
    def __init__(self) -> None:
        self.present = 0
        self.complete = asyncio.Event()


gatherings: dict[str, Gathering] = {}


@server.tool()
async def gather(name: str, size: int, number: int) -> str:
    """Return when `size` calls with this name are being served at once."""
    gathering = gatherings.setdefault(name, Gathering())
    gathering.present += 1
    if gathering.present == size:
        gathering.complete.set()
    await gathering.complete.wait()
    return f"{number} of {size}"


@server.tool()
async def broadcast(text: str, ctx: Context) -> str:
    """Log a text on the GET stream."""
    await ctx.session.send_log_message("info", text)
    return "sent"


trips: Counter[str] = Counter()
permits: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))


@server.tool()
async def travel(name: str, legs: int, ctx: Context, hang_up: bool = False) -> str:
    """Report progress twice in every leg, hang up in between if asked to (mode `resume`), and wait for `proceed`."""
    trips[name] += 1
    for leg in range(legs):
        await ctx.report_progress(2 * leg + 1, 2 * legs)
        if hang_up:
            await ctx.close_sse_stream()
        await ctx.report_progress(2 * leg + 2, 2 * legs)
        await permits[name].acquire()
    return f"trip {trips[name]} arrived after {legs} legs"


@server.tool()
async def proceed(name: str) -> str:
    """Let the calls of `travel` with this name begin one more leg."""
    permits[name].release()
    return "go"


@server.tool()
def refuse(code: int, message: str) -> str:
    """Answer with a JSON-RPC error."""
    raise MCPError(code, message, {"by": "refuse"})


@server.resource("memo://grüße", name="memo", mime_type="text/plain")
def memo() -> str:
    """A resource whose URI is not ASCII."""
    return "Grüße aus dem Memo"


@server.prompt(name="greet")
def greet(name: str) -> str:
    """A prompt with one argument."""
    return f"Say hello to {name}."


@server.prompt(name="begrüßen")
def greet_in_german(name: str) -> str:
    """A prompt whose name is not ASCII."""
    return f"Sage {name} guten Tag."


errands: Counter[str] = Counter()


@server.tool()
@server.prompt()
async def errand(name: str, losses: str, ctx: Context) -> str:
    """Report progress, then answer; but the first calls with this name, so many, never do. `fate` tells of them."""
    errands[name] += 1
    fates[name] = f"call {errands[name]}"
    await ctx.report_progress(errands[name])
    if errands[name] <= int(losses):
        await asyncio.Event().wait()
    return f"call {errands[name]} is done"


class MemoryEventStore(EventStore):
    """Keeps every event of every stream; an event's id is its position."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        if not last_event_id.isdigit() or int(last_event_id) >= len(self.events):
            return None
        last = int(last_event_id)
        stream_id = self.events[last][0]
        for position, (stream, message) in enumerate(self.events[last + 1 :], last + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(position)))
        return stream_id


class ResumableSessions(StreamableHTTPSessionManager):
    """Gives every session its own store: streams are named by the ids of requests, which sessions have in common."""

    event_store = property(lambda self: MemoryEventStore(), lambda self, store: None)


async def refuse_handshake_era(ctx, call_next):
    """Middleware of the mode `modern`."""
    if ctx.protocol_version != LATEST_MODERN_VERSION:
        data = {"supported": [LATEST_MODERN_VERSION], "requested": ctx.protocol_version}
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
    return await call_next(ctx)


def app(mode):
    server.middleware.append(count_subscriptions)
    if mode == "modern":
        server.middleware.append(refuse_handshake_era)
    application = server.streamable_http_app(
        json_response=mode == "json",
        stateless_http=mode in ("stateless", "modern"),
        retry_interval=100 if mode == "resume" else None,
    )
    if mode == "resume":
        server.session_manager.__class__ = ResumableSessions
    return application


class AnnouncingServer(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        if self.started:
            port = sockets[0].getsockname()[1]
            print(f"LISTENING http://127.0.0.1:{port}/mcp", flush=True)


def exit_when_stdin_closes():
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)  # at once: a graceful shutdown would wait for open streams


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["sse", "json", "stateless", "resume", "modern"])
    parser.add_argument("port", type=int, nargs="?", default=0)
    arguments = parser.parse_args()

    # Sampling is deprecated; clients are asked all the same.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    threading.Thread(target=exit_when_stdin_closes, daemon=True).start()
    config = uvicorn.Config(app(arguments.mode), log_level="warning")
    with socket.create_server(("127.0.0.1", arguments.port)) as listener:
        AnnouncingServer(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
