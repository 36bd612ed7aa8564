/**
 * Records the highest protocol version that each minion has used ("pin"), and rejects lower
 * versions.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { ProtocolVersion } from '#minion-protocol';
import { defineRow, type Key, type RowOf, type Store, writeInParts } from '#store';
import type { Cluster } from '../context/index.ts';

const pinsPrefix: Key = ['pins'];

/** Codec of the rows `pins/<id>`. */
const pinRow = defineRow({
  name: 'pin',
  schema: Type.Object({
    version: Type.Number(),
    /**
     * Time at which the minion first used the protocol version in `version`, in milliseconds since
     * 1970. `null` if unknown.
     */
    provenAt: Type.Union([Type.Number(), Type.Null()]),
  }),
  unversioned: ([version]) => ({ version }),
  // Version 2 added `provenAt`.
  upgrades: [(old) => ({ ...old, provenAt: null })],
});

type Pin = RowOf<typeof pinRow>;

/** Returns the key of the store row with an id's pinned protocol version. */
export function pinKey(id: string): Key {
  return [...pinsPrefix, id];
}

/** Returns the pinned protocol versions by minion id. */
export async function readPins(store: Pick<Store, 'list'>): Promise<Map<string, number>> {
  const pins = await readPinRows(store);
  return new Map(Array.from(pins, ([id, { version }]) => [id, version]));
}

async function readPinRows(store: Pick<Store, 'list'>): Promise<Map<string, Pin>> {
  const pins = new Map<string, Pin>();
  for await (const entry of store.list(pinsPrefix)) {
    pins.set(entry.key.at(-1) ?? '', pinRow.decode(entry));
  }
  return pins;
}

/**
 * Highest protocol version that each id has used with its key (the pinned version). The master
 * rejects lower versions of the id, because they lack security checks that the minion supports
 * [THREATS C-53]. Deleting the key removes the pinned version.
 */
export class VersionPins {
  readonly #store: Store;
  readonly #minimum: ProtocolVersion;
  readonly #pins: Map<string, Pin>;

  private constructor(store: Store, minimum: ProtocolVersion, pins: Map<string, Pin>) {
    this.#store = store;
    this.#minimum = minimum;
    this.#pins = pins;
  }

  /**
   * Reads the pinned protocol versions from the store.
   * @param minimumAuthVersion - `minimum_auth_version`: `auto` pins versions; a number is the
   * minimum for all ids
   */
  static async open(
    store: Store,
    minimumAuthVersion: ProtocolVersion | 'auto',
    cluster?: Pick<Cluster, 'follow'>,
  ): Promise<VersionPins> {
    const pins = new Map<string, Pin>();
    cluster?.follow(pinsPrefix, (change) => {
      if (change.type === 'delete') pins.delete(change.key.at(-1) ?? '');
      else pins.set(change.entry.key.at(-1) ?? '', pinRow.decode(change.entry));
    });
    for (const [id, pin] of await readPinRows(store)) pins.set(id, pin);
    return new VersionPins(store, minimumAuthVersion === 'auto' ? 0 : minimumAuthVersion, pins);
  }

  /** Whether a request with this version is permitted for this id. */
  permits(id: string, version: ProtocolVersion): boolean {
    return version >= this.required(id);
  }

  /** Returns the lowest protocol version that this id may use. */
  required(id: string): number {
    return Math.max(this.#minimum, this.of(id));
  }

  /**
   * Returns the protocol version that is pinned for the id: lower versions are rejected. 0 if none
   * is pinned.
   */
  of(id: string): number {
    return this.#pins.get(id)?.version ?? 0;
  }

  /**
   * Returns the time at which the id first used its pinned protocol version, in milliseconds since
   * 1970, or `null` if unknown.
   */
  provenAt(id: string): number | null {
    return this.#pins.get(id)?.provenAt ?? null;
  }

  /**
   * Pins the protocol version of a minion: lower versions are rejected from now on. Call it after a
   * request with this version was decrypted and verified. Durable when the promise resolves.
   * @param provenAt - time of this request, in milliseconds since 1970. Default: now
   */
  async prove(id: string, version: ProtocolVersion, provenAt: number = Date.now()): Promise<void> {
    if (version <= this.of(id)) return;
    const pin = { version, provenAt };
    this.#pins.set(id, pin);
    await this.#store.write([{ op: 'put', key: pinKey(id), value: pinRow.encode(pin) }]);
  }

  async forget(ids: readonly string[]): Promise<void> {
    const pinned = ids.filter((id) => this.#pins.delete(id));
    const gone = pinned.map((id) => ({ op: 'delete', key: [...pinsPrefix, id] }) as const);
    await writeInParts(this.#store, gone);
  }
}

/**
 * Minimum interval between log lines about one id, in milliseconds. Any client can send requests
 * with any id, and could otherwise fill the log.
 */
const quietMs = 60_000;

export interface VersionCheckOptions {
  readonly pins: VersionPins;
  readonly isAccepted: (id: string) => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** Checks the protocol versions of requests. Rejections are logged for accepted ids. */
export class VersionCheck {
  readonly #options: VersionCheckOptions;
  /**
   * Time of the last log line for each id. The number of entries is limited by the number of
   * accepted ids.
   */
  readonly #loggedAt = new Map<string, number>();

  constructor(options: VersionCheckOptions) {
    this.#options = options;
  }

  /**
   * Whether a request of this id may use this protocol version. Logs a rejection if the id has an
   * accepted key.
   * @param address - address of the sender, for the log
   */
  permits(id: string, version: ProtocolVersion, address: string): boolean {
    const { pins } = this.#options;
    if (pins.permits(id, version)) return true;
    this.#log(id, version, address);
    return false;
  }

  #log(id: string, version: ProtocolVersion, address: string): void {
    const { pins, isAccepted, now, log } = this.#options;
    const loggedAt = this.#loggedAt.get(id) ?? Number.NEGATIVE_INFINITY;
    if (!isAccepted(id)) this.#loggedAt.delete(id);
    else if (now() - loggedAt >= quietMs) {
      this.#loggedAt.set(id, now());
      const [required, provenAt] = [pins.required(id), pins.provenAt(id)];
      const fields = { minion: id, remote: address, version, required, provenAt };
      log.warn(
        fields,
        'rejected a request: its protocol version is lower than the minimum, or lower than a version that this minion has used before',
      );
    }
  }
}
