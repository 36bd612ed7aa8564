/**
 * Orders at the centre. The centre issues orders, sends them to sites, and stores the results that
 * sites report.
 */

import { isAllowed, isUnlimited, type Question, rulesInForce, type UserSubject } from '#acl';
import {
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  requireInert,
  type StateOperation,
  workBudgetOf,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { compileSchema, LimitExceeded, tryParseJson, type WorkBudget } from '#runtime';
import { retryConflicts, writeInParts } from '#store';
import { compileGlob } from '#template/python/fnmatch.ts';
import { EdgeError } from '../errors.ts';
import { type FactsBasis, resolveFacts } from '../facts/facts-target.ts';
import { edgeLimits } from '../limits.ts';
import type { LinkCaller } from '../link/link.ts';
import type { LogEntry } from '../log/log.ts';
import type { CentreContext } from '../parts.ts';
import { maxTargets, type Order, type OrderWork, writeOrder } from './order.ts';
import { giveOrder } from './order-messages.ts';
import {
  noResults,
  type OrderResult,
  OrderResultSchema,
  type OrderRow,
  type OrderSiteRow,
  type OrderState,
  orderRow,
  orderSiteRow,
  orderStates,
  queuedOrderRow,
} from './order-rows.ts';
import { type WaitingOrder, WaitingOrders } from './waiting-orders.ts';

/** Request to issue an order. */
export interface OrderRequest {
  /** Sites that get the order: names, globs that match names, and rings (`ring:<name>`). */
  readonly sites: readonly string[];
  readonly work: OrderWork;
  /**
   * Compound target that the centre itself evaluates, with the facts that the sites have reported.
   * The order then lists the ids of the matching minions. Permitted only if the work is a job or a
   * command whose own target is `*`.
   */
  readonly facts?: string | undefined;
  /** Time for which the order is valid, in seconds. */
  readonly validSeconds: number;
  /**
   * Returns the user who issues the order, with the current groups. Throws if the token of the user
   * has ended. `undefined`: the operator at the local socket issues the order.
   */
  readonly by: (() => UserSubject) | undefined;
}

/** Order with the number of sites in each state. */
export interface OrderInfo extends OrderRow {
  readonly id: string;
  readonly counts: Readonly<Record<OrderState, number>>;
}

/** Order with the result of each site. */
export interface OrderReport extends OrderInfo {
  readonly sites: readonly SiteOrderInfo[];
}

/** Result of an order at one site. */
export interface SiteOrderInfo extends OrderResult {
  readonly site: string;
  /** Time of the last change of this result, in milliseconds since 1970. */
  readonly at: number;
  /**
   * Time of the last contact with the site, in milliseconds since 1970. Present only if the site
   * has not received the order yet, and has been connected before.
   */
  readonly notReachedSince?: number | undefined;
  /** Ticket of the machine, if the order is an enrolment. */
  readonly ticket?: string;
}

/** Storage time of an order after its validity has ended, in milliseconds: 30 days. */
const retentionMs = 30 * 86_400_000;

const pruneIntervalMs = 3_600_000;

/** Interval at which waiting orders whose validity has ended get the state `expired`. */
const expireIntervalMs = 60_000;

/**
 * Maximum number of attempts to store the state of an order while other members of the cluster
 * change it.
 */
const maxAttempts = 16;

/** Reason in the result of an order whose site was revoked or has left. */
const goneReason =
  'the site was revoked or has left this centre before it reported the result of the order';

/** Name of the caller in orders that are issued over the local socket. */
const operator = 'operator';

/**
 * Prefix that marks the name of a ring in an order's list of sites. Names of sites contain no `:`.
 */
const ringPrefix = 'ring:';

const resultCheck = compileSchema(OrderResultSchema);

/** Maximum length of the ticket in the result of an order, in characters. */
const { perOwner: maxTicketLength = 0 } = edgeLimits.ticketCharacters;

/** Issues orders, sends them to sites, and stores the results. */
export class CentreOrders {
  readonly #context: CentreContext;
  readonly #host: ExtensionHost;
  readonly #queued = new WaitingOrders();
  /** Connections over which orders are being sent, by site. */
  readonly #giving = new Map<string, LinkCaller>();
  readonly #listeners = new Set<(id: string) => void>();
  #pruning: NodeJS.Timeout | undefined;
  #expiring: NodeJS.Timeout | undefined;

  constructor(context: CentreContext) {
    this.#context = context;
    this.#host = context.host;
  }

  /**
   * Number of orders that their sites have not received yet. An order for two sites counts twice.
   */
  get waiting(): number {
    return this.#queued.size;
  }

  /** Number of orders that a site has not received yet. */
  waitingFor(site: string): number {
    return this.#queued.sizeFor(site);
  }

  async start(): Promise<void> {
    const { shared } = this.#host;
    // Other members receive results too.
    if (shared.cluster !== undefined) {
      await shared.follow(['order-sites'], (change) => {
        const [, id = ''] = change.type === 'put' ? change.entry.key : change.key;
        this.notify(id);
      });
    }
    await shared.follow(['order-queue'], (change) => {
      const [, site = '', id = ''] = change.type === 'put' ? change.entry.key : change.key;
      if (change.type === 'put') this.#enqueue(site, id, queuedOrderRow.decode(change.entry));
      else this.#queued.remove(site, id);
    });
    await this.#prune();
    this.#expiring = setInterval(() => {
      this.#expireWaiting().catch((error: unknown) =>
        this.#host.logger.error(
          { err: error },
          'cannot store that orders to sites have expired; retrying in a minute',
        ),
      );
    }, expireIntervalMs);
    this.#expiring.unref();
    this.#pruning = setInterval(() => {
      this.#prune().catch((error: unknown) =>
        this.#host.logger.error(
          { err: error },
          'cannot delete old orders to sites; retrying in an hour',
        ),
      );
    }, pruneIntervalMs);
    this.#pruning.unref();
  }

  close(): void {
    clearInterval(this.#pruning);
    clearInterval(this.#expiring);
  }

  /**
   * Calls the listener with the order's id after each change of an order, until the signal is
   * aborted.
   */
  onChange(listener: (id: string) => void, until: AbortSignal): void {
    this.#listeners.add(listener);
    until.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }

  notify(id: string): void {
    for (const listener of this.#listeners) listener(id);
  }

  /**
   * Issues an order to sites. Resolves when the order is stored.
   * @throws EdgeError ERR_SITE_UNKNOWN if a name matches no site, ERR_ORDER_INVALID if the order
   * cannot be sent
   * @throws AuthorizationError ERR_DENIED; the error of `by` if the token has ended
   * @throws MasterError ERR_ARGS, ERR_BAD_TGT
   * @throws WorkLimitExceeded
   * @throws LimitExceeded if too many orders wait for each of the sites. If only some sites have too
   * many, these sites get the state `refused`
   */
  async issue({ sites: wanted, work, validSeconds, by, facts }: OrderRequest): Promise<OrderInfo> {
    // Check the rights first, so that the facts of other sites cannot influence the result.
    const user = by?.();
    const rights = this.#rightsOf(user);
    const budget = workBudgetOf(user && { who: actorOf(user) });
    const named = await this.#sitesOf(wanted, user, work, budget);
    this.#requireInert(user, work);
    const { sites, workOf, basis } = await this.#select(named, work, facts, budget);
    const name = user?.name ?? operator;
    const full = await this.#fullSites(sites, name, budget);
    const id = await this.#host.freshJid();
    // The token may have ended meanwhile, or the rights may have changed. Each decision counts
    // towards the rate limit of its rule, so equal rights are not judged twice.
    const userNow = by?.();
    const rightsNow = this.#rightsOf(userNow);
    if (rights.some((each, index) => each !== rightsNow[index])) {
      for (const site of sites) this.#requireRight(userNow, site, work, budget);
      this.#requireInert(userNow, work);
    }
    const issuedAt = this.#host.now();
    const row = {
      by: name,
      work,
      issuedAt,
      validUntil: issuedAt + validSeconds * 1000,
      ...(basis === undefined ? {} : { basis }),
    };
    const issuer = { name: row.by, groups: [...(userNow?.groups ?? [])] };
    const queued = sites.flatMap((site) => {
      const { validUntil } = row;
      if (full.has(site)) return [this.#refusalOperation(id, site)];
      const order: Order = { id, site, by: issuer, work: workOf(site), issuedAt, validUntil };
      return this.#queueOperations(order, writeOrder(order, this.#context.sign));
    });
    await writeInParts(this.#host.shared, [
      { op: 'put', key: ['orders', id], value: orderRow.encode(row) },
      ...queued,
    ]);
    for (const site of sites) {
      if (!full.has(site)) this.#enqueue(site, id, { by: name, validUntil: row.validUntil });
    }
    // A site may have been revoked while the order was stored.
    const joined = new Set(this.#context.sites.joined);
    for (const site of sites) if (!joined.has(site)) await this.#dropWaiting(site);
    this.#host.logger.info(
      { order: id, kind: work.kind, by: row.by, sites: sites.length },
      'issued an order',
    );
    return this.#infoOf(id, row, await this.#siteRows(id));
  }

  /** Returns the latest orders, at most `limit`, the latest first. */
  async list(limit: number): Promise<readonly OrderInfo[]> {
    const found: OrderInfo[] = [];
    for await (const entry of this.#host.shared.list(['orders'], { reverse: true, limit })) {
      const id = entry.key.at(-1) ?? '';
      found.push(this.#infoOf(id, orderRow.decode(entry), await this.#siteRows(id)));
    }
    return found;
  }

  /**
   * Returns an order with the result of each site.
   * @throws EdgeError ERR_ORDER_UNKNOWN
   */
  async show(id: string): Promise<OrderReport> {
    const entry = /^\d{20}$/.test(id) ? await this.#host.shared.get(['orders', id]) : undefined;
    if (entry === undefined) {
      throw new EdgeError(
        'ERR_ORDER_UNKNOWN',
        `${id}: unknown order; run saltbridge site orders to see all orders`,
      );
    }
    const row = orderRow.decode(entry);
    const rows = await this.#siteRows(id);
    const sites = await Promise.all(
      [...rows].map(async ([site, { result, at, ticket }]) => ({
        ...this.#presentResult(result, row),
        site,
        at,
        ...(result.state === 'waiting' ? { notReachedSince: await this.#lastContact(site) } : {}),
        ...(ticket === undefined ? {} : { ticket: this.#unseal(ticket) }),
      })),
    );
    return { ...this.#infoOf(id, row, rows), sites };
  }

  /**
   * Sends the waiting orders to a site. Has no effect while an earlier call for the same connection
   * is in progress.
   */
  giveAll(site: string, caller: LinkCaller): void {
    if (this.#giving.get(site) === caller || this.waitingFor(site) === 0) return;
    this.#giving.set(site, caller);
    this.#giveEach(site, caller)
      .catch((error: unknown) => {
        const code = error instanceof Error && 'code' in error ? error.code : undefined;
        if (code === 'ERR_SITE_LINK') return;
        this.#host.logger.error({ err: error, site }, 'cannot send the waiting orders to a site');
      })
      .finally(() => {
        if (this.#giving.get(site) === caller) this.#giving.delete(site);
      });
  }

  /**
   * Ends all orders of a site that was revoked or has left this centre. Orders that the site has
   * not received get the state `refused`, and orders that run there get the state `failed`. If the
   * site joins again, it does not get these orders, and cannot report results of them.
   */
  async drop(site: string): Promise<void> {
    await this.#dropWaiting(site);
    for await (const { key } of this.#host.shared.list(['orders'])) {
      const id = key.at(-1) ?? '';
      if (await this.#endRunning(site, id)) this.notify(id);
    }
  }

  async #dropWaiting(site: string): Promise<void> {
    for (const id of [...this.#queued.of(site).keys()]) {
      await this.#settle(site, id, { ...noResults, state: 'refused', reason: goneReason });
    }
  }

  /** Ends an order that runs at a site. Returns whether it did. */
  async #endRunning(site: string, id: string): Promise<boolean> {
    const key = ['order-sites', id, site];
    const entry = await this.#host.shared.get(key);
    if (entry === undefined || orderSiteRow.decode(entry).result.state !== 'running') return false;
    const result: OrderResult = { ...noResults, state: 'failed', reason: goneReason };
    const value = orderSiteRow.encode({ result, at: this.#host.now() });
    await this.#host.shared.write([{ op: 'put', key, value, ifRevision: entry.revision }]);
    return true;
  }

  /**
   * Returns the store operations for a result that a site reports. Only the first result of a site
   * has an effect.
   * @throws EdgeError ERR_SITE_MESSAGE if the result or its ticket is invalid
   */
  async operationsOf({ site, value }: LogEntry): Promise<readonly StateOperation[]> {
    const { id, result: text, ticket } = value;
    if (typeof id !== 'string' || typeof text !== 'string' || !/^\d{20}$/.test(id)) {
      throw new EdgeError('ERR_SITE_MESSAGE', 'the result of an order is malformed');
    }
    const key = ['order-sites', id, site];
    const entry = await this.#host.shared.get(key);
    // Ignore results of orders that the centre has not sent to this site.
    if (entry === undefined) return [];
    const known = orderSiteRow.decode(entry);
    if (isFinal(known.result)) return [];
    const result = parseResult(id, text);
    const row: OrderSiteRow = {
      result,
      at: this.#host.now(),
      ...(ticket === undefined ? {} : { ticket: this.#seal(await this.#checkTicket(id, ticket)) }),
    };
    return [
      { op: 'put', key, value: orderSiteRow.encode(row) },
      { op: 'delete', key: ['order-queue', site, id] },
    ];
  }

  /**
   * Returns the ticket in the result of an order.
   * @throws EdgeError ERR_SITE_MESSAGE if it is too long, or the order is not an enrolment
   */
  async #checkTicket(id: string, ticket: WireValue): Promise<string> {
    if (typeof ticket !== 'string' || ticket.length > maxTicketLength) {
      const problem = `the ticket must be a text of at most ${maxTicketLength} characters`;
      throw new EdgeError('ERR_SITE_MESSAGE', `result of the order ${id}: ${problem}`);
    }
    const entry = await this.#host.shared.get(['orders', id]);
    if (entry !== undefined && orderRow.decode(entry).work.kind === 'enrol') return ticket;
    const problem = 'it has a ticket, but the order is not an enrolment';
    throw new EdgeError('ERR_SITE_MESSAGE', `result of the order ${id}: ${problem}`);
  }

  async #giveEach(site: string, caller: LinkCaller): Promise<void> {
    for (;;) {
      const [id] = this.#queued.of(site).keys();
      if (id === undefined) return;
      await this.#give(site, id, caller);
    }
  }

  async #give(site: string, id: string, caller: LinkCaller): Promise<void> {
    const key = ['order-queue', site, id];
    const entry = await this.#host.shared.get(key);
    if (entry === undefined) {
      this.#queued.remove(site, id);
      return;
    }
    const { text, validUntil } = queuedOrderRow.decode(entry);
    if (this.#host.now() >= validUntil) {
      await this.#settle(site, id, { ...noResults, state: 'expired' });
      return;
    }
    const { state, reason } = await caller.call(giveOrder, { order: text });
    const result: OrderResult =
      state === 'accepted'
        ? { ...noResults, state: 'running' }
        : { ...noResults, state: 'refused', reason: reason ?? 'refused by the site' };
    await this.#settle(site, id, result);
  }

  /**
   * Stores the state of an order after the reply of the site, or after the order has expired. Does
   * nothing if the result of the order has already arrived.
   */
  async #settle(site: string, id: string, result: OrderResult): Promise<void> {
    // The result may arrive meanwhile, or another member of the cluster may store a state.
    await retryConflicts(() => this.#storeState(site, id, result), maxAttempts);
    this.#queued.remove(site, id);
    this.notify(id);
  }

  async #storeState(site: string, id: string, result: OrderResult): Promise<void> {
    const key = ['order-sites', id, site];
    const entry = await this.#host.shared.get(key);
    const known = entry && orderSiteRow.decode(entry);
    const at = this.#host.now();
    const isFirst = entry !== undefined && known?.result.state === 'waiting';
    await this.#host.shared.write([
      ...(isFirst
        ? [
            {
              op: 'put' as const,
              key,
              value: orderSiteRow.encode({ result, at }),
              ifRevision: entry.revision,
            },
          ]
        : []),
      { op: 'delete', key: ['order-queue', site, id] },
    ]);
  }

  #refusalOperation(id: string, site: string): StateOperation {
    const reason = 'too many orders wait for this site; retry when it is connected';
    const result: OrderResult = { ...noResults, state: 'refused', reason };
    const value = orderSiteRow.encode({ result, at: this.#host.now() });
    return { op: 'put', key: ['order-sites', id, site], value };
  }

  #queueOperations({ id, site, validUntil, by }: Order, text: string): readonly StateOperation[] {
    const result: OrderResult = { ...noResults, state: 'waiting' };
    const row = orderSiteRow.encode({ result, at: this.#host.now() });
    const value = queuedOrderRow.encode({ text, validUntil, by: by.name });
    return [
      { op: 'put', key: ['order-sites', id, site], value: row },
      { op: 'put', key: ['order-queue', site, id], value },
    ];
  }

  #enqueue(site: string, id: string, { by, validUntil }: WaitingOrder): void {
    this.#queued.add(site, id, { by, validUntil });
    const caller = this.#context.links.callerOf(site);
    if (caller !== undefined) this.giveAll(site, caller);
  }

  /**
   * Selects the sites that get the order, and the minions at each site. If the order has a target,
   * selects the minions whose facts match it, and the sites of these minions. Without a target,
   * selects all sites in `named`.
   * @throws EdgeError ERR_ORDER_INVALID
   * @throws MasterError ERR_BAD_TGT
   * @throws WorkLimitExceeded
   */
  async #select(
    named: readonly string[],
    work: OrderWork,
    target: string | undefined,
    budget: WorkBudget,
  ): Promise<{
    readonly sites: readonly string[];
    readonly workOf: (site: string) => OrderWork;
    readonly basis?: FactsBasis;
  }> {
    if (target === undefined) return { sites: named, workOf: () => work };
    if (work.kind === 'plan' || work.kind === 'enrol' || work.tgt !== '*') {
      const problem = 'only a job or command with the target * can have a target over facts';
      throw new EdgeError('ERR_ORDER_INVALID', problem);
    }
    const minions = await this.#context.facts.ofSites(named);
    const { nodegroups } = this.#host.reloadable();
    const request = { target, sites: named, minions, nodegroups, budget };
    const { bySite, basis } = await resolveFacts(request);
    for (const [site, { length }] of [...bySite].filter(([, ids]) => ids.length > maxTargets)) {
      const problem = `${length} minions of ${site} match, more than ${maxTargets}`;
      throw new EdgeError(
        'ERR_ORDER_INVALID',
        `facts target: ${problem}; use a target at the sites (-T compound)`,
      );
    }
    const workOf = (site: string): OrderWork => {
      return { ...work, tgt: [...(bySite.get(site) ?? [])], tgtType: 'list' };
    };
    return { sites: [...bySite.keys()].sort(), workOf, basis };
  }

  /**
   * Returns the names of the joined sites that the given names, globs and rings match. For a user,
   * globs and rings match only sites for which the policy permits the order, so that the result
   * reveals nothing about other sites.
   * @param subject - `undefined`: the operator, who may issue all orders
   * @throws EdgeError ERR_SITE_UNKNOWN if a name, glob or ring matches no site
   * @throws AuthorizationError ERR_DENIED
   * @throws WorkLimitExceeded
   */
  async #sitesOf(
    wanted: readonly string[],
    subject: UserSubject | undefined,
    work: OrderWork,
    budget: WorkBudget,
  ): Promise<readonly string[]> {
    const { joined } = this.#context.sites;
    const known = new Set(joined);
    const patterns = [...new Set(wanted)];
    const permitted = patterns.every(isSiteName)
      ? known
      : await this.#permittedSites(joined, subject, work, budget);
    const found = new Set<string>();
    const named = new Set<string>();
    for (const pattern of patterns) {
      const isName = isSiteName(pattern);
      const sites = await this.#matchesOf(pattern, isName ? known : permitted, budget);
      // A denial must not depend on whether a site with this name exists.
      if (isName || sites.length === 0) this.#requireRight(subject, pattern, work, budget);
      if (sites.length === 0) throw noSite(pattern);
      if (isName) named.add(pattern);
      for (const site of sites) found.add(site);
    }
    for (const site of found) {
      if (budget.isSliceOver) await budget.giveWay();
      if (!named.has(site)) this.#requireRight(subject, site, work, budget);
    }
    return [...found];
  }

  /** Returns the sites for which the policy permits the order. */
  async #permittedSites(
    sites: readonly string[],
    subject: UserSubject | undefined,
    work: OrderWork,
    budget: WorkBudget,
  ): Promise<ReadonlySet<string>> {
    if (subject === undefined) return new Set(sites);
    const policy = this.#host.policy();
    const permitted = new Set<string>();
    for (const site of sites) {
      if (budget.isSliceOver) await budget.giveWay();
      budget.spend('the rights of an order', stepsOfDecision);
      if (isAllowed(questionOf(subject, site, work), policy)) permitted.add(site);
    }
    return permitted;
  }

  /** Returns those of the given sites that match a pattern: a name, a glob or a ring. */
  async #matchesOf(
    pattern: string,
    sites: ReadonlySet<string>,
    budget: WorkBudget,
  ): Promise<readonly string[]> {
    if (budget.isSliceOver) await budget.giveWay();
    if (isSiteName(pattern)) return sites.has(pattern) ? [pattern] : [];
    if (pattern.startsWith(ringPrefix)) {
      const ring = pattern.slice(ringPrefix.length);
      return this.#context.sites.membersOfRing(ring).filter((site) => sites.has(site));
    }
    const matches = compileGlob(pattern, budget);
    const matching: string[] = [];
    for (const site of sites) {
      if (budget.isSliceOver) await budget.giveWay();
      if (matches(site)) matching.push(site);
    }
    return matching;
  }

  /**
   * Checks that the policy permits a user to issue this order.
   * @param site - name of a site, or the glob or ring that the user has given
   * @throws AuthorizationError ERR_DENIED with the reason of the policy
   */
  #requireRight(
    subject: UserSubject | undefined,
    site: string,
    work: OrderWork,
    budget: WorkBudget,
  ): void {
    if (subject === undefined) return;
    budget.spend('the rights of an order', stepsOfDecision);
    const { effect, reason } = this.#host.decide(questionOf(subject, site, work));
    if (effect === 'deny') throw new AuthorizationError(`order for ${site} denied: ${reason}`);
  }

  /**
   * Returns what the rights of a user to issue orders depend on: the user, the policy, and how many
   * of its rules have not expired.
   */
  #rightsOf(subject: UserSubject | undefined): readonly unknown[] {
    if (subject === undefined) return [];
    const policy = this.#host.policy();
    return [subject, policy, rulesInForce(subject, policy, 'command').length];
  }

  /**
   * Rejects a job of a user with limited rights if Salt would interpret its arguments. Each site
   * checks this too, with its own policy.
   * @throws MasterError ERR_ARGS
   */
  #requireInert(subject: UserSubject | undefined, work: OrderWork): void {
    if (subject === undefined || work.kind !== 'job') return;
    if (!isUnlimited(subject, this.#host.policy(), 'command')) requireInert(work);
  }

  /**
   * Returns the sites for which too many orders wait, so that a user may not add one. Orders whose
   * validity has ended do not count.
   * @throws LimitExceeded if this applies to all given sites
   */
  async #fullSites(
    sites: readonly string[],
    user: string,
    budget: WorkBudget,
  ): Promise<ReadonlySet<string>> {
    const { waitingOrders } = edgeLimits;
    const now = this.#host.now();
    const full = new Set<string>();
    for (const site of sites) {
      if (budget.isSliceOver) await budget.giveWay();
      if (!this.#queued.hasPlace(site, user, now)) full.add(site);
    }
    if (full.size === 0 || full.size < sites.length) return full;
    throw new LimitExceeded(waitingOrders, waitingOrders.total ?? Infinity);
  }

  async #siteRows(id: string): Promise<ReadonlyMap<string, OrderSiteRow>> {
    const rows = new Map<string, OrderSiteRow>();
    for await (const entry of this.#host.shared.list(['order-sites', id])) {
      rows.set(entry.key.at(-1) ?? '', orderSiteRow.decode(entry));
    }
    return rows;
  }

  #infoOf(id: string, row: OrderRow, rows: ReadonlyMap<string, OrderSiteRow>): OrderInfo {
    const counts = Object.fromEntries(orderStates.map((state) => [state, 0])) as Record<
      OrderState,
      number
    >; // has every state
    for (const { result } of rows.values()) counts[this.#presentResult(result, row).state] += 1;
    return { id, ...row, counts };
  }

  /**
   * Returns the current result of an order at a site. If the validity of the order has ended but
   * the stored state is still `waiting`, the result has the state `expired`.
   */
  #presentResult(result: OrderResult, { validUntil }: OrderRow): OrderResult {
    const isOver = result.state === 'waiting' && this.#host.now() >= validUntil;
    return isOver ? { ...result, state: 'expired' } : result;
  }

  async #lastContact(site: string): Promise<number | undefined> {
    const { lastContactAt } = await this.#context.sites.show(site);
    return lastContactAt;
  }

  #seal(ticket: string): string {
    return Buffer.from(this.#host.shared.seal(Buffer.from(ticket))).toString('base64');
  }

  #unseal(ticket: string): string {
    return Buffer.from(this.#host.shared.unseal(Buffer.from(ticket, 'base64'))).toString('utf8');
  }

  async #prune(): Promise<void> {
    const until = this.#host.now() - retentionMs;
    for await (const entry of this.#host.shared.list(['orders'])) {
      const { validUntil } = orderRow.decode(entry);
      if (validUntil >= until) continue;
      const id = entry.key.at(-1) ?? '';
      await this.#host.shared.write([
        { op: 'delete-prefix', prefix: ['order-sites', id] },
        { op: 'delete', key: entry.key },
      ]);
    }
    await this.#expireWaiting();
  }

  /**
   * Stores the state `expired` of each waiting order whose validity has ended. Drops the waiting
   * orders of sites that do not belong to this centre any more.
   */
  async #expireWaiting(): Promise<void> {
    const joined = new Set(this.#context.sites.joined);
    for (const site of this.#queued.sites) {
      // The site may have been revoked while the order was issued, or by a member that then failed.
      if (!joined.has(site)) await this.#dropWaiting(site);
      for (const [id, { validUntil }] of [...this.#queued.of(site)]) {
        if (this.#host.now() < validUntil) continue;
        await this.#settle(site, id, { ...noResults, state: 'expired' });
      }
    }
  }
}

/** Name of the right to issue orders, in rules with the action `command`. */
const orderRight = 'site.order';

/** Number of steps that a {@link WorkBudget} counts for each decision of the policy. */
const stepsOfDecision = 1000;

function questionOf(subject: UserSubject, site: string, work: OrderWork): Question {
  const { kind } = work;
  const what = kind === 'job' ? work.fun : kind === 'enrol' ? work.minion : work.name;
  const kwargs = new Map(Object.entries({ site, kind, what }));
  return { subject, action: 'command', resource: { call: { fun: orderRight, args: [], kwargs } } };
}

/** Whether a text that selects sites is a name, and not a glob or a ring. */
function isSiteName(pattern: string): boolean {
  return !pattern.startsWith(ringPrefix) && !/[*?[]/.test(pattern);
}

function noSite(pattern: string): EdgeError {
  const text = pattern.startsWith(ringPrefix)
    ? `${pattern.slice(ringPrefix.length)}: unknown ring, or a ring without joined sites; see saltbridge: sites: rings`
    : `${pattern}: no joined site matches; run saltbridge site list to see all sites`;
  return new EdgeError('ERR_SITE_UNKNOWN', text);
}

/** Whether a site may report this state. An order in any other state can still change. */
function isFinal({ state }: OrderResult): boolean {
  return state !== 'waiting' && state !== 'running';
}

/**
 * Decodes a result that a site reports.
 * @throws EdgeError ERR_SITE_MESSAGE if it is malformed or not final
 */
function parseResult(id: string, text: string): OrderResult {
  const result = tryParseJson(text);
  if (resultCheck.Check(result) && isFinal(result)) return result;
  const problem = 'it is malformed or too large, or its state is not final';
  throw new EdgeError('ERR_SITE_MESSAGE', `result of the order ${id}: ${problem}`);
}
