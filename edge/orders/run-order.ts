/** Runs the work of an order at a site, if the policy of the site permits it. */

import { type Call, isUnlimited, reachOf } from '#acl';
import { bridgeServices, type CommandResult } from '#heat-bridge';
import {
  type AddressedMinions,
  type AuditRequester,
  actorOf,
  callOf,
  type ExtensionHost,
  isFailureCode,
  type JobOrigin,
  type JobUpdate,
  MasterError,
  type RunRequest,
  requireInert,
  separateKeywords,
} from '#master';
import { EdgeError } from '../errors.ts';
import { type Order, type OrderWork, subjectOfOrder } from './order.ts';
import { maxListed, maxNameLength, noResults, type OrderResult } from './order-rows.ts';

/** Work of an order with this `kind`. */
type Work<K extends OrderWork['kind']> = Extract<OrderWork, { kind: K }>;

/** Result of an order. If the order is an enrolment, it includes the ticket for the machine. */
export interface OrderOutcome {
  readonly result: OrderResult;
  readonly ticket?: string;
}

/**
 * Checks that the policy permits an order now. {@link runOrder} checks it again, because the policy
 * and the minions that match can change before the order runs.
 * @throws EdgeError ERR_ORDER_DENIED with the reason of the policy; MasterError ERR_BAD_TGT
 */
export async function checkOrderRights(
  host: Pick<ExtensionHost, 'decide' | 'policy' | 'resolveTarget'>,
  order: Order,
): Promise<void> {
  const { work } = order;
  if (work.kind === 'job') {
    const { minions } = await minionsOfJob(host, order, work, false);
    requireJobRight(host, order, work, { minions, isRepeated: false });
  }
  if (work.kind === 'enrol') requireEnrolRight(host, order, work);
}

function callsOfJob({ fun, arg = [], kwarg }: Work<'job'>): readonly Call[] {
  return [callOf({ fun, ...separateKeywords(arg, kwarg) })];
}

/**
 * Returns the minions that match the target of a job. If the rights are limited, only the minions
 * with these rights are examined, as for a job of a user of the site. Otherwise, the result would
 * show whether a guess about other minions is right.
 * @param isRepeated - whether the policy has already permitted the order, which then waited
 * @throws EdgeError ERR_ORDER_DENIED; MasterError ERR_BAD_TGT
 */
async function minionsOfJob(
  host: Pick<ExtensionHost, 'decide' | 'policy' | 'resolveTarget'>,
  order: Order,
  work: Work<'job'>,
  isRepeated: boolean,
): Promise<AddressedMinions> {
  const subject = subjectOfOrder(order);
  const policy = host.policy();
  const who = actorOf(subject);
  if (isUnlimited(subject, policy)) return host.resolveTarget(targetOfWork(work), { who });
  const calls = callsOfJob(work);
  const about = { subject, action: 'publish', isRepeated } as const;
  const reach = reachOf({ ...about, calls }, policy);
  if (reach.isEmpty) throw denied(host.decide({ ...about, resource: { calls } }).reason);
  return host.resolveTarget(targetOfWork(work), { reach, who });
}

/**
 * Checks that the policy permits a job for all of these minions. If the rights are limited, also
 * rejects arguments that Salt would interpret.
 * @param on - the minions, and whether the policy has already permitted the order, which then waited
 * @returns the requester of the job, for the audit log and the limits
 * @throws EdgeError ERR_ORDER_DENIED
 */
function requireJobRight(
  host: Pick<ExtensionHost, 'decide' | 'policy'>,
  order: Order,
  work: Work<'job'>,
  { minions, isRepeated }: { readonly minions: readonly string[]; readonly isRepeated: boolean },
): AuditRequester {
  const subject = subjectOfOrder(order);
  const resource = { calls: callsOfJob(work), minions };
  const decision = host.decide({ subject, action: 'publish', resource, isRepeated });
  if (decision.effect === 'deny') throw denied(decision.reason);
  const by = { who: actorOf(subject), rule: decision.rule };
  if (isUnlimited(subject, host.policy())) return by;
  try {
    requireInert(work);
  } catch (error) {
    if (error instanceof MasterError) throw denied(error.message);
    throw error;
  }
  return by;
}

