/**
 * Worker for one server: reads its metadata, runs new deployments, and sends the results to Heat.
 */

import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import type { Subject } from '#acl';
import type { DeliveryOutcome } from '#heat-bridge';
import { type RetryDelays, retryDelayMs, sleepUntilAborted } from '#runtime';
import { answerBody, type DeploymentResult, failedResult } from '../run-result.ts';
import type { DeploymentRecord, DeploymentRecords } from './deployment-records.ts';
import type { Deployment, ServerMetadata, UnreadableDeployment } from './metadata.ts';
import { metadataUpdates } from './metadata-hooks.ts';
import type { ResolvedCall } from './resolved-call.ts';
import type { StackResult } from './signal-result.ts';
import type { ReadResult, ServerSource } from './sources.ts';

/** Server of a registered stack, for which a worker reads the metadata and runs the deployments. */
export interface FollowedServer {
  /** Name of the server in its stack. */
  readonly server: string;
  readonly source: ServerSource;
  /** Subject whose rules apply to the deployments. */
  readonly subject: Subject;
}

type MetadataRead = Extract<ReadResult, { readonly kind: 'metadata' }>;

export interface ServerWorkerDeps {
  readonly records: DeploymentRecords;
  /**
   * Reads the metadata of a server. `known` is the digest of an earlier response. If the response
   * still has this digest, the result is `unchanged`.
   */
  readonly read: (source: ServerSource, known: string | undefined) => Promise<ReadResult>;
  /** Returns the minion of the server, or `undefined` if none is known yet. */
  readonly minionOf: (
    server: FollowedServer,
    metadata: ServerMetadata,
  ) => Promise<string | undefined>;
  /** Whether a minion is connected. */
  readonly isPresent: (minion: string) => Promise<boolean>;
  /**
   * Registers the handles in a server's metadata, and removes the minion from the other handles of
   * the stack. Returns the reasons why handles could not be registered.
   */
  readonly registerHandles: (
    minion: string,
    handles: ServerMetadata['handles'],
  ) => Promise<readonly string[]>;
  readonly resolve: (deployment: Deployment) => ResolvedCall;
  readonly run: (
    record: DeploymentRecord,
    subject: Subject,
    isResumed: boolean,
  ) => Promise<DeploymentResult | undefined>;
  readonly deliver: (delivery: StackResult) => Promise<DeliveryOutcome>;
  /** Resolves when the next metadata request may be sent. This limits the rate of requests. */
  readonly turn: () => Promise<void>;
  readonly onEnd: (record: DeploymentRecord) => void;
  readonly intervalMs: number;
  readonly backOff: RetryDelays;
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Logger;
}

/**
 * Delay before the next read after a deployment has ended, in milliseconds. Heat may have released
 * the next deployment by then.
 */
const nextDeploymentMs = 1_000;
/**
 * Maximum time for which sending a result is retried, in milliseconds. After this time, the stack
 * has timed out.
 */
const maxSignallingMs = 86_400_000;
const maxReason = 500;
const fullProblem =
  'deployments wait: the deployment records of the owner reach their size limit; remove stacks that are no longer used';

/** Status of a server. */
export interface ServerStatus {
  readonly server: string;
  readonly serverId: string;
  readonly minion?: string;
  /** Time of the last read, in milliseconds since 1970. */
  readonly readAt?: number;
  /** Reason why the server's metadata could not be read, or why its next deployment waits. */
  readonly problem?: string;
  /** Reasons why handles and hooks in the metadata have no effect. */
  readonly warnings?: readonly string[];
}

export class ServerWorker {
  readonly server: FollowedServer;
  readonly done: Promise<void>;
  readonly #deps: ServerWorkerDeps;
  readonly #stop = new AbortController();
  /**
   * Ids of the deployments whose runs this worker started. If an unfinished deployment is not in
   * the set, an earlier process may have started its run.
   */
  readonly #begun = new Set<string>();
  /**
   * Digest of the last metadata that required no action. If the metadata still has this digest, it
   * is not processed again.
   */
  #settled: string | undefined;
  /**
   * Digest of the service's response that contained the metadata of {@link #settled}. A later
   * response with the same digest is not parsed.
   */
  #settledAnswer: string | undefined;
  /**
   * Digest that the server's metadata had when this worker began to wait until the minion connects.
   * `undefined` if the worker does not wait for the minion.
   */
  #waiting: string | undefined;
  /**
   * Digest of the minion's id and its registered handles when the worker last processed them. If
   * the digest is the same later, the handles need no processing.
   */
  #handles: string | undefined;
  #refusedHandles: readonly string[] = [];
  #warnings: readonly string[] = [];
  #failures = 0;
  #minion: string | undefined;
  #readAt: number | undefined;
  #problem: string | undefined;

  constructor(server: FollowedServer, deps: ServerWorkerDeps) {
    this.server = server;
    this.#deps = deps;
    this.done = this.#follow();
  }

