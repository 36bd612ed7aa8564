import type { Logger } from 'pino';
import type { ProtocolVersion } from '../../minion-protocol/index.ts';
import type { Key, Store } from '../../store/index.ts';

const prefix: Key = ['pins'];

/** The version that each id has proved, by id. */
export async function readPins(store: Pick<Store, 'list'>): Promise<Map<string, number>> {
  const pins = new Map<string, number>();
  for await (const entry of store.list(prefix)) {
    const [version] = entry.value;
    if (version !== undefined) pins.set(entry.key.at(-1) ?? '', version);
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
  readonly #pins: Map<string, number>;

  private constructor(store: Store, minimum: ProtocolVersion, pins: Map<string, number>) {
    this.#store = store;
    this.#minimum = minimum;
    this.#pins = pins;
  }

  /** @param minimumAuthVersion `minimum_auth_version`: `auto` pins, a number holds for all ids */
  static async open(
    store: Store,
    minimumAuthVersion: ProtocolVersion | 'auto',
  ): Promise<VersionPins> {
    const pins = await readPins(store);
    return new VersionPins(store, minimumAuthVersion === 'auto' ? 0 : minimumAuthVersion, pins);
  }

  /** Whether a request of this version may come from this id. */
  permits(id: string, version: ProtocolVersion): boolean {
    return version >= this.required(id);
  }

  /** The lowest version that a request of this id may have. */
  required(id: string): number {
    // protection: no-pins
    return Math.max(this.#minimum, this.of(id));
  }

  /** The version that the id has proved; 0 if it has proved none. */
  of(id: string): number {
    return this.#pins.get(id) ?? 0;
  }

  /** Remembers that an encrypted request of this version was verified; durable when it resolves. */
  async prove(id: string, version: ProtocolVersion): Promise<void> {
    if (version <= this.of(id)) return;
    this.#pins.set(id, version);
    const value = Uint8Array.of(version);
    await this.#store.write([{ op: 'put', key: [...prefix, id], value }]);
  }

  async forget(ids: readonly string[]): Promise<void> {
    const pinned = ids.filter((id) => this.#pins.delete(id));
    if (pinned.length === 0) return;
    await this.#store.write(pinned.map((id) => ({ op: 'delete', key: [...prefix, id] })));
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
      const fields = { minion: id, remote: address, version, required: pins.required(id) };
      log.warn(fields, 'request refused: its protocol version is too low');
    }
  }
}
