/** `bridge.run`: carries out runs of named commands, from the request to the release. */

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
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import {
  aclCallOf,
  acquireCaller,
  authorizeCommand,
  type ResolvedCaller,
  reachOfCaller,
} from './callers.ts';
import type { ClusterRuns } from './cluster-runs.ts';
import type { Catalog, CompiledCommand } from './command-catalog.ts';
import { executeCommandRun } from './command-execution.ts';
import {
  type CommandCaller,
  type CommandHandle,
  type CommandOutcome,
  type CommandRequest,
  type CommandTarget,
  targetOf,
} from './command-request.ts';
import { CommandRun, type LeftOut } from './command-run.ts';
import { checkIdempotencyKey, IdempotencyKeyOwner, jsonDigest } from './idempotency-keys.ts';
import type { Parameters } from './parameters.ts';
import {
  findJob,
  recoverRun,
  type StoredRun,
  storedRunRow,
  withoutReturns,
} from './recover-run.ts';
import type { Releases } from './releases.ts';
import { RunConcurrency, type RunSlot } from './run-limits.ts';
import type { RunQuotas } from './run-quotas.ts';
import { createSecretReference, RunSecrets } from './run-secrets.ts';
import { lateRunError, StoredRuns } from './stored-runs.ts';

export interface CommandRunnerOptions {
  readonly host: ExtensionHost;
  readonly catalog: Catalog;
  /** Caller of requests that name none. */
  readonly service: string;
  readonly quotas: RunQuotas;
  /** Secrets of runs, if they share a pillar with those of another runner. */
  readonly secrets?: RunSecrets;
  /** Called for each run that begins. */
  readonly onBegin?: ((run: CommandRun) => void) | undefined;
}

/** A call of a command: its caller and its minions are known. */
export interface CommandCall {
  readonly caller: ResolvedCaller;
  readonly command: CompiledCommand;
  /** As `command.check` gave them. */
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  /** Part of the target that the command is not sent to. Default: nothing. */
  readonly leftOut?: LeftOut | undefined;
  /** Milliseconds since 1970, or a time. Default: the command's timeout from now on. */
  readonly deadline?: Date | number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Absent: nothing of the run is stored. */
  readonly key?: RunKey | undefined;
  readonly options?: RunOptions;
}

/** Options of a run that only parts of the bridge may set. */
export interface RunOptions {
  /** Id of its first job, which has none yet. Default: a new one. */
  readonly jid?: string | undefined;
  /** Called once rules have permitted the run; if it rejects, nothing is run. */
  readonly permitted?: (() => Promise<void>) | undefined;
  /** Whether the run continues at another member by itself. Default: its caller must ask again. */
  readonly isCarried?: boolean;
}

/** An idempotency key, and the request that it was used for. */
interface RunKey {
  readonly owner: IdempotencyKeyOwner;
  readonly digest: string;
  /** The request, for another member of the cluster. */
  readonly carried?: CarriedCall | undefined;
}

/** A request as another member of the cluster repeats it: in its row, sealed. */
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

/** One run, from its request to its release. */
interface Run {
  /** `found`: another request, or another member, carries it out. */
  state: 'called' | 'permitted' | 'found' | 'begun' | 'over';
  readonly call: CommandCall;
  readonly releases: Releases;
  /** Requester of its jobs; `undefined` if no rule was asked. */
  by: AuditRequester | undefined;
  minions: readonly string[];
  /** Milliseconds since 1970. */
  deadline: number;
  /** Its place among the runs of the command, once it is admitted. */
  seat: RunSlot | undefined;
  /** Absent: nothing of it is stored. */
  stored: StoredRun | undefined;
  /** Whether its key was used before. */
  isRepeated: boolean;
  /** Whether its job was published before. */
  isResumed: boolean;
}

/** Carries out runs of the commands of a catalog. */
export class CommandRunner {
  readonly secrets: RunSecrets;
  readonly #options: CommandRunnerOptions;
  readonly #limits = new RunConcurrency();
  readonly #runs: StoredRuns<StoredRun, CarriedCall, CommandRun>;
  readonly #closing = new AbortController();

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
    // Every run listens to it.
    setMaxListeners(0, this.#closing.signal);
  }

