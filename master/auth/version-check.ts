/** Pins the protocol versions of minions, and rejects older ones. */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { ProtocolVersion } from '#minion-protocol';
import { defineRow, type Key, type RowOf, type Store, writeInParts } from '#store';
import type { Cluster } from '../context/index.ts';

const pinsPrefix: Key = ['pins'];

/** Rows `pins/<id>`. */
const pinRow = defineRow({
  name: 'pin',
  schema: Type.Object({
    version: Type.Number(),
    /** When the id first proved the version, milliseconds since 1970; `null`: not known. */
    provenAt: Type.Union([Type.Number(), Type.Null()]),
  }),
  unversioned: ([version]) => ({ version }),
  // Version 2 added `provenAt`.
  upgrades: [(old) => ({ ...old, provenAt: null })],
});

type Pin = RowOf<typeof pinRow>;

/** Where the pin of an id is. */
export function pinKey(id: string): Key {
  return [...pinsPrefix, id];
}

/** The version that each id has proved, by id. */
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
 * The highest protocol version that each id has proved with its key; a lower one is refused from
 * then on, because it would leave out checks that the minion is known to be able to pass
 * [THREATS C-53]. Deleting the key forgets the pin.
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

  /** @param minimumAuthVersion `minimum_auth_version`: `auto` pins, a number holds for all ids */
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

  /** Whether a request of this version may come from this id. */
  permits(id: string, version: ProtocolVersion): boolean {
    return version >= this.required(id);
  }

  /** The lowest version that a request of this id may have. */
  required(id: string): number {
    return Math.max(this.#minimum, this.of(id));
  }

  /** The version that the id has proved; 0 if it has proved none. */
  of(id: string): number {
    return this.#pins.get(id)?.version ?? 0;
  }

  /** When the id first proved that version, milliseconds since 1970; `null`: not known. */
  provenAt(id: string): number | null {
    return this.#pins.get(id)?.provenAt ?? null;
  }

  /**
   * Remembers that an encrypted request of this version was verified; durable when it resolves.
   * @param provenAt - milliseconds since 1970
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

/** Milliseconds between two lines of the log about one id: anybody may name it. */
const quietMs = 60_000;

export interface VersionCheckOptions {
  readonly pins: VersionPins;
  readonly isAccepted: (id: string) => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** Whether requests have a version that may be; the log names the accepted ids whose have not. */
export class VersionCheck {
  readonly #options: VersionCheckOptions;
  /** Bounded by the accepted ids. */
  readonly #loggedAt = new Map<string, number>();

  constructor(options: VersionCheckOptions) {
    this.#options = options;
  }

  /** @param address - where the request came from */
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
      log.warn(fields, 'request refused: its protocol version is too low');
    }
  }
}
