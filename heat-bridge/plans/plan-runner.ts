/** `bridge.plan`: authorises a plan as a whole, and starts or finds the run. */

import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import Type from 'typebox';
import type { IntendedCall, Reach } from '#acl';
import {
  type AuditEntry,
  actorOf,
  type ExtensionHost,
  linkSignals,
  type StateOperation,
  StoreError,
  type TargetBounds,
  timeLimit,
} from '#master';
import { Budget, KeyedMutex } from '#runtime';
import { defineRow, type RowOf, Texts } from '#store';
import {
  aclCallOf,
  acquireCaller,
  type ResolvedCaller,
  reachOfCaller,
  requireWithin,
  resolveCaller,
} from '../commands/callers.ts';
import { ClusterRuns } from '../commands/cluster-runs.ts';
import type { CommandCaller } from '../commands/command-request.ts';
import type { CommandRunner } from '../commands/command-runner.ts';
import {
  checkIdempotencyKey,
  IdempotencyKeyOwner,
  IdempotencyKeys,
  jsonDigest,
} from '../commands/idempotency-keys.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { RunQuotas } from '../commands/run-limits.ts';
import { RunRegistry } from '../commands/tracked-run.ts';
import { BridgeError } from '../errors.ts';
import { resolveProject } from '../http/request-project.ts';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import {
  type CompiledPlan,
  type MappedCommand,
  type PlanCatalog,
  stepParameters,
  stepReferences,
} from './plan-catalog.ts';
import { type Groups, resolveGroups } from './plan-groups.ts';
import type { PlanHandle, PlanOutcome, PlanRequest } from './plan-request.ts';
import { PlanExecution, PlanRun, StepRunner, type StepRunnerOptions } from './plan-run.ts';

// Evaluation of groups: by what the steps do there, and for whom.

/** A call of a plan. */
interface PlanCall {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: Pick<ResolvedCaller, 'subject' | 'policy'>;
}

/**
 * Of a group that the caller gives. Its minions are those that rules name for all commands on the
 * whole of it, and for all on at least one of its parts: first and rest may have other commands.
 * @throws BridgeError ERR_COMMAND_PARAMETERS
 */
function targetBoundsOfGroup(
  host: Pick<ExtensionHost, 'policy'>,
  call: PlanCall,
  group: string,
): TargetBounds {
  const { groups } = call.plan.definition;
  const parts = Object.keys(groups).filter((name) => groups[name]?.from === group);
  const commands = [group, ...parts].map((name) => commandsOn(call.plan, name));
  const [whole = [], ...ofParts] = commands.map((list) =>
    list.map((mapped) => plannedCall(mapped, call.parameters)),
  );
  const used = ofParts.filter((calls) => calls.length > 0);
  const reaches = (used.length === 0 ? [whole] : used.map((calls) => [...whole, ...calls])).map(
    (calls) => reachOfCaller(host, call.caller, calls),
  );
  // protection: secrets-of-plans
  const hasSecrets = commands.flat().some((mapped) => mayGiveSecrets(mapped, call.parameters));
  return { reach: unionOfReaches(reaches), hasSecrets };
}

/** What is run on a group by itself, and what takes it back. */
function commandsOn({ steps }: CompiledPlan, group: string): readonly MappedCommand[] {
  return steps
    .filter(({ definition }) => definition.group === group)
    .flatMap(({ undo, ...step }) => (undo === undefined ? [step] : [step, undo]));
}

/** What depends on a result is not known yet. */
function plannedCall({ command, sources }: MappedCommand, parameters: Parameters): IntendedCall {
  if (stepReferences(sources).length > 0) return { fun: command.definition.name };
  return aclCallOf(command, command.check(stepParameters(sources, parameters, new Map())));
}

/** Or may give them, where that depends on a result. */
function mayGiveSecrets({ command, sources }: MappedCommand, parameters: Parameters): boolean {
  if (stepReferences(sources).length > 0) return (command.definition.secret ?? []).length > 0;
  return command.givesSecrets(command.check(stepParameters(sources, parameters, new Map())));
}

