/** A master in memory that has the keys of the recorded requests, so that these can be replayed. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';
import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';
import type { Master, MasterEvent, PillarProvider } from '#master';
import { openSeal } from '#master/auth/seal.ts';
import { type MasterTransport, packLocal, parsePrivateKey, type WireMap } from '#minion-protocol';
import { aesKeySignature } from '#minion-protocol/auth-reply.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { MinionTransport } from '#minion-protocol/transport/transport.ts';
import { type CreateMasterOptions, createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import type { Cleanup } from './cleanup.ts';
import { waitMs } from './deadline.ts';
import { temporaryDirectory } from './temporary-directory.ts';
import { keys, pem } from './vectors.ts';

/** Time of the recorded requests, in milliseconds since 1970. */
export const RECORDED_AT = 1_700_000_000_000;

export type KeyDirectory = 'minions' | 'minions_pre' | 'minions_rejected' | 'minions_denied';

/** A key file that exists before the master starts. */
export interface StoredKey {
  readonly directory: KeyDirectory;
  readonly id: string;
  readonly publicPem: string;
}

/** Stored grains and pillar of a minion. */
interface KnownOfMinion {
  readonly grains?: WireMap;
  readonly pillar?: WireMap;
}

export interface VectorMasterOptions {
  /** Keys at the start. Default: the accepted key of the vectors' minion. */
  readonly keys?: readonly StoredKey[];
  readonly config?: Partial<MasterOptions>;
  /** Stored grains and pillar at the start, by minion id. */
  readonly facts?: Readonly<Record<string, KnownOfMinion>>;
  readonly pillar?: PillarProvider;
  readonly tops?: NonNullable<CreateMasterOptions['tops']>;
  readonly fileserver?: NonNullable<CreateMasterOptions['fileserver']>;
  readonly logger?: Logger;
  readonly readConfig?: NonNullable<CreateMasterOptions['readConfig']>;
  readonly extensions?: NonNullable<CreateMasterOptions['extensions']>;
  /** Directory of an earlier master. Default: a new one. */
  readonly directory?: string;
  readonly store?: Store;
  /** Called with the store before the master starts. */
  readonly prepare?: (store: Store) => Promise<void>;
  readonly transport?: MasterTransport;
  /** Transports that replace the default one. */
  readonly transports?: readonly MasterTransport[];
  /** Time at the start, in milliseconds since 1970. Default: {@link RECORDED_AT}. */
  readonly startAt?: number;
  /**
   * Whether the master uses the clock of the system. Default: `false`; its clock stands at `startAt`
   * until the test changes it.
   */
  readonly usesSystemClock?: boolean;
}

/** A running master with the interfaces that tests need. */
export interface VectorMaster {
  readonly master: Master;
  readonly directory: string;
  readonly store: Store;
  /** The clock of the master. Tests can change it. */
  readonly clock: { now: number };
  /** Sends a request to the request port and returns the reply. */
  ask(request: Uint8Array, address?: string): Promise<Buffer>;
  /** Opens a new connection. */
  dial(minionId: string, address?: string): MinionTransport;
  /** Returns the events that are fired while `work` runs. */
  eventsDuring(work: () => Promise<unknown>): Promise<MasterEvent[]>;
  counters(): Promise<Readonly<Record<string, number>>>;
}

const minionKey: StoredKey = {
  directory: 'minions',
  id: keys.minionId,
  publicPem: pem('minion').publicPem,
};

const systemClock = {
  get now(): number {
    return Date.now();
  },
};

