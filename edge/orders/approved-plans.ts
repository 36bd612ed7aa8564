/**
 * Approved plans of a site, from the file `orders.yml` of its bundle. A site runs an approved plan
 * without the centre when its trigger occurs: the loss of the link, a signal, an interval or a
 * time.
 */

import { readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { Cron } from 'croner';
import Type, { type Static } from 'typebox';
import { parse } from 'yaml';
import { bridgeServices } from '#heat-bridge';
import type { ExtensionHost } from '#master';
import { compileSchema, isMissing, type JsonValue } from '#runtime';
import { bundleInUse } from '../bundles/site-bundles.ts';
import { EdgeError } from '../errors.ts';
import type { SiteContext } from '../parts.ts';
import type { CentreClock } from './centre-clock.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Target = Type.Union([Type.String({ minLength: 1 }), Type.Array(Name)]);

const Trigger = Type.Union([
  /** Runs after the link has been lost for this number of seconds. */
  Type.Object({ 'link-lost': Type.Integer({ minimum: 1, maximum: 2_000_000 }) }, strict),
  /** Runs at each event whose tag matches this glob. */
  Type.Object({ signal: Name }, strict),
  /** Runs at this interval, in seconds. */
  Type.Object({ every: Type.Integer({ minimum: 10, maximum: 2_000_000 }) }, strict),
  /** Runs at the times of this cron expression, in local time. */
  Type.Object({ cron: Name }, strict),
]);

const Approved = Type.Object(
  {
    on: Trigger,
    /** Name of the plan in the catalog. */
    plan: Name,
    /** Targets by name of the plan's group. */
    groups: Type.Record(Type.String(), Target),
    params: Type.Optional(Type.Unsafe<Readonly<Record<string, JsonValue>>>(Type.Object({}))),
  },
  strict,
);
const fileCheck = compileSchema(
  Type.Object(
    { plans: Type.Record(Type.String({ pattern: '^[a-z0-9-]{1,63}$' }), Approved) },
    strict,
  ),
);

/** Approved plan: its trigger, and the plan that it runs. */
export type ApprovedPlan = Readonly<Static<typeof Approved>>;

/**
 * Interval at which the site stores its last contact with the centre, in milliseconds. A restart
 * without the centre then does not end approved plans.
 */
const saveIntervalMs = 5000;

/** Maximum size of `orders.yml`, in bytes. */
const maxFileBytes = 1_048_576;

/**
 * Parses `orders.yml`.
 * @returns the approved plans by name
 * @throws EdgeError ERR_ORDER_INVALID
 */
export function parseApprovedPlans(text: string): ReadonlyMap<string, ApprovedPlan> {
  if (text.length > maxFileBytes) throw invalid(`it exceeds ${maxFileBytes} bytes`);
  let plans: Readonly<Record<string, ApprovedPlan>>;
  try {
    plans = fileCheck.Parse(parse(text, { maxAliasCount: 0 }) ?? { plans: {} }).plans;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw invalid(reason, { cause });
  }
  for (const [name, { on }] of Object.entries(plans)) {
    if ('cron' in on) requireCron(name, on.cron);
  }
  return new Map(Object.entries(plans));
}

function requireCron(name: string, pattern: string): void {
  try {
    new Cron(pattern, { paused: true }).stop();
  } catch (cause) {
    throw invalid(`plan ${name}: cron ${pattern} is invalid`, { cause });
  }
}

function invalid(reason: string, options?: ErrorOptions): EdgeError {
  return new EdgeError('ERR_ORDER_INVALID', `orders.yml: ${reason}`, options);
}

/** Runs approved plans. Each plan runs at most once at a time. */
export class ApprovedPlans {
  readonly #context: SiteContext;
  readonly #host: ExtensionHost;
  readonly #clock: CentreClock;
  readonly #running = new Map<string, Promise<void>>();
  #bundle: string | undefined;
  #stop = new AbortController();
  #lastLook: Promise<void> = Promise.resolve();
  #lastSave: Promise<void> = Promise.resolve();
  #saving: NodeJS.Timeout | undefined;

  constructor(context: SiteContext, clock: CentreClock) {
    this.#context = context;
    this.#host = context.host;
    this.#clock = clock;
  }

  /** Reads the plans, and sets their triggers. */
  async start(): Promise<void> {
    await this.#look();
    this.#host.find(bundleInUse)?.onChange(() => {
      this.#lastLook = this.#look().catch((error: unknown) => {
        this.#host.logger.error(
          { err: error },
          'cannot read the approved plans; the former plans remain in use',
        );
      });
    });
    this.#saving = setInterval(() => {
      this.#lastSave = this.#clock.save().catch((error: unknown) => {
        this.#host.logger.error({ err: error }, 'cannot store the last contact with the centre');
      });
    }, saveIntervalMs);
    this.#saving.unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#saving);
    this.#stop.abort();
    await this.#lastSave;
    await Promise.allSettled([this.#lastLook, ...this.#running.values()]);
  }

  /** Reads the plans again if the site has switched to another bundle. */
  async #look(): Promise<void> {
    const current = path.join(this.#context.directory, 'current');
    const bundle = await readlink(current).catch(undefinedIfMissing);
    if (bundle === this.#bundle) return;
    const text = await readFile(path.join(current, 'orders.yml'), 'utf8').catch(undefinedIfMissing);
    const plans = text === undefined ? new Map<string, ApprovedPlan>() : parseApprovedPlans(text);
    this.#stop.abort();
    this.#stop = new AbortController();
    for (const [name, plan] of plans) this.#arm(name, plan, this.#stop.signal);
    this.#bundle = bundle;
    this.#host.logger.info({ plans: plans.size }, 'the approved plans of the bundle are in use');
  }

  #arm(name: string, plan: ApprovedPlan, stopped: AbortSignal): void {
    const run = (cause: string): void => this.#begin(name, plan, cause);
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

  #listen(match: string, stopped: AbortSignal, run: (cause: string) => void): void {
    const follow = async (): Promise<void> => {
      const events = await this.#host.master().events.subscribe({ match }, stopped);
      for await (const { tag } of events) run(`signal ${tag}`);
    };
    follow().catch((error: unknown) => {
      if (stopped.aborted) return;
      this.#host.logger.error(
        { err: error, match },
        'cannot read events; an approved plan no longer runs at its signal',
      );
    });
  }

  /** Calls `run` once for each loss of the link that lasts for the given time. */
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

  #begin(name: string, plan: ApprovedPlan, cause: string): void {
    const { logger } = this.#host;
    if (this.#running.has(name)) {
      logger.warn(
        { plan: name, cause },
        'approved plan not started: its previous run has not ended',
      );
      return;
    }
    if (!this.#clock.isValid) {
      const reason = 'the centre has been unreachable for longer than valid_offline';
      logger.warn({ plan: name, cause, reason }, 'approved plan not started');
      return;
    }
    const run = this.#run(name, plan, cause)
      .catch((error: unknown) => logger.error({ err: error, plan: name }, 'approved plan failed'))
      .finally(() => this.#running.delete(name));
    this.#running.set(name, run);
  }

  async #run(name: string, plan: ApprovedPlan, cause: string): Promise<void> {
    const at = this.#host.now();
    const outcome = await this.#outcomeOf(name, plan, at);
    this.#host.fire('plan', { name, plan: plan.plan, cause, ...outcome });
    const data = { name, plan: plan.plan, cause, at, ...outcome };
    await this.#context.log.append({ class: 'alarm', kind: 'event', value: { tag: 'plan', data } });
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
      return { status: 'refused', reason: error instanceof Error ? error.message : String(error) };
    }
  }
}

function undefinedIfMissing(error: unknown): undefined {
  if (isMissing(error)) return undefined;
  throw error;
}
