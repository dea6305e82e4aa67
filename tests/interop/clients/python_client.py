"""The client of the official Python SDK over the bridge: the bridge is the program that its stdio transport starts.

    python python_client.py SCENARIO SERVER BRIDGE URL

SCENARIO is a function of this file, SERVER one of the servers of `SERVERS`, which URL leads to, and BRIDGE the program.
Exits with 0, or says what is not as it should be and exits with 1.
"""

import argparse
import asyncio
import json
import socket
import sys
import traceback
import uuid
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from cases import SERVERS, Case, Ear, Host, call, cause, refused, text_of
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning
from support import (
    PATIENCE_SECONDS,
    Lines,
    OwnServer,
    Tap,
    bridged,
    eventually,
    require,
    require_equal,
    status_in_session,
)

# Longer than any wait of a scenario, shorter than that of the test that runs it.
LIMIT_SECONDS = 45.0


async def basics(case: Case) -> None:
    server = case.server
    async with case.connect() as client:
        require_equal("name of the server", getattr(client.server_info, "name", None), server.name)
        require_equal("protocol version", client.protocol_version, server.version)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        # Some tools are offered only to a client with the capability for them.
        for name in server.tools:
            require(name in tools or name.startswith("trigger-"), f"{name} is not in {sorted(tools)}")
        argument = server.echo[1]
        require(argument in tools["echo"].input_schema["properties"], f"echo has no argument {argument}")
        require_equal("sum", await call(client, server.add, {"a": 2, "b": 3}), server.total)


async def texts(case: Case) -> None:
    awkward = [
        "",
        "Grüße, 世界 🦀",
        "two\nlines\r\n\ndata: {}",
        '\u2028\u2029\x85\x00\x1b " \\ \\u0000',
        "x" * 2_000_000,
    ]
    async with case.connect() as client:
        for text in awkward:
            await case.echoes(client, text)


async def progress(case: Case) -> None:
    server = case.server
    reports: list[tuple[float, float | None]] = []

    async def report(done: float, total: float | None, _message: str | None) -> None:
        reports.append((done, total))

    tool, arguments = server.slow
    async with case.connect() as client:
        result = await call(client, tool, arguments, progress_callback=report)
        # Before anything else can arrive.
        require_equal("progress", reports, [(float(step), 3.0) for step in range(1, server.reports + 1)])
        require_equal("result", result, server.slow_result)


async def questions(case: Case) -> None:
    host = Host()
    async with case.connect(**host.callbacks()) as client:
        host.meanwhile = lambda: case.echoes(client, "meanwhile")
        if case.server.name == "interop-python":
            result = await call(client, "consult", {"topic": "MCP"})
            require_equal("questions", sorted(host.asked), ["model: what is MCP?", "person: who asks about MCP?"])
            require_equal("result", result, "a protocol, grüezi, says none to Ada Łovelace")
            return
        result = await call(client, "trigger-sampling-request", {"prompt": "what is MCP?"})
        require("a protocol, grüezi" in result, f"the model's answer is not in {result!r}")
        result = await call(client, "trigger-elicitation-request")
        require("- Name: Ada Łovelace" in result, f"the person's answer is not in {result!r}")
        require_equal("number of questions", len(host.asked), 2)
        require(host.asked[0].endswith("what is MCP?"), f"the model is asked {host.asked[0]!r}")
        require(host.asked[1].startswith("person: Please provide inputs"), f"the person is asked {host.asked[1]!r}")


async def questions_while_listening(case: Case) -> None:
    """The questions come on the listening stream, the result on that of the call."""
    host, ear = Host(), Ear()
    async with case.connect(message_handler=ear, **host.callbacks()) as client:
        await ear.hears("notifications/tools/list_changed", lambda: call(client, "announce"))
        host.meanwhile = lambda: case.echoes(client, "meanwhile")
        result = await call(client, "consult_apart", {"topic": "MCP"})
        require_equal("questions", host.asked, ["model: what is MCP?", "person: who asks about MCP?"])
        require_equal("result", result, "a protocol, grüezi, says none to Ada Łovelace")


