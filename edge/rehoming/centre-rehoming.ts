/**
 * Moves sites from this centre to another (rehoming). Stores the statements that the root keys have
 * signed, and sends them to the sites. Exports the sites of this centre, and imports the sites of
 * another.
 */

import type { SharedArea, StateOperation } from '#master';
import { codeOf, KeyedMutex } from '#runtime';
import { readRoot } from '../bundles/tuf-metadata.ts';
import { EdgeError } from '../errors.ts';
import type { SiteStatement } from '../identity/site-registry.ts';
import type { LinkCaller } from '../link/link.ts';
import type { CentreContext } from '../parts.ts';
import { isLeaveSignedBy, type LeaveRequest } from './leave-message.ts';
import { giveStatement, siteLeft } from './rehoming-messages.ts';
import type { ExportedSite, ImportedSite, SiteList } from './site-list.ts';
import {
  compileNames,
  maxAheadMs,
  maxSignerAheadMs,
  type NextCentre,
  readStatement,
  type Statement,
  verifyStatement,
} from './statement.ts';
import { type StatementReply, statementReplyRow, statementRow } from './statement-rows.ts';

/** Published statement that moves sites to another centre, as RPC methods return it. */
export interface StatementInfo {
  /** Time of issue, in milliseconds since 1970. `expiresAt` is the end of the validity. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly sites: readonly string[];
  readonly afterSeconds: number;
  /** Id of the next centre. */
  readonly to: string;
  readonly addresses: readonly string[];
  /**
   * Replies of the sites that this statement moves. The state is `waiting` if a site has not
   * replied. Sites that a later statement names are not included.
   */
  readonly replies: readonly StatementReplyInfo[];
}

/** Reply of a site to the latest statement that moves the site to another centre. */
export interface StatementReplyInfo {
  readonly site: string;
  /**
   * Reply of the site to the statement, which moves it to another centre. `waiting`: none yet.
   * `held`: the site has stored the statement. `refused`: the site has rejected it. `used`: the
   * site has already changed its centre because of it. `left`: the site has left this centre.
   */
  readonly state: StatementReply['state'] | 'waiting';
  readonly reason?: string | undefined;
  readonly at?: number | undefined;
}

/** Addresses and TLS options at which sites of another centre will reach this centre. */
export interface OfferRequest {
  readonly addresses: readonly string[];
  readonly ca?: string | undefined;
  readonly behindProxy: boolean;
}

const statementPrefix = ['rehoming', 'statement'];
const replyPrefix = ['rehoming', 'site'];

/** Maximum number of stored statements. Publishing one more deletes the earliest. */
const keptStatements = 100;

interface PublishedStatement {
  readonly text: string;
  readonly statement: Statement;
  readonly names: (site: string) => boolean;
}

/** Services of the centre that {@link CentreRehoming} needs. */
export interface CentreRehomingContext
  extends Pick<CentreContext, 'host' | 'links' | 'publicKey' | 'sites'> {
  readonly trustRoot: () => Promise<Uint8Array | undefined>;
}

export class CentreRehoming {
  readonly #context: CentreRehomingContext;
  readonly #rows: SharedArea;
  /** Published statements, in the order of their times of issue. */
  #statements: readonly PublishedStatement[] = [];
  readonly #replies = new Map<string, StatementReply>();
  /**
   * Serializes the notifications of each site, because a repeated one must not be confirmed while
   * the first may still fail.
   */
  readonly #leaving = new KeyedMutex();

  private constructor(context: CentreRehomingContext) {
    this.#context = context;
    this.#rows = context.host.shared;
  }

