/** `bridge.plan`: from a request to a run of a plan, permitted as a whole before it begins. */
import { setMaxListeners } from 'node:events';
import {
  type AuditEntry,
  actorOf,
  type ExtensionHost,
  linkSignals,
  type TargetBounds,
  timeLimit,
} from '../../master/index.ts';
import { Budget, KeyedMutex } from '../../runtime/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import { projectOf } from '../keystone/own-project.ts';
import { holdCaller, type KnownCaller, knowCaller, requireWithin } from '../run/callers.ts';
import type { CommandRunner } from '../run/command-runner.ts';
import type { RunQuotas } from '../run/options.ts';
import { RecentRuns } from '../run/recent-runs.ts';
import type { CommandCaller } from '../run/request.ts';
import { checkKey, digestOf, type KeyOwner, RunKeys } from '../run/run-keys.ts';
import type { CompiledPlan } from './compile-plan.ts';
import { boundsOfGroup } from './group-bounds.ts';
import { type Groups, settleGroups } from './groups.ts';
import { type KeptPlan, shortenPlan } from './kept-plan.ts';
import { LivePlan } from './live-plan.ts';
import type { PlanBook } from './plan-book.ts';
import { PlanRun } from './plan-run.ts';
import type { PlanHandle, PlanOutcome, PlanRequest } from './request.ts';
import { referencesIn, valuesOf } from './sources.ts';
import { StepRunner, type StepRunnerOptions } from './step-runner.ts';

/** What {@link PlanRunner} needs. */
export interface PlanRunnerOptions {
  readonly host: ExtensionHost;
  readonly plans: PlanBook;
  readonly commands: CommandRunner;
  /** Who calls where a request does not say. */
  readonly service: string;
  readonly quotas: RunQuotas;
}

/** A call by somebody who is known. */
interface KnownPlan {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: KnownCaller;
  readonly request: PlanRequest;
}

/** Where a run is written down. */
interface KeptPlace {
  readonly owner: KeyOwner;
  readonly kept: KeptPlan;
}

/** Runs plans of a catalog. */
export class PlanRunner {
  readonly #options: PlanRunnerOptions;
  readonly #keys: RunKeys<KeptPlan>;
  readonly #runs: RecentRuns<LivePlan>;
  readonly #places: Budget;
  readonly #underWay = new Set<Promise<void>>();
  /** A second request with a key waits until the first was looked at. */
  readonly #byOwner = new KeyedMutex();

  constructor(options: PlanRunnerOptions) {
    this.#options = options;
    this.#runs = new RecentRuns(options.quotas.ended);
    this.#places = new Budget(options.quotas.active);
    this.#keys = new RunKeys(options.host.state, shortenPlan);
  }

  /** See `Bridge.plan`. */
  async run(name: string, request: PlanRequest): Promise<PlanHandle> {
    const { host, plans, service } = this.#options;
    const plan = plans.get(name);
    const parameters = plan.check(request.params ?? {});
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await holdCaller(host, asked, this.#places);
    try {
      const call = { plan, parameters, caller, request };
      const project = projectOf(caller.subject, request.project) ?? '';
      const { idempotencyKey } = request;
      if (idempotencyKey === undefined) {
        const groups = await this.#settle(call);
        return this.#begin(call, await this.#fresh('', groups)).handle(false);
      }
      const key = checkKey(idempotencyKey);
      const owner = { caller: caller.name, project, command: `plan:${name}`, key };
      return await this.#byOwner.run(JSON.stringify(owner), () => this.#runOnce(call, owner));
    } catch (error) {
      caller.leave();
      throw error;
    }
  }

  /**
   * A run that this caller began. @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody
   * else's; AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<PlanHandle> {
    const caller = await knowCaller(this.#options.host, asked);
    caller.leave();
    return this.#runs.of(id, caller).handle(true);
  }

  /** Waits for what is under way, which ends with the master. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  async #runOnce(call: KnownPlan, owner: KeyOwner): Promise<PlanHandle> {
    const { parameters, caller, request } = call;
    const digest = digestOf([parameters, request.groups]);
    const kept = await this.#keys.find(owner, digest);
    if (kept === undefined) {
      const groups = await this.#settle(call);
      const fresh = await this.#fresh(digest, groups);
      // Before anything is published.
      await this.#keys.keep(owner, fresh, this.#deadlineOf(call));
      return this.#begin(call, fresh, owner).handle(false);
    }
    this.#permit(call, kept.groups);
    const live = this.#runs.get(kept.id);
    if (live !== undefined && !live.isInterrupted) {
      caller.leave();
      return live.handle(true);
    }
    if (kept.outcome === undefined) return this.#begin(call, kept, owner).handle(true);
    caller.leave();
    const ended = this.#runs.add(liveOf(call, kept));
    ended.end(kept.outcome);
    return ended.handle(true);
  }

  /** Whom the groups mean, permitted as a whole. */
  async #settle(call: KnownPlan): Promise<Groups> {
    const { host } = this.#options;
    const { plan, request } = call;
    const boundsOf = (group: string): TargetBounds => boundsOfGroup(host, call, group);
    const groups = await settleGroups(host, plan.definition, request.groups, boundsOf);
    this.#permit(call, groups);
    return groups;
  }

