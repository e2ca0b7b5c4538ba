// Runs inside the network namespace of a node under test. Every address of the pods' network answers HTTP on port 8080 with its own
// address as the pod's name; and a Unix socket is the door by which a test outside reaches any address inside: the first line that
// arrives on it is `ADDRESS PORT`, what follows is carried. `node node-inside.mjs DOOR`.

import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import { connect, createServer } from 'node:net';

const PODS_PORT = 8080;

const pods = createHttp((request, response) => {
  const pod = request.socket.localAddress;
  response.setHeader('x-pod', pod).end(JSON.stringify({ url: request.url, headers: request.headers, pod }));
});
pods.listen(PODS_PORT, '0.0.0.0');

const door = createServer({ allowHalfOpen: true }, (outside) => {
  outside.on('error', () => outside.destroy());
  outside.once('readable', () => {
    const line = [];
    for (let byte = outside.read(1); byte !== null && byte[0] !== 10; byte = outside.read(1)) line.push(byte[0]);
    const [host, port] = Buffer.from(line).toString().split(' ');
    const inside = connect({ host, port: Number(port), allowHalfOpen: true });
    inside.on('error', () => outside.destroy());
    inside.on('close', () => outside.destroySoon());
    outside.on('close', () => inside.destroy());
    outside.pipe(inside).pipe(outside);
  });
});
door.listen(process.argv[2]);

await Promise.all([once(pods, 'listening'), once(door, 'listening')]);
process.stdout.write('ready\n');
