/** A master in memory that has the keys of the recorded requests, so that they can be replayed. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { Logger } from 'pino';
import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';
import type { Master, MasterEvent, PillarProvider } from '#master';
import { openSeal } from '#master/auth/session-keys.ts';
import {
  createMemoryTransport,
  type MasterTransport,
  type MinionTransport,
  packLocal,
  parsePrivateKey,
  type WireMap,
} from '#minion-protocol';
import { aesKeySignature } from '#minion-protocol/auth-reply.ts';
import { type CreateMasterOptions, createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { temporaryDirectory } from './temporary-directory.ts';
import { keys, pem } from './vectors.ts';

/** The time stamp of the recorded requests, in milliseconds. */
export const RECORDED_AT = 1_700_000_000_000;

export type KeyDirectory = 'minions' | 'minions_pre' | 'minions_rejected' | 'minions_denied';

/** A key file that is there before the start. */
export interface StoredKey {
  readonly directory: KeyDirectory;
  readonly id: string;
  readonly publicPem: string;
}

/** What a minion said of itself, and what it got. */
interface KnownOfMinion {
  readonly grains?: WireMap;
  readonly pillar?: WireMap;
}

export interface VectorMasterOptions {
  /** Default: the vectors' minion, accepted. */
  readonly keys?: readonly StoredKey[];
  readonly config?: Partial<MasterOptions>;
  /** What is known of minions at the start, by id. */
  readonly facts?: Readonly<Record<string, KnownOfMinion>>;
  readonly pillar?: PillarProvider;
  readonly tops?: NonNullable<CreateMasterOptions['tops']>;
  readonly fileserver?: NonNullable<CreateMasterOptions['fileserver']>;
  readonly logger?: Logger;
  readonly readConfig?: NonNullable<CreateMasterOptions['readConfig']>;
  readonly extensions?: NonNullable<CreateMasterOptions['extensions']>;
  /** Of a master before this one. Default: new ones. */
  readonly directory?: string;
  readonly store?: Store;
  /** Called with the store before the master starts. */
  readonly prepare?: (store: Store) => Promise<void>;
  readonly transport?: MasterTransport;
  /** In place of one. */
  readonly transports?: readonly MasterTransport[];
  /** Milliseconds since 1970. Default: {@link RECORDED_AT}. */
  readonly startAt?: number;
}

/** A running master, and what a test needs of it. */
export interface VectorMaster {
  readonly master: Master;
  readonly directory: string;
  readonly store: Store;
  /** The master's clock; a test may turn it. */
  readonly clock: { now: number };
  /** Asks on the request port. */
  ask(request: Uint8Array, address?: string): Promise<Buffer>;
  /** A connection of its own. */
  dial(minionId: string, address?: string): MinionTransport;
  /** The events that are fired while `work` is under way. */
  eventsDuring(work: () => Promise<unknown>): Promise<MasterEvent[]>;
  counters(): Promise<Readonly<Record<string, number>>>;
}

const minionKey: StoredKey = {
  directory: 'minions',
  id: keys.minionId,
  publicPem: pem('minion').publicPem,
};

/** Starts one; it is closed at the end of the test. */
export async function startVectorMaster(
  t: ExecutionContext,
  options: VectorMasterOptions = {},
): Promise<VectorMaster> {
  const clock = { now: options.startAt ?? RECORDED_AT };
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
  return {
    master,
    directory,
    store,
    clock,
    ask: async (request, address) =>
      Buffer.from(await memory.dial('peer', address).request(request, 45_000)),
    dial: (minionId, address) => memory.dial(minionId, address),
    eventsDuring: (work) => eventsDuring(master, work),
    counters: async () => (await master.status()).counters,
  };
}

/** Writes what a master with the vectors' keys finds at its start. */
export async function layOutVectorMaster(
  { pkiDir, stateDir }: Pick<MasterConfig, 'pkiDir' | 'stateDir'>,
  store: Store,
  storedKeys: readonly StoredKey[] = [minionKey],
): Promise<void> {
  writeMasterKeys(pkiDir);
  for (const key of storedKeys) writeKey(pkiDir, key);
  await putSecrets(store, stateDir);
}

/** Every folder of a master, below one. */
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

/** The recorded master's keys, where there are none. */
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

/** As Salt's master keeps them. */
function writeFacts(
  cachedir: string,
  id: string,
  { grains = {}, pillar = {} }: KnownOfMinion,
): void {
  const folder = path.join(cachedir, 'minions', id);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'data.p'), packLocal({ grains, pillar }));
}

/** The publish key and the session key of the vectors, as a master leaves them behind. */
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
  // What this master tells of itself is no part of what minions or Salt's own readers see.
  return events.filter(({ tag }) => !tag.startsWith('saltbridge/'));
}