/** Starts a master. It is closed at the end of the test. */
export async function startVectorMaster(
  t: Cleanup,
  options: VectorMasterOptions = {},
): Promise<VectorMaster> {
  const clock = options.usesSystemClock ? systemClock : { now: options.startAt ?? RECORDED_AT };
  const directory = options.directory ?? temporaryDirectory(t);
  const config = resolveMasterConfig({ ...directories(directory), ...options.config });
  const store = options.store ?? createMemoryStore({ now: () => clock.now });
  if (options.directory === undefined) {
    await layOutVectorMaster(config, store, options.keys);
  }
  for (const [id, known] of Object.entries(options.facts ?? {})) {
    writeFacts(config.cachedir, id, known);
  }
  await options.prepare?.(store);
  const memory = createMemoryTransport();
  const master = createMaster({
    config,
    store,
    transports: options.transports ?? [options.transport ?? memory.master],
    now: () => clock.now,
    ...(options.pillar === undefined ? {} : { pillar: options.pillar }),
    ...(options.tops === undefined ? {} : { tops: options.tops }),
    ...(options.fileserver === undefined ? {} : { fileserver: options.fileserver }),
    ...(options.readConfig === undefined ? {} : { readConfig: options.readConfig }),
    ...(options.extensions === undefined ? {} : { extensions: options.extensions }),
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  t.teardown(() => master.close());
  await master.start();
  const dial = (minionId: string, address?: string): MinionTransport => {
    const minion = memory.dial(minionId, address);
    t.teardown(() => minion.close());
    return minion;
  };
  return {
    master,
    directory,
    store,
    clock,
    ask: async (request, address) =>
      Buffer.from(await dial('peer', address).request(request, waitMs)),
    dial,
    eventsDuring: (work) => eventsDuring(master, work),
    counters: async () => (await master.status()).counters,
  };
}

/** Writes the files that a master with the vectors' keys expects at its start. */
export async function layOutVectorMaster(
  { pkiDir, stateDir }: Pick<MasterConfig, 'pkiDir' | 'stateDir'>,
  store: Store,
  storedKeys: readonly StoredKey[] = [minionKey],
): Promise<void> {
  writeMasterKeys(pkiDir);
  for (const key of storedKeys) writeKey(pkiDir, key);
  await putSecrets(store, stateDir);
}

/** Returns the options for all directories of a master, below one directory. */
export function directories(
  directory: string,
): Pick<MasterOptions, 'pkiDir' | 'stateDir' | 'sockDir' | 'cachedir' | 'socket'> {
  return {
    pkiDir: path.join(directory, 'pki'),
    stateDir: path.join(directory, 'state'),
    sockDir: path.join(directory, 'run'),
    cachedir: path.join(directory, 'cache'),
    socket: path.join(directory, 'run', 'master.sock'),
  };
}

/** Writes the keys of the recorded master, unless keys exist. */
export function writeMasterKeys(pkiDir: string): void {
  if (existsSync(path.join(pkiDir, 'master.pem'))) return;
  mkdirSync(pkiDir, { recursive: true, mode: 0o700 });
  for (const [file, pair] of [
    ['master', 'master'],
    ['master_sign', 'master_sign'],
  ] as const) {
    writeFileSync(path.join(pkiDir, `${file}.pem`), pem(pair).privatePem, { mode: 0o400 });
    writeFileSync(path.join(pkiDir, `${file}.pub`), pem(pair).publicPem);
  }
}

function writeKey(pkiDir: string, { directory, id, publicPem }: StoredKey): void {
  mkdirSync(path.join(pkiDir, directory), { recursive: true, mode: 0o700 });
  writeFileSync(path.join(pkiDir, directory, id), publicPem);
}

/** Writes grains and pillar in the format of Salt's minion data cache. */
function writeFacts(
  cachedir: string,
  id: string,
  { grains = {}, pillar = {} }: KnownOfMinion,
): void {
  const folder = path.join(cachedir, 'minions', id);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'data.p'), packLocal({ grains, pillar }));
}

/** Stores the publish key and the session key of the vectors, as a stopped master leaves them. */
async function putSecrets(store: Store, stateDir: string): Promise<void> {
  const seal = await openSeal(stateDir);
  const signature = aesKeySignature(parsePrivateKey(pem('master').privatePem), keys.aes);
  const publishKey = { key: keys.aes, signature, madeAt: RECORDED_AT, reservedUpTo: 0 };
  const session = Buffer.from(`${RECORDED_AT} ${keys.session}`);
  await store.write([
    { op: 'put', key: ['secrets', 'publish-key'], value: seal.seal(packLocal(publishKey)) },
    { op: 'put', key: ['secrets', 'sessions', keys.minionId], value: seal.seal(session) },
  ]);
}

async function eventsDuring(master: Master, work: () => Promise<unknown>): Promise<MasterEvent[]> {
  const end = new AbortController();
  const subscription = await master.events.subscribe({}, end.signal);
  await work();
  end.abort();
  const events: MasterEvent[] = [];
  for await (const event of subscription) events.push(event);
  // Events of this master itself are left out, because neither minions nor Salt's own readers
  // depend on them.
  return events.filter(({ tag }) => !tag.startsWith('saltbridge/'));
}
