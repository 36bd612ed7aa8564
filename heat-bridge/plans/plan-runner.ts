/** Runs plans (`bridge.plan`), from the request until all resources of the run are released. */

import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import Type from 'typebox';
import { type AuditEntry, actorOf, type ExtensionHost, type TargetBounds } from '#master';
import { linkSignals, timeLimit } from '#runtime';
import { defineRow, type RowOf } from '#store';
import {
  acquireCaller,
  mayCallBy,
  type ResolvedCaller,
  requireWithin,
} from '../commands/callers.ts';
import type { CommandCaller } from '../commands/command-request.ts';
import type { CommandRunner } from '../commands/command-runner.ts';
import {
  checkIdempotencyKey,
  IdempotencyKeyOwner,
  jsonDigest,
} from '../commands/idempotency-keys.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { Releases } from '../commands/releases.ts';
import type { RunQuotas } from '../commands/run-quotas.ts';
import { lateRunError, StoredRuns } from '../commands/stored-runs.ts';
import { resolveProject } from '../http/http-caller.ts';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import { targetBoundsOfGroup } from './group-reach.ts';
import type { CompiledPlan, PlanCatalog } from './plan-catalog.ts';
import { PlanExecution } from './plan-execution.ts';
import { type Groups, resolveGroups } from './plan-groups.ts';
import { describePlan, mayRunPlan } from './plan-info.ts';
import type { PlanHandle, PlanOutcome, PlanRequest } from './plan-request.ts';
import { PlanRun } from './plan-run.ts';
import { stepParameters, stepReferences } from './step-parameters.ts';
import { StepRunner } from './step-runner.ts';
import { type StoredPlan, storedPlanRow, withoutPlanReturns } from './stored-plan.ts';

export interface PlanRunnerOptions {
  readonly host: ExtensionHost;
  readonly plans: PlanCatalog;
  readonly commands: CommandRunner;
  /** Name of the service that counts as the caller if a request names no caller. */
  readonly service: string;
  readonly quotas: RunQuotas;
}

/** Request for a run, after the caller has been authenticated. */
interface PlanCall {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: ResolvedCaller;
  readonly request: Pick<PlanRequest, 'deadline' | 'groups' | 'signal' | 'undoOnCancel'>;
  /**
   * Request with its idempotency key. If absent, the run is not stored, and it ends when the master
   * ends.
   */
  readonly key?: CarriedPlan;
}

/**
 * Format of the stored request of an active run, with its idempotency key. The row is encrypted. If
 * the member that executes the run fails, another member of the cluster repeats the request to
 * continue the run.
 */
const carriedPlanRow = defineRow({
  name: 'call of a plan',
  schema: Type.Object({
    name: Type.String(),
    params: Type.Unsafe<Parameters>(Type.Object({})),
    groups: Type.Unsafe<PlanRequest['groups']>(Type.Object({})),
    caller: Type.Unsafe<CommandCaller>(Type.Union([Type.String(), Type.Object({})])),
    owner: IdempotencyKeyOwner,
    /** Deadline, in milliseconds since 1970. */
    deadline: Type.Number(),
    undoOnCancel: Type.Boolean(),
  }),
  packed: { params: markedJsonField, groups: markedJsonField, caller: markedJsonField },
  unversioned: fromMarkedJson,
});

type CarriedPlan = RowOf<typeof carriedPlanRow>;

/** State of a run, from its request until its resources are released. */
interface Run {
  /**
   * State of the run: `called` before its start, `begun` while it runs, `over` after its end.
   * `found`: an earlier request or another member has already created this run.
   */
  state: 'called' | 'found' | 'begun' | 'over';
  readonly call: PlanCall;
  readonly releases: Releases;
  /** Deadline, in milliseconds since 1970. */
  readonly deadline: number;
  /** Whether the idempotency key was used before. */
  isRepeated: boolean;
}

/**
 * Tolerance for the deadline of a plan, in milliseconds. If a plan fails within this time before
 * its deadline, its status is `timeout`. The tolerance is needed, because the timer of a command
 * with the same deadline may fire slightly too early.
 */
const timerToleranceMs = 20;

/** Runs the plans of a catalog. */
export class PlanRunner {
  readonly #options: PlanRunnerOptions;
  readonly #runs: StoredRuns<StoredPlan, CarriedPlan, PlanRun>;

