/**
 * Endpoint that stands in for Heat. It records every signal. One in five requests fails, gets no
 * response, or gets a late one.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A signal that arrived at the endpoint. */
export interface Arrival {
  readonly handle: string;
  /** Id that the signal has in Heat. */
  readonly id: string;
  readonly minion: string;
  readonly number: number;
}

export interface RecordingEndpoint {
  readonly origin: string;
  /**
   * Signals in the order of their arrival. Requests that were answered with a failure are not
   * included.
   */
  readonly arrivals: readonly Arrival[];
  /** Number of requests that the endpoint answered with a failure on purpose. */
  readonly harmed: number;
  close(): Promise<void>;
}

/** Delay of a late response, in milliseconds. It is longer than the master's timeout. */
const lateMs = 600;

export async function startEndpoint(random: () => number): Promise<RecordingEndpoint> {
  const arrivals: Arrival[] = [];
  let harmed = 0;
  const answer = (path: string, body: string, response: ServerResponse): void => {
    const isHarmed = random() < 0.2;
    const harm = random();
    if (isHarmed) harmed += 1;
    if (isHarmed && harm < 1 / 3) {
      response.writeHead(503).end();
      return;
    }
    arrivals.push(read(path, body));
    // In two of three cases, the signal is stored, and the response is late or missing.
    if (isHarmed && harm < 2 / 3) return;
    if (isHarmed) setTimeout(() => response.end('null'), lateMs);
    else response.end('null');
  };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.once('end', () => {
      answer(request.url ?? '', Buffer.concat(parts).toString('utf8'), response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    arrivals,
    get harmed() {
      return harmed;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function read(path: string, body: string): Arrival {
  const [, handle = ''] = path.split('/');
  const { id, data } = JSON.parse(body);
  return { handle, id, minion: data.minion, number: data.number };
}
