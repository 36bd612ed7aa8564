/** `bridge.run`: from a request to a run, each step of which refuses with what to do. */
import { setMaxListeners } from 'node:events';
import {
  type AuditRequester,
  type ExtensionHost,
  linkSignals,
  MasterError,
} from '../../master/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CompiledCommand } from '../catalog/compile-command.ts';
import { BridgeError } from '../errors.ts';
import { projectOf } from '../keystone/own-project.ts';
import { authorise, type KnownCaller, knowCaller } from './callers.ts';
import { followRun, resultOf } from './follow-run.ts';
import { endedRun, LiveRun } from './live-run.ts';
import type {
  CommandCaller,
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandResult,
} from './request.ts';
import { digestOf, type KeptRun, type KeyOwner, RunKeys } from './run-keys.ts';
import { RunLimits } from './run-limits.ts';
import { RunSecrets } from './run-secrets.ts';

/** What {@link CommandRunner} needs. */
export interface CommandRunnerOptions {
  readonly host: ExtensionHost;
  readonly catalog: Catalog;
  /** Who calls where a request does not say. */
  readonly service: string;
}

/** A request that was looked at and permitted. */
interface PermittedRun {
  readonly command: CompiledCommand;
  readonly parameters: Parameters;
  readonly caller: KnownCaller;
  readonly by: AuditRequester | undefined;
  readonly minions: readonly string[];
  /** Milliseconds since 1970. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
}

/** Milliseconds; Node fires longer timers at once. */
const longestMs = 2_147_483_647;
const maxKey = 255;
/** Runs that are over, and are remembered with what was returned. */
const maxEnded = 100;

/** Runs commands of a catalog. */
export class CommandRunner {
  readonly secrets: RunSecrets = new RunSecrets();
  readonly #options: CommandRunnerOptions;
  readonly #keys: RunKeys;
  readonly #limits = new RunLimits();
  readonly #runs = new Map<string, LiveRun>();
  readonly #underWay = new Set<Promise<void>>();
  /** Keys that are being looked at, so that a second request waits for the first. */
  readonly #claims = new Map<string, Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(options: CommandRunnerOptions) {
    this.#options = options;
    this.#keys = new RunKeys(options.host.state);
    // Every run listens to it.
    setMaxListeners(0, this.#closing.signal);
  }

  /** See `Bridge.run`. */
  async run(name: string, request: CommandRequest): Promise<CommandHandle> {
    const { host, catalog, service } = this.#options;
    const command = catalog.get(name);
    const parameters = command.check(request.params ?? {});
    const asked = request.caller ?? ({ kind: 'service', name: service } as const);
    const caller = await knowCaller(host, asked);
    try {
      const project = projectOf(caller.subject, request.project) ?? '';
      const minions = await this.#minionsOf(name, request.target);
      const by = authorise(host, caller, command, parameters, minions);
      const deadline = this.#deadlineOf(command, request.deadline);
      const permitted = { command, parameters, caller, by, minions, deadline };
      const { idempotencyKey, signal } = request;
      const run = { ...permitted, signal };
      if (idempotencyKey === undefined) return (await this.#begin(run)).handle(false);
      const owner = { caller: caller.name, project, command: name, key: checkKey(idempotencyKey) };
      const digest = digestOf([parameters, targetOf(request.target)]);
      return await this.#claimed(owner, () => this.#runOnce(run, owner, digest));
    } catch (error) {
      caller.leave();
      throw error;
    }
  }

  /**
   * A run that this caller began. @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody
   * else's; AuthenticationError ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<CommandHandle> {
    const caller = await knowCaller(this.#options.host, asked);
    caller.leave();
    const run = this.#runs.get(id);
    if (run !== undefined && (caller.subject === undefined || run.owner === caller.name)) {
      return run.handle(true);
    }
    throw new BridgeError('ERR_RUN_UNKNOWN', 'no run of this id is kept for this caller');
  }

  /** Ends what is under way, and waits for it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#underWay);
  }

  async #minionsOf(name: string, target: CommandRequest['target']): Promise<readonly string[]> {
    const minions = await this.#options.host.minionsOf(targetOf(target));
    if (minions.length > 0) return minions;
    throw new BridgeError('ERR_COMMAND_TARGET', `${name}: the target means no accepted minion`);
  }

  #deadlineOf({ definition }: CompiledCommand, given: Date | number | undefined): number {
    const { timeout = 60 } = definition;
    const own = this.#options.host.now() + timeout * 1000;
    return given === undefined ? own : Math.min(own, Number(given));
  }

  /** One after the other for each key. */
  async #claimed<T>(owner: KeyOwner, work: () => Promise<T>): Promise<T> {
    const key = JSON.stringify(owner);
    const before = this.#claims.get(key) ?? Promise.resolve();
    const mine = before.catch(() => {}).then(work);
    this.#claims.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#claims.get(key) === mine) this.#claims.delete(key);
    }
  }

