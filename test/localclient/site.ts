/**
 * Starts a master that serves Salt's own clients with a recorded key, and connects clients to it.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { connectExtension, type ExtensionClient } from '#client';
import {
  dialZeromq,
  isWireMap,
  packWire,
  TcpFrameDecoder,
  unpackEvent,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { createLocalClient, type LocalClientStatus } from '#salt-api/localclient/index.ts';
import { until, waitMs, within } from '../helpers/deadline.ts';
import {
  directories,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../helpers/vector-master.ts';
import { cases, hex, type JsonObject, object, pem, text, vectorFile } from '../helpers/vectors.ts';

/** Requests and replies of one release of Salt. */
export interface Recording {
  readonly release: string;
  readonly key: string;
  readonly steps: JsonObject;
}

export const recordings: readonly Recording[] = cases(
  vectorFile('local_clients'),
  'recordings',
).map(({ release, key, steps }) => ({
  release: text(release),
  key: text(key),
  steps: object(steps),
}));

/** Returns the bytes of a recorded step on one channel in one direction, in order. */
export function recorded(
  { steps }: Recording,
  step: string,
  channel: 'events' | 'firing' | 'requests',
  from: 'client' | 'master',
): Buffer[] {
  return cases({ list: steps[step] ?? [] }, 'list')
    .filter((it) => it.channel === channel && it.from === from)
    .map((it) => hex(it.hex));
}

/** The recording of the latest release. */
export const latest: Recording = recordings.at(-1) ?? { release: '', key: '', steps: {} };

export interface Site extends VectorMaster {
  readonly extension: ExtensionClient;
  /** Directory for the clients' configuration. */
  readonly files: string;
  readonly status: LocalClientStatus;
  readonly keyFile: string;
  /** Sends a packed request and unpacks the reply. */
  request(packed: Uint8Array): Promise<WireValue>;
  /** Sends an unencrypted request with these fields. */
  send(load: WireMap): Promise<WireValue>;
}

/** Starts a master with the recorded minions and their key. */
export async function startSite(
  t: ExecutionContext,
  options: VectorMasterOptions = {},
): Promise<Site> {
  const master = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: ['m1', 'm2'].map((id) => ({
      directory: 'minions',
      id,
      publicPem: pem('other_minion').publicPem,
    })),
    extensions: [createLocalClient()],
    ...options,
  });
  const { stateDir = '', socket = '' } = directories(master.directory);
  const files = path.join(stateDir, 'localclient');
  const keyFile = path.join(files, 'cache', `.${userInfo().username}_key`);
  mkdirSync(path.dirname(keyFile), { recursive: true });
  writeFileSync(keyFile, latest.key);
  const extension = connectExtension({ socketPath: socket }, 'localclient');
  const status = await extension.call<LocalClientStatus>('enable', { port: 0 });
  const request: Site['request'] = async (packed) => {
    const client = dialZeromq({ host: '127.0.0.1', requestPort: status.port ?? 0 });
    try {
      return unpackLocal(await client.request(packed, waitMs));
    } finally {
      await client.close();
    }
  };
  const send: Site['send'] = (load) => request(packWire({ enc: 'clear', load, version: 3 }));
  return { ...master, extension, files, status, keyFile, request, send };
}

/** A client that reads events. */
export interface Subscriber {
  readonly socket: Socket;
  readonly bytes: () => Buffer;
  /** Waits for an event with a matching tag. */
  event(tag: RegExp): Promise<WireMap>;
}

/** Connects to a socket for clients. The connection ends with the test. */
export async function connectTo(t: ExecutionContext, file: string): Promise<Socket> {
  const socket = createConnection(file);
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  await within(
    'a connection',
    new Promise<void>((resolve) => {
      socket.once('connect', resolve);
    }),
  );
  return socket;
}

export async function subscribe(t: ExecutionContext, { files }: Site): Promise<Subscriber> {
  const socket = await connectTo(t, path.join(files, 'run', 'master_event_pub.ipc'));
  const decoder = new TcpFrameDecoder(1 << 20);
  const chunks: Buffer[] = [];
  const events: { tag: string; data: WireMap }[] = [];
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    for (const frame of decoder.push(chunk)) if (frame.type === 'frame') events.push(opened(frame));
  });
  const event: Subscriber['event'] = async (tag) => {
    await until(`an event ${tag}`, () => events.some((it) => tag.test(it.tag)));
    return events.find((it) => tag.test(it.tag))?.data ?? {};
  };
  return { socket, bytes: () => Buffer.concat(chunks), event };
}

function opened({ body }: { readonly body: Uint8Array }): { tag: string; data: WireMap } {
  const packed = unpackLocal(body);
  const { tag, data } = unpackEvent(packed instanceof Uint8Array ? packed : Buffer.alloc(0));
  return { tag, data: isWireMap(data) ? data : {} };
}
