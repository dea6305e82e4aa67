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
import os
import socket
import sys
import threading
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import Field

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
def fail() -> str:
    """Fail, always."""
    raise ToolError("this tool always fails")


@server.tool()
def locate(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """2026-07-28: the argument must also be in the `Mcp-Param-Region` header."""
    return f"located in {region}"


@server.tool()
async def announce(ctx: Context) -> str:
    """Tell listeners that the tool list changed: on the GET stream, or to `subscriptions/listen` (2026-07-28)."""
    if ctx.protocol_version == LATEST_MODERN_VERSION:
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "announced"


@server.tool()
async def drop(ctx: Context) -> str:
    """Close this request's stream before answering; the answer is there for a client that resumes (mode `resume`)."""
    await ctx.report_progress(1, 2, "before the drop")
    await asyncio.sleep(0.1)  # or the close may overtake the notification
    await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    await ctx.report_progress(2, 2, "after the drop")
    return "survived the drop"


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


async def refuse_handshake_era(ctx, call_next):
    """Middleware of the mode `modern`."""
    if ctx.protocol_version != LATEST_MODERN_VERSION:
        data = {"supported": [LATEST_MODERN_VERSION], "requested": ctx.protocol_version}
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
    return await call_next(ctx)


def app(mode):
    if mode == "modern":
        server.middleware.append(refuse_handshake_era)
    return server.streamable_http_app(
        json_response=mode == "json",
        stateless_http=mode in ("stateless", "modern"),
        event_store=MemoryEventStore() if mode == "resume" else None,
        retry_interval=100 if mode == "resume" else None,
    )


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
    args = parser.parse_args()

    threading.Thread(target=exit_when_stdin_closes, daemon=True).start()
    config = uvicorn.Config(app(args.mode), log_level="warning")
    with socket.create_server(("127.0.0.1", args.port)) as listener:
        AnnouncingServer(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