  static async open(context: CentreRehomingContext): Promise<CentreRehoming> {
    const rehoming = new CentreRehoming(context);
    await context.host.shared.follow(statementPrefix, (change) => {
      if (change.type === 'put') {
        rehoming.#add(statementRow.decode(change.entry).text);
        rehoming.#giveToAll();
      } else rehoming.#remove(Number(change.key.at(-1)));
    });
    await context.host.shared.follow(replyPrefix, (change) => {
      if (change.type === 'put') {
        const site = change.entry.key.at(-1) ?? '';
        rehoming.#replies.set(site, statementReplyRow.decode(change.entry));
      } else rehoming.#replies.delete(change.key.at(-1) ?? '');
    });
    context.sites.onRevoked((site) => rehoming.#forgetReply(site));
    context.sites.complete({ statementOf: (site) => rehoming.#describeFor(site) });
    context.links.onConnected((site, caller) => rehoming.#give(site, caller));
    context.links.handle(siteLeft, async ({ issuedAt }, { site }) => {
      await rehoming.#leaving.run(site, () => rehoming.#release(site, issuedAt));
      return {};
    });
    return rehoming;
  }

  /**
   * Returns a description of this centre. Another centre puts it into a statement that moves its
   * sites to this centre.
   */
  async describe({ addresses, ca, behindProxy }: OfferRequest): Promise<NextCentre> {
    const root = await this.#requireRoot();
    return {
      id: (await readRoot(root)).centre,
      key: Buffer.from(this.#context.publicKey).toString('base64url'),
      root: Buffer.from(root).toString('base64'),
      addresses: [...addresses],
      behindProxy,
      ...(ca === undefined ? {} : { ca }),
    };
  }

  /**
   * Verifies a statement, stores it, and sends it to the sites that it names. Deletes the stored
   * statements whose time of issue is more than a day ahead: they were signed and published while
   * clocks were ahead, and would take precedence over the new one.
   * @throws EdgeError ERR_BUNDLE_KEYS if this centre has no root keys, and the errors of
   * `verifyStatement`
   */
  async publish(text: string): Promise<StatementInfo> {
    const root = await this.#requireRoot();
    const now = this.#context.host.now();
    const isPast = ({ statement }: PublishedStatement): boolean =>
      statement.issuedAt <= now + maxAheadMs;
    const past = this.#statements.filter(isPast);
    const latest = past.at(-1);
    const { issuedAt } = await verifyStatement(text, {
      root,
      now,
      known: latest?.text,
      floor: latest?.statement.issuedAt ?? 0,
      aheadMs: maxSignerAheadMs,
    });
    const value = statementRow.encode({ text, publishedAt: now });
    const surplus = [
      ...past.slice(0, Math.max(0, 1 - keptStatements + past.length)),
      ...this.#statements.filter((it) => !isPast(it)),
    ];
    await this.#rows.write([
      { op: 'put', key: keyOf(issuedAt), value },
      ...surplus.map(({ statement }) => ({
        op: 'delete' as const,
        key: keyOf(statement.issuedAt),
      })),
    ]);
    for (const { statement } of surplus) this.#remove(statement.issuedAt);
    const added = this.#add(text);
    this.#giveToAll();
    return this.#infoOf(added, this.#latestBySite());
  }

  /** Returns the published statements, the latest first. */
  list(): readonly StatementInfo[] {
    const latest = this.#latestBySite();
    return this.#statements.toReversed().map((it) => this.#infoOf(it, latest));
  }

  /**
   * Returns the sites of this centre with their public keys, so that another centre can import
   * them.
   */
  async export(): Promise<SiteList> {
    const root = await this.#requireRoot();
    return {
      type: 'saltbridge sites 1',
      centre: (await readRoot(root)).centre,
      exportedAt: this.#context.host.now(),
      sites: [...(await this.#context.sites.exportAll())],
    };
  }

  /** Imports sites of another centre, or of an earlier state of this centre. */
  async import(from: string, list: readonly ExportedSite[]): Promise<readonly ImportedSite[]> {
    const own = (await readRoot(await this.#requireRoot())).centre;
    const results: ImportedSite[] = [];
    for (const site of list) {
      results.push(await this.#context.sites.import(from, site, from === own));
    }
    return results;
  }

  /** Returns the latest statement that moves a site to another centre, or `undefined`. */
  #statementFor(site: string): PublishedStatement | undefined {
    return this.#statements.findLast(({ names }) => names(site));
  }

  /** Returns, by the name of each known site, the latest statement that names the site. */
  #latestBySite(): ReadonlyMap<string, PublishedStatement> {
    const found = new Map<string, PublishedStatement>();
    for (const site of this.#context.sites.known) {
      const latest = this.#statementFor(site);
      if (latest !== undefined) found.set(site, latest);
    }
    return found;
  }

  #describeFor(site: string): SiteStatement | undefined {
    const latest = this.#statementFor(site);
    if (latest === undefined) return undefined;
    const { issuedAt, to, afterSeconds } = latest.statement;
    const reply = this.#replies.get(site);
    const state = reply?.issuedAt === issuedAt ? reply.state : 'waiting';
    return { issuedAt, to: to.id, afterSeconds, state };
  }

  #giveToAll(): void {
    for (const site of this.#context.sites.joined) {
      const caller = this.#context.links.callerOf(site);
      if (caller !== undefined) this.#give(site, caller);
    }
  }

  /**
   * Sends a site the latest statement that moves it to another centre. Sends nothing if the
   * statement has expired or the site has already replied to it.
   */
  #give(site: string, caller: LinkCaller): void {
    const latest = this.#statementFor(site);
    const reply = this.#replies.get(site);
    if (latest === undefined || reply?.issuedAt === latest.statement.issuedAt) return;
    if (this.#context.host.now() > latest.statement.expiresAt) return;
    this.#giveOne(site, caller, latest).catch((error: unknown) => {
      if (codeOf(error) === 'ERR_SITE_LINK') return;
      this.#context.host.logger.error(
        { err: error, site },
        'cannot send a site the statement that names its next centre',
      );
    });
  }

  async #giveOne(
    site: string,
    caller: LinkCaller,
    { text, statement: { issuedAt } }: PublishedStatement,
  ): Promise<void> {
    const { host } = this.#context;
    try {
      const { state } = await caller.call(giveStatement, { statement: text }, host.closing);
      await this.#noteReply(site, { issuedAt, state, at: host.now() });
    } catch (error) {
      if (!(error instanceof EdgeError) || !error.code.startsWith('ERR_REHOME')) throw error;
      const reason = `${error.code}: ${error.message}`.slice(0, 1000);
      await this.#noteReply(site, { issuedAt, state: 'refused', reason, at: host.now() });
      host.logger.warn({ err: error, site }, 'a site refused a statement about its next centre');
    }
  }

