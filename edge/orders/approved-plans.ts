/**
 * Approved plans of a site, from the file `orders.yml` of its bundle. A site runs an approved plan
 * without the centre when its trigger occurs. A trigger is the loss of the connection to the
 * centre, a signal, an interval or a time.
 */

import { Cron } from 'croner';
import { bridgeServices } from '#heat-bridge';
import { type ExtensionHost, followAgain } from '#master';
import { errorMessage } from '#runtime';
import { ordersFile } from '../bundles/manifest.ts';
import { type BundleInUse, bundleInUse } from '../bundles/site-bundles.ts';
import type { SiteContext } from '../parts.ts';
import { type ApprovedPlan, parseApprovedPlans } from './approved-plan-file.ts';
import type { CentreClock } from './centre-clock.ts';

/**
 * Interval at which the site calls {@link CentreClock.save}, in milliseconds. The call stores the
 * time of the last contact, so that a restart does not extend the validity of approved plans.
 */
const saveIntervalMs = 5000;

/** Reason why an approved plan starts. */
interface PlanStart {
  readonly cause: string;
  /** Minion whose event starts the plan. */
  readonly minion?: string | undefined;
}

/** Runs approved plans. A plan does not start again while a run of the same plan is in progress. */
export class ApprovedPlans {
  readonly #context: SiteContext;
  readonly #host: ExtensionHost;
  readonly #clock: CentreClock;
  readonly #bundle: BundleInUse;
  readonly #running = new Map<string, Promise<void>>();
  #stop = new AbortController();
  #lastRead: Promise<void> = Promise.resolve();
  #lastSave: Promise<void> = Promise.resolve();
  #saving: NodeJS.Timeout | undefined;

  constructor(context: SiteContext, clock: CentreClock) {
    this.#context = context;
    this.#host = context.host;
    this.#clock = clock;
    this.#bundle = context.host.use(bundleInUse);
  }

  /** Reads the approved plans, and begins to watch for their triggers. */
  async start(): Promise<void> {
    await this.#read();
    this.#bundle.onChange(() => {
      this.#lastRead = this.#read().catch((error: unknown) => {
        this.#host.logger.error(
          { err: error },
          'cannot read the approved plans of a new release; the former plans remain in use',
        );
      });
    });
    this.#saving = setInterval(() => {
      this.#lastSave = this.#clock.save().catch((error: unknown) => {
        this.#host.logger.error(
          { err: error },
          'cannot store the time of the last contact with the centre',
        );
      });
    }, saveIntervalMs);
    this.#saving.unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#saving);
    this.#stop.abort();
    await this.#lastSave;
    await Promise.allSettled([this.#lastRead, ...this.#running.values()]);
  }

  /**
   * Reads the approved plans of the bundle in use, and begins to watch for their triggers. Stops
   * watching for the triggers of the plans that were read before.
   */
  async #read(): Promise<void> {
    const plans = parseApprovedPlans((await this.#bundle.readText(ordersFile)) ?? '');
    this.#stop.abort();
    this.#stop = new AbortController();
    for (const [name, plan] of plans) this.#arm(name, plan, this.#stop.signal);
    this.#host.logger.info(
      { plans: plans.size },
      'loaded the approved plans of the release in use',
    );
  }

  #arm(name: string, plan: ApprovedPlan, stopped: AbortSignal): void {
    const run = (cause: string, minion?: string): void =>
      this.#begin(name, plan, { cause, minion });
    const { on } = plan;
    if ('every' in on) {
      const timer = setInterval(() => run('schedule'), on.every * 1000);
      stopped.addEventListener('abort', () => clearInterval(timer));
    } else if ('cron' in on) {
      const cron = new Cron(on.cron, { unref: true }, () => run('schedule'));
      stopped.addEventListener('abort', () => cron.stop());
    } else if ('signal' in on) {
      this.#listen(on.signal, stopped, run);
    } else {
      this.#watchLink(on['link-lost'] * 1000, stopped, run);
    }
  }

  #listen(
    match: string,
    stopped: AbortSignal,
    run: (cause: string, minion?: string) => void,
  ): void {
    const follow = async (): Promise<void> => {
      const events = await this.#host.master().events.subscribe({ match }, stopped);
      for await (const { tag, data } of events) {
        run(`signal ${tag}`, typeof data.id === 'string' ? data.id : undefined);
      }
    };
    const onDropped = (): void =>
      this.#host.logger.warn(
        { match },
        'too many events: some signals did not start approved plans on this site',
      );
    followAgain(follow, onDropped).catch((error: unknown) => {
      if (stopped.aborted) return;
      this.#host.logger.error(
        { err: error, match },
        'cannot read events, so signals no longer start approved plans on this site; restart the master',
      );
    });
  }

  /**
   * Calls `run` when the connection to the centre has been lost for the given time. Calls it at
   * most once before the connection is restored.
   */
  #watchLink(afterMs: number, stopped: AbortSignal, run: (cause: string) => void): void {
    let timer: NodeJS.Timeout | undefined;
    const look = (isConnected: boolean): void => {
      if (isConnected) {
        clearTimeout(timer);
        timer = undefined;
      } else {
        timer ??= setTimeout(() => run('link lost'), afterMs);
      }
    };
    this.#context.link.onChange(({ isConnected }) => {
      if (!stopped.aborted) look(isConnected);
    });
    look(this.#context.link.state.isConnected);
    stopped.addEventListener('abort', () => clearTimeout(timer));
  }

  #begin(name: string, plan: ApprovedPlan, start: PlanStart): void {
    const { cause } = start;
    const { logger } = this.#host;
    if (this.#running.has(name)) {
      logger.warn(
        { plan: name, cause },
        'did not start an approved plan: its previous run has not ended',
      );
      return;
    }
    if (!this.#clock.isValid) {
      logger.warn(
        { plan: name, cause },
        'did not start an approved plan: the centre was unreachable for longer than `valid_offline`',
      );
      return;
    }
    const run = this.#run(name, plan, start)
      .catch((error: unknown) =>
        logger.error({ err: error, plan: name }, 'an approved plan of this site failed'),
      )
      .finally(() => this.#running.delete(name));
    this.#running.set(name, run);
  }

  async #run(name: string, plan: ApprovedPlan, { cause, minion }: PlanStart): Promise<void> {
    const at = this.#host.now();
    const outcome = await this.#outcomeOf(name, plan, at);
    this.#host.fire('plan', { name, plan: plan.plan, cause, ...outcome });
    const data = { name, plan: plan.plan, cause, at, ...outcome };
    const value = { tag: 'plan', data };
    await this.#context.log.append({ class: 'alarm', kind: 'event', value, minion });
  }

  async #outcomeOf(
    name: string,
    { plan, groups, params = {} }: ApprovedPlan,
    at: number,
  ): Promise<{ status: string; reason?: string }> {
    const { plans } = this.#host.use(bridgeServices.commands);
    try {
      const run = await plans.run(plan, {
        groups,
        params,
        caller: { kind: 'service', name: `site-plan:${name}` },
        idempotencyKey: `${name} ${at}`,
      });
      const { status, failedStep } = await run.outcome;
      return { status, ...(failedStep === undefined ? {} : { reason: `step ${failedStep}` }) };
    } catch (error) {
      return { status: 'refused', reason: errorMessage(error) };
    }
  }
}
