/** Resources that minions of Salt 3008 and later manage. */

import Type from 'typebox';
import {
  isValidMinionId,
  isWireMap,
  localField,
  type MinionResources,
  unpackLocal,
  type WireValue,
} from '#minion-protocol';
import { defineRow, type Entry, type Key, type Store, StoreError } from '#store';
import type { Cluster } from '../context/index.ts';

const prefix: Key = ['minion-resources'];

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

/** Rows `minion-resources/<id>`: what the minion has registered. */
const resourcesRow = defineRow({
  name: 'resources',
  schema: Type.Object({ resources: AnyValue, grains: AnyValue }),
  packed: { resources: localField, grains: localField },
  unversioned: unpackLocal,
});

/** What a minion registers, as it was sent. */
export interface Registration {
  /** Type → list of ids. */
  readonly resources: WireValue | undefined;
  /** `type:id` → grains. */
  readonly grains: WireValue | undefined;
}

export interface KnownResourcesOptions {
  readonly store: Store;
  /** `grains_bytes`: of all that one minion registers; 0: any size. */
  readonly maxBytes: number;
  /** Whether an id has a key in any state. */
  readonly hasKey: (id: string) => boolean;
  /** Whose members share them. Default: none. */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * The resources that each minion has registered last. They are the minion's own word: they say
 * whom a target means, and whose returns it may bring, and give no rights.
 */
export class KnownResources {
  readonly #options: KnownResourcesOptions;
  readonly #resources = new Map<string, MinionResources>();

  private constructor(options: KnownResourcesOptions) {
    this.#options = options;
  }

  /** Reads what is stored. @throws StoreError ERR_STORE_CORRUPT */
  static async open(options: KnownResourcesOptions): Promise<KnownResources> {
    const known = new KnownResources(options);
    options.cluster?.follow(prefix, (change) => {
      if (change.type === 'delete') known.#resources.delete(change.key.at(-1) ?? '');
      else known.#resources.set(change.entry.key.at(-1) ?? '', unpackResources(change.entry));
    });
    const stale: string[] = [];
    for await (const entry of options.store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      const resources = unpackResources(entry);
      if (options.hasKey(id)) known.#resources.set(id, resources);
      else stale.push(id);
    }
    for (const id of stale) await known.forget(id);
    return known;
  }

  /** What a minion manages; `undefined`: nothing. */
  of(minionId: string): MinionResources | undefined {
    return this.#resources.get(minionId);
  }

  /** Whether a minion manages a resource of this id, which is not the id of a minion. */
  has(minionId: string, resourceId: string): boolean {
    const resources = this.of(minionId);
    if (resources === undefined || this.#options.hasKey(resourceId)) return false;
    for (const ids of resources.values()) if (ids.has(resourceId)) return true;
    return false;
  }

  /**
   * Keeps what a minion registers in place of what it registered before; on disk when it resolves.
   * @returns false for what has another form or is too large: nothing changes then
   */
  async keep(minionId: string, { resources, grains }: Registration): Promise<boolean> {
    const read = readResources(resources);
    if (read === undefined) return false;
    if (read.size === 0) {
      if (this.#resources.has(minionId)) await this.forget(minionId);
      return true;
    }
    const { store, maxBytes, hasKey } = this.#options;
    const value = resourcesRow.encode({ resources: resources ?? null, grains: grains ?? null });
    if (maxBytes > 0 && value.length > maxBytes) return false;
    // Its key may be deleted at this moment.
    if (!hasKey(minionId)) return true;
    this.#resources.set(minionId, read);
    await store.write([{ op: 'put', key: [...prefix, minionId], value }]);
    return true;
  }

  async forget(minionId: string): Promise<void> {
    this.#resources.delete(minionId);
    await this.#options.store.write([{ op: 'delete', key: [...prefix, minionId] }]);
  }
}

/** @throws StoreError ERR_STORE_CORRUPT */
function unpackResources(entry: Pick<Entry, 'key' | 'value'>): MinionResources {
  const resources = readResources(resourcesRow.decode(entry).resources);
  if (resources !== undefined) return resources;
  throw new StoreError('ERR_STORE_CORRUPT', 'stored resources have an unknown form');
}

/** @returns only types that have resources; `undefined` for what is no map of lists of ids */
function readResources(value: WireValue | undefined): MinionResources | undefined {
  if (!isWireMap(value)) return undefined;
  const resources = new Map<string, ReadonlySet<string>>();
  for (const [type, ids] of Object.entries(value)) {
    if (!Array.isArray(ids)) return undefined;
    const valid = ids.filter(isValidMinionId);
    if (valid.length < ids.length) return undefined;
    if (valid.length > 0) resources.set(type, new Set(valid));
  }
  return resources;
}
