/**
 * Orders at a site. The site stores each order of the centre, runs it once, and reports its result.
 */

import { figureOf } from '#heat-bridge';
import type { ExtensionHost, MetricFamily } from '#master';
import { errorMessage, FairSlots } from '#runtime';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import { ApprovedPlans } from './approved-plans.ts';
import { CentreClock } from './centre-clock.ts';
import { type Order, readOrder, readStoredOrder, timeProblemOf } from './order.ts';
import { giveOrder } from './order-messages.ts';
import { noResults, type ReceivedOrderRow, receivedOrderRow } from './order-rows.ts';
import { checkOrderRights, type OrderOutcome, runOrder } from './run-order.ts';
import { validOfflineOf } from './valid-offline.ts';

/** Storage time of an order after its validity has ended, in milliseconds: a week. */
const retentionMs = 7 * 86_400_000;

/** Interval at which ended orders are removed, in milliseconds. */
const pruneIntervalMs = 3_600_000;

/** Opens the part of a site that runs the orders of the centre and the approved plans. */
export async function openSiteOrders(context: SiteContext): Promise<EdgePart> {
  const clock = await CentreClock.open({
    ...context,
    validOfflineSeconds: () => validOfflineOf(context),
  });
  const orders = new SiteOrders(context, clock);
  const plans = new ApprovedPlans(context, clock);
  context.link.handle(giveOrder, ({ order }) => orders.receive(order));
  return {
    metrics: () => orders.metrics(),
    start: async () => {
      await orders.start();
      await plans.start();
    },
    close: async () => {
      await plans.close();
      await orders.close();
    },
  };
}

class SiteOrders {
  readonly #context: SiteContext;
  readonly #host: ExtensionHost;
  readonly #clock: CentreClock;
  readonly #slots = new FairSlots(edgeLimits.runningOrders);
  readonly #running = new Map<string, Promise<void>>();
  #pruning: NodeJS.Timeout | undefined;
  #ended = 0;

  constructor(context: SiteContext, clock: CentreClock) {
    this.#context = context;
    this.#host = context.host;
    this.#clock = clock;
  }