  get status(): ServerStatus {
    const { server, source } = this.server;
    return {
      server,
      serverId: source.serverId,
      ...(this.#minion === undefined ? {} : { minion: this.#minion }),
      ...(this.#readAt === undefined ? {} : { readAt: this.#readAt }),
      ...(this.#problem === undefined ? {} : { problem: this.#problem }),
      ...(this.#warnings.length === 0 ? {} : { warnings: this.#warnings }),
    };
  }

  /** Removes the minion from the handles of the stack, because the server no longer exists. */
  async withdrawHandles(): Promise<void> {
    if (this.#minion !== undefined) await this.#deps.registerHandles(this.#minion, {});
  }

  /** Stops following the server. Jobs in progress on the minion continue. */
  stop(): void {
    this.#stop.abort();
  }

  get #isOver(): boolean {
    return this.#stop.signal.aborted || this.#deps.closing.aborted;
  }

  async #follow(): Promise<void> {
    const { intervalMs, closing, random, log } = this.#deps;
    // Resume unfinished work of an earlier process at once.
    let wait = this.#open() === undefined ? intervalMs * random() : 0;
    for (;;) {
      await sleepUntilAborted(wait, closing, this.#stop.signal);
      if (this.#isOver) return;
      try {
        wait = await this.#step();
      } catch (error) {
        if (this.#isOver) return;
        log.error(
          { server: this.server.server, err: error },
          'internal error while reading or running the deployments of a server; retrying',
        );
        wait = this.#fail('internal error of the master; see its log');
      }
    }
  }

  #open(): DeploymentRecord | undefined {
    const { server, source } = this.server;
    return this.#deps.records.of(source.stack, server).find(({ state }) => state !== 'done');
  }

  /**
   * Performs the next step: continues an unfinished deployment, or reads the metadata and starts
   * the next deployment.
   * @returns delay before the following step, in milliseconds
   */
  async #step(): Promise<number> {
    const open = this.#open();
    if (open !== undefined) return this.#settle(open);
    const { read, turn, now } = this.#deps;
    await turn();
    if (this.#isOver) return 0;
    const result = await read(this.server.source, this.#settledAnswer);
    if (result.kind === 'failed') return this.#fail(result.reason);
    this.#failures = 0;
    this.#readAt = now();
    if (result.kind === 'unchanged' || result.metadata.digest === this.#settled) {
      return this.#interval();
    }
    this.#problem = undefined;
    return this.#take(result);
  }

  /**
   * Returns the interval between reads, varied by up to 5 %, so that requests for different servers
   * do not coincide.
   */
  #interval(): number {
    const { intervalMs, random } = this.#deps;
    return intervalMs * (0.95 + 0.1 * random());
  }

  #fail(reason: string): number {
    const { intervalMs, backOff, random } = this.#deps;
    this.#problem = reason.slice(0, maxReason);
    this.#failures += 1;
    return Math.max(intervalMs / 2, retryDelayMs(this.#failures, backOff, random));
  }

  #wait(problem: string): number {
    this.#problem = problem;
    return this.#interval();
  }

  #waitFor(minion: string, digest: string): number {
    this.#waiting = digest;
    return this.#wait(`deployments wait: the minion ${minion} is not connected`);
  }

  /**
   * Starts the first new deployment. The other deployments wait until the metadata is read again.
   * @returns delay before the next step, in milliseconds
   */
  async #take({ metadata, watched, answer }: MetadataRead): Promise<number> {
    const { records, minionOf, isPresent } = this.#deps;
    const { server, source } = this.server;
    const { deployments, digest } = metadata;
    const minion = await minionOf(this.server, metadata);
    const isWaiting = this.#waiting === digest && this.#minion === minion;
    if (this.#minion !== minion) await this.withdrawHandles();
    this.#minion = minion;
    if (minion === undefined)
      return this.#wait('deployments wait: no minion is assigned to this server');
    if (isWaiting && !(await isPresent(minion))) return this.#waitFor(minion, digest);
    await this.#registerHandles(minion, metadata.handles);
    const updates = metadataUpdates(metadata.values, records.of(source.stack, server), watched);
    this.#warn([...this.#refusedHandles, ...metadata.warnings, ...updates.warnings]);
    const entries = [...updates.deployments, ...deployments];
    const listed = [...entries, ...updates.noted].map(({ id }) => id);
    await records.keepOnly(source.stack, server, new Set([...listed, ...updates.before]));
    for (const change of updates.noted) {
      if (!(await this.#note(change, minion))) return this.#wait(fullProblem);
    }
    const fresh = entries.find(({ id }) => !records.has(source.stack, server, id));
    if (fresh === undefined) {
      // Retry handles that could not be registered.
      if (this.#refusedHandles.length === 0) {
        this.#settled = digest;
        this.#settledAnswer = answer;
      }
      return this.#interval();
    }
    return this.#begin(fresh, minion, digest);
  }

  #warn(warnings: readonly string[]): void {
    const fresh = warnings.filter((it) => !this.#warnings.includes(it));
    this.#warnings = warnings;
    const { server } = this.server;
    for (const warning of fresh) {
      this.#deps.log.warn(
        { server, warning },
        'ignored an invalid part of the metadata of a server',
      );
    }
  }

  async #registerHandles(minion: string, named: ServerMetadata['handles']): Promise<void> {
    const handles = hash('sha256', JSON.stringify([minion, named]));
    if (handles === this.#handles && this.#refusedHandles.length === 0) return;
    this.#refusedHandles = await this.#deps.registerHandles(minion, named);
    this.#handles = handles;
  }

  /**
   * Records a change for which no hook needs to run.
   * @returns whether the change is recorded; `false` if a limit permits no further record
   */
  async #note(
    change: Pick<Deployment, 'action' | 'id' | 'name'>,
    minion: string,
  ): Promise<boolean> {
    const { records, now } = this.#deps;
    const { server, source } = this.server;
    const { stack } = source;
    if (records.has(stack, server, change.id)) return true;
    const at = now();
    const ended = { state: 'done', begunAt: at, endedAt: at, end: 'succeeded' } as const;
    const record = { stack, server, minion, ...change, ...ended };
    if (!records.hasRoomFor(record)) return false;
    await records.put(record);
    return true;
  }

  /**
   * Starts a deployment.
   * @param digest - digest of the metadata that contains the deployment
   * @returns delay before the next step, in milliseconds
   */
  async #begin(
    entry: Deployment | UnreadableDeployment,
    minion: string,
    digest: string,
  ): Promise<number> {
    const { records, resolve, isPresent, now } = this.#deps;
    const { server, source } = this.server;
    const { id, name, signal, resource } = entry;
    const resolved: ResolvedCall =
      'problem' in entry ? { ok: false, reason: entry.problem } : resolve(entry);
    const record: DeploymentRecord = {
      stack: source.stack,
      server,
      id,
      name,
      action: entry.action,
      minion,
      state: 'running',
      begunAt: now(),
      target: {
        outputs: 'problem' in entry ? [] : entry.outputs,
        signal,
        serverId: source.serverId,
        ...(resource === undefined ? {} : { resource }),
      },
    };
    if (resolved.ok && !(await isPresent(minion))) return this.#waitFor(minion, digest);
    if (!records.hasRoomFor(record)) return this.#wait(fullProblem);
    if (!resolved.ok) return this.#report(record, failedResult('refused', resolved.reason));
    this.#begun.add(id);
    // Store the record before the job can be published.
    const running = { ...record, command: resolved.call.command };
    await records.put({ ...running, call: resolved.call });
    return this.#settle(running);
  }

  /**
   * Continues an unfinished deployment.
   * @returns delay before the next step, in milliseconds
   */
  async #settle(record: DeploymentRecord): Promise<number> {
    this.#waiting = undefined;
    if (record.state === 'signalling') return this.#signal(record);
    const { run } = this.#deps;
    const result = await run(record, this.server.subject, !this.#begun.has(record.id));
    if (this.#isOver) return 0;
    if (result === undefined)
      return this.#fail(`the command ${record.command} cannot run now; retrying`);
    return this.#report(record, result);
  }

  async #report(record: DeploymentRecord, result: DeploymentResult): Promise<number> {
    const { records, now } = this.#deps;
    const { signal } = record.target ?? { signal: { transport: 'NO_SIGNAL' as const } };
    const finished: DeploymentRecord = {
      ...record,
      state: 'signalling',
      endedAt: now(),
      end: result.end,
      ...(result.statusCode === 0 ? {} : { reason: result.stderr.slice(0, maxReason) }),
      body: answerBody(record.id, result, signal.transport),
    };
    await records.put(finished);
    return this.#signal(finished);
  }

  async #signal(record: DeploymentRecord): Promise<number> {
    const { deliver, records, now } = this.#deps;
    const { stack, login } = this.server.source;
    const { id, minion, target, endedAt = 0 } = record;
    const { body } = await records.storedPartsOf(record);
    if (target === undefined || body === undefined) return this.#end(record, undefined);
    const outcome = await deliver({ ...target, id, stack, login, minion, body });
    if (this.#isOver) return 0;
    if (outcome.kind === 'delivered') return this.#end(record, undefined);
    if (outcome.kind === 'final') return this.#end(record, outcome.reason);
    if (endedAt + maxSignallingMs < now()) return this.#end(record, outcome.reason);
    const { backOff, random } = this.#deps;
    this.#failures += 1;
    this.#problem =
      `the result of ${record.name} could not be sent to Heat: ${outcome.reason}`.slice(
        0,
        maxReason,
      );
    return retryDelayMs(this.#failures, backOff, random);
  }

  /**
   * Marks a deployment as ended.
   * @param refusal - reason why the result could not be sent to Heat; `undefined` if it was sent or
   * there was nothing to send
   * @returns delay before the next step, in milliseconds
   */
  async #end(record: DeploymentRecord, refusal: string | undefined): Promise<number> {
    const { records, onEnd } = this.#deps;
    const { target: _target, body: _body, ...rest } = record;
    const reason =
      refusal === undefined ? {} : { reason: `the result could not be sent to Heat: ${refusal}` };
    const ended: DeploymentRecord = { ...rest, state: 'done', ...reason };
    await records.put(ended);
    this.#begun.delete(record.id);
    this.#failures = 0;
    this.#problem = undefined;
    onEnd(ended);
    return nextDeploymentMs;
  }
}
