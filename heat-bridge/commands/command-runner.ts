/**
 * Runs named commands (`bridge.run`), from the request until all resources of the run are released.
 */

import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import Type from 'typebox';
import type {
  AddressedMinions,
  AuditRequester,
  ExtensionHost,
  StateOperation,
  TargetRequest,
} from '#master';
import { inTime, linkSignals, timeLimit } from '#runtime';
import { defineRow, type RowOf } from '#store';
import { BridgeError } from '../errors.ts';
import { resolveProject } from '../http/http-caller.ts';
import { bridgeLimits } from '../limits.ts';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import {
  aclCallOf,
  acquireCaller,
  actorOfCaller,
  authorizeCommand,
  deniedByName,
  mayCallBy,
  type ResolvedCaller,
  reachOfCaller,
  requireCommandRight,
} from './callers.ts';
import type { ClusterRuns } from './cluster-runs.ts';
import type { Catalog, CompiledCommand } from './command-catalog.ts';
import { executeCommandRun } from './command-execution.ts';
import {
  type CommandCaller,
  type CommandHandle,
  type CommandOutcome,
  type CommandRequest,
  type CommandResult,
  type CommandTarget,
  targetOf,
} from './command-request.ts';
import { CommandRun, type LeftOut } from './command-run.ts';
import { checkIdempotencyKey, IdempotencyKeyOwner, jsonDigest } from './idempotency-keys.ts';
import type { LostKeys } from './lost-keys.ts';
import type { Parameters } from './parameters.ts';
import {
  findJob,
  recoverRun,
  type StoredRun,
  storedRunRow,
  withoutReturns,
} from './recover-run.ts';
import { Releases } from './releases.ts';
import { RunConcurrency, type RunSlot } from './run-limits.ts';
import type { RunQuotas } from './run-quotas.ts';
import { createSecretReference, RunSecrets, type SecretLease } from './run-secrets.ts';
import { lateRunError, StoredRuns } from './stored-runs.ts';

export interface CommandRunnerOptions {
  readonly host: ExtensionHost;
  readonly catalog: Catalog;
  /** Name of the service that counts as the caller if a request names no caller. */
  readonly service: string;
  readonly quotas: RunQuotas;
  readonly lostKeys: LostKeys;
  /** Secrets of active runs. Several runners can share one object. Default: a new object. */
  readonly secrets?: RunSecrets;
  /** Callback that receives each run that starts. */
  readonly onBegin?: ((run: CommandRun) => void) | undefined;
}

/**
 * Request for a run, after the caller has been authenticated and the target resolved to minions.
 */
export interface CommandCall {
  readonly caller: ResolvedCaller;
  readonly command: CompiledCommand;
  /** Validated parameters. */
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  /**
   * Time at which the minions were determined, in milliseconds since 1970. Minions whose keys have
   * ended since then do not receive the command.
   */
  readonly resolvedAt: number;
  /** Minion ids in the target that do not receive the command. Default: none. */
  readonly leftOut?: LeftOut | undefined;
  /** Deadline, as milliseconds since 1970 or a `Date`. Default: now plus the command's timeout. */
  readonly deadline?: Date | number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Idempotency key. If absent, the run is not stored, and it ends when the master ends. */
  readonly key?: RunKey | undefined;
  readonly options?: RunOptions;
}

/** Parts of a call on which the rights depend. */
type JudgedCall = Pick<CommandCall, 'caller' | 'command' | 'minions' | 'parameters'>;

/** Options of a run that only other modules of the bridge set. */
export interface RunOptions {
  /** Job id for the first job of the run. No other job may have this id. Default: a new id. */
  readonly jid?: string | undefined;
  /** Called after rules have permitted the run. If it rejects, the run does not start. */
  readonly permitted?: (() => Promise<void>) | undefined;
  /**
   * Whether another member of the cluster continues the run if this member fails. Default: false;
   * the caller then has to repeat the request.
   */
  readonly isCarried?: boolean;
}

/** Idempotency key of a run, with a digest of the request that the run was started with. */
interface RunKey {
  readonly owner: IdempotencyKeyOwner;
  readonly digest: string;
  /**
   * Stored request for the run. If this member fails, another member of the cluster repeats the
   * request, and thereby continues the run.
   */
  readonly carried?: CarriedCall | undefined;
}

