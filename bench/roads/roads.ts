/** A master with one minion, and the three requests that are followed through it. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { StandardInput } from '../../cli/context.ts';
import { createLocalMaster } from '../../cli/local-master.ts';
import { runCommandLine } from '../../cli/program.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import { createMaster, loadMasterConfig } from '../../master/index.ts';
import { ProcessCoverage } from './coverage.ts';
import type { GuestOrder } from './guest.ts';

/** One request, and the files that it may run through. */
interface Road {
  readonly name: string;
  readonly limit: number;
  /** Does one request. Calls `begin` where the request begins; nothing before that counts. */
  readonly request: (begin: () => Promise<void>) => Promise<void>;
}

/** A file in which code ran. */
interface FileOnRoad {
  /** Below the root of the repository. */
  readonly file: string;
  /** Names of the functions that ran in the last round. */
  readonly functions: readonly string[];
}

/** What a road came to. */
export interface RoadCount {
  readonly name: string;
  /** Most files. */
  readonly limit: number;
  /** In the order of rooms. */
  readonly files: readonly FileOnRoad[];
}

const minionId = 'web1';
const alias = 'web-ready';
/** Requests of each road that come first, so that caches are filled and lazy parts loaded. */
const warmUps = 3;
/** A file is on the road if it ran in each of these: a timer's work is in some of them only. */
const rounds = 8;
/** What a request leaves to do behind its answer is done in this time. */
const settleMs = 150;
/** In the order in which a reader meets them. */
const rooms = ['cli', 'client', 'salt-api', 'heat-bridge', 'master', 'acl', 'store', 'template'];
const allRooms = [...rooms, 'minion-protocol', 'python', 'runtime'];

/** Counts the files of the three roads. */
export async function countRoads(): Promise<readonly RoadCount[]> {
  const coverage = new ProcessCoverage();
  await coverage.start();
  const root = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const endpoint = await startEndpoint();
  const guest = fork(fileURLToPath(new URL('./guest.js', import.meta.url)));
  const bridge = createBridge();
  await writeConfig(root, endpoint.origin);
  const { config } = await loadMasterConfig(root);
  const master = createMaster({ config, extensions: [bridge] });
  try {
    await master.start();
    const { requestPort } = await master.status();
    await order(guest, { do: 'start', id: minionId, requestPort });
    const signal = { endpoint: `${endpoint.origin}/handle/signal`, token: 'token' };
    await bridge.handles.add({ alias, minions: [minionId], signal });
    const roads: readonly Road[] = [
      {
        name: 'sign-in',
        limit: 25,
        request: async (begin) => {
          await begin();
          await order(guest, { do: 'sign-in' });
        },
      },
      {
        name: 'publish → return → command line',
        limit: 40,
        request: (begin) => runSalt(root, begin),
      },
      {
        name: 'signal → Heat',
        limit: 35,
        request: async (begin) => {
          await begin();
          const arrived = once(endpoint.server, 'request');
          await order(guest, { do: 'fire', tag: `heat/${alias}` });
          await arrived;
        },
      },
    ];
    const counts: RoadCount[] = [];
    for (const road of roads) counts.push(await countRoad(road, coverage));
    return counts;
  } finally {
    guest.disconnect();
    await master.close();
    endpoint.server.close();
    endpoint.server.closeAllConnections();
    coverage.stop();
    await rm(root, { recursive: true, force: true });
  }
}

async function countRoad(
  { name, limit, request }: Road,
  coverage: ProcessCoverage,
): Promise<RoadCount> {
  for (let index = 0; index < warmUps; index += 1) {
    await request(async () => {});
    await sleep(settleMs);
  }
  let common: ReadonlyMap<string, ReadonlySet<string>> | undefined;
  for (let round = 0; round < rounds; round += 1) {
    // Of no fixed length, so that no timer runs in every round.
    await sleep(round * 67);
    await request(() => coverage.reset());
    await sleep(settleMs);
    const before = common;
    const ran = await coverage.take();
    common = new Map([...ran].filter(([url]) => before?.has(url) ?? true));
  }
  return { name, limit, files: sourcesOf(common ?? new Map()) };
}

const dist = new URL('../../', import.meta.url).href;

/** @param ran functions by the URL of a compiled file */
function sourcesOf(ran: ReadonlyMap<string, ReadonlySet<string>>): readonly FileOnRoad[] {
  const files = [...ran]
    .filter(([url]) => url.startsWith(dist))
    .map(([url, functions]) => ({
      file: url.slice(dist.length).replace(/\.js$/, '.ts'),
      functions: [...functions].sort(),
    }))
    .filter(({ file }) => allRooms.includes(roomOf(file)));
  return files.sort(
    ({ file: left }, { file: right }) =>
      allRooms.indexOf(roomOf(left)) - allRooms.indexOf(roomOf(right)) || (left < right ? -1 : 1),
  );
}

function roomOf(file: string): string {
  return file.slice(0, file.indexOf('/'));
}

/** `saltbridge salt web1 test.ping`; it begins when its options and configuration have been read. */
async function runSalt(root: string, begin: () => Promise<void>): Promise<void> {
  const local = createLocalMaster();
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const status = await runCommandLine(
    ['salt', '-c', root, minionId, 'test.ping'],
    {
      stdout,
      stderr,
      ask: undefined,
      askSecret: undefined,
      tokenFile: path.join(root, 'token'),
      input: new StandardInput(() => process.stdin),
      interruption: () => new AbortController().signal,
      ...local,
      openApi: async (directory) => {
        const api = await local.openApi(directory);
        await begin();
        return api;
      },
    },
    '0.0.0',
  );
  const printed = `${stdout.read() ?? ''}${stderr.read() ?? ''}`;
  if (status !== 0 || printed !== `${minionId}:\n    True\n`) {
    throw new Error(`the job of the command line ended with ${status}: ${printed}`);
  }
}

/** Has the minion do something, to its end. */
async function order(guest: ChildProcess, what: GuestOrder): Promise<void> {
  const stopWaiting = new AbortController();
  const { signal } = stopWaiting;
  const ended = once(guest, 'exit', { signal }).then(([code]) => {
    throw new Error(`the minion's process ended: ${code}`);
  });
  guest.send(what);
  try {
    await Promise.race([once(guest, 'message', { signal }), ended]);
  } finally {
    stopWaiting.abort();
    ended.catch(() => {});
  }
}

/** Stands in Heat's place: takes every request. */
async function startEndpoint(): Promise<{ readonly server: Server; readonly origin: string }> {
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => response.end('null'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // It listens on a port.
  const { port } = server.address() as AddressInfo;
  return { server, origin: `http://127.0.0.1:${port}` };
}

async function writeConfig(root: string, origin: string): Promise<void> {
  const config = {
    root_dir: root,
    interface: '127.0.0.1',
    ret_port: 0,
    publish_port: 0,
    pki_dir: '/pki',
    sock_dir: '/run',
    cachedir: '/cache',
    log_file: '/log',
    pidfile: '/pid',
    auto_accept: true,
    saltbridge: {
      state_dir: '/state',
      acl: { signals: [{ tag: 'heat/*', minions: minionId }] },
      // Otherwise a second signal under an id waits for a second, and timers run meanwhile.
      bridge: { handles: { endpoints: [origin], same_id_wait: 0 } },
    },
  };
  await writeFile(path.join(root, 'master'), JSON.stringify(config));
}