  /**
   * In a cluster: lets runs continue at other members.
   * @param kind - which of a member's runners this is; the same at all members
   */
  share(kind: string): Promise<void> {
    return this.#runs.share(kind, (carried) =>
      this.#carryOut((releases) => this.#resolveCarried(carried, releases)),
    );
  }

  /** Continues the runs that other processes left. Called once the master's interface is there. */
  goOn(): void {
    this.#runs.goOn();
  }

  /** See `Bridge.run`. */
  run(name: string, request: CommandRequest, options: RunOptions = {}): Promise<CommandHandle> {
    return this.#carryOut((releases) => this.#resolve(name, request, options, releases));
  }

  /** Runs a call whose caller and minions are known. The place of the caller is not its own. */
  start(call: CommandCall): Promise<CommandHandle> {
    return this.#carryOut(async () => call);
  }

  /** Asks the rules. @throws BridgeError ERR_COMMAND_DENIED */
  permit({ caller, command, parameters, minions }: CommandCall): AuditRequester | undefined {
    return authorizeCommand(this.#options.host, caller, command, parameters, minions);
  }

  /**
   * A run that this caller began. @throws BridgeError ERR_RUN_UNKNOWN, also if another caller began
   * it; AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<CommandHandle> {
    return (await this.#runs.find(id, asked)).handle(true);
  }

  /** Number of runs under way. */
  get active(): number {
    return this.#runs.active;
  }

  /** Ends what is under way, except what the next master can continue; waits for it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#runs.close();
  }

  /**
   * Carries out one run. The order of its steps is the order of this function.
   * @returns its handle, once the run is under way or found
   */
  #carryOut(resolve: (releases: Releases) => Promise<CommandCall>): Promise<CommandHandle> {
    return this.#runs.carryOut(async (releases, reply) => {
      const run = createRun(await resolve(releases), releases);
      run.by = this.permit(run.call);
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

  /** Resolve: the command, who calls, and for which minions. */
  async #resolve(
    name: string,
    request: CommandRequest,
    options: RunOptions,
    releases: Releases,
  ): Promise<CommandCall> {
    const { host, catalog, service } = this.#options;
    const command = catalog.get(name);
    const parameters = command.check(request.params ?? {});
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await acquireCaller(host, asked, this.#runs.places, releases);
    const project = resolveProject(caller.subject, request.project) ?? '';
    const addressed = await this.#minionsOf(caller, command, parameters, request.target);
    const { minions, ...leftOut } = addressed;
    const { idempotencyKey, deadline, signal } = request;
    const call = { caller, command, parameters, minions, leftOut, deadline, signal, options };
    const isShared = options.isCarried === true && this.#runs.cluster !== undefined;
    if (idempotencyKey === undefined && !isShared) return call;
    const key =
      idempotencyKey === undefined
        ? // No command has this name, so no key of a caller is this one.
          { command: `run:${name}`, key: randomUUID() }
        : { command: name, key: checkIdempotencyKey(idempotencyKey) };
    const owner = { caller: caller.name, project, ...key };
    const target = targetOf(request.target);
    const digest = jsonDigest([parameters, target]);
    const again = { name, target, params: request.params ?? {}, caller: asked, owner };
    return { ...call, key: { owner, digest, carried: isShared ? again : undefined } };
  }

  /** Resolves a run that another member of the cluster began. */
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
    const { minions, leftOut } = stored;
    return { caller, command, parameters, minions, leftOut, key: { owner, digest, carried } };
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
        : await host.resolveTarget(targetOf(target), { reach, hasSecrets });
    const { minions } = addressed;
    if (minions.length > 0) return addressed;
    // Refuses it, and tells the audit log.
    if (reach !== undefined) this.permit({ caller, command, parameters, minions });
    throw new BridgeError('ERR_COMMAND_TARGET', `${name}: the target means no accepted minion`);
  }

  #deadlineOf({ command: { definition }, deadline: given }: CommandCall): number {
    const { timeoutSeconds = 60 } = definition;
    const own = this.#options.host.now() + timeoutSeconds * 1000;
    return given === undefined ? own : Math.min(own, Number(given));
  }

  /** Key: finds the run that was begun under it, wherever it stands, or else begins one. */
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
    const recovered = await recoverRun(host, command, stored);
    if (recovered === 'unpublished') {
      run.stored = { ...stored, minions, deadline: run.deadline };
      return this.#admit(run);
    }
    run.minions = stored.minions;
    if (recovered === 'open') {
      run.deadline = stored.deadline;
      run.isResumed = true;
      return this.#admit(run);
    }
    await this.#storeOutcome(run, recovered, (cluster) => cluster.rows.endLeft(stored.id));
    // Nobody can continue it; a return that comes later is found in the job.
    if (recovered.status === 'interrupted') await this.#runs.cluster?.rows.forget(stored.id);
    const { id } = stored;
    const { name: caller } = call.caller;
    const { leftOut } = stored;
    const options = { id, command: name, minions: stored.minions, leftOut, owner: caller };
    const ended = new CommandRun(options);
    return found(run, this.#runs.addEnded(ended, recovered));
  }

  /** Admit: takes a place among the runs of the command, and stores that the run begins. */
  async #admit(run: Run): Promise<CommandRun> {
    const { call, minions, releases } = run;
    const { command, caller, key, options } = call;
    const { definition } = command;
    const seat = this.#limits.enter(definition, minions);
    try {
      const id = run.stored?.id ?? options?.jid ?? (await this.#options.host.freshJid());
      // Before anything is published.
      if (key !== undefined) await this.#storeBegun(run, key, id);
      releases.add(() => seat.leave());
      run.seat = seat;
      run.state = 'begun';
      const leftOut = run.stored === undefined ? call.leftOut : run.stored.leftOut;
      const begun = { id, command: definition.name, minions, leftOut, owner: caller.name };
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
    const begunAt = this.#options.host.now();
    const secrets = createSecretReference();
    const { leftOut } = run.call;
    const fresh = { id, digest, minions, begunAt, deadline, secrets };
    const stored = run.stored ?? { ...fresh, ...(leftOut === undefined ? {} : { leftOut }) };
    const take = carried === undefined ? undefined : cluster?.take(id, carried);
    if (run.isRepeated) await keys.keep(owner, stored, stored.deadline, take);
    else await keys.keepFirst(owner, stored, stored.deadline, take);
    run.stored = stored;
  }

  /** Publish and follow, until the outcome is stored. @returns what reports the end */
  async #follow(run: Run, live: CommandRun): Promise<() => void> {
    const { host } = this.#options;
    const { call, stored, minions, releases } = run;
    const { command, caller, parameters } = call;
    const { cluster } = this.#runs;
    const isCarried = call.key?.carried !== undefined;
    const hold = isCarried ? cluster?.rows.hold(live.id) : undefined;
    releases.add(() => hold?.release());
    const reference = stored?.secrets ?? createSecretReference();
    const secrets = this.secrets.keep(command.pillarOf(parameters), minions, reference);
    releases.add(() => secrets.forget());
    const time = timeLimit(run.deadline - host.now());
    releases.add(() => time.clear());
    const closing = linkSignals(this.#closing.signal, host.closing, hold?.lost);
    releases.add(closing.unlink);
    // A run that is not stored ends with the master.
    const isLeft = stored !== undefined;
    const ended = linkSignals(call.signal, caller.ended, isLeft ? undefined : closing.signal);
    releases.add(ended.unlink);
    try {
      const waited = linkSignals(time.signal, ended.signal, closing.signal, live.cancelled);
      await inTime(run.seat?.entered ?? Promise.resolve(), waited.signal);
      waited.unlink();
      // Rights may have gone meanwhile.
      if (run.seat?.isQueued === true) this.permit({ ...call, minions });
      const outcome = await executeCommandRun(host.master().jobs, live, {
        command,
        call: command.toCall(parameters, reference),
        user: jobUserOf(caller),
        by: run.by,
        deadline: time.signal,
        ended: ended.signal,
        ...(isLeft ? { left: closing.signal } : {}),
        secondsLeft: () => Math.max(0, run.deadline - host.now()) / 1000,
        ...(run.isResumed ? { resume: (options) => host.resumeJob(live.id, options) } : {}),
      });
      await this.#storeOutcome(run, outcome, ({ rows }) => rows.end(live.id));
      run.state = 'over';
      return () => live.end(outcome);
    } catch (error) {
      host.logger.error({ command: live.command, jid: live.id, err: error }, 'command run failed');
      if (isCarried) await cluster?.rows.forget(live.id);
      return () => live.fail(error);
    }
  }

  /** Stores an outcome, unless more may still come. */
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
    deadline: 0,
    seat: undefined,
    stored: undefined,
    isRepeated: false,
    isResumed: false,
  };
}

function isBegun({ state }: Run): boolean {
  return state === 'begun';
}

function found(run: Run, live: CommandRun): CommandRun {
  run.state = 'found';
  return live;
}

/** Outcome of a run whose member left none. */
function lostCommandOutcome(run: CommandRun): CommandOutcome {
  const results = run.minions.map((minion) => ({ minion, state: 'unfinished' }) as const);
  return run.outcomeOf(results, { status: 'interrupted', jids: [run.id] });
}

/** User of the run's jobs. */
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
