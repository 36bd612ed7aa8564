/**
 * An HTTP service on loopback that records requests and sends the responses that a test has set.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ExecutionContext } from 'ava';

/** A request as received. */
export interface Recorded {
  readonly method: string;
  /** Path without decoding. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Function that answers a request, or leaves it without a response. */
export type Answerer = (request: Recorded, response: ServerResponse) => void;

export interface Recorder {
  readonly origin: string;
  readonly requests: readonly Recorded[];
  /** Function that answers later requests. */
  answer: Answerer;
  /** Resolves when `count` requests were received. */
  heard(count: number): Promise<readonly Recorded[]>;
  close(): Promise<void>;
}

export async function startRecorder(answer: Answerer): Promise<Recorder> {
  const requests: Recorded[] = [];
  const waiting = new Set<() => void>();
  const server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.once('end', () => {
      const { method = '', url: path = '', headers } = incoming;
      const recorded = { method, path, headers, body: Buffer.concat(parts).toString('utf8') };
      requests.push(recorded);
      recorder.answer(recorded, response);
      for (const look of waiting) look();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const recorder: Recorder = {
    origin: `http://127.0.0.1:${port}`,
    requests,
    answer,
    heard: (count) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (requests.length < count) return;
          waiting.delete(look);
          resolve(requests.slice(0, count));
        };
        waiting.add(look);
        look();
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return recorder;
}

/** Returns a function that always sends the same response. */
export function always(status: number, body = '', headers: Record<string, string> = {}): Answerer {
  return (_request, response) => {
    response.writeHead(status, headers).end(body);
  };
}

/** Starts a service. It is closed at the end of the test. */
export async function recorderFor(
  t: Pick<ExecutionContext, 'teardown'>,
  answer: Answerer,
): Promise<Recorder> {
  const service = await startRecorder(answer);
  t.teardown(() => service.close());
  return service;
}