function requireEnrolRight(
  host: Pick<ExtensionHost, 'decide'>,
  order: Order,
  work: Work<'enrol'>,
): void {
  const { minion: id, project } = work;
  const kwargs = new Map(Object.entries({ id, project }));
  const call = { fun: enrolRight, args: [], kwargs };
  const resource = { call, minions: [id], project };
  const subject = subjectOfOrder(order);
  const decision = host.decide({ subject, action: 'command', resource });
  if (decision.effect === 'deny') throw denied(decision.reason);
}

/** Name of the right to enrol machines, in rules with the action `command`. */
const enrolRight = 'bridge.enroll.create';

function denied(reason: string): EdgeError {
  return new EdgeError('ERR_ORDER_DENIED', reason);
}

/**
 * Runs an order until it ends. After a restart, another call with the same order continues the run.
 * @param jid - id of the job, used only if the `kind` of the order is `job`
 * @param maxTicketSeconds - maximum lifetime of the ticket of an enrolment, in seconds
 * @throws EdgeError ERR_ORDER_DENIED; the errors of the master and of the bridge
 */
export async function runOrder(
  host: ExtensionHost,
  order: Order,
  jid: string,
  maxTicketSeconds: number,
): Promise<OrderOutcome> {
  const { work } = order;
  switch (work.kind) {
    case 'job':
      return runJob(host, order, work, jid);
    case 'command':
      return runCommand(host, order, work);
    case 'plan':
      return runPlan(host, order, work);
    case 'enrol':
      requireEnrolRight(host, order, work);
      return enrol(host, work, maxTicketSeconds);
  }
}

function targetOfWork({ tgt, tgtType }: Pick<Work<'job'>, 'tgt' | 'tgtType'>) {
  if (tgtType !== undefined) return { tgt, tgtType };
  return typeof tgt === 'string' ? { tgt } : { tgt, tgtType: 'list' };
}

async function runJob(
  host: ExtensionHost,
  order: Order,
  work: Work<'job'>,
  jid: string,
): Promise<OrderOutcome> {
  const counts = new ResultCounts();
  let updates: AsyncIterable<JobUpdate>;
  if (await isKnownJob(host, jid)) updates = host.resumeJob(jid);
  else {
    const { minions, ...leftOut } = await minionsOfJob(host, order, work, true);
    if (minions.length === 0) {
      counts.addUnaddressed(leftOut.missing);
      return { result: counts.result([]) };
    }
    const by = requireJobRight(host, order, work, { minions, isRepeated: true });
    const { fun, arg = [], kwarg = {} } = work;
    const user = `centre_${order.by.name}`;
    // Publish to the minions that were checked. Others could match the target when they receive it.
    const target = { tgt: [...minions], tgtType: 'list', leftOut };
    const request: RunRequest & JobOrigin = { ...target, fun, arg, kwarg, jid, user, by };
    updates = host.master().jobs.run(request);
  }
  for await (const update of updates) {
    if (update.type === 'published') {
      counts.addUnaddressed(update.missing);
      counts.isNarrowed = update.isNarrowed === true;
    }
    if (update.type === 'return') {
      const hasFailed = update.success === false || isFailureCode(update.retcode);
      counts.add(update.minion, hasFailed ? `retcode ${String(update.retcode)}` : undefined);
    }
    if (update.type === 'finished') {
      for (const minion of [...update.silent, ...update.reconnecting]) counts.addSilent(minion);
    }
  }
  return { result: counts.result([jid]) };
}

async function isKnownJob(host: ExtensionHost, jid: string): Promise<boolean> {
  try {
    await host.master().jobs.show(jid);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_JOB_UNKNOWN') return false;
    throw error;
  }
}

async function runCommand(
  host: ExtensionHost,
  order: Order,
  work: Work<'command'>,
): Promise<OrderOutcome> {
  const { api } = host.use(bridgeServices.commands);
  const run = await api.run(work.name, {
    target: targetOfWork(work),
    params: work.params ?? {},
    caller: subjectOfOrder(order),
    idempotencyKey: order.id,
    deadline: order.validUntil,
  });
  const { status, results, jids, isNarrowed } = await run.outcome;
  const counts = new ResultCounts();
  counts.isNarrowed = isNarrowed === true;
  counts.addAll(results);
  return { result: counts.result(jids, status === 'succeeded' ? undefined : status) };
}