/**
 * Format of the stored request of an active run. The row is encrypted. If the member that executes
 * the run fails, another member of the cluster repeats the request to continue the run.
 */
const carriedCallRow = defineRow({
  name: 'call of a command',
  schema: Type.Object({
    name: Type.String(),
    target: Type.Unsafe<TargetRequest>(Type.Object({})),
    params: Type.Unsafe<Parameters>(Type.Object({})),
    caller: Type.Unsafe<CommandCaller>(Type.Union([Type.String(), Type.Object({})])),
    owner: IdempotencyKeyOwner,
  }),
  packed: { target: markedJsonField, params: markedJsonField, caller: markedJsonField },
  unversioned: fromMarkedJson,
});

type CarriedCall = RowOf<typeof carriedCallRow>;

/** State of a run, from its request until its resources are released. */
interface Run {
  /**
   * State of the run. `found`: a run for this request existed already, from an earlier request or
   * on another member.
   */
  state: 'called' | 'permitted' | 'found' | 'begun' | 'over';
  readonly call: CommandCall;
  readonly releases: Releases;
  /**
   * Requester of the run's jobs, for the audit log. `undefined` if no rules apply to the caller.
   */
  by: AuditRequester | undefined;
  minions: readonly string[];
  /** Minions whose keys have ended since the target was resolved. */
  readonly lost: Set<string>;
  /** Deadline, in milliseconds since 1970. */
  deadline: number;
  /**
   * Slot that the run occupies within the limits on concurrent runs of its command. `undefined`
   * until the run is admitted.
   */
  seat: RunSlot | undefined;
  /**
   * Reservation for the run's secrets in the pillars of its minions. `undefined` until the run is
   * admitted.
   */
  secrets: SecretLease | undefined;
  /** Stored form of the run. `undefined` if the run is not stored. */
  stored: StoredRun | undefined;
  /** Whether the idempotency key was used before. */
  isRepeated: boolean;
  /**
   * Results of minions that had returned when an earlier process ended, and whose keys have ended
   * since.
   */
  formerResults: readonly CommandResult[];
  /** Whether an earlier process has published the run's job. */
  isResumed: boolean;
}

/** Runs the commands of a catalog. */
export class CommandRunner {
  readonly secrets: RunSecrets;
  readonly #options: CommandRunnerOptions;
  readonly #limits = new RunConcurrency();
  readonly #runs: StoredRuns<StoredRun, CarriedCall, CommandRun>;
  readonly #closing = new AbortController();
  /** Requests and runs in progress. */
  readonly #current = new Set<Run>();

