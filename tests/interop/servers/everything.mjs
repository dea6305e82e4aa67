// Preloaded into the reference server `@modelcontextprotocol/server-everything`, to start and stop it as
// python_server.py is started and stopped:
//
//     node --import .../everything.mjs .../server-everything/dist/index.js streamableHttp
//
// The server binds every interface, cannot tell which port it got, and lives on when its parent dies. With this it
// binds a free port of 127.0.0.1, prints one line to stdout once it accepts connections,
// `LISTENING http://127.0.0.1:PORT/mcp`, and exits when its stdin closes. What it logs of every request is left out.
import http from "node:http";
import net from "node:net";

console.log = () => {};

http.Server.prototype.listen = function (_port, ...rest) {
  this.once("listening", () => {
    process.stdout.write(`LISTENING http://127.0.0.1:${this.address().port}/mcp\n`);
  });
  return net.Server.prototype.listen.call(this, 0, "127.0.0.1", ...rest);
};

process.stdin.on("end", () => process.exit(0)).resume();