async function runPlan(
  host: ExtensionHost,
  order: Order,
  work: Work<'plan'>,
): Promise<OrderOutcome> {
  const { plans } = host.use(bridgeServices.commands);
  const run = await plans.run(work.name, {
    groups: work.groups,
    params: work.params ?? {},
    caller: subjectOfOrder(order),
    idempotencyKey: order.id,
    deadline: order.validUntil,
  });
  const { status, steps, failedStep } = await run.outcome;
  const counts = new ResultCounts();
  for (const { results } of steps) counts.addAll(results);
  const reason = failedStep === undefined ? status : `${status}: step ${failedStep}`;
  const jids = steps.flatMap(({ runs }) => runs);
  return { result: counts.result(jids, status === 'succeeded' ? undefined : reason) };
}

async function enrol(
  host: ExtensionHost,
  work: Work<'enrol'>,
  maxTicketSeconds: number,
): Promise<OrderOutcome> {
  const { minion: id, project, instance } = work;
  const { api, ticketLifetimeMs } = host.use(bridgeServices.enrolment);
  const { lifetimeSeconds = Math.ceil(ticketLifetimeMs / 1000) } = work;
  const { ticket } = await api.create({
    id,
    project,
    format: 'none',
    ...(instance === undefined ? {} : { instance }),
    lifetimeSeconds: Math.min(lifetimeSeconds, maxTicketSeconds),
  });
  return { result: { ...noResults, state: 'done', succeeded: 1 }, ticket };
}

/** Notice in the result of an order whose target was limited by rights. It names no minion. */
const narrowedReason =
  'the order was sent only to the minions that the rules of the site permit for its user';

/** Counts the minions of an order by their result. */
class ResultCounts {
  /** Whether the target was limited to the minions on which the user of the order has rights. */
  isNarrowed = false;
  #succeeded = 0;
  #failed = 0;
  #silent = 0;
  readonly #unaddressed = new Set<string>();
  readonly #failures: { minion: string; reason: string }[] = [];

  /**
   * Counts a minion that has returned.
   * @param reason - reason of the failure, or `undefined` if the minion succeeded
   */
  add(minion: string, reason: string | undefined): void {
    if (reason === undefined) this.#succeeded += 1;
    else {
      this.#failed += 1;
      this.#list(minion, reason);
    }
  }

  addSilent(minion: string): void {
    // A name without a key also appears among the minions that did not return.
    if (this.#unaddressed.has(minion)) return;
    this.#silent += 1;
    this.#list(minion, 'no return');
  }

  addUnaddressed(minions: readonly string[]): void {
    for (const minion of minions) this.#unaddressed.add(minion);
  }

  addAll(results: readonly CommandResult[]): void {
    for (const { minion, state, reason } of results) {
      if (state === 'unaddressed') this.addUnaddressed([minion]);
      else if (state === 'succeeded') this.add(minion, undefined);
      else if (state === 'failed') this.add(minion, reason ?? state);
      else this.addSilent(minion);
    }
  }

  /**
   * Returns the result of the order.
   * @param failure - reason why the order failed as a whole; `undefined` if it did not
   */
  result(jids: readonly string[], failure?: string): OrderResult {
    const all = this.#succeeded + this.#failed + this.#silent;
    const isDone =
      failure === undefined && all > 0 && this.#succeeded === all && this.#unaddressed.size === 0;
    const narrowed = this.isNarrowed ? narrowedReason : undefined;
    const reason = failure ?? (all === 0 ? 'the target matches no minion' : narrowed);
    return {
      state: isDone ? 'done' : 'failed',
      ...(reason === undefined ? {} : { reason }),
      succeeded: this.#succeeded,
      failed: this.#failed,
      silent: this.#silent,
      unaddressed: this.#unaddressed.size,
      unaddressedNames: [...this.#unaddressed].slice(0, maxListed).map(shortened),
      failures: this.#failures,
      jids: jids.slice(0, maxListed),
    };
  }

  #list(minion: string, reason: string): void {
    if (this.#failures.length < maxListed) {
      this.#failures.push({ minion: shortened(minion), reason: reason.slice(0, 200) });
    }
  }
}

function shortened(name: string): string {
  return name.slice(0, maxNameLength);
}