  constructor(options: PlanRunnerOptions) {
    const { host, quotas } = options;
    this.#options = options;
    this.#runs = new StoredRuns<StoredPlan, CarriedPlan, PlanRun>({
      host,
      quotas,
      storedRow: storedPlanRow,
      carriedRow: carriedPlanRow,
      shorten: withoutPlanReturns,
      follow: (owner, plan, { id, groups }) =>
        new PlanRun({ id, plan, groups, owner: owner.caller }),
      lostOutcome: lostPlanOutcome,
    });
  }

  /**
   * Enables other members of a cluster to continue the runs of this member. Without a cluster, does
   * nothing.
   */
  share(): Promise<void> {
    return this.#runs.share('plans', (carried) =>
      this.#carryOut((releases) => this.#resolveCarried(carried, releases)),
    );
  }

  /**
   * Continues runs that earlier processes started. Must be called after the master has started to
   * serve requests.
   */
  goOn(): void {
    this.#runs.goOn();
  }

  /** Runs a plan for the caller in the request. `Bridge.plan` documents the errors. */
  run(name: string, request: PlanRequest): Promise<PlanHandle> {
    return this.#carryOut((releases) => this.#resolve(name, request, releases));
  }

  /**
   * Returns the handle of a run that this caller started.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run;
   * AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<PlanHandle> {
    return (await this.#runs.find(id, asked)).handle(true);
  }

  /** Number of active runs. */
  get active(): number {
    return this.#runs.active;
  }

  /**
   * Resolves when this process executes no run. When the master closes, its runs end or are
   * interrupted.
   */
  close(): Promise<void> {
    return this.#runs.close();
  }

  /**
   * Performs a run, from the request to its end.
   * @param resolve - determines the plan and the caller of the request
   * @returns the handle, as soon as the run has started, or an existing run was found
   */
  #carryOut(resolve: (releases: Releases) => Promise<PlanCall>): Promise<PlanHandle> {
    return this.#runs.carryOut(async (releases, reply) => {
      const call = await resolve(releases);
      const { key } = call;
      const deadline = this.#deadlineOf(call);
      const run: Run = { state: 'called', call, releases, deadline, isRepeated: false };
      const { live, stored } = await (key === undefined
        ? this.#admitFresh(run)
        : this.#runs.claim(key.owner, () => this.#findOrAdmit(run, key)));
      reply(live.handle(run.isRepeated));
      return isBegun(run) ? this.#follow(run, live, stored) : undefined;
    });
  }

  /** Determines the plan and the caller of a request. */
  async #resolve(name: string, request: PlanRequest, releases: Releases): Promise<PlanCall> {
    const { host, plans, service } = this.#options;
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await acquireCaller(host, asked, this.#runs.places, releases);
    const mayCall = mayCallBy(host, caller);
    // Callers without rights must not learn which plans and parameters exist.
    const plan = plans.get(name, (it) => mayRunPlan(describePlan(it), mayCall));
    const parameters = plan.check(request.params ?? {});
    this.#runs.holdParameters(caller.name, parameters, releases);
    const project = resolveProject(caller.subject, request.project) ?? '';
    const call = { plan, parameters, caller, request };
    const { idempotencyKey, params = {}, groups, undoOnCancel = true } = request;
    if (idempotencyKey === undefined && this.#runs.cluster === undefined) return call;
    const key =
      idempotencyKey === undefined
        ? { command: `run:plan:${name}`, key: randomUUID() }
        : { command: `plan:${name}`, key: checkIdempotencyKey(idempotencyKey) };
    const owner = { caller: caller.name, project, ...key };
    const deadline = this.#deadlineOf(call);
    return { ...call, key: { name, params, groups, caller: asked, owner, deadline, undoOnCancel } };
  }

  /** Determines the plan and the caller of a run that another member of the cluster started. */
  async #resolveCarried(carried: CarriedPlan, releases: Releases): Promise<PlanCall> {
    const { host, plans } = this.#options;
    const { name, params, groups, owner, undoOnCancel } = carried;
    const plan = plans.get(name);
    const parameters = plan.check(params);
    const caller = await acquireCaller(host, carried.caller, this.#runs.places, releases);
    const { begun = [] } = (await this.#runs.keys.get(owner)) ?? {};
    if (begun.length === 0 && host.now() >= carried.deadline) throw lateRunError(name);
    return { plan, parameters, caller, request: { groups, undoOnCancel }, key: carried };
  }

  /**
   * Returns the run that was started with an idempotency key. If there is no such run, starts one.
   * If the run is stored but no process executes it, continues it.
   */
  async #findOrAdmit(run: Run, key: CarriedPlan): Promise<AdmittedPlan> {
    const { owner } = key;
    const { cluster, keys } = this.#runs;
    const { call, deadline } = run;
    const { plan, parameters, request } = call;
    const digest = jsonDigest([parameters, request.groups]);
    const stored = await keys.find(owner, digest);
    if (stored === undefined) return this.#admitFresh(run, { key, digest });
    run.isRepeated = true;
    this.#permit(call, stored.groups, stored);
    const live = this.#runs.liveOf(owner, plan.definition.name, stored);
    if (live !== undefined) return found(run, live, stored);
    if (stored.outcome !== undefined) {
      return found(run, this.#runs.addEnded(createPlanRun(call, stored), stored.outcome), stored);
    }
    const take = cluster?.take(stored.id, key);
    if (take !== undefined) await keys.keep(owner, stored, deadline, take);
    return this.#admit(run, stored);
  }

  /** Checks that rules permit a new run, and stores the run. */
  async #admitFresh(
    run: Run,
    stored?: { readonly key: CarriedPlan; readonly digest: string },
  ): Promise<AdmittedPlan> {
    const { host } = this.#options;
    const { plan, request } = run.call;
    const begunAt = host.now();
    const boundsOf = (group: string): TargetBounds => targetBoundsOfGroup(host, run.call, group);
    const resolved = await resolveGroups(host, plan.definition, request.groups, boundsOf);
    const { groups, narrowed } = resolved;
    this.#permit(run.call, groups);
    const { key, digest = '' } = stored ?? {};
    const id = await host.freshJid();
    const limited = narrowed.length === 0 ? {} : { narrowed };
    const fresh = { id, digest, groups, ...limited, begunAt, begun: [], ended: [] };
    if (key !== undefined) {
      // Store the run before a job is published.
      const { cluster, keys } = this.#runs;
      await keys.keepFirst(key.owner, fresh, run.deadline, cluster?.take(id, key));
    }
    return this.#admit(run, fresh);
  }

  #admit(run: Run, stored: StoredPlan): AdmittedPlan {
    const live = this.#runs.begin(createPlanRun(run.call, stored), run.releases);
    this.#audit(run.call, live, { action: 'plan.run', outcome: 'permitted' });
    run.state = 'begun';
    return { live, stored };
  }

  /**
   * Checks that rules permit the commands of all steps, and the commands that undo the steps. If
   * the parameters of a command depend on results, this command is checked when the results are
   * available.
   * @param known - the stored run, if the plan was started before. Its steps have already been
   * counted towards the rates of rules, and its minions whose keys have ended receive nothing
   * @throws BridgeError ERR_COMMAND_DENIED, ERR_COMMAND_PARAMETERS
   */
  #permit({ plan, parameters, caller }: PlanCall, groups: Groups, known?: StoredPlan): void {
    const { commands, host } = this.#options;
    for (const { undo, ...step } of plan.steps) {
      const named = groups[step.definition.group] ?? [];
      const minions = known === undefined ? named : commands.withoutLost(named, known.begunAt);
      for (const { command, sources } of undo === undefined ? [step] : [step, undo]) {
        if (minions.length === 0) continue;
        requireWithin(host, command, minions);
        if (stepReferences(sources).length > 0) continue;
        const given = command.check(stepParameters(sources, parameters, new Map()));
        const judged = { caller, command, parameters: given, minions };
        // Each step counts towards the rates of rules when it starts.
        if (known === undefined) commands.requireRight(judged);
        else commands.permit(judged, true);
      }
    }
  }

  #deadlineOf({ plan, request: { deadline } }: PlanCall): number {
    const own = this.#options.host.now() + (plan.definition.timeoutSeconds ?? 600) * 1000;
    return deadline === undefined ? own : Math.min(own, Number(deadline));
  }

  /**
   * Executes the steps of a run. Resolves when the outcome of the run is stored.
   * @returns a function that publishes the outcome to the readers of the run
   */
  async #follow(run: Run, live: PlanRun, stored: StoredPlan): Promise<() => void> {
    const { host } = this.#options;
    const { call, deadline, releases } = run;
    const { plan, caller, request, key } = call;
    const { cluster } = this.#runs;
    const time = timeLimit(deadline - host.now());
    releases.add(() => time.clear());
    const cancelled = linkSignals(live.cancelled, request.signal, caller.ended);
    releases.add(cancelled.unlink);
    const ended = linkSignals(time.signal, cancelled.signal);
    releases.add(ended.unlink);
    // Every step adds a listener to this signal.
    setMaxListeners(0, ended.signal);
    const hold = cluster?.rows.hold(live.id);
    releases.add(() => hold?.release());
    const closing = linkSignals(host.closing, hold?.lost);
    releases.add(closing.unlink);
    const keep = this.#keeper(run, stored);
    const execution = new PlanExecution({
      plan,
      live,
      steps: this.#stepRunner(call, live, stored),
      before: stored,
      keep,
      deadline,
      ends: {
        // A command with the same deadline may end first, even a little before it.
        isLate: () => time.signal.aborted || host.now() >= deadline - timerToleranceMs,
        cancelled: cancelled.signal,
        ended: ended.signal,
        revoked: caller.ended,
        closing: closing.signal,
      },
      undoesOnCancel: () =>
        live.cancelled.aborted ? live.undoesOnCancel : request.undoOnCancel !== false,
    });
    try {
      const outcome = await execution.follow();
      if (outcome.status !== 'interrupted') await keep({ outcome });
      this.#audit(call, live, auditEntryOf(outcome));
      run.state = 'over';
      return () => live.end(outcome);
    } catch (error) {
      host.logger.error(
        { plan: live.plan, jid: live.id, err: error },
        'internal error while running a plan; the run has failed',
      );
      if (key !== undefined) await cluster?.rows.forget(live.id);
      return () => live.fail(error);
    }
  }

  #stepRunner(
    { caller, parameters, key }: PlanCall,
    live: PlanRun,
    stored: StoredPlan,
  ): StepRunner {
    const { commands, host } = this.#options;
    const { name, policy } = caller;
    const { digest, begunAt: resolvedAt } = stored;
    return new StepRunner({
      commands,
      // Do not pass `ended`: when the caller's token becomes invalid, the plan ends its steps
      // itself.
      caller: {
        name,
        get subject() {
          return caller.subject;
        },
        ...(policy === undefined ? {} : { policy }),
      },
      parameters,
      resolvedAt,
      live,
      logger: host.logger,
      ...(key === undefined ? {} : { key: { project: key.owner.project, digest } }),
    });
  }

  /** Returns a function that stores the progress of a run. It performs one write at a time. */
  #keeper(
    { call: { key }, deadline }: Run,
    from: StoredPlan,
  ): (more: Partial<StoredPlan>) => Promise<void> {
    if (key === undefined) return async () => {};
    const { keys, cluster } = this.#runs;
    let stored = from;
    let before: Promise<void> = Promise.resolve();
    return (more) => {
      stored = { ...stored, ...more };
      const now = stored;
      before = before.then(() => {
        if (cluster === undefined) return keys.keep(key.owner, now, deadline);
        const { id, outcome } = now;
        // Write only while this member owns the run, because another member may have continued it.
        return cluster.rows.whileOwn(id, () => {
          const steps = outcome === undefined ? cluster.rows.condition(id) : cluster.rows.end(id);
          return keys.keep(key.owner, now, deadline, steps);
        });
      });
      return before;
    };
  }

  #audit(
    { caller }: PlanCall,
    live: PlanRun,
    more: Pick<AuditEntry, 'action' | 'outcome'> & { readonly detail?: string },
  ): void {
    const { subject } = caller;
    const who = subject === undefined ? ({ kind: 'local', name: '' } as const) : actorOf(subject);
    const on = [...new Set(Object.values(live.groups).flat())];
    this.#options.host.audit.append({ who, what: live.plan, on, jid: live.id, ...more });
  }
}

/** Active run, with its stored form. */
interface AdmittedPlan {
  readonly live: PlanRun;
  readonly stored: StoredPlan;
}

function isBegun({ state }: Run): boolean {
  return state === 'begun';
}

function found(run: Run, live: PlanRun, stored: StoredPlan): AdmittedPlan {
  run.state = 'found';
  return { live, stored };
}

/**
 * Returns the outcome of a run for which none is stored, because the cluster member that executed
 * the run failed.
 */
function lostPlanOutcome({ id, plan }: PlanRun): PlanOutcome {
  return { id, plan, status: 'interrupted', steps: [], undone: [] };
}

function auditEntryOf({ status }: PlanOutcome): Pick<AuditEntry, 'action' | 'outcome' | 'detail'> {
  const outcome = status === 'succeeded' ? 'done' : 'failed';
  return { action: 'plan.end', outcome, detail: status };
}

function createPlanRun({ plan, caller }: PlanCall, { id, groups, narrowed }: StoredPlan): PlanRun {
  return new PlanRun({ id, plan: plan.definition.name, groups, narrowed, owner: caller.name });
}