  async #runOnce(run: PermittedRun, owner: KeyOwner, digest: string): Promise<CommandHandle> {
    const kept = await this.#keys.find(owner, digest);
    if (kept === undefined) {
      const id = await this.#options.host.freshJid();
      const fresh = { id, digest, minions: run.minions, begunAt: this.#options.host.now() };
      const live = await this.#begin(run, { owner, kept: fresh });
      return live.handle(false);
    }
    const known = this.#runs.get(kept.id) ?? (await this.#recall(run, owner, kept));
    // The master ended before it was published.
    if (known === undefined) return (await this.#begin(run, { owner, kept })).handle(true);
    run.caller.leave();
    return known.handle(true);
  }

  /** A run of a master before this one; `undefined`: it was never published. */
  async #recall(run: PermittedRun, owner: KeyOwner, kept: KeptRun): Promise<LiveRun | undefined> {
    const { command, caller } = run;
    const { name } = command.definition;
    const outcome = kept.outcome ?? (await this.#outcomeOfLost(command, kept));
    if (outcome === undefined) return undefined;
    if (kept.outcome === undefined) await this.#keys.end(owner, { ...kept, outcome }, run.deadline);
    const options = { id: kept.id, command: name, minions: kept.minions, owner: caller.name };
    return this.#remember(endedRun(options, outcome));
  }

  /** What the job cache knows. Where that may have forgotten, it is rather not done than done twice. */
  async #outcomeOfLost(
    command: CompiledCommand,
    kept: KeptRun,
  ): Promise<CommandOutcome | undefined> {
    const { host } = this.#options;
    const { jobCache, keepJobsSeconds } = host.config;
    const known = new Map<string, CommandResult>();
    try {
      const job = await host.master().jobs.show(kept.id);
      for (const one of job.returns) known.set(one.minion, resultOf(command, one));
    } catch (error) {
      if (!(error instanceof MasterError && error.code === 'ERR_JOB_UNKNOWN')) throw error;
      const isSure = jobCache && host.now() - kept.begunAt < keepJobsSeconds * 1000;
      if (isSure) return undefined;
    }
    const results = kept.minions.map(
      (minion) =>
        known.get(minion) ?? { minion, state: 'unfinished' as const, reason: 'the master ended' },
    );
    const isWhole = results.every(({ state }) => state === 'succeeded');
    const status = isWhole ? 'succeeded' : 'interrupted';
    return { id: kept.id, command: command.definition.name, status, results, jids: [kept.id] };
  }

  async #begin(
    run: PermittedRun,
    key?: { readonly owner: KeyOwner; readonly kept: KeptRun },
  ): Promise<LiveRun> {
    const { command, minions, caller, deadline } = run;
    const { name } = command.definition;
    const leave = this.#limits.enter(command.definition, minions);
    try {
      const id = key?.kept.id ?? (await this.#options.host.freshJid());
      // Before anything is published.
      if (key !== undefined) await this.#keys.add(key.owner, key.kept, deadline);
      const live = this.#remember(new LiveRun({ id, command: name, minions, owner: caller.name }));
      const work = this.#follow(live, run, async (outcome) => {
        if (key === undefined) return;
        await this.#keys.end(key.owner, { ...key.kept, outcome }, deadline);
      }).finally(() => {
        leave();
        caller.leave();
        this.#underWay.delete(work);
      });
      this.#underWay.add(work);
      return live;
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #follow(
    live: LiveRun,
    { command, parameters, caller, by, minions, deadline, signal }: PermittedRun,
    keep: (outcome: CommandOutcome) => Promise<void>,
  ): Promise<void> {
    const { host } = this.#options;
    const { secret } = command.split(parameters);
    const place = this.secrets.keep(secret, minions);
    const left = Math.min(Math.max(0, deadline - host.now()), longestMs);
    const time = new AbortController();
    const timer = setTimeout(() => time.abort(), left);
    const ended = linkSignals(this.#closing.signal, signal, caller.ended);
    try {
      const outcome = await followRun(host.master().jobs, live, {
        command,
        call: command.toCall(parameters, place.reference),
        user: userOf(caller),
        by,
        deadline: time.signal,
        ended: ended.signal,
      });
      await keep(outcome);
      live.end(outcome);
    } catch (error) {
      host.logger.error({ command: live.command, jid: live.id, err: error }, 'command run failed');
      live.fail(error);
    } finally {
      clearTimeout(timer);
      ended.unlink();
      place.forget();
    }
  }

  #remember(run: LiveRun): LiveRun {
    this.#runs.set(run.id, run);
    const over = [...this.#runs.values()].filter(({ isOver }) => isOver);
    for (const { id } of over.slice(0, Math.max(0, over.length - maxEnded))) this.#runs.delete(id);
    return run;
  }
}

function targetOf(target: CommandRequest['target']): {
  readonly tgt: string | readonly string[];
  readonly tgtType?: string;
} {
  if (typeof target === 'string') return { tgt: target };
  return 'tgt' in target ? target : { tgt: target, tgtType: 'list' };
}

/** What a job is told to be of. */
function userOf({ subject }: KnownCaller): string {
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

function checkKey(key: string): string {
  if (key.length > 0 && key.length <= maxKey) return key;
  throw new BridgeError('ERR_COMMAND_KEY', `an idempotency key has 1 to ${maxKey} characters`);
}