async def roots(case: Case) -> None:
    """The server asks of its own accord, on the listening stream, and logs what it is told."""
    host, ear = Host(), Ear()
    async with case.connect(list_roots_callback=host.roots, message_handler=ear) as client:

        async def logged() -> bool:
            return any("2 root(s) received" in line for line in ear.logged)

        await eventually("the server logs the roots", logged)
        require_equal("questions", host.asked, ["roots"])
        require("file:///two" in await call(client, "get-roots-list"), "the server does not know the roots")


async def cancellation(case: Case) -> None:
    name = str(uuid.uuid4())
    async with case.connect() as client:

        async def is_(fate: str) -> bool:
            return await call(client, "fate", {"name": name}) == fate

        lingering = asyncio.create_task(call(client, "linger", {"name": name}))
        await eventually("the call is being served", lambda: is_("running"))
        lingering.cancel()
        await eventually("the call is cancelled", lambda: is_("cancelled"))
        await asyncio.gather(lingering, return_exceptions=True)
        require(lingering.cancelled(), "the client has an answer to a call that it cancelled")
        await case.echoes(client, "still here")


async def cancellation_is_told(case: Case) -> None:
    """For a server that does not tell what became of a call: it is sent the notification."""
    reported = asyncio.Event()

    async def report(_done: float, _total: float | None, _message: str | None) -> None:
        reported.set()

    async with Tap.on(case.url) as tap, case.connect(tap.url) as client:
        arguments = {"duration": 20, "steps": 1000}
        running = asyncio.create_task(
            call(client, "trigger-long-running-operation", arguments, progress_callback=report)
        )
        await asyncio.wait_for(reported.wait(), 15)
        running.cancel()

        async def told() -> bool:
            return tap.sent('"method":"notifications/cancelled"')

        await eventually("the server is told", told)
        require_equal("calls cancelled", sum(c.sent.count(b"notifications/cancelled") for c in tap.connections), 1)
        await case.echoes(client, "still here")
        await asyncio.gather(running, return_exceptions=True)
        require(running.cancelled(), "the client has an answer to a call that it cancelled")


async def many(case: Case) -> None:
    """64 calls at once, which all wait for each other if the server has a tool for that."""
    count = 64
    name = str(uuid.uuid4())
    async with case.connect() as client:

        async def one(number: int) -> None:
            if case.server.name == "interop-python":
                result = await call(client, "gather", {"name": name, "size": count, "number": number})
                require_equal("result", result, f"{number} of {count}")
                return
            reports: list[float] = []

            async def report(done: float, _total: float | None, _message: str | None) -> None:
                reports.append(done)

            arguments = {"duration": 1, "steps": number}
            tool = "trigger-long-running-operation"
            result = await call(client, tool, arguments, progress_callback=report)
            text = f"Long running operation completed. Duration: 1 seconds, Steps: {number}."
            require_equal("result", result, text)
            require_equal(f"progress of {number}", reports, [float(step) for step in range(1, number + 1)])

        await asyncio.gather(*(one(number) for number in range(1, count + 1)))
        await asyncio.gather(*(case.echoes(client, f"call {n} {'x' * 1000 * n}") for n in range(count)))


async def listening(case: Case) -> None:
    ear = Ear()
    async with Tap.on(case.url) as tap, case.connect(tap.url, message_handler=ear) as client:
        method = "notifications/tools/list_changed"
        if case.server.name == "interop-python":
            await ear.hears(method, lambda: call(client, "announce"))
        else:
            method = "notifications/resources/list_changed"
            arguments = {"name": "note.gz", "data": "data:text/plain,note", "outputType": "resourceLink"}
            await ear.hears(method, lambda: call(client, "gzip-file-as-resource", arguments))
        require_equal("requests that listen", len(tap.requests("GET")), 1)
        streams = [connection for connection in tap.connections if connection.listens()]
        require_equal("streams to listen on", len(streams), 1)
        require(method.encode() in streams[0].received, "it was heard on another stream")


