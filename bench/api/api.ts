/**
 * Measures the HTTP API on this machine: commands from many clients, and events for many readers.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Master } from '#master';
import { createMinion, createMinionKeys, dialZeromq } from '#minion-protocol';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { benchConfig } from '../config.ts';
import { sampleMemory } from '../soak/memory.ts';
import type { ApiOrder, ReadOutcome, RequestOutcome } from './orders.ts';

const password = 'bench';
const host = '127.0.0.1';

/** An API that this process serves, and the process with its clients. */
interface ApiBench {
  requests(clients: number, seconds: number): Promise<RequestOutcome>;
  read(readers: number, perSecond: number, seconds: number): Promise<ReadFigures>;
  close(): Promise<void>;
}

interface ReadFigures extends ReadOutcome {
  readonly fired: number;
  /** Processor time that the master's process used during the measurement, in processors. */
  readonly load: number;
  /**
   * Memory in megabytes, without mapped files: when all readers were connected, and the maximum
   * afterwards.
   */
  readonly memory: readonly [before: number, most: number];
}

export async function openApiBench(): Promise<ApiBench> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const config = benchConfig(rootDir, {
    autoAccept: true,
    limits: { requestsPerSecond: 0 },
    externalAuth: { sharedsecret: { bench: ['.*', '@runner', '@wheel'] } },
    eauth: { sharedsecret: password },
    eventRing: { entries: 10_000, bytes: 32 * 1_048_576 },
  });
  const master = createMaster({ config });
  await master.start();
  const { requestPort } = await master.status();
  const transport = dialZeromq({ host, requestPort });
  const minion = createMinion({ id: 'bench', keys: await createMinionKeys(), transport });
  await minion.start();
  const api = await createSaltApi(master, { host, streamsPerToken: 10_000, streams: 20_000 });
  const { port } = await api.listen();
  const token = await logIn(`http://${host}:${port}`, 'bench', password, 'sharedsecret');
  const clients = fork(fileURLToPath(new URL('./program.ts', import.meta.url)));
  const target = { host, port, token };
  return {
    requests: (count, seconds) =>
      order(clients, { do: 'requests', ...target, tgt: 'bench', clients: count, seconds }),
    read: (readers, perSecond, seconds) =>
      readWhileFiring(master, clients, { do: 'read', ...target, readers, seconds }, perSecond),
    close: async () => {
      clients.kill();
      await api.close();
      await minion.stop();
      await master.close();
      await rm(rootDir, { recursive: true, force: true });
    },
  };
}

/** Sends the same requests to an HTTP API that is already running, for example salt-api. */
export async function benchOther(
  url: string,
  [user = '', secret = '', eauth = 'file']: readonly string[],
  tgt: string,
  seconds: number,
): Promise<RequestOutcome> {
  const token = await logIn(url, user, secret, eauth);
  const { hostname, port } = new URL(url);
  const clients = fork(fileURLToPath(new URL('./program.ts', import.meta.url)));
  try {
    const target = { host: hostname, port: Number(port), token, tgt, clients: 50 };
    await order(clients, { do: 'requests', ...target, seconds: 3 });
    return await order(clients, { do: 'requests', ...target, seconds });
  } finally {
    clients.kill();
  }
}

async function logIn(
  url: string,
  username: string,
  secret: string,
  eauth: string,
): Promise<string> {
  const answer = await fetch(`${url}/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ username, password: secret, eauth }),
  });
  const token = answer.headers.get('x-auth-token');
  if (answer.status !== 200 || token === null) throw new Error(`log-in: ${answer.status}`);
  return token;
}

function order<T>(clients: ChildProcess, what: ApiOrder): Promise<T> {
  const outcome = new Promise<T>((resolve, reject) => {
    const hear = (message: T & { readonly isOpen?: boolean }): void => {
      if (message.isOpen === true) return;
      clients.off('message', hear);
      resolve(message);
    };
    clients.on('message', hear);
    clients.once('exit', () =>
      reject(new Error('the process that simulates the clients has ended')),
    );
  });
  clients.send(what);
  return outcome;
}

async function readWhileFiring(
  master: Master,
  clients: ChildProcess,
  what: Extract<ApiOrder, { do: 'read' }>,
  perSecond: number,
): Promise<ReadFigures> {
  const opened = new Promise((resolve) => clients.once('message', resolve));
  const outcome = order<ReadOutcome>(clients, what);
  await opened;
  const before = process.cpuUsage();
  const startedAt = performance.now();
  let fired = 0;
  let most = 0;
  const first = sampleMemory(0).anonymous;
  const load = { jid: '20260101000000000000', fun: 'test.ping', return: 'x'.repeat(200) };
  // The load ends a little before the readers do, so that they receive all events.
  const seconds = what.seconds - 1;
  while (performance.now() - startedAt < seconds * 1000) {
    const due = ((performance.now() - startedAt) / 1000) * perSecond;
    for (; fired < due; fired += 1) await master.events.fire(`bench/${fired}/ret`, load);
    most = Math.max(most, sampleMemory(0).anonymous);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const { user, system } = process.cpuUsage(before);
  const elapsed = (performance.now() - startedAt) * 1000;
  return { ...(await outcome), fired, load: (user + system) / elapsed, memory: [first, most] };
}