  async #fresh(digest: string, groups: Groups): Promise<KeptPlan> {
    const { host } = this.#options;
    return { id: await host.freshJid(), digest, groups, begunAt: host.now(), begun: [], ended: [] };
  }

  /**
   * Each step, and what takes it back, as the command that it is. What depends on a result is
   * decided when that is there.
   * @throws BridgeError ERR_COMMAND_DENIED, ERR_COMMAND_PARAMETERS
   */
  #permit({ plan, parameters, caller }: KnownPlan, groups: Groups): void {
    for (const { undo, ...step } of plan.steps) {
      const minions = groups[step.definition.group] ?? [];
      for (const { command, sources } of undo === undefined ? [step] : [step, undo]) {
        if (minions.length === 0) continue;
        requireWithin(this.#options.host, command, minions);
        if (referencesIn(sources).length > 0) continue;
        const given = command.check(valuesOf(sources, parameters, new Map()));
        // protection: plans-unjudged
        this.#options.commands.permit({ caller, command, parameters: given, minions });
      }
    }
  }

  #deadlineOf({ plan, request: { deadline } }: KnownPlan): number {
    const own = this.#options.host.now() + (plan.definition.timeout ?? 600) * 1000;
    return deadline === undefined ? own : Math.min(own, Number(deadline));
  }

  #begin(call: KnownPlan, kept: KeptPlan, owner?: KeyOwner): LivePlan {
    const live = this.#runs.add(liveOf(call, kept));
    this.#audit(call, live, { action: 'plan.run', outcome: 'permitted' });
    const place = owner === undefined ? undefined : { owner, kept };
    const work = this.#follow(call, live, kept, place).finally(() => {
      call.caller.leave();
      this.#underWay.delete(work);
    });
    this.#underWay.add(work);
    return live;
  }

  async #follow(
    call: KnownPlan,
    live: LivePlan,
    kept: KeptPlan,
    place: KeptPlace | undefined,
  ): Promise<void> {
    const { host, commands } = this.#options;
    const { plan, parameters, caller, request } = call;
    const deadline = this.#deadlineOf(call);
    const time = timeLimit(deadline - host.now());
    const cancelled = linkSignals(live.cancelled, request.signal, caller.ended);
    const ended = linkSignals(time.signal, cancelled.signal);
    // Every step listens to it.
    setMaxListeners(0, ended.signal);
    const key =
      place === undefined ? {} : { key: { project: place.owner.project, digest: kept.digest } };
    const steps = new StepRunner({
      commands,
      caller: stepCallerOf(caller),
      parameters,
      live,
      logger: host.logger,
      ...key,
    });
    const keep = this.#keeper(place, deadline);
    const run = new PlanRun({
      plan,
      live,
      steps,
      before: kept,
      keep: (state) => keep(state),
      deadline,
      late: time.signal,
      cancelled: cancelled.signal,
      ended: ended.signal,
      revoked: caller.ended,
      undoesOnCancel: () =>
        live.cancelled.aborted ? live.undoesOnCancel : request.undoOnCancel !== false,
      closing: host.closing,
    });
    try {
      const outcome = await run.follow();
      if (outcome.status !== 'interrupted') await keep({ outcome });
      this.#audit(call, live, auditOf(outcome));
      live.end(outcome);
    } catch (error) {
      host.logger.error({ plan: live.plan, jid: live.id, err: error }, 'run of a plan failed');
      live.fail(error);
    } finally {
      time.clear();
      ended.unlink();
      cancelled.unlink();
    }
  }

  /** Writes one after the other; each time all that is known. */
  #keeper(
    place: KeptPlace | undefined,
    deadline: number,
  ): (more: Partial<KeptPlan>) => Promise<void> {
    if (place === undefined) return async () => {};
    let { kept } = place;
    let before: Promise<void> = Promise.resolve();
    return (more) => {
      kept = { ...kept, ...more };
      const now = kept;
      before = before.then(() => this.#keys.keep(place.owner, now, deadline));
      return before;
    };
  }

  #audit(
    { caller }: KnownPlan,
    live: LivePlan,
    more: Pick<AuditEntry, 'action' | 'outcome'> & { readonly detail?: string },
  ): void {
    const { subject } = caller;
    const who = subject === undefined ? ({ kind: 'local', name: '' } as const) : actorOf(subject);
    const on = [...new Set(Object.values(live.groups).flat())];
    this.#options.host.audit.append({ who, what: live.plan, on, jid: live.id, ...more });
  }
}

function auditOf({ status }: PlanOutcome): Pick<AuditEntry, 'action' | 'outcome' | 'detail'> {
  const outcome = status === 'succeeded' ? 'done' : 'failed';
  return { action: 'plan.end', outcome, detail: status };
}

function stepCallerOf({ name, subject, policy }: KnownCaller): StepRunnerOptions['caller'] {
  return { name, subject, ...(policy === undefined ? {} : { policy }) };
}

function liveOf({ plan, caller }: KnownPlan, { id, groups }: KeptPlan): LivePlan {
  return new LivePlan({ id, plan: plan.definition.name, groups, owner: caller.name });
}