  /**
   * Handles the notification of a site that it has changed to another centre. A site sends it
   * afterwards if this centre was unreachable during the change. Ignores a repeated notification,
   * because the site may have returned to this centre meanwhile.
   * @throws EdgeError ERR_SITE_REFUSED if the site has not signed the request, and the errors of
   * {@link #release}
   */
  async leave(request: LeaveRequest): Promise<void> {
    const { name, issuedAt } = request;
    const { centre } = await readRoot(await this.#requireRoot());
    await this.#context.sites.requireKey(name, (key) => isLeaveSignedBy(key, request, centre));
    await this.#leaving.run(name, async () => {
      const { leftBy } = this.#replies.get(name) ?? {};
      if (leftBy !== undefined && leftBy >= issuedAt) return;
      await this.#release(name, issuedAt);
    });
  }

  /**
   * Records that a site has changed to another centre. Ends its connection, and refuses its key
   * from now on.
   * @param issuedAt - time of issue of the statement that moved the site
   * @throws EdgeError ERR_REHOME_STATEMENT if there is no such statement, ERR_REHOME_SITE if it
   * does not name the site
   */
  async #release(site: string, issuedAt: number): Promise<void> {
    const { host, sites } = this.#context;
    const found = this.#statements.find(({ statement }) => statement.issuedAt === issuedAt);
    if (found === undefined) {
      const problem = 'this centre has published no statement with this time of issue';
      throw new EdgeError('ERR_REHOME_STATEMENT', problem);
    }
    const { statement, names } = found;
    if (!names(site)) {
      throw new EdgeError('ERR_REHOME_SITE', `the statement does not name the site ${site}`);
    }
    const former = this.#replies.get(site);
    const reply = this.#replyOf(site, { issuedAt, state: 'left', at: host.now() });
    // Set before the release, because the release ends the connection, and `#forgetReply` is called.
    this.#replies.set(site, reply);
    try {
      // In one transaction, because a repeated notification is ignored if this reply is stored.
      await sites.release(site, statement.to.id, [putReply(site, reply)]);
    } catch (error) {
      // If the outcome of the write was unknown, the stored reply may have arrived meanwhile.
      if (this.#replies.get(site) === reply) {
        if (former === undefined) this.#replies.delete(site);
        else this.#replies.set(site, former);
      }
      throw error;
    }
    host.audit.append({
      who: { kind: 'service', name: `site ${site}` },
      action: 'site.rehome',
      what: `${site} to ${statement.to.id}`,
      outcome: 'done',
    });
    host.fire('rehomed', { site, to: statement.to.id });
  }

  async #noteReply(site: string, given: StatementReply): Promise<void> {
    const reply = this.#replyOf(site, given);
    await this.#rows.write([putReply(site, reply)]);
    this.#replies.set(site, reply);
  }

  /** Adds to a reply by which statement its site has left this centre. */
  #replyOf(site: string, given: StatementReply): StatementReply {
    const { leftBy } = this.#replies.get(site) ?? {};
    if (given.state === 'left') return { ...given, leftBy: Math.max(leftBy ?? 0, given.issuedAt) };
    return leftBy === undefined ? given : { ...given, leftBy };
  }

  /**
   * Forgets that a site holds a statement, because its key is not valid any more. If the site joins
   * again, it has no statement. The centre then sends it the latest one.
   */
  #forgetReply(site: string): void {
    const reply = this.#replies.get(site);
    if (reply === undefined || reply.state === 'left') return;
    const { leftBy, at } = reply;
    const key = [...replyPrefix, site];
    this.#replies.delete(site);
    let operation: StateOperation = { op: 'delete', key };
    if (leftBy !== undefined) {
      const left: StatementReply = { issuedAt: leftBy, state: 'left', at, leftBy };
      this.#replies.set(site, left);
      operation = putReply(site, left);
    }
    this.#rows.write([operation]).catch((error: unknown) => {
      this.#context.host.logger.error(
        { err: error, site },
        'cannot delete the reply of a revoked site to a statement; publish the statement again',
      );
    });
  }

  #infoOf(
    published: PublishedStatement,
    latest: ReadonlyMap<string, PublishedStatement>,
  ): StatementInfo {
    const { issuedAt, expiresAt, sites, afterSeconds, to } = published.statement;
    const named = [...latest].flatMap(([site, { statement }]) =>
      statement.issuedAt === issuedAt ? [site] : [],
    );
    const replies = named.map((site): StatementReplyInfo => {
      const reply = this.#replies.get(site);
      if (reply?.issuedAt !== issuedAt) return { site, state: 'waiting' };
      const { state, reason, at } = reply;
      return { site, state, at, ...(reason === undefined ? {} : { reason }) };
    });
    return {
      issuedAt,
      expiresAt,
      sites,
      afterSeconds,
      to: to.id,
      addresses: to.addresses,
      replies,
    };
  }

  #add(text: string): PublishedStatement {
    const { statement } = readStatement(text);
    const added = { text, statement, names: compileNames(statement) };
    this.#remove(statement.issuedAt);
    this.#statements = [...this.#statements, added].toSorted(
      (one, other) => one.statement.issuedAt - other.statement.issuedAt,
    );
    return added;
  }

  #remove(issuedAt: number): void {
    this.#statements = this.#statements.filter((it) => it.statement.issuedAt !== issuedAt);
  }

  async #requireRoot(): Promise<Uint8Array> {
    const root = await this.#context.trustRoot();
    if (root !== undefined) return root;
    const problem = 'the centre has no release keys: run `saltbridge site keys init`';
    throw new EdgeError('ERR_BUNDLE_KEYS', problem);
  }
}

function putReply(site: string, reply: StatementReply): StateOperation {
  return { op: 'put', key: [...replyPrefix, site], value: statementReplyRow.encode(reply) };
}

function keyOf(issuedAt: number): string[] {
  return [...statementPrefix, String(issuedAt).padStart(16, '0')];
}