/** Whoever may do everything has no reach, whatever the commands. */
function unionOfReaches(reaches: readonly (Reach | undefined)[]): Reach | undefined {
  const limited = reaches.filter((reach) => reach !== undefined);
  if (limited.length < reaches.length) return undefined;
  const [only, ...more] = limited;
  if (only === undefined || more.length === 0) return only;
  return {
    isEmpty: limited.every(({ isEmpty }) => isEmpty),
    includes: (id) => limited.some(({ includes }) => includes(id)),
    denies: (id) => limited.every(({ denies }) => denies(id)),
    showsPillar: (id) => limited.some((reach) => reach.includes(id) && reach.showsPillar(id)),
  };
}

// Stored plans, by idempotency key; their steps are stored as runs of commands.

/** Rows `keys/<digest>` of plans, sealed. */
const storedPlanRow = defineRow({
  name: 'run of a plan',
  schema: Type.Object({
    id: Type.String(),
    /** Of the parameters and the groups. */
    digest: Type.String(),
    groups: Type.Unsafe<Groups>(Type.Object({})),
    /** Milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Steps that were begun, those that ended among them. */
    begun: Texts,
    /** Steps that ended, in the order in which they did. */
    ended: Texts,
    /** Why it takes back what is done. Absent: it does not, yet. */
    undoing: Type.Optional(Type.Unsafe<PlanOutcome['status']>(Type.String())),
    /** Absent: it is not over. */
    outcome: Type.Optional(Type.Unsafe<PlanOutcome>(Type.Object({}))),
  }),
  packed: { groups: markedJsonField, outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** A run of a plan. */
export type StoredPlan = RowOf<typeof storedPlanRow>;

/** Without what was returned, where that is too much. */
function withoutPlanReturns({ outcome, ...plan }: StoredPlan): StoredPlan {
  if (outcome === undefined) return plan;
  const short = ({ results, ...step }: PlanOutcome['steps'][number]) => ({
    ...step,
    results: results.map(({ return: _, ...rest }) => rest),
  });
  const { steps, undone } = outcome;
  return { ...plan, outcome: { ...outcome, steps: steps.map(short), undone: undone.map(short) } };
}

export interface PlanRunnerOptions {
  readonly host: ExtensionHost;
  readonly plans: PlanCatalog;
  readonly commands: CommandRunner;
  /** Who calls where a request does not say. */
  readonly service: string;
  readonly quotas: RunQuotas;
}

/** A call by somebody who is known. */
interface ResolvedPlanCall {
  readonly plan: CompiledPlan;
  readonly parameters: Parameters;
  readonly caller: ResolvedCaller;
  readonly request: PlanRequest;
}

/** Where a run is written down. */
interface StoredPlanSlot {
  readonly owner: IdempotencyKeyOwner;
  readonly kept: StoredPlan;
}

/** What it takes to ask for a plan again at another member of the cluster: in its row, sealed. */
const carriedPlanRow = defineRow({
  name: 'call of a plan',
  schema: Type.Object({
    name: Type.String(),
    params: Type.Unsafe<Parameters>(Type.Object({})),
    groups: Type.Unsafe<PlanRequest['groups']>(Type.Object({})),
    caller: Type.Unsafe<CommandCaller>(Type.Object({})),
    owner: IdempotencyKeyOwner,
    /** Milliseconds since 1970. */
    deadline: Type.Number(),
    undoOnCancel: Type.Boolean(),
  }),
  packed: { params: markedJsonField, groups: markedJsonField, caller: markedJsonField },
  unversioned: fromMarkedJson,
});

type CarriedPlan = RowOf<typeof carriedPlanRow>;

/** Runs plans of a catalog. */
export class PlanRunner {
  readonly #options: PlanRunnerOptions;
  readonly #keys: IdempotencyKeys<StoredPlan>;
  readonly #runs: RunRegistry<PlanRun>;
  readonly #places: Budget;
  readonly #underWay = new Set<Promise<void>>();
  /** A second request with a key waits until the first was looked at. */
  readonly #byOwner = new KeyedMutex();
  #shared: ClusterRuns<CarriedPlan> | undefined;

  constructor(options: PlanRunnerOptions) {
    this.#options = options;
    this.#runs = new RunRegistry(options.quotas.ended);
    this.#places = new Budget(options.quotas.active);
    this.#keys = new IdempotencyKeys(options.host.shared, storedPlanRow, withoutPlanReturns);
  }

  /** In a cluster: lets runs go on at other members. */
  async share(): Promise<void> {
    const { shared: state, logger: log } = this.#options.host;
    this.#shared = await ClusterRuns.open<CarriedPlan>({
      state,
      kind: 'plans',
      row: carriedPlanRow,
      resume: (_id, call) => this.#resume(call),
      find: (id) => this.#runs.get(id),
      log,
    });
  }

  /** Goes on with what other processes left; the master's interface is there. */
  goOn(): void {
    this.#shared?.start();
  }

  /** See `Bridge.plan`. */
  async run(name: string, request: PlanRequest): Promise<PlanHandle> {
    const { host, plans, service } = this.#options;
    const plan = plans.get(name);
    const parameters = plan.check(request.params ?? {});
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await acquireCaller(host, asked, this.#places);
    try {
      const call = { plan, parameters, caller, request };
      const project = resolveProject(caller.subject, request.project) ?? '';
      const { idempotencyKey } = request;
      if (idempotencyKey === undefined && this.#shared === undefined) {
        const groups = await this.#settle(call);
        return this.#begin(call, await this.#fresh('', groups)).handle(false);
      }
      const key =
        idempotencyKey === undefined
          ? { command: `run:plan:${name}`, key: randomUUID() }
          : { command: `plan:${name}`, key: checkIdempotencyKey(idempotencyKey) };
      const owner = { caller: caller.name, project, ...key };
      return await this.#byOwner.run(JSON.stringify(owner), () =>
        this.#runOnce(call, this.#placeOf(call, asked, owner)),
      );
    } catch (error) {
      caller.leave();
      throw error;
    }
  }

  #placeOf(call: ResolvedPlanCall, caller: CommandCaller, owner: IdempotencyKeyOwner): PlanPlace {
    const { request, plan } = call;
    const { params = {}, groups, undoOnCancel = true } = request;
    const { name } = plan.definition;
    const deadline = this.#deadlineOf(call);
    return { owner, carried: { name, params, groups, caller, owner, deadline, undoOnCancel } };
  }

  /** Goes on with a run that another member of the cluster began. */
  async #resume(carried: CarriedPlan): Promise<void> {
    const { host, plans } = this.#options;
    const { name, params, groups, owner, undoOnCancel } = carried;
    const plan = plans.get(name);
    const parameters = plan.check(params);
    const caller = await acquireCaller(host, carried.caller, this.#places);
    try {
      const { begun = [] } = (await this.#keys.get(owner)) ?? {};
      if (begun.length === 0 && host.now() >= carried.deadline) {
        // Nothing of it was done, and whoever asked for it waits no more.
        const text = 'it was not begun before its deadline; ask again';
        throw new BridgeError('ERR_RUN_UNKNOWN', `${name}: ${text}`);
      }
      const call = { plan, parameters, caller, request: { groups, undoOnCancel } };
      await this.#byOwner.run(JSON.stringify(owner), () => this.#runOnce(call, { owner, carried }));
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
    const caller = await resolveCaller(this.#options.host, asked);
    caller.leave();
    if (this.#runs.get(id) === undefined) await this.#findElsewhere(id);
    return this.#runs.find(id, caller).handle(true);
  }

  /** A run of another member is one of this process from then on, for those who follow it. */
  async #findElsewhere(id: string): Promise<void> {
    const carried = await this.#shared?.find(id);
    const kept = carried && (await this.#keys.get(carried.owner));
    if (carried === undefined || kept === undefined || this.#runs.get(id) !== undefined) return;
    this.#followElsewhere(carried, kept);
  }

  /** Tells of a run of another member of the cluster. */
  #followElsewhere(
    { owner, name: plan }: Pick<CarriedPlan, 'name' | 'owner'>,
    { id, groups }: StoredPlan,
  ): PlanRun {
    const live = this.#runs.add(new PlanRun({ id, plan, groups, owner: owner.caller }));
    this.#shared?.follow(live, async () => {
      const lost = { id, plan, status: 'interrupted', steps: [], undone: [] } as const;
      return (await this.#keys.get(owner))?.outcome ?? lost;
    });
    return live;
  }

  /** How many runs go on. */
  get active(): number {
    return this.#underWay.size;
  }

  /** Waits for what is under way, which ends with the master. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#shared?.close();
  }

  async #runOnce(call: ResolvedPlanCall, place: PlanPlace): Promise<PlanHandle> {
    for (;;) {
      try {
        return await this.#runOrFind(call, place);
      } catch (error) {
        // Another member of the cluster was first with it.
        if (!isConflict(error)) throw error;
      }
    }
  }

  async #runOrFind(call: ResolvedPlanCall, place: PlanPlace): Promise<PlanHandle> {
    const { owner, carried } = place;
    const { parameters, caller, request } = call;
    const digest = jsonDigest([parameters, request.groups]);
    const kept = await this.#keys.find(owner, digest);
    if (kept === undefined) {
      const groups = await this.#settle(call);
      const fresh = await this.#fresh(digest, groups);
      // Before anything is published.
      const take = this.#shared?.take(fresh.id, carried);
      await this.#keys.keepFirst(owner, fresh, this.#deadlineOf(call), take);
      return this.#begin(call, fresh, owner).handle(false);
    }
    this.#permit(call, kept.groups);
    const live = this.#runs.get(kept.id);
    if (live !== undefined && (this.#shared?.isCurrent(live) ?? !live.isInterrupted)) {
      caller.leave();
      return live.handle(true);
    }
    if (this.#shared?.isElsewhere(kept.id) === true) {
      caller.leave();
      return this.#followElsewhere(carried, kept).handle(true);
    }
    if (kept.outcome === undefined) {
      const take = this.#shared?.take(kept.id, carried);
      if (take !== undefined) await this.#keys.keep(owner, kept, this.#deadlineOf(call), take);
      return this.#begin(call, kept, owner).handle(true);
    }
    caller.leave();
    const ended = this.#runs.add(createPlanRun(call, kept));
    ended.end(kept.outcome);
    return ended.handle(true);
  }

  /** Whom the groups mean, permitted as a whole. */
  async #settle(call: ResolvedPlanCall): Promise<Groups> {
    const { host } = this.#options;
    const { plan, request } = call;
    const boundsOf = (group: string): TargetBounds => targetBoundsOfGroup(host, call, group);
    const groups = await resolveGroups(host, plan.definition, request.groups, boundsOf);
    this.#permit(call, groups);
    return groups;
  }

  async #fresh(digest: string, groups: Groups): Promise<StoredPlan> {
    const { host } = this.#options;
    return { id: await host.freshJid(), digest, groups, begunAt: host.now(), begun: [], ended: [] };
  }

  /**
   * Each step, and what takes it back, as the command that it is. What depends on a result is
   * decided when that is there.
   * @throws BridgeError ERR_COMMAND_DENIED, ERR_COMMAND_PARAMETERS
   */
  #permit({ plan, parameters, caller }: ResolvedPlanCall, groups: Groups): void {
    for (const { undo, ...step } of plan.steps) {
      const minions = groups[step.definition.group] ?? [];
      for (const { command, sources } of undo === undefined ? [step] : [step, undo]) {
        if (minions.length === 0) continue;
        requireWithin(this.#options.host, command, minions);
        if (stepReferences(sources).length > 0) continue;
        const given = command.check(stepParameters(sources, parameters, new Map()));
        // protection: plans-unjudged
        this.#options.commands.permit({ caller, command, parameters: given, minions });
      }
    }
  }

  #deadlineOf({ plan, request: { deadline } }: ResolvedPlanCall): number {
    const own = this.#options.host.now() + (plan.definition.timeoutSeconds ?? 600) * 1000;
    return deadline === undefined ? own : Math.min(own, Number(deadline));
  }

  #begin(call: ResolvedPlanCall, kept: StoredPlan, owner?: IdempotencyKeyOwner): PlanRun {
    const live = this.#runs.add(createPlanRun(call, kept));
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
    call: ResolvedPlanCall,
    live: PlanRun,
    kept: StoredPlan,
    place: StoredPlanSlot | undefined,
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
    const held = this.#shared?.hold(live.id);
    const closing = linkSignals(host.closing, held?.lost);
    const keep = this.#keeper(place, deadline);
    const run = new PlanExecution({
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
      closing: closing.signal,
    });
    try {
      const outcome = await run.follow();
      if (outcome.status !== 'interrupted') await keep({ outcome });
      this.#audit(call, live, auditEntryOf(outcome));
      live.end(outcome);
    } catch (error) {
      host.logger.error({ plan: live.plan, jid: live.id, err: error }, 'run of a plan failed');
      if (place !== undefined) await this.#shared?.forget(live.id);
      live.fail(error);
    } finally {
      held?.release();
      closing.unlink();
      time.clear();
      ended.unlink();
      cancelled.unlink();
    }
  }

  /** Writes one after the other; each time all that is known. */
  #keeper(
    place: StoredPlanSlot | undefined,
    deadline: number,
  ): (more: Partial<StoredPlan>) => Promise<void> {
    if (place === undefined) return async () => {};
    let { kept } = place;
    let before: Promise<void> = Promise.resolve();
    return (more) => {
      kept = { ...kept, ...more };
      const now = kept;
      const write = (): Promise<void> =>
        this.#keys.keep(place.owner, now, deadline, this.#conditionOf(now));
      const shared = this.#shared;
      before = before.then(() => (shared === undefined ? write() : shared.whileRun(now.id, write)));
      return before;
    };
  }

  /** Another member of the cluster may run it by now. */
  #conditionOf({ id, outcome }: StoredPlan): readonly StateOperation[] | undefined {
    return outcome === undefined ? this.#shared?.condition(id) : this.#shared?.end(id);
  }

  #audit(
    { caller }: ResolvedPlanCall,
    live: PlanRun,
    more: Pick<AuditEntry, 'action' | 'outcome'> & { readonly detail?: string },
  ): void {
    const { subject } = caller;
    const who = subject === undefined ? ({ kind: 'local', name: '' } as const) : actorOf(subject);
    const on = [...new Set(Object.values(live.groups).flat())];
    this.#options.host.audit.append({ who, what: live.plan, on, jid: live.id, ...more });
  }
}

/** Where a run is written down, in a cluster with what it takes to ask for it again. */
interface PlanPlace {
  readonly owner: IdempotencyKeyOwner;
  readonly carried: CarriedPlan;
}

function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

function auditEntryOf({ status }: PlanOutcome): Pick<AuditEntry, 'action' | 'outcome' | 'detail'> {
  const outcome = status === 'succeeded' ? 'done' : 'failed';
  return { action: 'plan.end', outcome, detail: status };
}

function stepCallerOf({ name, subject, policy }: ResolvedCaller): StepRunnerOptions['caller'] {
  return { name, subject, ...(policy === undefined ? {} : { policy }) };
}

function createPlanRun({ plan, caller }: ResolvedPlanCall, { id, groups }: StoredPlan): PlanRun {
  return new PlanRun({ id, plan: plan.definition.name, groups, owner: caller.name });
}