  constructor(options: CommandRunnerOptions) {
    const { host, quotas } = options;
    this.#options = options;
    this.secrets = options.secrets ?? new RunSecrets();
    this.#runs = new StoredRuns<StoredRun, CarriedCall, CommandRun>({
      host,
      quotas,
      storedRow: storedRunRow,
      carriedRow: carriedCallRow,
      shorten: withoutReturns,
      follow: (owner, command, { id, minions, leftOut }) =>
        new CommandRun({ id, command, minions, leftOut, owner: owner.caller }),
      lostOutcome: lostCommandOutcome,
    });
    // Every run adds a listener to this signal.
    setMaxListeners(0, this.#closing.signal);
  }

  /**
   * Enables other members of a cluster to continue the runs of this member. Without a cluster, does
   * nothing.
   * @param kind - name of this kind of runs; it must be the same on all members
   */
  share(kind: string): Promise<void> {
    return this.#runs.share(kind, (carried) =>
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

  /** Runs a command for the caller in the request. `Bridge.run` documents the errors. */
  run(name: string, request: CommandRequest, options: RunOptions = {}): Promise<CommandHandle> {
    return this.#carryOut((releases) => this.#resolve(name, request, options, releases));
  }

  /**
   * Checks that {@link run} would start a run for the request now, without starting one. The check
   * does not count towards the rates of rules.
   * @throws the errors of `run` for the command, the parameters, the target and the rights
   */
  async check(name: string, request: CommandRequest): Promise<void> {
    const releases = new Releases();
    try {
      this.requireRight(await this.#resolve(name, request, {}, releases));
    } finally {
      releases.release();
    }
  }

  /**
   * Runs a command whose caller and minions have already been determined, for example by a plan.
   * The run does not count toward the caller's limit of active runs.
   */
  start(call: CommandCall): Promise<CommandHandle> {
    return this.#carryOut(async () => call);
  }

  /**
   * Checks that rules permit a run, and returns its requester for the audit log.
   * @param isRepeated - whether they have already permitted the run
   * @throws BridgeError ERR_COMMAND_DENIED
   */
  permit(
    { caller, command, parameters, minions }: JudgedCall,
    isRepeated = false,
  ): AuditRequester | undefined {
    const asked = { command, parameters, minions, isRepeated };
    return authorizeCommand(this.#options.host, caller, asked);
  }

  /**
   * Checks that rules permit a run, without counting it towards their rates.
   * @throws BridgeError ERR_COMMAND_DENIED
   */
  requireRight({ caller, command, parameters, minions }: JudgedCall): void {
    requireCommandRight(this.#options.host, caller, { command, parameters, minions });
  }

  #isPermitted(call: CommandCall): boolean {
    try {
      this.permit(call, true);
      return true;
    } catch (error) {
      if (isDenial(error)) return false;
      throw error;
    }
  }

  /**
   * Returns the handle of a run that this caller started.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run;
   * AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<CommandHandle> {
    return (await this.#runs.find(id, asked)).handle(true);
  }

  /** Number of active runs. */
  get active(): number {
    return this.#runs.active;
  }

  /**
   * Removes a minion from the runs in progress, because its key has ended. Another machine may get
   * the id. It receives neither the secrets nor further jobs of these runs.
   */
  loseKey(id: string): void {
    this.secrets.loseKey(id);
    for (const { minions, lost } of this.#current) if (minions.includes(id)) lost.add(id);
  }

  /**
   * Ends the active runs that are not stored, and stops executing the stored ones, which another
   * process can continue. Resolves when this process executes no run.
   */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#runs.close();
  }

  /**
   * Performs a run, from the request to its end.
   * @param resolve - determines caller, command and minions of the request
   * @returns the handle, as soon as the run has started. If the request belongs to an existing run,
   * the handle of that run
   */
  #carryOut(resolve: (releases: Releases) => Promise<CommandCall>): Promise<CommandHandle> {
    return this.#runs.carryOut(async (releases, reply) => {
      const run = createRun(await resolve(releases), releases);
      this.#current.add(run);
      releases.add(() => this.#current.delete(run));
      this.#loseKeysSince(run, run.call.resolvedAt);
      run.by = this.#permitLeft(run, false);
      await run.call.options?.permitted?.();
      run.state = 'permitted';
      run.deadline = this.#deadlineOf(run.call);
      const { key } = run.call;
      const live = await (key === undefined
        ? this.#admit(run)
        : this.#runs.claim(key.owner, () => this.#findOrAdmit(run, key)));
      reply(live.handle(run.isRepeated));
      return isBegun(run) ? this.#follow(run, live) : undefined;
    });
  }

  /** Determines the command, the caller and the minions of a request. */
  async #resolve(
    name: string,
    request: CommandRequest,
    options: RunOptions,
    releases: Releases,
  ): Promise<CommandCall> {
    const { host, catalog, service } = this.#options;
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await acquireCaller(host, asked, this.#runs.places, releases);
    // Callers without rights must not learn which commands and parameters exist.
    if (!mayCallBy(host, caller)(name)) throw deniedByName();
    const command = catalog.get(name);
    const parameters = command.check(request.params ?? {});
    this.#runs.holdParameters(caller.name, parameters, releases);
    const project = resolveProject(caller.subject, request.project) ?? '';
    const resolvedAt = host.now();
    const addressed = await this.#minionsOf(caller, command, parameters, request.target);
    const { minions, ...leftOut } = addressed;
    const { idempotencyKey, deadline, signal } = request;
    const target = { minions, resolvedAt, leftOut };
    const call = { caller, command, parameters, ...target, deadline, signal, options };
    const isShared = options.isCarried === true && this.#runs.cluster !== undefined;
    if (idempotencyKey === undefined && !isShared) return call;
    const key =
      idempotencyKey === undefined
        ? // No command has this name, so the key cannot collide with a caller's.
          { command: `run:${name}`, key: randomUUID() }
        : { command: name, key: checkIdempotencyKey(idempotencyKey) };
    const owner = { caller: caller.name, project, ...key };
    const askedTarget = targetOf(request.target);
    const digest = jsonDigest([parameters, askedTarget]);
    const again = { name, target: askedTarget, params: request.params ?? {}, caller: asked, owner };
    return { ...call, key: { owner, digest, carried: isShared ? again : undefined } };
  }

  /** Determines caller, command and minions of a run that another member of the cluster started. */
  async #resolveCarried(carried: CarriedCall, releases: Releases): Promise<CommandCall> {
    const { host, catalog } = this.#options;
    const { name, target, params, owner } = carried;
    const command = catalog.get(name);
    const parameters = command.check(params);
    const caller = await acquireCaller(host, carried.caller, this.#runs.places, releases);
    const stored = await this.#runs.keys.get(owner);
    if (stored === undefined) throw lateRunError(name);
    const isLate = host.now() >= stored.deadline;
    if (isLate && (await findJob(host, stored.id)) === undefined) throw lateRunError(name);
    const digest = jsonDigest([parameters, target]);
    const { minions, begunAt: resolvedAt, leftOut } = stored;
    const key = { owner, digest, carried };
    return { caller, command, parameters, minions, resolvedAt, leftOut, key };
  }

  async #minionsOf(
    caller: ResolvedCaller,
    command: CompiledCommand,
    parameters: Parameters,
    target: CommandTarget,
  ): Promise<AddressedMinions> {
    const { host } = this.#options;
    const { name } = command.definition;
    const reach = reachOfCaller(host, caller, [aclCallOf(command, parameters)]);
    const hasSecrets = command.givesSecrets(parameters);
    const addressed =
      reach?.isEmpty === true
        ? { minions: [], missing: [], isNarrowed: true }
        : await host.resolveTarget(targetOf(target), {
            reach,
            hasSecrets,
            who: actorOfCaller(caller),
          });
    const { minions, missing } = addressed;
    if (minions.length > 0) {
      requireFewUnaddressed(name, missing);
      return addressed;
    }
    // Check the rules although the target is empty: they deny the call, and write an audit record.
    if (reach !== undefined) this.permit({ caller, command, parameters, minions });
    throw new BridgeError(
      'ERR_COMMAND_TARGET',
      `${name}: the target matches no minion with an accepted key; minions with unknown grains or pillar do not count`,
    );
  }

  /** Returns those of the minions whose keys have not ended at this time or later. */
  withoutLost(minions: readonly string[], time: number): readonly string[] {
    const lost = new Set(this.#options.lostKeys.since(minions, time));
    return minions.filter((id) => !lost.has(id));
  }

  /** Removes the minions whose keys have ended at this time or later from a run. */
  #loseKeysSince({ minions, lost }: Run, time: number): void {
    for (const id of this.#options.lostKeys.since(minions, time)) lost.add(id);
  }

  /**
   * Checks the rights of a run as {@link permit} does. Minions whose keys have ended do not count,
   * because they receive nothing.
   */
  #permitLeft({ call, minions, lost }: Run, isRepeated: boolean): AuditRequester | undefined {
    const left = minions.filter((id) => !lost.has(id));
    if (left.length === 0 && lost.size > 0) return undefined;
    return this.permit({ ...call, minions: left }, isRepeated);
  }

  #deadlineOf({ command: { definition }, deadline: given }: CommandCall): number {
    const { timeoutSeconds = 60 } = definition;
    const own = this.#options.host.now() + timeoutSeconds * 1000;
    return given === undefined ? own : Math.min(own, Number(given));
  }

  /**
   * Returns the run that exists under an idempotency key, in any state. If there is no run, or if
   * its job was never published, starts one.
   */
  async #findOrAdmit(run: Run, { owner, digest }: RunKey): Promise<CommandRun> {
    const { host } = this.#options;
    const { call } = run;
    const { command, minions } = call;
    const { name } = command.definition;
    const stored = await this.#runs.keys.find(owner, digest);
    if (stored === undefined) return this.#admit(run);
    run.isRepeated = true;
    run.stored = stored;
    const live = this.#runs.liveOf(owner, name, stored);
    if (live !== undefined) return found(run, live);
    const recovered = await recoverRun(host, command, stored, this.#options.lostKeys);
    if (recovered === 'unpublished') {
      run.stored = { ...stored, minions, begunAt: call.resolvedAt, deadline: run.deadline };
      return this.#admit(run);
    }
    run.minions = stored.minions;
    if ('known' in recovered) {
      // The target now matches other minions, and only those were judged.
      this.#loseKeysSince(run, stored.begunAt);
      run.formerResults = [...run.lost].flatMap((id) => recovered.known.get(id) ?? []);
      run.by = this.#permitLeft(run, true);
      run.deadline = stored.deadline;
      run.isResumed = true;
      return this.#admit(run);
    }
    await this.#storeOutcome(run, recovered, (cluster) => cluster.rows.endLeft(stored.id));
    // No process can continue this run. If a minion returns later, the job cache still stores the
    // return.
    if (recovered.status === 'interrupted') await this.#runs.cluster?.rows.forget(stored.id);
    const { id } = stored;
    const { name: caller } = call.caller;
    const { leftOut } = stored;
    const options = { id, command: name, minions: stored.minions, leftOut, owner: caller };
    const ended = new CommandRun(options);
    for (const result of recovered.results) ended.admit(result);
    return found(run, this.#runs.addEnded(ended, recovered));
  }

  /** Admits a run: counts it among the command's concurrent runs, and stores it as started. */
  async #admit(run: Run): Promise<CommandRun> {
    const { call, minions, releases } = run;
    const { command, caller, key, options } = call;
    const { definition } = command;
    const seat = this.#limits.enter(definition, minions, caller.name);
    try {
      const secrets = this.secrets.reserve(command.pillarOf(call.parameters), {
        caller: caller.name,
        minions,
        isResumed: run.stored !== undefined,
      });
      releases.add(() => secrets.forget());
      run.secrets = secrets;
      const id = run.stored?.id ?? options?.jid ?? (await this.#options.host.freshJid());
      // Store the run before its job is published.
      if (key !== undefined) await this.#storeBegun(run, key, id);
      releases.add(() => seat.leave());
      run.seat = seat;
      run.state = 'begun';
      const leftOut = run.stored === undefined ? call.leftOut : run.stored.leftOut;
      const { lost } = run;
      const begun = { id, command: definition.name, minions, leftOut, lost, owner: caller.name };
      const live = new CommandRun(begun);
      this.#runs.begin(live, releases);
      this.#options.onBegin?.(live);
      return live;
    } catch (error) {
      seat.leave();
      throw error;
    }
  }

  async #storeBegun(run: Run, { owner, digest, carried }: RunKey, id: string): Promise<void> {
    const { cluster, keys } = this.#runs;
    const { minions, deadline } = run;
    const secrets = createSecretReference();
    const { leftOut, resolvedAt: begunAt } = run.call;
    const fresh = { id, digest, minions, begunAt, deadline, secrets };
    const stored = run.stored ?? { ...fresh, ...(leftOut === undefined ? {} : { leftOut }) };
    const take = carried === undefined ? undefined : cluster?.take(id, carried);
    if (run.isRepeated) await keys.keep(owner, stored, stored.deadline, take);
    else await keys.keepFirst(owner, stored, stored.deadline, take);
    run.stored = stored;
  }

  /**
   * Publishes a run's job, and follows the run. Resolves when its outcome is stored.
   * @returns a function that publishes the outcome to the readers of the run
   */
  async #follow(run: Run, live: CommandRun): Promise<() => void> {
    const { host } = this.#options;
    const { call, stored, releases } = run;
    const { command, caller, parameters } = call;
    const { cluster } = this.#runs;
    const isCarried = call.key?.carried !== undefined;
    const hold = isCarried ? cluster?.rows.hold(live.id) : undefined;
    releases.add(() => hold?.release());
    const reference = stored?.secrets ?? createSecretReference();
    const time = timeLimit(run.deadline - host.now());
    releases.add(() => time.clear());
    const closing = linkSignals(this.#closing.signal, host.closing, hold?.lost);
    releases.add(closing.unlink);
    // A run that is not stored cannot be continued, so it ends when the master closes.
    const isLeft = stored !== undefined;
    const ended = linkSignals(call.signal, caller.ended, isLeft ? undefined : closing.signal);
    releases.add(ended.unlink);
    try {
      const waited = linkSignals(time.signal, ended.signal, closing.signal, live.cancelled);
      await inTime(run.seat?.entered ?? Promise.resolve(), waited.signal);
      waited.unlink();
      // The caller's rights may have changed while the run was queued.
      if (run.seat?.isQueued === true) this.#permitLeft(run, true);
      // Runs that wait are not part of pillars, so that pillars stay small.
      run.secrets?.show(reference, run.lost);
      const outcome = await executeCommandRun(host.master().jobs, live, {
        command,
        call: command.toCall(parameters, reference),
        user: jobUserOf(caller),
        by: run.by,
        deadline: time.signal,
        ended: ended.signal,
        ...(isLeft ? { left: closing.signal } : {}),
        mayRepeat: (left) => this.#isPermitted({ ...call, minions: left }),
        secondsLeft: () => Math.max(0, run.deadline - host.now()) / 1000,
        formerResults: run.formerResults,
        ...(run.isResumed ? { resume: (options) => host.resumeJob(live.id, options) } : {}),
      });
      await this.#storeOutcome(run, outcome, ({ rows }) => rows.end(live.id));
      run.state = 'over';
      return () => live.end(outcome);
    } catch (error) {
      if (isDenial(error)) {
        const { message: reason } = error;
        host.logger.info(
          { command: live.command, jid: live.id, reason },
          'ended a run before its start, because the rights of its caller have ended',
        );
      } else {
        host.logger.error(
          { command: live.command, jid: live.id, err: error },
          'internal error while running a command; the run has failed',
        );
      }
      if (isCarried) await cluster?.rows.forget(live.id);
      return () => live.fail(error);
    }
  }

  /**
   * Stores the outcome of a run. Does nothing if another process can continue the run, because more
   * results may follow.
   */
  async #storeOutcome(
    { call: { key }, stored }: Run,
    outcome: CommandOutcome,
    ending: (cluster: ClusterRuns<CarriedCall>) => StateOperation[],
  ): Promise<void> {
    if (key === undefined || stored === undefined) return;
    if (outcome.status === 'interrupted' || stored.outcome !== undefined) return;
    const { keys, cluster } = this.#runs;
    const over = { ...stored, outcome };
    if (key.carried === undefined || cluster === undefined) {
      return keys.keep(key.owner, over, stored.deadline);
    }
    await cluster.rows.whileOwn(stored.id, () =>
      keys.keep(key.owner, over, stored.deadline, ending(cluster)),
    );
  }
}

