/**
 * Registry of sites at the centre. It stores each site's ticket, keys, revocation and last contact.
 */

import { createHash, type KeyObject, randomBytes } from 'node:crypto';
import { siteName } from '#config';
import type { ExtensionHost, JoinedSite, ReportedRelease, StateOperation } from '#master';
import { StoreError, writeInParts } from '#store';
import { EdgeError } from '../errors.ts';
import { type LogClass, logClasses } from '../log/log.ts';
import { contactAgeOf } from './contact-age.ts';
import { isSignedBy } from './ed25519.ts';
import { joinPurpose } from './join-message.ts';
import {
  contactRow,
  type LogPosition,
  positionRow,
  type SiteContact,
  type SiteRow,
  siteRow,
} from './site-rows.ts';
import { readTicket, writeTicket } from './tickets.ts';

/** State of a site, as RPC methods of the centre return it. */
export interface SiteInfo {
  readonly name: string;
  readonly state: SiteRow['state'];
  /** SHA-256 digest of the public key of the site, in hexadecimal. */
  readonly fingerprint: string | undefined;
  readonly joinedAt: number | undefined;
  /** Expiry of the site's unused ticket, in milliseconds since 1970. */
  readonly ticketExpiresAt: number | undefined;
  readonly isConnected: boolean;
  /** Time of the last message, in milliseconds since 1970. */
  readonly lastContactAt: number | undefined;
  /** Version of saltbridge at the site. */
  readonly version: string | undefined;
  readonly address: string | undefined;
  /** Clock of the site minus clock of the centre, in milliseconds. */
  readonly clockDifferenceMs: number | undefined;
  /** Position up to which the centre has received the site's log, by class. */
  readonly log: Readonly<Partial<Record<LogClass, LogPosition>>>;
  readonly release: ReportedRelease | undefined;
  /** Number of orders that the site has not received yet. */
  readonly waitingOrders: number;
}

/** New ticket. */
export interface IssuedTicket {
  readonly name: string;
  readonly ticket: string;
  readonly expiresAt: number;
}

/** Parameters of a new ticket. */
export interface TicketRequest {
  readonly name: string;
  /** Address of the centre's HTTP API. */
  readonly centre: string;
  readonly lifetimeSeconds: number;
  /** SHA-256 digest of the root metadata, in hexadecimal. */
  readonly root?: string | undefined;
}

/** Current figures of the connection of a site. */
export interface SiteConnection {
  readonly lastContactAt: number;
}

/** Functions with which other parts add their values to {@link SiteInfo}. */
export interface SiteFigures {
  connectionOf(name: string): SiteConnection | undefined;
  releaseOf(name: string): ReportedRelease | undefined;
  waitingOrdersOf(name: string): number;
  /** Returns the sites of a ring, or `undefined` if the ring does not exist. */
  sitesOfRing(ring: string): readonly string[] | undefined;
}

const sites = ['centre', 'site'] as const;
const contacts = ['centre', 'contact'] as const;
const maxAttempts = 16;

