/** Stands before heat-api, counts, and may lose answers that it has heard. */
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HeatProxy {
  readonly origin: string;
  /** Requests that came. */
  readonly count: number;
  close(): Promise<void>;
}

/** @param losses - how many answers are lost, from the first on */
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
