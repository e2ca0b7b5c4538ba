// Who hears of nodes: one stream tells several, and of a node with several streams only the end of the last one counts. (A
// node that lost its connection is back before the old stream is known to be dead.)

import type { Logger } from '../shared/logger.ts';
import type { StreamReports } from './stream.ts';

/** Tells all of them, in order. */
export function reportToAll(listeners: readonly StreamReports[]): StreamReports {
  return {
    connected: (hello) => listeners.forEach((listener) => listener.connected(hello)),
    result: (node, result) => listeners.forEach((listener) => listener.result(node, result)),
    disconnected: (node) => listeners.forEach((listener) => listener.disconnected(node)),
  };
}

/** Tells of a node's end when its last stream has ended. Two machines with one name would take turns in what is known of it: that is said. */
export function reportNodes(listener: StreamReports, logger: Logger): StreamReports {
  const streams = new Map<string, number>();
  return {
    connected(hello) {
      const open = streams.get(hello.node) ?? 0;
      if (open > 0) logger.warn({ node: hello.node }, 'the node has another stream open: it just came back, or two machines have its name');
      streams.set(hello.node, open + 1);
      listener.connected(hello);
    },
    result: (node, result) => listener.result(node, result),
    disconnected(node) {
      const left = (streams.get(node) ?? 1) - 1;
      if (left > 0) {
        streams.set(node, left);
        return;
      }
      streams.delete(node);
      listener.disconnected(node);
    },
  };
}