  /** Continues the orders that a restart interrupted. */
  async start(): Promise<void> {
    await this.#prune();
    for await (const entry of this.#host.state.list(['order'])) {
      const row = receivedOrderRow.decode(entry);
      if (!row.isReported) this.#run(readStoredOrder(row.text), row);
    }
    this.#pruning = setInterval(() => {
      this.#prune().catch((error: unknown) =>
        this.#host.logger.error(
          { err: error },
          'cannot delete finished orders of the centre; retrying in an hour',
        ),
      );
    }, pruneIntervalMs);
    this.#pruning.unref();
  }

  /**
   * Verifies and stores an order, and starts to run it. Returns `refused` with a reason if the
   * order has expired, or the policy of the site does not permit it.
   * @throws EdgeError ERR_ORDER_INVALID, ERR_SITE_NOT_JOINED
   */
  async receive(text: string): Promise<{ state: 'accepted' | 'refused'; reason?: string }> {
    const order = this.#read(text);
    const key = ['order', order.id];
    if ((await this.#host.state.get(key)) !== undefined) return { state: 'accepted' };
    await this.#clock.save();
    const correctedAt = this.#context.timeCorrectedAt();
    const problem = timeProblemOf(order, { now: this.#clock.now, correctedAt });
    if (problem !== undefined) return { state: 'refused', reason: problem };
    try {
      await checkOrderRights(this.#host, order);
    } catch (error) {
      return { state: 'refused', reason: reasonOf(error) };
    }
    const jid = order.work.kind === 'job' ? { jid: await this.#host.freshJid() } : {};
    const row = { text, isReported: false, validUntil: order.validUntil, ...jid };
    const value = receivedOrderRow.encode(row);
    await this.#host.state.write([{ op: 'put', key, value, ifRevision: 0 }]);
    this.#host.logger.info(
      { order: order.id, kind: order.work.kind, by: order.by.name },
      'accepted an order from the centre',
    );
    this.#run(order, row);
    return { state: 'accepted' };
  }

  metrics(): readonly MetricFamily[] {
    const running = 'Orders of the centre that run at this site.';
    const ended = 'Orders of the centre that ended at this site since the start.';
    return [
      figureOf('gauge', 'site_orders_running', running, this.#running.size),
      figureOf('counter', 'site_orders_ended_total', ended, this.#ended),
    ];
  }

  async close(): Promise<void> {
    clearInterval(this.#pruning);
    await Promise.allSettled(this.#running.values());
  }

  #read(text: string): Order {
    const identity = this.#context.identity();
    if (identity === undefined) {
      throw new EdgeError('ERR_SITE_NOT_JOINED', 'this site has not joined a centre');
    }
    return readOrder(text, identity.centreKey, this.#context.options.name);
  }

  #run(order: Order, row: ReceivedOrderRow): void {
    if (this.#running.has(order.id)) return;
    const run = this.#runOnce(order, row)
      .catch((error: unknown) =>
        this.#host.logger.error(
          { err: error, order: order.id },
          'cannot complete an order from the centre',
        ),
      )
      .finally(() => this.#running.delete(order.id));
    this.#running.set(order.id, run);
  }

  async #runOnce(order: Order, row: ReceivedOrderRow): Promise<void> {
    const slot = await this.#enter(order);
    try {
      if (this.#host.closing.aborted) return;
      if (row.isStarted !== true) {
        const reason = this.#reasonToExpire(order);
        if (reason !== undefined) {
          return await this.#report(order, row, {
            result: { ...noResults, state: 'expired', reason },
          });
        }
        await this.#store(order, { ...row, isStarted: true });
      }
      const outcome = await this.#outcomeOf(order, row.jid ?? '');
      // A closing master ends its jobs early. The order continues when the master starts again.
      if (this.#host.closing.aborted) return;
      await this.#report(order, row, outcome);
    } finally {
      slot.leave();
    }
  }

  async #outcomeOf(order: Order, jid: string): Promise<OrderOutcome> {
    try {
      return await runOrder(this.#host, order, jid, this.#clock.validOfflineSeconds);
    } catch (error) {
      const isDenied = error instanceof Error && 'code' in error && isDenial(error.code);
      const state = isDenied ? 'refused' : 'failed';
      return { result: { ...noResults, state, reason: reasonOf(error) } };
    }
  }

  /**
   * Adds the result of an order to the log. After a crash, the log may contain the result twice.
   * The centre then stores only the first result.
   */
  async #report(order: Order, row: ReceivedOrderRow, outcome: OrderOutcome): Promise<void> {
    const { result, ticket } = outcome;
    const value = { id: order.id, result: JSON.stringify(result), ...(ticket && { ticket }) };
    await this.#context.log.append({ class: 'signal', kind: 'order', value });
    await this.#store(order, { ...row, isReported: true });
    this.#ended += 1;
    const { state, succeeded, failed, silent } = result;
    this.#host.logger.info(
      { order: order.id, state, succeeded, failed, silent },
      'finished an order from the centre',
    );
  }

  async #store({ id }: Order, row: ReceivedOrderRow): Promise<void> {
    const value = receivedOrderRow.encode(row);
    await this.#host.state.write([{ op: 'put', key: ['order', id], value }]);
  }

  /** Returns the reason why an order can no longer be started, or `undefined` if it can. */
  #reasonToExpire({ validUntil }: Order): string | undefined {
    if (this.#clock.now >= validUntil) return 'its validity ended before it started';
    if (this.#clock.isValid) return undefined;
    return 'the site had no contact with its centre for longer than `valid_offline`';
  }

  #enter(order: Order): Promise<{ leave(): void }> {
    return new Promise((resolve) => {
      const slot = this.#slots.enter(order.by.name, () => queueMicrotask(() => resolve(slot)));
    });
  }

  async #prune(): Promise<void> {
    const until = this.#clock.now - retentionMs;
    for await (const entry of this.#host.state.list(['order'])) {
      const { isReported, validUntil } = receivedOrderRow.decode(entry);
      if (isReported && validUntil < until) {
        await this.#host.state.write([{ op: 'delete', key: entry.key }]);
      }
    }
  }
}

function isDenial(code: unknown): boolean {
  return code === 'ERR_ORDER_DENIED' || code === 'ERR_COMMAND_DENIED' || code === 'ERR_DENIED';
}

function reasonOf(error: unknown): string {
  return errorMessage(error).slice(0, 1000);
}
