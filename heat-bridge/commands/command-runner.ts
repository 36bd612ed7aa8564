/** `bridge.run`: checks a request step by step, and starts or finds the run. */

import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import Type from 'typebox';
import {
  type AuditRequester,
  type ExtensionHost,
  inTime,
  type JobReport,
  linkSignals,
  MasterError,
  type StateOperation,
  StoreError,
  type TargetRequest,
  timeLimit,
} from '#master';
import { Budget, KeyedMutex } from '#runtime';
import { defineRow, type RowOf, Texts } from '#store';
import { BridgeError } from '../errors.ts';
import { resolveProject } from '../http/request-project.ts';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import {
  aclCallOf,
  acquireCaller,
  authorizeCommand,
  type ResolvedCaller,
  reachOfCaller,
  resolveCaller,
} from './callers.ts';
import { ClusterRuns } from './cluster-runs.ts';
import type { Catalog, CompiledCommand } from './command-catalog.ts';
import {
  type CommandCaller,
  type CommandHandle,
  type CommandOutcome,
  type CommandRequest,
  type CommandResult,
  type CommandTarget,
  targetOf,
} from './command-request.ts';
import {
  type CommandExecution,
  CommandRun,
  commandResultOf,
  completedStatus,
  createEndedRun,
  executeCommandRun,
} from './command-run.ts';
import {
  checkIdempotencyKey,
  IdempotencyKeyOwner,
  IdempotencyKeys,
  jsonDigest,
} from './idempotency-keys.ts';
import type { Parameters } from './parameters.ts';
import { RunConcurrency, type RunQuotas, type RunSlot } from './run-limits.ts';
import { createSecretReference, RunSecrets } from './run-secrets.ts';
import { RunRegistry } from './tracked-run.ts';

// Stored runs, by idempotency key.