async def subscription(case: Case) -> None:
    """What takes the place of the listening stream in the revision 2026-07-28."""
    async with case.connect() as client:
        async with client.listen(tools_list_changed=True) as events:
            require_equal("subscribed to tools", events.honored.tools_list_changed, True)
            for _ in range(3):
                await call(client, "announce")
                event = await asyncio.wait_for(anext(aiter(events)), 15)
                require_equal("event", type(event).__name__, "ToolsListChanged")
        # Ending it has ended nothing else.
        await case.echoes(client, "still here")


async def mirrored(case: Case) -> None:
    """Arguments that must be in headers, of which this client knows nothing: it speaks to a program."""
    everything = {"text": " Grüße\n", "number": 2**53 - 1, "flag": True, "place": {"city": "", "house": {"number": -1}}}
    async with Tap.on(case.url) as tap, case.connect(tap.url) as client:
        # The bridge has not seen the list of the tools yet, and looks it up.
        require_equal("result", await call(client, "locate", {"region": "eu"}), "located in eu")
        calls = [head for head in tap.requests("POST") if b"mcp-method: tools/call" in head.lower()]
        require_equal("calls that the server was sent", len(calls), 2)
        for arguments in [everything, {}, {"text": None, "flag": False}, {"plain": "ü", "place": {"city": "\t"}}]:
            require_equal("arguments", json.loads(await call(client, "mirror", arguments)), arguments)
        require(tap.sent("mcp-param-region: eu"), "the argument is not in a header")
        error = await refused(client.call_tool("mirror", {"number": 2**53}))
        require("`number`" in error.message, f"the error does not name the argument: {error.message}")
        require(not tap.sent(str(2**53)), "what no header can hold was sent")
        await case.echoes(client, "still here")


async def mirrored_after_a_change(case: Case) -> None:
    """The server changes its mind about a tool, and nobody lists the tools again but the bridge."""
    name = str(uuid.uuid4())
    async with case.connect() as client:
        for header in [None, "One", "Two", None, "Three"]:
            await call(client, "annotate", {"name": name, "header": header})
            require_equal("result", await call(client, name, {"text": "grüezi"}), "grüezi")


async def errors(case: Case) -> None:
    async with case.connect() as client:
        request = types.Request[Any, str](method="zzz/unknown", params=None)
        error = await refused(client.session.send_request(request, types.EmptyResult))
        require_equal("error", (error.code, error.message), (-32601, "Method not found"))
        result = await client.call_tool("zzz", {})
        require_equal("an unknown tool is an error", result.is_error, True)
        require_equal("an unknown tool", text_of(result.content[0]), case.server.unknown_tool)
        if case.server.name == "interop-python":
            arguments = {"code": -32050, "message": "nein, schön"}
            error = await refused(client.call_tool("refuse", arguments))
            require_equal("error", (error.code, error.message, error.data), (-32050, "nein, schön", {"by": "refuse"}))
        error = await refused(client.read_resource("memo://nowhere"))
        require_equal("code for an unknown resource", error.code in (-32602, -32002), True)
        await case.echoes(client, "still here")


async def end(case: Case) -> None:
    """The end of the input ends the session, if there is one. `connect` looks at the exit status."""
    server = case.server
    ping = {"jsonrpc": "2.0", "id": "raw", "method": "ping"}
    async with Tap.on(case.url) as tap:
        async with case.connect(tap.url) as client:
            await case.echoes(client, "hello")
            if server.has_sessions:
                [session] = tap.sessions()
                require_equal("status while it lasts", await status_in_session(case.url, session, "POST", ping), 200)
            require_equal("requests that end sessions", tap.requests("DELETE"), [])
        ends = tap.requests("DELETE")
        require_equal("sessions ended", len(ends), 1 if server.has_sessions else 0)
        if server.has_sessions:
            require(session.encode() in ends[0], f"another session than {session} was ended: {ends[0]!r}")
            status = await status_in_session(case.url, session, "POST", ping)
            require_equal("status after the end", status, server.session_gone)


