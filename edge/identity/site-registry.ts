/**
 * Registry of sites at the centre. It stores each site's ticket, keys, revocation and last contact.
 */

import { createHash, type KeyObject, randomBytes } from 'node:crypto';
import { siteName } from '#config';
import type { ExtensionHost, JoinedSite, ReportedRelease, StateOperation } from '#master';
import { addressOwner } from '#runtime';
import { retryConflicts, tryToWrite, writeInParts } from '#store';
import { EdgeError } from '../errors.ts';
import { type LogClass, logClasses } from '../log/log.ts';
import type { ExportedSite, ImportedSite } from '../rehoming/site-list.ts';
import { contactAgeOf } from './contact-age.ts';
import { isSignedBy } from './ed25519.ts';
import { joinPurpose } from './join-message.ts';
import {
  contactRow,
  endedPrefix,
  hasEnded,
  type LogPosition,
  positionRow,
  type SiteContact,
  type SiteRow,
  siteRow,
  sitesPrefix,
} from './site-rows.ts';
import { readTicket, writeTicket } from './tickets.ts';

/** State of a site, as the RPC methods of the centre return it. */
export interface SiteInfo {
  readonly name: string;
  readonly state: SiteRow['state'];
  /** SHA-256 digest of the public key of the site, in hexadecimal. */
  readonly fingerprint: string | undefined;
  readonly joinedAt: number | undefined;
  /** Former centre of a site that has changed to this centre. */
  readonly from: SiteRow['from'];
  /** Centre to which the site has changed, if the site has left this centre. */
  readonly to: SiteRow['to'];
  /** Latest statement that names another centre for this site, and the reply of the site. */
  readonly statement: SiteStatement | undefined;
  /** Expiry of the site's unused ticket, in milliseconds since 1970. */
  readonly ticketExpiresAt: number | undefined;
  readonly isConnected: boolean;
  /** Member of the cluster to which the site is connected. `undefined` outside a cluster. */
  readonly member: string | undefined;
  /** Time of the last message from the site, in milliseconds since 1970. */
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

/**
 * Signed statement that names the next centre of a site, with the reply that this centre has
 * received.
 */
export interface SiteStatement {
  readonly issuedAt: number;
  /** Id of the next centre. */
  readonly to: string;
  readonly afterSeconds: number;
  /**
   * Reply of the site. `waiting`: it has not replied yet. `held`: it has stored the statement.
   * `refused`: it has rejected the statement. `used`: it has already changed its centre because of
   * the statement. `left`: it has left this centre.
   */
  readonly state: 'waiting' | 'held' | 'refused' | 'used' | 'left';
}

/** New ticket. */
export interface IssuedTicket {
  readonly name: string;
  readonly ticket: string;
  readonly expiresAt: number;
}

/** Result of {@link SiteRegistry.join}. */
export interface SiteJoin {
  /** Name of the site. */
  readonly name: string;
  /** Whether this request stored the key. False if the site has repeated its request. */
  readonly isNew: boolean;
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

/**
 * Data about the present connection of a site. The time of the last contact is in milliseconds
 * since 1970.
 */
export interface SiteConnection {
  readonly lastContactAt: number;
}

/** Functions of other parts of the centre, from whose results {@link SiteInfo} is filled. */
export interface SiteFigures {
  connectionOf(name: string): SiteConnection | undefined;
  /** Returns the running member of the cluster to which a site is connected, or `undefined`. */
  memberOf(name: string): string | undefined;
  releaseOf(name: string): ReportedRelease | undefined;
  /** Returns the latest statement that names another centre for this site, or `undefined`. */
  statementOf(name: string): SiteStatement | undefined;
  waitingOrdersOf(name: string): number;
  /**
   * Returns the sites of a ring (group of sites for releases), or `undefined` if the ring does not
   * exist.
   */
  sitesOfRing(ring: string): readonly string[] | undefined;
}

const contacts = ['centre', 'contact'] as const;
const maxAttempts = 16;

export class SiteRegistry {
  readonly #host: Pick<ExtensionHost, 'now' | 'shared'>;
  readonly #key: KeyObject;
  readonly #onRevoked: ((name: string) => void)[] = [];
  readonly #onArrived: ((site: SiteRow) => void)[] = [];
  readonly #onChanged: ((name: string) => void)[] = [];
  #figures: SiteFigures = {
    connectionOf: () => undefined,
    memberOf: () => undefined,
    releaseOf: () => undefined,
    waitingOrdersOf: () => 0,
    statementOf: () => undefined,
    sitesOfRing: () => undefined,
  };
  readonly #joined = new Set<string>();
  readonly #rehomed = new Set<string>();
  readonly #contacts = new Map<string, SiteContact>();
  /** Sorted names of the sites in `#joined`, or `undefined` if they must be sorted again. */
  #sortedJoined: readonly string[] | undefined;

