// Runs inside a network namespace: listens and connects as it is told on standard input, one line of JSON an order, and
// writes one line of JSON a reply. A listener answers with the address that it was reached at and the source that it saw.

import { createSocket } from 'node:dgram';
import { connect, createServer, isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';

const PATIENCE_MS = 3_000;

const hostPort = (address, port) => (isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`);
const answer = (server, client) => JSON.stringify({ server, client });

function listenTcp({ address, port }) {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.end(answer(hostPort(socket.localAddress, socket.localPort), socket.remoteAddress));
    });
    server.on('error', (error) => resolve({ error: error.code }));
    server.listen(port, address, () => resolve({}));
  });
}

function listenUdp({ address, port }) {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    socket.on('error', (error) => resolve({ error: error.code }));
    socket.on('message', (_, from) => socket.send(answer(hostPort(address, port), from.address), from.port, from.address));
    socket.bind(port, address, () => resolve({}));
  });
}

function askTcp({ address, port, from, fromPort, timeoutMs = PATIENCE_MS }) {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ host: address, port, localAddress: from, localPort: fromPort });
    const settle = (reply) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reply);
    };
    const timer = setTimeout(() => settle({ error: 'TIMEOUT' }), timeoutMs);
    socket.on('data', (chunk) => (text += chunk));
    socket.on('error', (error) => settle({ error: error.code }));
    socket.on('end', () => settle(JSON.parse(text)));
  });
}

function askUdp({ address, port, from, fromPort = 0, timeoutMs = PATIENCE_MS }) {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    const settle = (reply) => {
      clearTimeout(timer);
      socket.close();
      resolve(reply);
    };
    const timer = setTimeout(() => settle({ error: 'TIMEOUT' }), timeoutMs);
    socket.on('error', (error) => settle({ error: error.code }));
    socket.on('message', (message) => settle(JSON.parse(String(message))));
    socket.bind(fromPort, from, () =>
      socket.connect(port, address, (error) => (error ? settle({ error: error.code }) : socket.send('who'))),
    );
  });
}

const ACTIONS = { listen: { tcp: listenTcp, udp: listenUdp }, ask: { tcp: askTcp, udp: askUdp } };

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { order, do: action, protocol, ...details } = JSON.parse(line);
  const reply = await ACTIONS[action][protocol](details);
  process.stdout.write(`${JSON.stringify({ order, reply })}\n`);
});
