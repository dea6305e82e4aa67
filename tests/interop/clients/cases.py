"""The servers that the scenarios of `python_client.py` are played with, and what a client is to them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from support import HANDSHAKE_VERSION, MODERN_VERSION, Failure, Lines, bridged, eventually, require


@dataclass(frozen=True)
class Server:
    """What differs between the servers."""

    name: str
    # How the client is to negotiate.
    mode: str = "legacy"
    version: str = HANDSHAKE_VERSION
    tools: tuple[str, ...] = ("echo", "add", "slow")
    # Names of tools, and of arguments.
    echo: tuple[str, str] = ("echo", "text")
    echoed: str = "{}"
    add: str = "add"
    total: str = "5"
    slow: tuple[str, dict[str, Any]] = ("slow", {"steps": 3})
    slow_result: str = "done after 3 steps"
    # How many of its reports arrive.
    reports: int = 3
    unknown_tool: str = "Unknown tool: zzz"
    has_sessions: bool = True
    # What it answers in a session that has ended.
    session_gone: int = 404


SERVERS = {
    "sse": Server("interop-python"),
    "json": Server("interop-python", reports=0),
    "resume": Server("interop-python"),
    "stateless": Server("interop-python", has_sessions=False),
    "modern": Server("interop-python", mode="auto", version=MODERN_VERSION, has_sessions=False),
    "everything": Server(
        "mcp-servers/everything",
        tools=("echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request"),
        echo=("echo", "message"),
        echoed="Echo: {}",
        add="get-sum",
        total="The sum of 2 and 3 is 5.",
        slow=("trigger-long-running-operation", {"duration": 0.15, "steps": 3}),
        slow_result="Long running operation completed. Duration: 0.15 seconds, Steps: 3.",
        unknown_tool="MCP error -32602: Tool zzz not found",
        session_gone=400,
    ),
}


@dataclass(frozen=True)
class Case:
    """Where a scenario is played."""

    server: Server
    bridge: str
    url: str

    def connect(self, url: str | None = None, **callbacks: Any) -> AbstractAsyncContextManager[Client]:
        return bridged(self.bridge, url or self.url, self.server.mode, **callbacks)

    def lines(self) -> AbstractAsyncContextManager[Lines]:
        return Lines.start(self.bridge, self.url)

    async def echoes(self, client: Client, text: str) -> None:
        tool, argument = self.server.echo
        result = await call(client, tool, {argument: text})
        require(result == self.server.echoed.format(text), f"the echo of {text[:40]!r} is {result[:40]!r}")


async def call(client: Client, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
    """Calls a tool, and returns its text."""
    result = await client.call_tool(tool, arguments or {}, **options)
    text = "".join(content.text for content in result.content if isinstance(content, types.TextContent))
    require(not result.is_error, f"{tool} fails: {text}")
    return text


def text_of(content: object) -> str:
    if not isinstance(content, types.TextContent):
        raise Failure(f"it is not text: {content!r}")
    return content.text


class Host:
    """What a client has to offer to a server: a model, a person, and roots."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        # What is done before the model answers: others can be called while one call waits for it.
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def sample(
        self, _context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append(f"model: {text_of(params.messages[0].content)}")
        if self.meanwhile is not None:
            await self.meanwhile()
        answer = types.TextContent(type="text", text="a protocol, grüezi")
        return types.CreateMessageResult(role="assistant", model="none", content=answer)

    async def elicit(self, _context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(f"person: {params.message}")
        return types.ElicitResult(action="accept", content={"name": "Ada Łovelace"})

    async def roots(self, _context: ClientRequestContext) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///one"}, {"uri": "file:///two"}]})

    def callbacks(self) -> dict[str, Any]:
        return {"sampling_callback": self.sample, "elicitation_callback": self.elicit}


class Ear:
    """Keeps the methods of the notifications that arrive, and what is logged."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.logged: list[str] = []

    async def __call__(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        self.methods.append(message.method)
        if isinstance(message, types.LoggingMessageNotification):
            self.logged.append(str(message.params.data))

    async def hears(self, method: str, provoke: Callable[[], Awaitable[object]]) -> None:
        """Provokes a notification until it is heard: a server drops what it has to say while nobody listens."""

        async def heard() -> bool:
            await provoke()
            return method in self.methods

        await eventually(f"{method} arrives", heard)


def cause(error: BaseException) -> BaseException:
    """What is wrong: task groups wrap it, and those of the SDK are nested."""
    match getattr(error, "exceptions", None):
        case (only,):
            return cause(only)
        case _:
            return error


async def refused(answer: Awaitable[object]) -> MCPError:
    """The JSON-RPC error that it is answered with."""
    try:
        result = await answer
    except Exception as error:
        if isinstance(found := cause(error), MCPError):
            return found
        raise
    raise Failure(f"it is answered with {result!r}")
