"""What the scenarios of `python_client.py` stand on: ways to start the bridge, and to see what it tells the server."""

import asyncio
import json
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"

SERVER_PROGRAM = Path(__file__).parent.parent / "servers" / "python_server.py"

# How long the bridge may take to end when its input does.
GRACE_SECONDS = 6.0

# Generous: it bounds how long a scenario waits for what does not come.
PATIENCE_SECONDS = 15.0

# The SDK does not tell how the program that it starts has ended.
RECORDING_SHELL = 'status=$1; shift; "$@"; echo $? >"$status"'


class Failure(Exception):
    """What a scenario expects is not so."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Failure(what)


def require_equal(what: str, actual: object, expected: object) -> None:
    require(actual == expected, f"{what}: {actual!r} is not {expected!r}")


async def eventually(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks again and again, as nothing tells when the other side has got there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await holds():
        require(time.monotonic() < deadline, f"it does not happen: {what}")
        await asyncio.sleep(0.02)


@asynccontextmanager
async def bridged(bridge: str, url: str, mode: str, **callbacks: Any) -> AsyncIterator[Client]:
    """The SDK's client over the bridge, which must exit with 0 when the client is done.

    The SDK closes its standard input, and kills a program that is still there 2 s later.
    """
    with tempfile.TemporaryDirectory() as directory:
        status = Path(directory) / "status"
        program = StdioServerParameters(command="sh", args=["-c", RECORDING_SHELL, "sh", str(status), bridge, url])
        async with Client(
            stdio_client(program), mode=mode, cache=None, read_timeout_seconds=PATIENCE_SECONDS, **callbacks
        ) as client:
            yield client
        require(status.exists(), "the bridge did not exit in time, and was killed")
        require_equal("exit status of the bridge", status.read_text().strip(), "0")


class Lines:
    """The bridge without the SDK: its lines as they are."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._meta: dict[str, Any] = {}

    @classmethod
    @asynccontextmanager
    async def start(cls, bridge: str, url: str) -> AsyncIterator["Lines"]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(bridge, url, stdin=pipe, stdout=pipe)
        try:
            yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def request(self, number: int, method: str, params: dict[str, Any], progress: str | None = None) -> None:
        meta = dict(self._meta)
        if progress is not None:
            meta["progressToken"] = progress
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
        await self.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        require(line.endswith(b"\n"), f"the output ends: {line!r}")
        return json.loads(line)

    async def greet(self, version: str) -> None:
        """What comes first in this version."""
        if version == MODERN_VERSION:
            prefix = "io.modelcontextprotocol/"
            self._meta = {prefix + "protocolVersion": version, prefix + "clientCapabilities": {}}
            await self.request(0, "server/discover", {})
        else:
            info = {"name": "interop", "version": "1.0"}
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
            await self.request(0, "initialize", params)
        answer = await self.receive()
        require("result" in answer, f"it is answered with {answer!r}")
        if version != MODERN_VERSION:
            await self.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    async def end(self) -> bytes:
        """Ends the input. The bridge must exit with 0 in time; what it has written meanwhile is returned."""
        assert self._process.stdin is not None
        begin = time.monotonic()
        self._process.stdin.close()
        try:
            rest, _ = await asyncio.wait_for(self._process.communicate(), GRACE_SECONDS)
        except asyncio.TimeoutError:
            raise Failure(f"the bridge runs on {GRACE_SECONDS} s after the end of its input") from None
        took = time.monotonic() - begin
        require_equal(f"exit status of the bridge, after {took:.1f} s", self._process.returncode, 0)
        return rest


@dataclass
class Connection:
    """What passed over one connection, in both directions."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)

    def listens(self) -> bool:
        """Whether its last request is the GET."""
        return self.sent.rfind(b"GET /") > max(self.sent.rfind(b"POST /"), self.sent.rfind(b"DELETE /"))


class Tap:
    """Stands between the bridge and the server, relays all, and keeps it."""

    def __init__(self, server: str) -> None:
        self.connections: list[Connection] = []
        self.url = ""
        self._server = urlsplit(server)
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def on(cls, server: str) -> AsyncIterator["Tap"]:
        tap = cls(server)
        listener = await asyncio.start_server(tap._relay, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        tap.url = tap._server._replace(netloc=f"127.0.0.1:{port}").geturl()
        try:
            yield tap
        finally:
            listener.close()
            for task in tap._tasks:
                task.cancel()
            await asyncio.gather(*tap._tasks, return_exceptions=True)

    def sessions(self) -> list[str]:
        """The ids of the sessions that the server has opened, in the order of its connections."""
        pattern = rb"(?i)\r\nmcp-session-id: *([^\r]+)\r\n"
        found = [id for connection in self.connections for id in re.findall(pattern, bytes(connection.received))]
        return [id.decode() for id in dict.fromkeys(found)]

    def requests(self, method: str) -> list[bytes]:
        """The heads of all requests with this method."""
        pattern = method.encode() + rb" /[^ \r\n]* HTTP/1\.1\r\n(?:[^\r\n]+\r\n)*\r\n"
        return [head for connection in self.connections for head in re.findall(pattern, bytes(connection.sent))]

    def sent(self, text: str) -> bool:
        """Whether the server was sent this text, in one request."""
        return any(text.encode() in connection.sent for connection in self.connections)

    async def cut(self) -> None:
        """Cuts all connections, and forgets them. Later ones are relayed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.connections.clear()

    def resumed(self) -> int:
        """How many connections of those since the last cut carry a stream that was taken up again, and is live."""
        return sum(
            connection.listens() and b"last-event-id:" in connection.sent.lower() and b"retry:" in connection.received
            for connection in self.connections
        )

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection()
        self.connections.append(connection)
        writers = [writer]
        try:
            upstream = await asyncio.open_connection(self._server.hostname, self._server.port)
            writers.append(upstream[1])
            await asyncio.gather(
                _copy(reader, upstream[1], connection.sent),
                _copy(upstream[0], writer, connection.received),
            )
        except (OSError, asyncio.CancelledError):
            pass  # The scenario sees what did not arrive.
        finally:
            for each in writers:
                each.close()
            self._tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
    while data := await reader.read(65536):
        record += data
        writer.write(data)
        await writer.drain()
    writer.close()


class OwnServer:
    """The Python server for one scenario alone, which may kill it, and start it again where it was."""

    def __init__(self, mode: str) -> None:
        self.url = ""
        self._mode = mode
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    @asynccontextmanager
    async def start(cls, mode: str) -> AsyncIterator["OwnServer"]:
        server = cls(mode)
        try:
            await server._launch(0)
            yield server
        finally:
            await server._kill()

    async def restart(self) -> None:
        await self._kill()
        port = urlsplit(self.url).port
        assert port is not None
        await self._launch(port)

    async def _launch(self, port: int) -> None:
        pipe = asyncio.subprocess.PIPE
        arguments = [sys.executable, "-B", str(SERVER_PROGRAM), self._mode, str(port)]
        self._process = await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        require(line.startswith(b"LISTENING "), f"the server does not say where it listens: {line!r}")
        self.url = line.decode().split()[1]

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def status_in_session(url: str, session: str, method: str, message: dict[str, Any] | None = None) -> int:
    """The status that the server itself answers with in this session."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": HANDSHAKE_VERSION,
        "MCP-Session-Id": session,
    }
    body = None if message is None else json.dumps(message).encode()
    request = urllib.request.Request(url, body, headers, method=method)
    # Whatever proxy the environment names: the server is on this host.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def send() -> int:
        try:
            with opener.open(request, timeout=PATIENCE_SECONDS) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(send)