  private constructor(host: Pick<ExtensionHost, 'now' | 'shared'>, key: KeyObject) {
    this.#host = host;
    this.#key = key;
  }

  /**
   * Reads the stored sites, and follows their changes.
   * @param key - online key of the centre, which signs tickets
   */
  static async open(
    host: Pick<ExtensionHost, 'now' | 'shared'>,
    key: KeyObject,
  ): Promise<SiteRegistry> {
    const registry = new SiteRegistry(host, key);
    await host.shared.follow([...sitesPrefix], (change) => {
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

  /**
   * Registers functions that supply the fields of {@link SiteInfo} that this registry does not
   * store.
   */
  complete(figures: Partial<SiteFigures>): void {
    this.#figures = { ...this.#figures, ...figures };
  }

  /**
   * Calls the listener when a key of a site becomes invalid. This happens if the site is revoked,
   * leaves this centre, or receives another key through a ticket or an import.
   */
  onRevoked(listener: (name: string) => void): void {
    this.#onRevoked.push(listener);
  }

  /** Calls the listener after the first connection of a site that was imported. */
  onArrived(listener: (site: SiteRow) => void): void {
    this.#onArrived.push(listener);
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
   * @param proof - signature of the ticket, made with the private key of the site
   * @throws EdgeError ERR_SITE_TICKET
   */
  async join(ticketText: string, key: Uint8Array, proof: Uint8Array): Promise<SiteJoin> {
    const ticket = readTicket(ticketText);
    if (!isSignedBy(key, joinPurpose, [Buffer.from(ticketText)], proof)) {
      throw new EdgeError(
        'ERR_SITE_TICKET',
        'the request is not signed with the key that it contains',
      );
    }
    const { name, id } = ticket;
    const now = this.#host.now();
    let isNew = true;
    const replaced = await this.#change(name, (site) => {
      isNew = true;
      const known = site?.ticket;
      if (site === undefined || known?.id !== id) throw unusable('it was replaced or revoked');
      if (now > known.expiresAt) throw unusable('it has expired');
      if (known.usedBy !== undefined) {
        if (isEqual(known.usedBy, key)) {
          isNew = false;
          return site;
        }
        throw unusable('another key has already used it');
      }
      return {
        name,
        state: 'joined',
        key: Buffer.from(key),
        joinedAt: now,
        ...(site.revokedAt === undefined ? {} : { revokedAt: site.revokedAt }),
        ticket: { ...known, usedBy: Buffer.from(key) },
      };
    });
    if (isNew && replaced?.key !== undefined && !isEqual(replaced.key, key)) {
      this.#tellRevoked(name);
    }
    return { name, isNew };
  }

  /**
   * Checks that a site may connect. If the site signs with a key that it has offered as its next
   * key, this key replaces the former key.
   * @param prove - whether a public key verifies the signature of the handshake
   * @throws EdgeError ERR_SITE_REFUSED
   */
  async authenticate(name: string, prove: (key: Uint8Array) => boolean): Promise<void> {
    const site = await this.#read(name);
    if (site === undefined || !mayConnect(site) || site.key === undefined) throw refused();
    const { key: known, nextKey, state } = site;
    const isPresent = prove(known);
    if (isPresent && state === 'joined') return;
    if (!isPresent && (nextKey === undefined || !prove(nextKey))) throw refused();
    let isChanged = false;
    const change = this.#change(name, (now) => {
      const isSame = now?.state === state && now.key !== undefined && isEqual(now.key, known);
      isChanged = !isSame;
      if (!isSame) throw refused();
      const { nextKey: next, ...rest } = now;
      const arrived = state === 'expected' ? this.#arrived(now) : {};
      if (isPresent) return { ...now, ...arrived };
      if (next === undefined || nextKey === undefined || !isEqual(next, nextKey)) throw refused();
      return { ...rest, ...arrived, key: nextKey };
    });
    try {
      await change;
    } catch (error) {
      if (!isChanged) throw error;
      // Another connection of the site may have made the same change.
      return this.authenticate(name, prove);
    }
    if (state !== 'expected') return;
    const arrived = await this.#read(name);
    if (arrived !== undefined) for (const listener of this.#onArrived) listener(arrived);
  }

  /**
   * Checks that a site has signed a request with its present key, or with the key that it has
   * offered as its next key.
   * @param prove - returns whether the signature of the request is valid for a public key
   * @throws EdgeError ERR_SITE_REFUSED
   */
  async requireKey(name: string, prove: (key: Uint8Array) => boolean): Promise<void> {
    const site = await this.#read(name);
    const keys = [site?.key, site?.nextKey];
    if (!keys.some((key) => key !== undefined && prove(key))) throw refused();
  }

  /**
   * Stores the key that a site has offered. The present key stays valid until the site first
   * connects with the offered key. Writes nothing if the site has already offered this key.
   */
  async offerKey(name: string, nextKey: Uint8Array): Promise<void> {
    await this.#change(name, (site) => {
      if (site?.state !== 'joined') throw refused();
      if (site.nextKey !== undefined && isEqual(site.nextKey, nextKey)) return site;
      return { ...site, nextKey: Buffer.from(nextKey) };
    });
  }

