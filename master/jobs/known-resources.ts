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
import { jobLimits } from './limits.ts';

const prefix: Key = ['minion-resources'];
const maxTypes = jobLimits.resourceTypes.perOwner ?? Infinity;

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

/**
 * Codec of the rows `minion-resources/<id>`, which contain the resources that a minion claims to
 * manage, and their grains.
 */
const resourcesRow = defineRow({
  name: 'resources',
  schema: Type.Object({ resources: AnyValue, grains: AnyValue }),
  packed: { resources: localField, grains: localField },
  unversioned: unpackLocal,
});

/**
 * Resources that a minion claims to manage, and their grains, as the minion has sent them. Not
 * verified.
 */
export interface Registration {
  /** Map from resource types to lists of ids. */
  readonly resources: WireValue | undefined;
  /** Map from `type:id` to the grains of the resource. */
  readonly grains: WireValue | undefined;
}

export interface KnownResourcesOptions {
  readonly store: Store;
  /**
   * `grains_bytes`: maximum size in bytes of all resources of one minion together, with their
   * grains. 0 means unlimited.
   */
  readonly maxBytes: number;
  /** Returns whether an id has a key in any state. */
  readonly hasKey: (id: string) => boolean;
  /**
   * Cluster of this master. Its members share the resources. Default: the master has no cluster.
   */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * Resources (a feature of Salt 3008 and later) that each minion claims to manage. The claims are
 * not verified. They determine which minions a target matches, and for which resources a minion may
 * return. They do not grant rights.
 */
export class KnownResources {
  readonly #options: KnownResourcesOptions;
  readonly #resources = new Map<string, MinionResources>();

  private constructor(options: KnownResourcesOptions) {
    this.#options = options;
  }

  /**
   * Loads the stored resources of all minions.
   * @throws StoreError ERR_STORE_CORRUPT
   */
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

  /** Returns the resources of a minion, or `undefined` if it has none. */
  of(minionId: string): MinionResources | undefined {
    return this.#resources.get(minionId);
  }

  /**
   * Whether a minion manages a resource with this id. If the id also belongs to a minion, the
   * result is `false`.
   */
  has(minionId: string, resourceId: string): boolean {
    const resources = this.of(minionId);
    if (resources === undefined || this.#options.hasKey(resourceId)) return false;
    for (const ids of resources.values()) if (ids.has(resourceId)) return true;
    return false;
  }

  /**
   * Stores the resources that a minion has registered, in place of its previous ones. Durable when
   * the promise resolves. If the minion has registered no resources, the previous ones are deleted.
   * @returns `false` if the resources have an invalid form or are too large. Nothing was changed
   * then
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
    // The minion's key may have been deleted in the meantime.
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

/**
 * Decodes the row with the resources that a minion claims to manage.
 * @throws StoreError ERR_STORE_CORRUPT
 */
function unpackResources(entry: Pick<Entry, 'key' | 'value'>): MinionResources {
  const resources = readResources(resourcesRow.decode(entry).resources);
  if (resources !== undefined) return resources;
  throw new StoreError('ERR_STORE_CORRUPT', 'stored resources have an invalid form');
}

/**
 * Parses the resources that a minion manages, as the minion sent them or as they are stored.
 * @returns the ids of the resources by type, without types that have no ids. `undefined` if the
 * value is not a map of lists of ids, or has too many types
 */
function readResources(value: WireValue | undefined): MinionResources | undefined {
  if (!isWireMap(value)) return undefined;
  const types = Object.keys(value);
  if (types.length > maxTypes) return undefined;
  const resources = new Map<string, ReadonlySet<string>>();
  for (const type of types) {
    const ids = value[type];
    if (!Array.isArray(ids)) return undefined;
    const valid = ids.filter(isValidMinionId);
    if (valid.length < ids.length) return undefined;
    if (valid.length > 0) resources.set(type, new Set(valid));
  }
  return resources;
}