export class SiteRegistry {
  readonly #host: Pick<ExtensionHost, 'now' | 'shared'>;
  readonly #key: KeyObject;
  readonly #onRevoked: ((name: string) => void)[] = [];
  readonly #onChanged: ((name: string) => void)[] = [];
  #figures: SiteFigures = {
    connectionOf: () => undefined,
    releaseOf: () => undefined,
    waitingOrdersOf: () => 0,
    sitesOfRing: () => undefined,
  };
  readonly #joined = new Set<string>();
  readonly #contacts = new Map<string, SiteContact>();
  /** The names in `#joined`, sorted. `undefined`: must be sorted again. */
  #sortedJoined: readonly string[] | undefined;

  private constructor(host: Pick<ExtensionHost, 'now' | 'shared'>, key: KeyObject) {
    this.#host = host;
    this.#key = key;
  }

  /** @param key online key of the centre */
  static async open(
    host: Pick<ExtensionHost, 'now' | 'shared'>,
    key: KeyObject,
  ): Promise<SiteRegistry> {
    const registry = new SiteRegistry(host, key);
    await host.shared.follow([...sites], (change) => {
      if (change.type !== 'put') return;
      const site = siteRow.decode(change.entry);
      registry.#noteState(site);
      for (const listener of registry.#onChanged) listener(site.name);
    });
    await host.shared.follow([...contacts], (change) => {
      if (change.type !== 'put') return;
      const name = change.entry.key.at(-1) ?? '';
      registry.#contacts.set(name, contactRow.decode(change.entry));
    });
    return registry;
  }

  /** Registers functions that add values to the state of a site. */
  complete(figures: Partial<SiteFigures>): void {
    this.#figures = { ...this.#figures, ...figures };
  }

  /** Calls the listener after a site was revoked or its key was replaced. */
  onRevoked(listener: (name: string) => void): void {
    this.#onRevoked.push(listener);
  }

  /** Calls the listener after any member of the cluster has changed the row of a site. */
  onChanged(listener: (name: string) => void): void {
    this.#onChanged.push(listener);
  }

  /** Issues a ticket. Earlier unused tickets of this name become invalid. */
  async issue({ name, centre, lifetimeSeconds, root }: TicketRequest): Promise<IssuedTicket> {
    if (!siteName.test(name)) {
      const expected = 'a name has 1 to 63 lower-case letters, digits and "-"';
      throw new EdgeError('ERR_SITE_UNKNOWN', `${name}: invalid name of a site: ${expected}`);
    }
    const id = randomBytes(16).toString('base64url');
    const expiresAt = this.#host.now() + lifetimeSeconds * 1000;
    await this.#change(name, (site = { name, state: 'invited' }) => ({
      ...site,
      ticket: { id, expiresAt },
    }));
    const payload = { id, name, centre, expiresAt, ...(root === undefined ? {} : { root }) };
    return { name, ticket: writeTicket(this.#key, payload), expiresAt };
  }

  /**
   * Stores the key of a site that presents a valid ticket. The proof shows that the site has the
   * private key. The site may repeat the same request.
   * @param proof signature of the ticket, made with the private key of the site
   * @returns the name of the site
   * @throws EdgeError ERR_SITE_TICKET
   */
  async join(ticketText: string, key: Uint8Array, proof: Uint8Array): Promise<string> {
    const ticket = readTicket(ticketText);
    if (!isSignedBy(key, joinPurpose, [Buffer.from(ticketText)], proof)) {
      throw new EdgeError(
        'ERR_SITE_TICKET',
        'the request is not signed with the key that it contains',
      );
    }
    const { name, id } = ticket;
    const now = this.#host.now();
    const replaced = await this.#change(name, (site) => {
      const known = site?.ticket;
      if (site === undefined || known?.id !== id) throw unusable('it was replaced or revoked');
      if (now > known.expiresAt) throw unusable('it has expired');
      if (known.usedBy !== undefined) {
        if (isEqual(known.usedBy, key)) return site;
        throw unusable('another key has already used it');
      }
      return {
        name,
        state: 'joined',
        key: Buffer.from(key),
        joinedAt: now,
        ticket: { ...known, usedBy: Buffer.from(key) },
      };
    });
    if (replaced?.key !== undefined && !isEqual(replaced.key, key)) this.#tellRevoked(name);
    return name;
  }

  /**
   * Checks that a site may connect. If the site uses the key that it has offered, this key replaces
   * the former key.
   * @param prove whether a public key verifies the signature of the handshake
   * @throws EdgeError ERR_SITE_REFUSED
   */
  async authenticate(name: string, prove: (key: Uint8Array) => boolean): Promise<void> {
    const site = await this.#read(name);
    if (site?.state !== 'joined' || site.key === undefined) throw refused();
    if (prove(site.key)) return;
    const { nextKey } = site;
    if (nextKey === undefined || !prove(nextKey)) throw refused();
    await this.#change(name, (now) => {
      if (now?.state !== 'joined' || now.nextKey === undefined) throw refused();
      if (!isEqual(now.nextKey, nextKey)) throw refused();
      const { nextKey: key, ...rest } = now;
      return { ...rest, key };
    });
  }

  /**
   * Stores the next key of a site. It replaces the present key when the site first connects with
   * it.
   */
  async offerKey(name: string, nextKey: Uint8Array): Promise<void> {
    await this.#change(name, (site) => {
      if (site?.state !== 'joined') throw refused();
      return { ...site, nextKey: Buffer.from(nextKey) };
    });
  }

  /**
   * Revokes a site. Its connection ends.
   * @throws EdgeError ERR_SITE_UNKNOWN
   */
  async revoke(name: string): Promise<SiteInfo> {
    await this.#change(name, (site) => {
      if (site === undefined) throw unknown(name);
      return { name, state: 'revoked', revokedAt: this.#host.now() };
    });
    this.#tellRevoked(name);
    return this.show(name);
  }

  /**
   * Returns a site.
   * @throws EdgeError ERR_SITE_UNKNOWN
   */
  async show(name: string): Promise<SiteInfo> {
    const found = await this.find(name);
    if (found === undefined) throw unknown(name);
    return found;
  }

  /** Returns a site, or `undefined` if it does not exist. */
  async find(name: string): Promise<SiteInfo | undefined> {
    const site = await this.#read(name);
    return site && this.#infoOf(site);
  }

  /** Returns all sites, by name. */
  async list(): Promise<readonly SiteInfo[]> {
    const found: SiteInfo[] = [];
    for await (const entry of this.#host.shared.list([...sites])) {
      found.push(await this.#infoOf(siteRow.decode(entry)));
    }
    return found;
  }

  /** Names of all sites that have joined, sorted. A change creates another array. */
  get joined(): readonly string[] {
    this.#sortedJoined ??= [...this.#joined].sort();
    return this.#sortedJoined;
  }

  /**
   * Returns the time of the last contact with a site, in milliseconds since 1970. It is up to five
   * minutes old if the site is connected to another member of the cluster.
   */
  lastContactAt(name: string): number | undefined {
    return this.#figures.connectionOf(name)?.lastContactAt ?? this.#contacts.get(name)?.at;
  }

  /**
   * Returns the sites of a ring.
   * @throws EdgeError ERR_SITE_UNKNOWN
   */
  membersOfRing(ring: string): readonly string[] {
    const found = this.#figures.sitesOfRing(ring);
    const problem = found === undefined ? 'unknown ring' : 'the ring has no joined site';
    if (found !== undefined && found.length > 0) return found;
    throw new EdgeError('ERR_SITE_UNKNOWN', `${ring}: ${problem}; see saltbridge: sites: rings`);
  }

  /** Returns the states of all joined sites from memory, by name. */
  overview(): readonly JoinedSite[] {
    const now = this.#host.now();
    const { connectionOf, releaseOf } = this.#figures;
    return this.joined.map((name) => {
      const lastContactAt = this.lastContactAt(name);
      return {
        name,
        isConnected: connectionOf(name) !== undefined,
        lastContactAt,
        contactAge: contactAgeOf(lastContactAt, now),
        version: this.#contacts.get(name)?.version,
        release: releaseOf(name),
      };
    });
  }

  /** Stores the last contact of sites, by name. */
  async noteContacts(noted: ReadonlyMap<string, SiteContact>): Promise<void> {
    const operations = [...noted].map(([name, contact]): StateOperation => {
      return { op: 'put', key: [...contacts, name], value: contactRow.encode(contact) };
    });
    await writeInParts(this.#host.shared, operations);
    for (const [name, contact] of noted) this.#contacts.set(name, contact);
  }

  async #infoOf(site: SiteRow): Promise<SiteInfo> {
    const { name, state, key, joinedAt, ticket } = site;
    const { shared } = this.#host;
    const contact = this.#contacts.get(name);
    const log: Partial<Record<LogClass, LogPosition>> = {};
    for (const each of logClasses) {
      const position = await shared.get(['centre', 'position', name, each]);
      if (position !== undefined) log[each] = positionRow.decode(position);
    }
    const { connectionOf, releaseOf, waitingOrdersOf } = this.#figures;
    return {
      name,
      state,
      fingerprint: key && createHash('sha256').update(key).digest('hex'),
      joinedAt,
      ticketExpiresAt: ticket?.usedBy === undefined ? ticket?.expiresAt : undefined,
      isConnected: connectionOf(name) !== undefined,
      lastContactAt: this.lastContactAt(name),
      version: contact?.version,
      address: contact?.address,
      clockDifferenceMs: contact?.clockDifferenceMs,
      log,
      release: releaseOf(name),
      waitingOrders: waitingOrdersOf(name),
    };
  }

  async #read(name: string): Promise<SiteRow | undefined> {
    if (!siteName.test(name)) return undefined;
    const entry = await this.#host.shared.get([...sites, name]);
    return entry && siteRow.decode(entry);
  }

  /** Replaces the row of a site. Returns the former row. */
  async #change(
    name: string,
    change: (site: SiteRow | undefined) => SiteRow,
  ): Promise<SiteRow | undefined> {
    const key = [...sites, name];
    for (let attempt = 1; ; attempt += 1) {
      const entry = await this.#host.shared.get(key);
      const known = entry && siteRow.decode(entry);
      const changed = change(known);
      const value = siteRow.encode(changed);
      try {
        const ifRevision = entry?.revision ?? 0;
        await this.#host.shared.write([{ op: 'put', key, value, ifRevision }]);
        // In a cluster, `follow` reports this change, and later changes in their order.
        if (this.#host.shared.cluster === undefined) this.#noteState(changed);
        return known;
      } catch (error) {
        const isRaced = error instanceof StoreError && error.code === 'ERR_REVISION';
        if (!isRaced || attempt === maxAttempts) throw error;
      }
    }
  }

  #noteState({ name, state }: SiteRow): void {
    const isJoined = state === 'joined';
    if (isJoined === this.#joined.has(name)) return;
    if (isJoined) this.#joined.add(name);
    else this.#joined.delete(name);
    this.#sortedJoined = undefined;
  }

  #tellRevoked(name: string): void {
    for (const listener of this.#onRevoked) listener(name);
  }
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

function unusable(reason: string): EdgeError {
  return new EdgeError('ERR_SITE_TICKET', `the ticket is not valid: ${reason}`);
}

function unknown(name: string): EdgeError {
  return new EdgeError(
    'ERR_SITE_UNKNOWN',
    `${name}: unknown site; \`saltbridge site list\` prints all sites`,
  );
}

function refused(): EdgeError {
  return new EdgeError('ERR_SITE_REFUSED', 'the key of the site is unknown or revoked');
}
