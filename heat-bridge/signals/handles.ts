/** The registered handles: in memory as anybody may see them, in the store with their secrets. */
import { randomUUID } from 'node:crypto';
import type { StateArea } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { originOf } from '../outgoing/endpoints.ts';
import { type Destination, parseDestination } from './destination.ts';
import { checkedRegistration, type HandleInfo, type HandleRegistration } from './handle.ts';

/** What {@link Handles} needs. */
export interface HandlesOptions {
  readonly state: StateArea;
  readonly isListed: (origin: string) => boolean;
  /** How long a handle lives that does not say so, milliseconds. */
  readonly lifeMs: number;
  readonly now: () => number;
}

/** Nobody registers more at a time by anything but mistake. */
const mostHandles = 100_000;
/** How long one that has ended is still shown. */
const shownMs = 86_400_000;

type Plain = Omit<HandleInfo, 'isListed'>;

interface Row {
  readonly plain: Plain;
  /** Base64 of the sealed destination. */
  readonly sealed: string;
}

/** See above. */
export class Handles {
  readonly #options: HandlesOptions;
  readonly #rows = new Map<string, Row>();

  private constructor(options: HandlesOptions) {
    this.#options = options;
  }

  /** With those that a process before this one registered. */
  static async open(options: HandlesOptions): Promise<Handles> {
    const handles = new Handles(options);
    for await (const { value } of options.state.list(['signals', 'handles'])) {
      const row: Row = JSON.parse(Buffer.from(value).toString('utf8'));
      handles.#rows.set(row.plain.alias, row);
    }
    return handles;
  }

  /**
   * Registers a handle; durable when it resolves.
   * @param replaces - whether one of this alias may be there, whose minions, keys or life change
   * @throws BridgeError ERR_HANDLE_FORM, ERR_HANDLE_EXISTS, ERR_HANDLE_LIMIT
   */
  async add(registration: HandleRegistration, replaces = false): Promise<HandleInfo> {
    this.#forgetEnded();
    const { signal, ...rest } = checkedRegistration(registration);
    const destination = parseDestination(signal);
    const { now, lifeMs, state } = this.#options;
    const { alias, minions, members = [], stack = alias, owner, expiresAt = now() + lifeMs } = rest;
    if (expiresAt <= now()) throw new BridgeError('ERR_HANDLE_FORM', 'expiresAt: is over');
    this.#refuseTaken(alias, owner, replaces);
    const before = this.#rows.get(alias);
    const plain: Plain = {
      alias,
      id: before?.plain.id ?? randomUUID(),
      transport: destination.transport,
      origin: originOf('url' in destination ? destination.url : destination.authUrl),
      minions: [...minions],
      members: [...members],
      stack,
      ...(owner === undefined ? {} : { owner }),
      registeredAt: now(),
      expiresAt,
    };
    const sealed = state.seal(Buffer.from(JSON.stringify(destination)));
    const row = { plain, sealed: Buffer.from(sealed).toString('base64') };
    this.#rows.set(alias, row);
    try {
      const value = Buffer.from(JSON.stringify(row));
      await state.write([
        { op: 'put', key: ['signals', 'handles', alias], value, expiresAt: expiresAt + shownMs },
      ]);
    } catch (error) {
      if (before === undefined) this.#rows.delete(alias);
      else this.#rows.set(alias, before);
      throw error;
    }
    return this.#infoOf(row);
  }

  /** @throws BridgeError ERR_HANDLE_UNKNOWN */
  show(alias: string): HandleInfo {
    const info = this.find(alias);
    if (info === undefined) throw unknown(alias);
    return info;
  }

  find(alias: string): HandleInfo | undefined {
    const row = this.#rows.get(alias);
    return row === undefined ? undefined : this.#infoOf(row);
  }

  /** Whether signals for it are taken, as far as it goes by the alias. */
  has(alias: string): boolean {
    return this.#rows.has(alias);
  }

  /** By alias. */
  list(): readonly HandleInfo[] {
    this.#forgetEnded();
    const infos = Array.from(this.#rows.values(), (row) => this.#infoOf(row));
    return infos.sort((a, b) => (a.alias < b.alias ? -1 : 1));
  }

  /**
   * Where its signals go; for the moment of sending only.
   * @throws MasterError ERR_SEAL, BridgeError ERR_HANDLE_UNKNOWN
   */
  destinationOf(alias: string): Destination {
    const row = this.#rows.get(alias);
    if (row === undefined) throw unknown(alias);
    const opened = this.#options.state.unseal(Buffer.from(row.sealed, 'base64'));
    return JSON.parse(Buffer.from(opened).toString('utf8'));
  }

  /** Forgets a handle and its secrets; durable when it resolves. @throws BridgeError ERR_HANDLE_UNKNOWN */
  async remove(alias: string): Promise<HandleInfo> {
    const info = this.show(alias);
    await this.#options.state.write([{ op: 'delete', key: ['signals', 'handles', alias] }]);
    this.#rows.delete(alias);
    return info;
  }

  /** Lets a minion that is no more signal none; durable when it resolves. */
  async dismiss(minion: string): Promise<void> {
    const rows = [...this.#rows.values()].filter(({ plain }) => plain.minions.includes(minion));
    if (rows.length === 0) return;
    const left = rows.map(({ plain, sealed }) => ({
      plain: { ...plain, minions: plain.minions.filter((it) => it !== minion) },
      sealed,
    }));
    await this.#options.state.write(
      left.map((row) => ({
        op: 'put',
        key: ['signals', 'handles', row.plain.alias],
        value: Buffer.from(JSON.stringify(row)),
        expiresAt: row.plain.expiresAt + shownMs,
      })),
    );
    for (const row of left) this.#rows.set(row.plain.alias, row);
  }

  #refuseTaken(alias: string, owner: string | undefined, replaces: boolean): void {
    const taken = this.#rows.get(alias)?.plain;
    if (taken === undefined) {
      if (this.#rows.size < mostHandles) return;
      throw new BridgeError('ERR_HANDLE_LIMIT', `as many handles as may be: ${mostHandles}`);
    }
    if (replaces && taken.owner === owner) return;
    throw new BridgeError('ERR_HANDLE_EXISTS', `${alias}: a handle has this alias`);
  }

  #infoOf({ plain }: Row): HandleInfo {
    return { ...plain, isListed: this.#options.isListed(plain.origin) };
  }

  #forgetEnded(): void {
    const before = this.#options.now() - shownMs;
    for (const [alias, { plain }] of this.#rows) {
      if (plain.expiresAt < before) this.#rows.delete(alias);
    }
  }
}

function unknown(alias: string): BridgeError {
  return new BridgeError('ERR_HANDLE_UNKNOWN', `no handle ${JSON.stringify(alias.slice(0, 64))}`);
}
