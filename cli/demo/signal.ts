/** The part of the demonstration in which a minion signals a handle of Heat. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Bridge } from '../../heat-bridge/index.ts';
import type { Minion } from '../../minion-protocol/index.ts';
import type { Stage } from './stage.ts';

/** In Heat's place: says what it is sent. */
export interface RecordingEndpoint {
  readonly origin: string;
  /** The next request, as a line. */
  heard(): Promise<string>;
  close(): Promise<void>;
}

/** Listens on a free port of this machine. */
export async function startRecordingEndpoint(): Promise<RecordingEndpoint> {
  const lines: string[] = [];
  let tell: () => void = () => {};
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.once('end', () => {
      lines.push(`${request.method} ${request.url} ${Buffer.concat(parts).toString('utf8')}`);
      response.end('null');
      tell();
    });
  });
  await listen(server);
  // It listens on a port.
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    heard: () =>
      new Promise((resolve) => {
        tell = () => {
          const line = lines.shift();
          if (line !== undefined) resolve(line);
        };
        tell();
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Registers a handle, has a minion signal it, and shows what arrives. */
export async function showSignal(
  stage: Stage,
  bridge: Bridge,
  endpoint: RecordingEndpoint,
  minion: Minion | undefined,
): Promise<void> {
  stage.title('web1 says that it is ready: a signal to a handle of Heat');
  const { alias, minions, transport } = await bridge.handles.add({
    alias: 'web-ready',
    minions: ['web1'],
    signal: { endpoint: `${endpoint.origin}/resources/handle/signal`, token: 'known-to-nobody' },
  });
  stage.line(`handle ${alias} (${transport}) for ${minions.join(', ')}; its token stays here`);
  await minion?.fire(`heat/${alias}`, { reason: 'booted', data: { port: 80 } });
  stage.line(`Heat hears: ${await endpoint.heard()}`);
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
}