  /**
   * Revokes a site, and ends its connection.
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
   * Returns the names and public keys of all sites that may connect, so that another centre can
   * import them.
   */
  async exportAll(): Promise<readonly ExportedSite[]> {
    const found: ExportedSite[] = [];
    for await (const entry of this.#host.shared.list([...sitesPrefix])) {
      const { name, state, key, nextKey } = siteRow.decode(entry);
      if (key === undefined || (state !== 'joined' && state !== 'expected')) continue;
      const next = nextKey === undefined ? {} : { nextKey: textOf(nextKey) };
      found.push({ name, key: textOf(key), ...next });
    }
    return found;
  }

  /**
   * Imports a site of another centre. The site may connect with its key from now on. Refuses the
   * site if this centre has revoked it, or already has a joined site with this name and another
   * key.
   * @param from - id of the other centre
   * @param isOwn - whether this centre itself made the export, for example before it was restored
   * from a backup. A joined site with another key then gets the exported keys, and is not refused
   */
  async import(from: string, exported: ExportedSite, isOwn: boolean): Promise<ImportedSite> {
    const { name } = exported;
    if (!siteName.test(name)) return { name, result: 'refused', reason: 'invalid name of a site' };
    const key = Buffer.from(exported.key, 'base64url');
    const next = exported.nextKey;
    const keys = { key, ...(next && { nextKey: Buffer.from(next, 'base64url') }) };
    let outcome: ImportedSite = { name, result: 'imported' };
    const former = await this.#change(name, (site = { name, state: 'invited' }) => {
      const { state, nextKey: _, ...rest } = site;
      outcome = { name, result: 'imported' };
      if (state === 'revoked') {
        outcome = { name, result: 'refused', reason: 'this centre has revoked the site' };
        return site;
      }
      if (state === 'joined') {
        const isKnown = site.key !== undefined && isEqual(site.key, key);
        if (isOwn && !isKnown) return { ...rest, ...keys, state };
        const reason = 'this centre has another site with this name';
        outcome = isKnown ? { name, result: 'unchanged' } : { name, result: 'refused', reason };
        return site;
      }
      return { name, ...keys, state: 'expected', from: { centre: from } };
    });
    if (former?.state === 'joined' && outcome.result === 'imported') this.#tellRevoked(name);
    return outcome;
  }

  /**
   * Records that a site has changed to another centre. Ends its connection, and refuses its key
   * from now on.
   * @param to - id of the other centre
   * @param operations - operations to execute in the same transaction. Default: none
   */
  async release(
    name: string,
    to: string,
    operations: readonly StateOperation[] = [],
  ): Promise<void> {
    const leave = (site: SiteRow | undefined): SiteRow => {
      if (site?.state !== 'joined') throw refused();
      const { nextKey: _, ...rest } = site;
      return { ...rest, state: 'rehomed', to: { centre: to, at: this.#host.now() } };
    };
    await this.#change(name, leave, operations);
    this.#tellRevoked(name);
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

  /**
   * Returns the names of the sites that were revoked or have left this centre, and whose data must
   * still be deleted.
   */
  async ended(): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const { key } of this.#host.shared.list([...endedPrefix])) {
      names.push(key.at(-1) ?? '');
    }
    return names;
  }

  /**
   * Deletes the data of a site that was revoked or has left this centre. Does nothing if the site
   * has another state. If the process ends before the deletion is complete, {@link ended} returns
   * the site again.
   * @param forget - deletes the data
   */
  async forgetEnded(name: string, forget: () => Promise<void>): Promise<void> {
    const site = await this.#read(name);
    if (site === undefined || !hasEnded(site)) return;
    const key = [...endedPrefix, name];
    const entry = await this.#host.shared.get(key);
    await forget();
    if (entry === undefined) return;
    // If the site was revoked again meanwhile, its data are deleted again.
    await tryToWrite(this.#host.shared, [{ op: 'delete', key, ifRevision: entry.revision }]);
  }

  /** Returns all sites, in the order of their names. */
  async list(): Promise<readonly SiteInfo[]> {
    const found: SiteInfo[] = [];
    for await (const entry of this.#host.shared.list([...sitesPrefix])) {
      found.push(await this.#infoOf(siteRow.decode(entry)));
    }
    return found;
  }

  /** Names of the sites that have joined or have another centre now, sorted. */
  get known(): readonly string[] {
    return [...this.#joined, ...this.#rehomed].sort();
  }

  /**
   * Names of all sites that have joined, sorted. If a site joins or leaves, the array is replaced,
   * not changed.
   */
  get joined(): readonly string[] {
    this.#sortedJoined ??= [...this.#joined].sort();
    return this.#sortedJoined;
  }

  /** Whether a site has joined. Does not read the store. */
  isJoined(name: string): boolean {
    return this.#joined.has(name);
  }

  /**
   * Returns the time of the last contact with a site, in milliseconds since 1970. It is up to five
   * minutes old if the site is connected to another member of the cluster.
   */
  lastContactAt(name: string): number | undefined {
    return this.#figures.connectionOf(name)?.lastContactAt ?? this.#contacts.get(name)?.at;
  }

  /**
   * Returns the names of the joined sites in a ring. A ring is a group of sites for releases. An
   * unknown ring has no sites.
   */
  membersOfRing(ring: string): readonly string[] {
    return this.#figures.sitesOfRing(ring) ?? [];
  }

  /**
   * Returns the states of all joined sites, in the order of their names. Does not read the store.
   */
  overview(): readonly JoinedSite[] {
    const now = this.#host.now();
    const { releaseOf } = this.#figures;
    return this.joined.map((name) => {
      const lastContactAt = this.lastContactAt(name);
      return {
        name,
        isConnected: this.#isConnected(name),
        lastContactAt,
        contactAge: contactAgeOf(lastContactAt, now),
        version: this.#contacts.get(name)?.version,
        release: releaseOf(name),
      };
    });
  }

  /**
   * Stores the time and details of the last contact with sites.
   * @param noted - contacts by the name of the site
   */
  async noteContacts(noted: ReadonlyMap<string, SiteContact>): Promise<void> {
    const operations = [...noted].map(([name, contact]): StateOperation => {
      return { op: 'put', key: [...contacts, name], value: contactRow.encode(contact) };
    });
    await writeInParts(this.#host.shared, operations);
    for (const [name, contact] of noted) this.#contacts.set(name, contact);
  }

  /**
   * Whether a site has joined, and was last admitted from this client address.
   * @param owner - client address, see {@link addressOwner}
   */
  isLastAddress(name: string, owner: string): boolean {
    const contact = this.#contacts.get(name);
    if (contact === undefined || !this.#joined.has(name)) return false;
    return addressOwner(contact.address) === owner;
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
    const { releaseOf, waitingOrdersOf } = this.#figures;
    return {
      name,
      state,
      fingerprint: key && createHash('sha256').update(key).digest('hex'),
      joinedAt,
      from: site.from,
      to: site.to,
      statement: this.#figures.statementOf(name),
      ticketExpiresAt: ticket?.usedBy === undefined ? ticket?.expiresAt : undefined,
      isConnected: this.#isConnected(name),
      member: this.#figures.memberOf(name),
      lastContactAt: this.lastContactAt(name),
      version: contact?.version,
      address: contact?.address,
      clockDifferenceMs: contact?.clockDifferenceMs,
      log,
      release: releaseOf(name),
      waitingOrders: waitingOrdersOf(name),
    };
  }

  #isConnected(name: string): boolean {
    const { connectionOf, memberOf } = this.#figures;
    return connectionOf(name) !== undefined || memberOf(name) !== undefined;
  }

  async #read(name: string): Promise<SiteRow | undefined> {
    if (!siteName.test(name)) return undefined;
    const entry = await this.#host.shared.get([...sitesPrefix, name]);
    return entry && siteRow.decode(entry);
  }

  /**
   * Replaces the stored row of a site by the result of `change`, and returns the former row. Writes
   * nothing if the result is the former row itself.
   * Repeats this if another member of the cluster has changed the row meanwhile.
   * @param operations - operations to execute in the same transaction
   */
  async #change(
    name: string,
    change: (site: SiteRow | undefined) => SiteRow,
    operations: readonly StateOperation[] = [],
  ): Promise<SiteRow | undefined> {
    const key = [...sitesPrefix, name];
    return retryConflicts(async () => {
      const entry = await this.#host.shared.get(key);
      const known = entry && siteRow.decode(entry);
      const changed = change(known);
      if (changed === known) return known;
      const value = siteRow.encode(changed);
      const ifRevision = entry?.revision ?? 0;
      const ended = [...endedPrefix, name];
      await this.#host.shared.write([
        { op: 'put', key, value, ifRevision },
        hasEnded(changed)
          ? { op: 'put', key: ended, value: new Uint8Array(0) }
          : { op: 'delete', key: ended },
        ...operations,
      ]);
      // In a cluster, `follow` reports this change, and later changes in their order.
      if (this.#host.shared.cluster === undefined) this.#noteState(changed);
      return known;
    }, maxAttempts);
  }

  /**
   * Returns the changed fields of a site that was imported from another centre and now connects for
   * the first time.
   */
  #arrived({ from }: SiteRow): Partial<SiteRow> {
    const at = this.#host.now();
    return { state: 'joined', joinedAt: at, ...(from && { from: { ...from, at } }) };
  }

  #noteState({ name, state }: SiteRow): void {
    if (state === 'rehomed') this.#rehomed.add(name);
    else this.#rehomed.delete(name);
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

/** Returns whether a site in this state may connect with its key. */
function mayConnect({ state }: Pick<SiteRow, 'state'>): boolean {
  return state === 'joined' || state === 'expected';
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key).toString('base64url');
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
