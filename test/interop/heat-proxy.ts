/** A proxy for heat-api that counts requests and can drop responses. */
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HeatProxy {
  readonly origin: string;
  /** Number of requests so far. */
  readonly count: number;
  close(): Promise<void>;
}

/**
 * Starts the proxy.
 * @param losses - number of first responses that are dropped
 */
export async function startHeatProxy(target: string, losses = 0): Promise<HeatProxy> {
  let count = 0;
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    count += 1;
    const isLost = count <= losses;
    const { method, url: path, headers } = incoming;
    const onward = forward({ hostname, port, method, path, headers }, (answer) => {
      if (isLost) answer.resume().once('end', () => outgoing.destroy());
      else {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      }
    });
    onward.once('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${address.port}`,
    get count() {
      return count;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