/** Rows `keys/<digest>` of commands, sealed. */
const storedRunRow = defineRow({
  name: 'run of a command',
  schema: Type.Object({
    /** Of its first job. */
    id: Type.String(),
    /** Of the parameters and the target. */
    digest: Type.String(),
    minions: Texts,
    /** Milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Milliseconds since 1970. */
    deadline: Type.Number(),
    /** Where its minions find what is secret; see {@link RunSecrets}. */
    secrets: Type.String(),
    /** Absent: it was not over when the master ended. */
    outcome: Type.Optional(Type.Unsafe<CommandOutcome>(Type.Object({}))),
  }),
  packed: { outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** A run. */
export type StoredRun = RowOf<typeof storedRunRow>;

/** Without what was returned, where that is too much. */
function withoutReturns({ outcome, ...run }: StoredRun): StoredRun {
  if (outcome === undefined) return run;
  const results = outcome.results.map(({ return: _, ...rest }) => rest);
  return { ...run, outcome: { ...outcome, results } };
}

// Runs of an earlier master process, from the job cache.

/** How a run stands that was not over when its master ended. */
type RecoveredRun =
  /** Its job never left. */
  | { readonly state: 'unpublished' }
  /** Its time is not over, and not all is there. */
  | { readonly state: 'open' }
  | { readonly state: 'over'; readonly outcome: CommandOutcome };

/** Where the job cache may have forgotten, it is rather not done than done twice. */
async function recoverRun(
  host: Pick<ExtensionHost, 'config' | 'master' | 'now' | 'reloadable'>,
  command: CompiledCommand,
  kept: StoredRun,
): Promise<RecoveredRun> {
  const job = await findJob(host, kept.id);
  if (job === undefined && isWithinJobCache(host, kept)) return { state: 'unpublished' };
  const own = job?.returns.filter(({ resource }) => resource === undefined);
  const known = new Map(own?.map((one) => [one.minion, commandResultOf(command, one)]));
  const results = kept.minions.map((minion): CommandResult => {
    const lost = { minion, state: 'unfinished', reason: 'the master ended' } as const;
    return known.get(minion) ?? lost;
  });
  const over = completedStatus(results);
  const mayGoOn = job !== undefined && host.now() < kept.deadline;
  const isFinal = over === 'succeeded' || (over === 'failed' && !isRetried(command));
  if (mayGoOn && !isFinal) return { state: 'open' };
  const { id } = kept;
  const status = over ?? ('interrupted' as const);
  const outcome = { id, command: command.definition.name, status, results, jids: [id] };
  return { state: 'over', outcome };
}

async function findJob(
  { master }: Pick<ExtensionHost, 'master'>,
  jid: string,
): Promise<JobReport | undefined> {
  try {
    return await master().jobs.show(jid);
  } catch (error) {
    if (error instanceof MasterError && error.code === 'ERR_JOB_UNKNOWN') return undefined;
    throw error;
  }
}

function isWithinJobCache(
  { config, now, reloadable }: Pick<ExtensionHost, 'config' | 'now' | 'reloadable'>,
  { begunAt }: StoredRun,
): boolean {
  return config.jobCache && now() - begunAt < reloadable().keepJobsSeconds * 1000;
}

function isRetried({ definition }: CompiledCommand): boolean {
  return definition.idempotent === true && (definition.retries ?? 0) > 0;
}

export interface CommandRunnerOptions {
  readonly host: ExtensionHost;
  readonly catalog: Catalog;
  /** Who calls where a request does not say. */
  readonly service: string;
  readonly quotas: RunQuotas;
  /** Where secrets of runs are, if they share a pillar with those of another runner. */
  readonly secrets?: RunSecrets;
  /** Told of each run that begins. */
  readonly onBegin?: ((run: CommandRun) => void) | undefined;
}

/** A call by somebody who is known, on minions that are known. */
export interface ResolvedCall {
  readonly caller: ResolvedCaller;
  readonly command: CompiledCommand;
  /** As `command.check` gave them. */
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  /** Milliseconds since 1970, or a time. Default: the command's timeout from now on. */
  readonly deadline?: Date | number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly key?: KeyedRequest;
  /** Of its first job. Default: a new one. */
  readonly jid?: string | undefined;
  readonly permitted?: RunOptions['permitted'];
}

/** What only parts of the bridge may say of a run. */
export interface RunOptions {
  /** Of its first job, which has none yet. Default: a new one. */
  readonly jid?: string | undefined;
  /** Called once rules have permitted the run; where it rejects, nothing is run. */
  readonly permitted?: (() => Promise<void>) | undefined;
  /** Goes on at another member of the cluster by itself. Default: whoever asked asks again. */
  readonly isCarried?: boolean;
}

/** A key, and what it was used for. */
interface KeyedRequest {
  readonly owner: IdempotencyKeyOwner;
  readonly digest: string;
  readonly carried?: CarriedCall | undefined;
}

/** What it takes to ask for a run again at another member of the cluster: in its row, sealed. */
const carriedCallRow = defineRow({
  name: 'call of a command',
  schema: Type.Object({
    name: Type.String(),
    target: Type.Unsafe<TargetRequest>(Type.Object({})),
    params: Type.Unsafe<Parameters>(Type.Object({})),
    caller: Type.Unsafe<CommandCaller>(Type.Object({})),
    owner: IdempotencyKeyOwner,
  }),
  packed: { target: markedJsonField, params: markedJsonField, caller: markedJsonField },
  unversioned: fromMarkedJson,
});

type CarriedCall = RowOf<typeof carriedCallRow>;

/** A call that was permitted. */
interface PermittedCall extends Omit<ResolvedCall, 'deadline'> {
  readonly by: AuditRequester | undefined;
  /** Milliseconds since 1970. */
  readonly deadline: number;
}

/** Where a run is written down. */
interface StoredRunSlot {
  readonly owner: IdempotencyKeyOwner;
  readonly kept: StoredRun;
  /** Its job was published before. */
  readonly isResumed?: boolean;
  /** Its key was not used before. */
  readonly isFirst?: boolean;
  readonly carried?: CarriedCall | undefined;
}

/** Runs commands of a catalog. */
export class CommandRunner {
  readonly secrets: RunSecrets;
  readonly #options: CommandRunnerOptions;
  readonly #keys: IdempotencyKeys<StoredRun>;
  readonly #limits = new RunConcurrency();
  readonly #runs: RunRegistry<CommandRun>;
  readonly #places: Budget;
  readonly #underWay = new Set<Promise<void>>();
  /** A second request with a key waits until the first was looked at. */
  readonly #byOwner = new KeyedMutex();
  readonly #closing = new AbortController();
  #shared: ClusterRuns<CarriedCall> | undefined;

  constructor(options: CommandRunnerOptions) {
    this.#options = options;
    this.secrets = options.secrets ?? new RunSecrets();
    this.#runs = new RunRegistry(options.quotas.ended);
    this.#places = new Budget(options.quotas.active);
    this.#keys = new IdempotencyKeys(options.host.shared, storedRunRow, withoutReturns);
    // Every run listens to it.
    setMaxListeners(0, this.#closing.signal);
  }

  /**
   * In a cluster: lets runs go on at other members.
   * @param kind - which of a member's runners it is, the same at all members
   */
  async share(kind: string): Promise<void> {
    const { shared: state, logger: log } = this.#options.host;
    this.#shared = await ClusterRuns.open<CarriedCall>({
      state,
      kind,
      row: carriedCallRow,
      resume: (_id, call) => this.#resume(call),
      find: (id) => this.#runs.get(id),
      log,
    });
  }

  /** Goes on with what other processes left; the master's interface is there. */
  goOn(): void {
    this.#shared?.start();
  }

  /** See `Bridge.run`. */
  async run(
    name: string,
    request: CommandRequest,
    { jid, permitted, isCarried = false }: RunOptions = {},
  ): Promise<CommandHandle> {
    const { host, catalog, service } = this.#options;
    const command = catalog.get(name);
    const parameters = command.check(request.params ?? {});
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await acquireCaller(host, asked, this.#places);
    try {
      const project = resolveProject(caller.subject, request.project) ?? '';
      const minions = await this.#minionsOf(caller, command, parameters, request.target);
      const { idempotencyKey, deadline, signal } = request;
      const call = { caller, command, parameters, minions, deadline, signal, jid, permitted };
      const isShared = isCarried && this.#shared !== undefined;
      if (idempotencyKey === undefined && !isShared) return await this.start(call);
      const key =
        idempotencyKey === undefined
          ? // No command is called so: nobody's own key is this one.
            { command: `run:${name}`, key: randomUUID() }
          : { command: name, key: checkIdempotencyKey(idempotencyKey) };
      const owner = { caller: caller.name, project, ...key };
      const target = targetOf(request.target);
      const digest = jsonDigest([parameters, target]);
      const again = { name, target, params: request.params ?? {}, caller: asked, owner };
      const carried = isShared ? again : undefined;
      return await this.start({ ...call, key: { owner, digest, carried } });
    } catch (error) {
      caller.leave();
      throw error;
    }
  }

  /** Goes on with a run that another member of the cluster began. */
  async #resume(carried: CarriedCall): Promise<void> {
    const { host, catalog } = this.#options;
    const { name, target, params, owner } = carried;
    const command = catalog.get(name);
    const parameters = command.check(params);
    const caller = await acquireCaller(host, carried.caller, this.#places);
    try {
      const kept = await this.#keys.get(owner);
      const isLate = kept === undefined || host.now() >= kept.deadline;
      if (isLate && (kept === undefined || (await findJob(host, kept.id)) === undefined)) {
        throw lateRunError(name);
      }
      const minions = kept?.minions ?? [];
      const digest = jsonDigest([parameters, target]);
      const call = { caller, command, parameters, minions };
      await this.start({ ...call, key: { owner, digest, carried } });
    } catch (error) {
      caller.leave();
      throw error;
    }
  }

  /** The caller is left when the run is over; where it is refused, that is for whoever asked. */
  async start(call: ResolvedCall): Promise<CommandHandle> {
    const by = this.permit(call);
    await call.permitted?.();
    const run = { ...call, by, deadline: this.#deadlineOf(call.command, call.deadline) };
    const { key } = call;
    if (key === undefined) return (await this.#begin(run)).handle(false);
    return this.#byOwner.run(JSON.stringify(key.owner), () => this.#runOnce(run, key));
  }

  /** The policy check of {@link start}. @throws BridgeError ERR_COMMAND_DENIED */
  permit(call: ResolvedCall): AuditRequester | undefined {
    const { caller, command, parameters, minions } = call;
    return authorizeCommand(this.#options.host, caller, command, parameters, minions);
  }

  /**
   * A run that this caller began. @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody
   * else's; AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<CommandHandle> {
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
    this.#followElsewhere(carried.owner, carried.name, kept);
  }

  /** How many runs go on. */
  get active(): number {
    return this.#underWay.size;
  }

  /** Ends what is under way, but for what the next master can go on with; waits for it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#underWay);
    await this.#shared?.close();
  }

  async #minionsOf(
    caller: ResolvedCaller,
    command: CompiledCommand,
    parameters: Parameters,
    target: CommandTarget,
  ): Promise<readonly string[]> {
    const { host } = this.#options;
    const { name } = command.definition;
    const reach = reachOfCaller(host, caller, [aclCallOf(command, parameters)]);
    // protection: secrets-of-commands
    const hasSecrets = command.givesSecrets(parameters);
    const minions =
      reach?.isEmpty === true ? [] : await host.minionsOf(targetOf(target), { reach, hasSecrets });
    if (minions.length > 0) return minions;
    // Refuses it, and tells the audit log.
    if (reach !== undefined) this.permit({ caller, command, parameters, minions });
    throw new BridgeError('ERR_COMMAND_TARGET', `${name}: the target means no accepted minion`);
  }

  #deadlineOf({ definition }: CompiledCommand, given: Date | number | undefined): number {
    const { timeoutSeconds = 60 } = definition;
    const own = this.#options.host.now() + timeoutSeconds * 1000;
    return given === undefined ? own : Math.min(own, Number(given));
  }

  async #runOnce(run: PermittedCall, request: KeyedRequest): Promise<CommandHandle> {
    for (;;) {
      try {
        return await this.#runOrFind(run, request);
      } catch (error) {
        // Another member of the cluster was first with it.
        if (!isConflict(error)) throw error;
      }
    }
  }

  async #runOrFind(
    run: PermittedCall,
    { owner, digest, carried }: KeyedRequest,
  ): Promise<CommandHandle> {
    const kept = await this.#keys.find(owner, digest);
    if (kept !== undefined) return (await this.#again(run, { owner, kept, carried })).handle(true);
    const fresh = {
      id: run.jid ?? (await this.#options.host.freshJid()),
      digest,
      minions: run.minions,
      begunAt: this.#options.host.now(),
      deadline: run.deadline,
      secrets: createSecretReference(),
    };
    return (await this.#begin(run, { owner, kept: fresh, isFirst: true, carried })).handle(false);
  }

  /** The run that is kept, wherever it stands. */
  async #again(run: PermittedCall, place: StoredRunSlot): Promise<CommandRun> {
    const { host } = this.#options;
    const { caller, command, deadline } = run;
    const { owner, kept } = place;
    const live = this.#runs.get(kept.id);
    if (live !== undefined && (this.#shared?.isCurrent(live) ?? !live.isInterrupted)) {
      caller.leave();
      return live;
    }
    if (this.#shared?.isElsewhere(kept.id) === true) {
      caller.leave();
      return this.#followElsewhere(owner, command.definition.name, kept);
    }
    const recalled =
      kept.outcome === undefined
        ? await recoverRun(host, command, kept)
        : ({ state: 'over', outcome: kept.outcome } as const);
    switch (recalled.state) {
      case 'unpublished':
        return this.#begin(run, { ...place, kept: { ...kept, minions: run.minions, deadline } });
      case 'open': {
        const { minions } = kept;
        return this.#begin(
          { ...run, minions, deadline: kept.deadline },
          { ...place, isResumed: true },
        );
      }
      case 'over': {
        const { outcome } = recalled;
        await this.#keepOutcome(place, outcome, (shared) => shared.endLeft(kept.id));
        // Nobody can go on with it; a return that comes later is found in the job.
        // protection: runs-past-their-deadline
        if (outcome.status === 'interrupted') await this.#shared?.forget(kept.id);
        caller.leave();
        const name = command.definition.name;
        const options = { id: kept.id, command: name, minions: kept.minions, owner: caller.name };
        return this.#runs.add(createEndedRun(options, outcome));
      }
    }
  }

  /** What may still come is not decided by what is there. */
  async #keepOutcome(
    { owner, kept, carried }: StoredRunSlot,
    outcome: CommandOutcome,
    ending: (shared: ClusterRuns<CarriedCall>) => StateOperation[],
  ): Promise<void> {
    if (outcome.status === 'interrupted' || kept.outcome !== undefined) return;
    const over = { ...kept, outcome };
    const shared = carried && this.#shared;
    if (shared === undefined) return this.#keys.keep(owner, over, kept.deadline);
    await shared.whileRun(kept.id, () =>
      this.#keys.keep(owner, over, kept.deadline, ending(shared)),
    );
  }

  /** Tells of a run of another member of the cluster. */
  #followElsewhere(owner: IdempotencyKeyOwner, command: string, kept: StoredRun): CommandRun {
    const { id, minions } = kept;
    const live = this.#runs.add(new CommandRun({ id, command, minions, owner: owner.caller }));
    this.#shared?.follow(live, async () => {
      const results = minions.map((minion): CommandResult => ({ minion, state: 'unfinished' }));
      const lost = { id, command, status: 'interrupted', results, jids: [id] } as const;
      return (await this.#keys.get(owner))?.outcome ?? lost;
    });
    return live;
  }

  async #begin(run: PermittedCall, place?: StoredRunSlot): Promise<CommandRun> {
    const { command, minions, caller } = run;
    const { name } = command.definition;
    const seat = this.#limits.enter(command.definition, minions);
    try {
      const id = place?.kept.id ?? run.jid ?? (await this.#options.host.freshJid());
      // Before anything is published.
      if (place !== undefined) await this.#keepBegun(place);
      const live = this.#runs.add(
        new CommandRun({ id, command: name, minions, owner: caller.name }),
      );
      this.#options.onBegin?.(live);
      const work = this.#follow(live, run, seat, place).finally(() => {
        seat.leave();
        caller.leave();
        this.#underWay.delete(work);
      });
      this.#underWay.add(work);
      return live;
    } catch (error) {
      seat.leave();
      throw error;
    }
  }

  async #keepBegun({ owner, kept, isFirst = false, carried }: StoredRunSlot): Promise<void> {
    const take = carried === undefined ? undefined : this.#shared?.take(kept.id, carried);
    if (isFirst) await this.#keys.keepFirst(owner, kept, kept.deadline, take);
    else await this.#keys.keep(owner, kept, kept.deadline, take);
  }

  async #follow(
    live: CommandRun,
    run: PermittedCall,
    seat: RunSlot,
    place: StoredRunSlot | undefined,
  ): Promise<void> {
    const { host } = this.#options;
    const { command, parameters, caller, minions, deadline, signal } = run;
    const reference = place?.kept.secrets ?? createSecretReference();
    const hidden = this.secrets.keep(command.pillarOf(parameters), minions, reference);
    const time = timeLimit(deadline - host.now());
    const held = place?.carried && this.#shared?.hold(live.id);
    const closing = linkSignals(this.#closing.signal, host.closing, held?.lost);
    const ended = linkSignals(
      signal,
      caller.ended,
      place === undefined ? closing.signal : undefined,
    );
    const work: CommandExecution = {
      command,
      call: command.toCall(parameters, reference),
      user: jobUserOf(caller),
      by: run.by,
      deadline: time.signal,
      ended: ended.signal,
      ...(place === undefined ? {} : { left: closing.signal }),
      ...(place?.isResumed === true ? { resume: (end) => host.resumeJob(live.id, end) } : {}),
    };
    try {
      const waited = linkSignals(time.signal, ended.signal, closing.signal, live.cancelled);
      await inTime(seat.entered, waited.signal);
      waited.unlink();
      // Rights may have gone meanwhile.
      if (seat.isQueued) this.permit(run);
      const outcome = await executeCommandRun(host.master().jobs, live, work);
      if (place !== undefined) {
        await this.#keepOutcome(place, outcome, (shared) => shared.end(live.id));
      }
      live.end(outcome);
    } catch (error) {
      host.logger.error({ command: live.command, jid: live.id, err: error }, 'command run failed');
      if (place?.carried !== undefined) await this.#shared?.forget(live.id);
      live.fail(error);
    } finally {
      held?.release();
      time.clear();
      ended.unlink();
      closing.unlink();
      hidden.forget();
    }
  }
}

/** Nothing of it was done, and whoever asked for it waits no more. */
function lateRunError(name: string): BridgeError {
  const text = 'it was not begun before its deadline; ask again';
  return new BridgeError('ERR_RUN_UNKNOWN', `${name}: ${text}`);
}

function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

/** What a job is told to be of. */
function jobUserOf({ subject }: ResolvedCaller): string {
  if (subject === undefined) return 'saltbridge';
  switch (subject.kind) {
    case 'minion':
      return subject.id;
    case 'project':
      return `project:${subject.project.name}/${subject.user.name}`;
    default:
      return subject.name;
  }
}
