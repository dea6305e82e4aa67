"""A server on the official Python SDK, for the interoperability suite to drive.

    python python_server.py MODE

Once it accepts connections it prints one line to stdout, `LISTENING http://127.0.0.1:PORT/mcp`. It exits when its
stdin closes, so it cannot outlive the test that started it. Logs go to stderr.

The SDK serves both eras on one endpoint: a request whose `MCP-Protocol-Version` is 2026-07-28 (or unknown) takes the
stateless path of that revision, any other takes the path of the `initialize` handshake. MODE chooses what is on offer:

    sse        handshake with sessions; every request is answered by an SSE stream
    json       handshake with sessions; every request is answered by one JSON body
    stateless  handshake without sessions; SSE streams
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
    parser.add_argument("mode", choices=["sse", "json", "stateless", "modern"])
    mode = parser.parse_args().mode

    threading.Thread(target=exit_when_stdin_closes, daemon=True).start()
    config = uvicorn.Config(app(mode), log_level="warning")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        AnnouncingServer(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
