/**
 * Starts a master on free loopback ports, and embedded minions that connect to it through libzmq.
 */
import type { ExecutionContext } from 'ava';
import { type MasterOptions, resolveMasterConfig } from '#config';
import type { Master } from '#master';
import type { MasterParts } from '#master/master-parts.ts';
import {
  createMinion,
  dialZeromq,
  type Minion,
  type MinionFunction,
  type MinionKeys,
  type WireMap,
} from '#minion-protocol';
import { createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { temporaryDirectory } from './temporary-directory.ts';
import { directories, writeMasterKeys } from './vector-master.ts';
import { pem } from './vectors.ts';

export interface FleetOptions {
  readonly ids: readonly string[];
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  /** Grains of the minions. Default: only the id. */
  readonly grains?: WireMap;
  readonly config?: Partial<MasterOptions>;
  readonly extensions?: NonNullable<MasterParts['extensions']>;
  /** Store of the master. Default: a new one in memory. */
  readonly store?: Store;
  /** Logger of the master. Default: a silent one. */
  readonly logger?: MasterParts['logger'];
}

export interface Fleet {
  readonly master: Master;
  readonly minions: ReadonlyMap<string, Minion>;
  /** Directory with the files of the master. */
  readonly directory: string;
}

/**
 * Starts the master and the minions, accepts all keys, and waits until all minions are subscribed.
 */
export async function startFleet(t: ExecutionContext, options: FleetOptions): Promise<Fleet> {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig({
    ...directories(directory),
    interface: '127.0.0.1',
    retPort: 0,
    publishPort: 0,
    autoAccept: true,
    timeout: 10,
    gatherJobTimeout: 10,
    ...options.config,
  });
  writeMasterKeys(config.pkiDir);
  const master = createMaster({
    config,
    store: options.store ?? createMemoryStore(),
    extensions: options.extensions ?? [],
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  await master.start();
  const { requestPort } = await master.status();
  const minions = new Map<string, Minion>();
  t.teardown(async () => {
    await Promise.all([...minions.values()].map((minion) => minion.stop()));
    await master.close();
  });
  for (const [index, id] of options.ids.entries()) {
    const transport = dialZeromq({ host: '127.0.0.1', requestPort });
    const { functions = {}, grains = {} } = options;
    const keys = minionKeys(index);
    minions.set(id, createMinion({ id, keys, transport, functions, grains }));
  }
  await Promise.all([...minions.values()].map((minion) => minion.start()));
  return { master, minions, directory };
}

/**
 * Returns the keys of a minion. They are generated beforehand, because generating keys would take
 * most of a test's time.
 */
function minionKeys(index: number): MinionKeys {
  const names = ['minion', 'minion2', 'other_minion'] as const;
  const pair = pem(names[index % names.length] ?? names[0]);
  return { ...pair, masterPem: undefined, trustMaster: async () => {} };
}

/** Returns all items of a stream as a list. */
export async function collect<T>(updates: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const update of updates) items.push(update);
  return items;
}