function createRun(call: CommandCall, releases: Releases): Run {
  const { minions } = call;
  return {
    state: 'called',
    call,
    releases,
    by: undefined,
    minions,
    lost: new Set(),
    deadline: 0,
    seat: undefined,
    secrets: undefined,
    stored: undefined,
    isRepeated: false,
    formerResults: [],
    isResumed: false,
  };
}

/** Number of characters of an unaddressed name that count as one name. */
const maxNameLength = 64;

/**
 * Checks that a target does not list too many names to which the command is not sent. Each has a
 * result of its own.
 * @throws BridgeError ERR_COMMAND_TARGET
 */
function requireFewUnaddressed(command: string, names: readonly string[]): void {
  const limit = bridgeLimits.unaddressedNames;
  const { total = 0 } = limit;
  const count = names.reduce((sum, { length }) => sum + Math.ceil(length / maxNameLength), 0);
  if (count <= total) return;
  throw new BridgeError(
    'ERR_COMMAND_TARGET',
    `${command}: the target lists more than ${total} names that have no accepted key or on which the caller has no rights (${limit.name}); remove them from the target`,
  );
}

function isDenial(error: unknown): error is BridgeError {
  return error instanceof BridgeError && error.code === 'ERR_COMMAND_DENIED';
}

function isBegun({ state }: Run): boolean {
  return state === 'begun';
}

function found(run: Run, live: CommandRun): CommandRun {
  run.state = 'found';
  return live;
}

/**
 * Returns the outcome to report for a run whose real outcome was never stored, because the cluster
 * member that executed the run failed.
 */
function lostCommandOutcome(run: CommandRun): CommandOutcome {
  const results = run.minions.map((minion) => ({ minion, state: 'unfinished' }) as const);
  return run.outcomeOf(results, { status: 'interrupted', jids: [run.id] });
}

/** Returns the user under which a run's jobs are published. */
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