async def end_while_calling(case: Case) -> None:
    """The input ends while a call is being served: there is no answer to wait for, and the server stops."""
    name = str(uuid.uuid4())
    is_python = case.server.name == "interop-python"
    async with Tap.on(case.url) as tap:
        async with Lines.start(case.bridge, tap.url) as lines:
            await lines.greet(case.server.version)
            params: dict[str, Any] = {"name": "linger", "arguments": {"name": name}}
            if not is_python:
                params = {"name": "trigger-long-running-operation", "arguments": {"duration": 20, "steps": 1000}}
            await lines.request(1, "tools/call", params, progress=name)

            async def sent() -> bool:
                return tap.sent(name)

            await eventually("the call is sent", sent)
            rest = await lines.end()
            require(b'"id":1' not in rest, f"the call is answered: {rest!r}")
        require_equal("sessions ended", len(tap.requests("DELETE")), 1 if case.server.has_sessions else 0)
    if is_python:
        async with case.connect() as client:

            async def cancelled() -> bool:
                return await call(client, "fate", {"name": name}) == "cancelled"

            await eventually("the call is cancelled", cancelled)


async def expiry(case: Case) -> None:
    """Another ends the session: the client is carried over into a new one, and hears what it is told there."""
    ear = Ear()
    async with Tap.on(case.url) as tap:
        async with case.connect(tap.url, message_handler=ear) as client:
            await case.echoes(client, "hello")
            [first] = tap.sessions()
            require_equal("status", await status_in_session(case.url, first, "DELETE"), 200)
            await case.echoes(client, "still here")
            await ear.hears("notifications/tools/list_changed", lambda: call(client, "announce"))
            others = set(tap.sessions()) - {first}
            require_equal("number of new sessions", len(others), 1)
            require_equal("requests that end sessions", tap.requests("DELETE"), [])
        ends = tap.requests("DELETE")
        require_equal("sessions ended", len(ends), 1)
        require(others.pop().encode() in ends[0], f"another session was ended: {ends[0]!r}")


async def travel(client: Client, hang_up: bool, in_each_leg: Callable[[], Awaitable[None]] | None = None) -> None:
    """A call whose stream breaks in every leg: each report arrives once and in order, and the result comes last."""
    name = str(uuid.uuid4())
    legs = 3
    reports: asyncio.Queue[float] = asyncio.Queue()

    async def report(done: float, _total: float | None, _message: str | None) -> None:
        reports.put_nowait(done)

    arguments = {"name": name, "legs": legs, "hang_up": hang_up}
    travelling = asyncio.create_task(call(client, "travel", arguments, progress_callback=report))
    for leg in range(legs):
        for step in (2 * leg + 1, 2 * leg + 2):
            done = await asyncio.wait_for(reports.get(), PATIENCE_SECONDS)
            require_equal("progress", done, float(step))
        if in_each_leg is not None:
            await in_each_leg()
        await call(client, "proceed", {"name": name})
    require_equal("result", await travelling, f"trip 1 arrived after {legs} legs")
    require_equal("further reports", reports.qsize(), 0)


async def polling(case: Case) -> None:
    """The server hangs up in the middle of a call, and lets the client come back."""
    async with Tap.on(case.url) as tap, case.connect(tap.url) as client:
        await travel(client, hang_up=True)
        returns = [head for head in tap.requests("GET") if b"last-event-id:" in head.lower()]
        require(len(returns) >= 3, f"the client came back {len(returns)} times")
        await asyncio.gather(*(travel(client, hang_up=True) for _ in range(4)))


async def cuts(case: Case) -> None:
    """The connection breaks, several times in one call."""
    async with Tap.on(case.url) as tap, case.connect(tap.url) as client:

        async def cut() -> None:
            await tap.cut()

            async def resumed() -> bool:
                return tap.resumed() == 1

            await eventually("the stream is taken up again", resumed)

        await travel(client, hang_up=False, in_each_leg=cut)
        await case.echoes(client, "still here")


async def restart(case: Case) -> None:
    """The server is killed and started again: the client need not do anything."""
    ear = Ear()
    name = str(uuid.uuid4())
    async with OwnServer.start("sse") as server, case.connect(server.url, message_handler=ear) as client:
        await case.echoes(client, "hello")
        await server.restart()
        await case.echoes(client, "after one restart")
        await ear.hears("notifications/tools/list_changed", lambda: call(client, "announce"))

        async def running() -> bool:
            return await call(client, "fate", {"name": name}) == "running"

        # It is told that a call which was under way is lost, and the next is answered.
        lingering = asyncio.create_task(call(client, "linger", {"name": name}))
        await eventually("the call is being served", running)
        await server.restart()
        error = await refused(asyncio.wait_for(lingering, PATIENCE_SECONDS))
        require_equal("error", error.code, types.CONNECTION_CLOSED)
        await case.echoes(client, "after two restarts")


async def unparsable(case: Case) -> None:
    async with case.lines() as lines:
        await lines.greet(case.server.version)
        await lines.send('{"jsonrpc":"2.0","id":7,"method":"tools/list","params":')
        await is_parse_error(lines, 7)
        await lines.send('{"jsonrpc":"2.0","id":"eight","method":5}')
        await is_parse_error(lines, "eight")
        # To these there is no answer: no id, or one that is the server's.
        for line in ["hello", "[]", "", '{"jsonrpc":"2.0","method":', '{"jsonrpc":"2.0","id":9,"result":{"a":}}']:
            await lines.send(line)
        await lines.request(10, "tools/list", {})
        answer = await lines.receive()
        require_equal("id of the next answer", answer["id"], 10)
        require("tools" in answer["result"], f"the next answer is {answer!r}")
        require_equal("further output", await lines.end(), b"")


async def is_parse_error(lines: Lines, request: int | str) -> None:
    answer = await lines.receive()
    require_equal("answer", (answer.get("id"), answer.get("error", {}).get("code")), (request, -32700))


async def unreachable(case: Case) -> None:
    """Whatever the client begins with, it is told that nobody is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    for mode in ["legacy", "auto"]:
        error = await refused(connects(case.bridge, url, mode))
        require_equal(f"error in the mode {mode}", error.code, types.CONNECTION_CLOSED)
    async with Lines.start(case.bridge, url) as lines:
        await lines.request(1, "initialize", {})
        answer = await lines.receive()
        require_equal("answer", (answer["id"], answer["error"]["code"]), (1, types.CONNECTION_CLOSED))
        require(answer["error"]["message"] != "", "the error does not say what is wrong")
        require_equal("further output", await lines.end(), b"")


async def connects(bridge: str, url: str, mode: str) -> str:
    async with bridged(bridge, url, mode) as client:
        return client.protocol_version


SCENARIOS: dict[str, Callable[[Case], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        basics,
        texts,
        progress,
        questions,
        questions_while_listening,
        roots,
        cancellation,
        cancellation_is_told,
        many,
        listening,
        subscription,
        mirrored,
        mirrored_after_a_change,
        errors,
        end,
        end_while_calling,
        expiry,
        polling,
        cuts,
        restart,
        unparsable,
        unreachable,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("bridge")
    parser.add_argument("url")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    case = Case(SERVERS[arguments.server], arguments.bridge, arguments.url)
    try:
        asyncio.run(asyncio.wait_for(SCENARIOS[arguments.scenario](case), LIMIT_SECONDS))
    except Exception as error:
        traceback.print_exc()
        text = str(cause(error)) or type(cause(error)).__name__
        print(f"FAILED: {arguments.scenario} with the server {arguments.server}: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
