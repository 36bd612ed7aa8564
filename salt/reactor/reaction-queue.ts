import { hash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { type Cluster, followRows, openRunsPrefix, type ReactionResult } from '#master';
import { packLocal, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import {
  type Change,
  defineRow,
  isConflict,
  type Key,
  type Operation,
  type RowOf,
  type Store,
  tryToWrite,
} from '#store';
import { CountedRuns, RunCounts } from './counted-runs.ts';
import type { PlannedCall } from './reaction-planner.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const call = {
  fun: Type.String(),
  arg: Type.Array(AnyValue),
  kwarg: Type.Record(Type.String(), AnyValue),
};
const Target = Type.Object({
  tgt: Type.Union([Type.String(), Type.Array(Type.String())]),
  tgtType: Type.Optional(Type.String()),
});
const runFields = {
  /**
   * Id of the run, chosen before the call is made. Depending on the call, it becomes the jid of the
   * job, of the first job of the command, or of the runner or wheel function.
   */
  jid: Type.String(),
  reaction: Type.String(),
  /** Tag of the event that triggered the run. */
  tag: Type.String(),
  /** Minion that emitted the event. Absent if the master emitted it. */
  sender: Type.Optional(Type.String()),
  /** Site that caused an event of the master. Absent if no site caused it. */
  owner: Type.Optional(Type.String()),
  /**
   * Number of earlier runs in the chain that led to the event. Each run in the chain triggered the
   * next one, and the last one caused the event.
   */
  depth: Type.Number(),
  /** Time at which the run was queued, in milliseconds since 1970. */
  queuedAt: Type.Number(),
  call: Type.Unsafe<PlannedCall>(
    Type.Union([
      Type.Object({
        ...call,
        kind: Type.Union([Type.Literal('run'), Type.Literal('command')]),
        target: Target,
      }),
      Type.Object({ ...call, kind: Type.Union([Type.Literal('runner'), Type.Literal('wheel')]) }),
    ]),
  ),
};
const packed = {
  call: { pack: (planned: PlannedCall) => packLocal(packCall(planned)), unpack: unpackLocal },
};

/** Schema of an unfinished run, stored in the row `reactions/open/<jid>`. */
export const openRunRow = defineRow({
  name: 'run of a reaction',
  schema: Type.Object({
    ...runFields,
    /**
     * Whether the run has sent its job or started its function. If so, the run never does this
     * again.
     */
    isSent: Type.Boolean(),
    /** Member of the cluster that performs the run. */
    member: Type.Optional(Type.String()),
    /**
     * Process that performs the run, in a cluster. Empty if other members may take the run over.
     */
    process: Type.Optional(Type.String()),
  }),
  packed,
  unversioned: unpackLocal,
});

/** Schema of a finished run, stored in the row `reactions/ended/<jid>`. */
const endedRunRow = defineRow({
  name: 'run of a reaction',
  schema: Type.Object({
    ...runFields,
    /** Time at which the run ended, in milliseconds since 1970. */
    endedAt: Type.Number(),
    outcome: Type.Unsafe<ReactionResult['outcome']>(
      Type.Enum([
        'succeeded',
        'failed',
        'timeout',
        'denied',
        'nobody',
        'unusable',
        'removed',
        'interrupted',
      ] satisfies ReactionResult['outcome'][]),
    ),
    /** Explanation for operators. Absent if the outcome needs no explanation. */
    reason: Type.Optional(Type.String()),
  }),
  packed,
  unversioned: unpackLocal,
});

/** An unfinished run of a reaction. */
export type OpenRun = RowOf<typeof openRunRow>;

/** A finished run of a reaction. */
export type EndedRun = RowOf<typeof endedRunRow>;

function packCall(planned: PlannedCall): WireMap {
  const { kind, fun, arg, kwarg } = planned;
  const common = { kind, fun, arg: [...arg], kwarg: { ...kwarg } };
  if (!('target' in planned)) return common;
  const { tgt, tgtType = 'glob' } = planned.target;
  return { ...common, target: { tgt: typeof tgt === 'string' ? tgt : [...tgt], tgtType } };
}

/** Returns the key of the row of an unfinished run. */
const openKey = (jid: string): Key => [...openRunsPrefix, jid];
const endedKey = (jid: string): Key => ['reactions', 'ended', jid];

/**
 * Conditions for storing a run. The queue stores a marker for each condition in the same
 * transaction as the run. Later runs are checked against these markers.
 */
export interface QueueConditions {
  /**
   * Identity of the run: the minion, its request, and the position among the runs of this request.
   * If a run with this identity is already stored, nothing is stored.
   */
  readonly mark:
    | { readonly minion: string; readonly request: string; readonly place: string }
    | undefined;
  /**
   * Rate limit: at most one run per `lengthMs` milliseconds with the same `values`. These are the
   * index of the call and the event's values of `throttle_key`. `undefined`: no such limit.
   */
  readonly window: { readonly values: readonly unknown[]; readonly lengthMs: number } | undefined;
}

export interface ReactionQueueOptions {
  readonly store: Pick<Store, 'get' | 'list' | 'write'>;
  /** Cluster of the master. `undefined` if the queue is not shared. */
  readonly cluster: Pick<Cluster, 'follow' | 'isGone' | 'member'> | undefined;
  readonly log: Logger;
  /** Retention time of finished runs, in milliseconds. */
  readonly keepMs: number;
  /**
   * Retention time of the ids of processed requests, in milliseconds. Older ids are not needed,
   * because the master can no longer decrypt a replayed request after this time.
   */
  readonly keepMarksMs: number;
  readonly now: () => number;
}

/** A run that another process in the cluster owns. */
interface RunElsewhere {
  readonly run: OpenRun;
  readonly revision: number;
}

const noProcess = '';
/**
 * Time for which this process remembers a run whose write failed, in milliseconds. Within this
 * time, the store may still apply the write. Afterwards, it certainly does not.
 */
const unconfirmedMs = 60_000;
/** Revision number that no row has. If a write requires this revision, it always fails. */
const noRevision = Number.MAX_SAFE_INTEGER;

/**
 * Runs of reactions in the store. Finished runs are stored for `keep_jobs_seconds`. Related rows
 * are written in one transaction.
 *
 * Members of a cluster share one queue. A run is owned by the process that queued it or took it
 * over last. The store rejects writes of other processes to this run.
 */
export class ReactionQueue {
  readonly #options: ReactionQueueOptions;
  #keepMs: number;
  readonly #counts = new RunCounts();
  readonly #open = new CountedRuns<OpenRun>(this.#counts, (run) => run);
  readonly #process = randomUUID();
  readonly #elsewhere = new CountedRuns<RunElsewhere>(this.#counts, ({ run }) => run);
  /** Revisions of the rows that this process owns in the store of a cluster. */
  readonly #revisions = new Map<string, number>();
  /**
   * Jids of runs whose write may have failed. If the row of such a run appears later, this process
   * takes the run over.
   */
  readonly #unconfirmed = new Set<string>();
  /**
   * Unfinished runs of each reaction on all members, in the order of the cluster's log. The inner
   * map contains, by jid, the id of the process that owns the run.
   */
  readonly #order = new Map<string, Map<string, string>>();
  readonly #reactions = new Map<string, string>();
  #onLeft: () => void = () => {};
  #onEnded: (reaction: string) => void = () => {};

  private constructor(options: ReactionQueueOptions) {
    this.#options = options;
    this.#keepMs = options.keepMs;
  }

  /**
   * Opens the queue, with the unfinished runs of a previous process.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  static async open(options: ReactionQueueOptions): Promise<ReactionQueue> {
    const queue = new ReactionQueue(options);
    await followRows(options, openRunsPrefix, (change) => queue.#note(change));
    return queue;
  }

  /** Sets the function that is called when another member of the cluster gives up a run. */
  set onLeft(listener: () => void) {
    this.#onLeft = listener;
  }

  /**
   * Sets the function that is called when a run has ended on another member of the cluster. The
   * argument is the name of the reaction.
   */
  set onEnded(listener: (reaction: string) => void) {
    this.#onEnded = listener;
  }

  /**
   * Returns the jids of the first unfinished runs of a reaction, at most `count`. Includes the runs
   * of all members, in the order of the cluster's log, so that every member gets the same result.
   * @returns the jids. `undefined` without a cluster: all waiting runs then belong to this process
   */
  first(reaction: string, count: number): readonly string[] | undefined {
    if (this.#options.cluster === undefined) return undefined;
    const jids: string[] = [];
    for (const jid of this.#order.get(reaction)?.keys() ?? []) {
      if (jids.length >= count) break;
      jids.push(jid);
    }
    return jids;
  }

  /**
   * Sets the retention time of runs that end from now on.
   * @param milliseconds - retention time
   */
  keepFor(milliseconds: number): void {
    this.#keepMs = milliseconds;
  }

  /**
   * Unfinished runs, oldest first. In a cluster, runs of other members follow after those of this
   * process.
   */
  get open(): readonly OpenRun[] {
    return [...this.#open.values(), ...Array.from(this.#elsewhere.values(), ({ run }) => run)];
  }

  /**
   * Returns the jids of the runs that this process should take over. These are runs of earlier
   * processes of this member. If `isHeld` is true, they include runs that other members gave up,
   * and runs of members that have stopped.
   * @param isHeld - whether this member currently takes over work of other members
   */
  abandoned(isHeld: boolean): readonly string[] {
    const { cluster } = this.#options;
    const isLeft = ({ member = '', process }: OpenRun): boolean => {
      if (member === cluster?.member && process !== noProcess) return true;
      return isHeld && (process === noProcess || cluster?.isGone(member) === true);
    };
    return [...this.#elsewhere.values()].flatMap(({ run }) => (isLeft(run) ? run.jid : []));
  }

  /**
   * Makes this process the owner of another process's run. Returns `undefined` if a third process
   * has already taken it over.
   */
  async take(jid: string): Promise<OpenRun | undefined> {
    const known = this.#elsewhere.get(jid);
    if (known === undefined) return undefined;
    const run = this.#owned(known.run);
    this.#unconfirmed.delete(jid);
    const value = openRunRow.encode(run);
    const put = { op: 'put', key: openKey(jid), value, ifRevision: known.revision } as const;
    return (await tryToWrite(this.#options.store, [put])) ? run : undefined;
  }

  /** Gives up all runs of this process, so that other members can take them over. */
  async leaveAll(): Promise<void> {
    const { store, cluster } = this.#options;
    if (cluster === undefined) return;
    for (const [jid, run] of this.#open) {
      const value = openRunRow.encode({ ...run, member: cluster.member, process: noProcess });
      const condition = this.#condition(jid);
      await store.write([{ op: 'put', key: openKey(jid), value, ...condition }]).catch(() => {
        // Another member takes the run over when it detects that this member has stopped.
      });
    }
  }

  /**
   * Handles a failed write of a run in a cluster. The store may have applied the write, or may
   * apply it later. Therefore, this process gives up the run. If the row of the run appears later,
   * this process takes the run over again.
   */
  #doubt(run: OpenRun): void {
    const { jid } = run;
    if (this.#options.cluster === undefined) return;
    this.#unconfirmed.add(jid);
    setTimeout(() => this.#unconfirmed.delete(jid), unconfirmedMs).unref();
    const revision = this.#revisions.get(jid);
    if (revision !== undefined) this.#setAside(this.#owned(run), revision);
  }

  #setAside(run: OpenRun, revision: number): void {
    this.#open.delete(run.jid);
    this.#revisions.delete(run.jid);
    this.#elsewhere.set(run.jid, { run, revision });
  }

  #owned(run: OpenRun): OpenRun {
    const { cluster } = this.#options;
    return cluster === undefined ? run : { ...run, member: cluster.member, process: this.#process };
  }

  /** Returns the condition of a write: in a cluster, this process must still own the run. */
  #condition(jid: string): { readonly ifRevision?: number } {
    if (this.#options.cluster === undefined) return {};
    return { ifRevision: this.#revisions.get(jid) ?? noRevision };
  }

  /**
   * Updates the runs in memory from a row of the store, or from a change by any member of the
   * cluster.
   */
  #note(change: Change): void {
    const jid = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    const { cluster } = this.#options;
    if (change.type === 'delete') {
      const reaction = this.#reactions.get(jid);
      this.#open.delete(jid);
      this.#elsewhere.delete(jid);
      this.#revisions.delete(jid);
      this.#reactions.delete(jid);
      if (reaction !== undefined) this.#leaveOrder(reaction, jid);
      return;
    }
    const { revision } = change.entry;
    const run = openRunRow.decode(change.entry);
    if (cluster !== undefined) this.#enterOrder(run);
    const isOwn = run.process === this.#process && !this.#unconfirmed.has(jid);
    if (cluster === undefined || isOwn) {
      this.#elsewhere.delete(jid);
      this.#open.set(jid, run);
      if (cluster !== undefined) this.#revisions.set(jid, revision);
      return;
    }
    this.#setAside(run, revision);
    if (run.process === noProcess) this.#onLeft();
  }

  /**
   * Appends a run to the list of unfinished runs of its reaction. If another process takes the run
   * over, the run moves to the end of the list.
   */
  #enterOrder({ reaction, jid, process = noProcess }: OpenRun): void {
    const order = this.#order.get(reaction) ?? new Map<string, string>();
    this.#order.set(reaction, order);
    this.#reactions.set(jid, reaction);
    if (order.get(jid) === process) return;
    order.delete(jid);
    order.set(jid, process);
  }

  #leaveOrder(reaction: string, jid: string): void {
    const order = this.#order.get(reaction);
    order?.delete(jid);
    if (order?.size === 0) this.#order.delete(reaction);
    this.#onEnded(reaction);
  }

  /**
   * Counts the unfinished runs of a reaction: all of them (`all`), and those that events of this
   * owner triggered (`own`).
   * @param owner - minion, or site; `undefined`: the master itself
   */
  count(reaction: string, owner: string | undefined): { all: number; own: number } {
    return this.#counts.of(reaction, owner);
  }

  /**
   * Whether the request that this mark identifies was already processed. This includes requests
   * whose run was not queued.
   */
  async isKnown(mark: QueueConditions['mark']): Promise<boolean> {
    return mark !== undefined && (await this.#options.store.get(markKey(mark))) !== undefined;
  }

  /**
   * Marks the request of a run as processed, although the run was not queued. If the request is
   * repeated, the repetition does not queue the run either.
   */
  async remember(mark: QueueConditions['mark']): Promise<void> {
    const { store } = this.#options;
    const operations = this.#putMark(mark).map(({ ifRevision: _new, ...operation }) => operation);
    if (operations.length > 0) await store.write(operations);
  }

  /**
   * Whether a run of the same call with the same values of `throttle_key` was already stored in the
   * time window. A call of {@link add} that is in progress may still store one.
   */
  async isWithin(reaction: string, window: QueueConditions['window']): Promise<boolean> {
    if (window === undefined) return false;
    return (await this.#options.store.get(onceKey(reaction, window))) !== undefined;
  }

  /**
   * Stores a run. If the result is `queued`, the run is durable.
   * @returns `repeated`: an earlier copy of the same request has already stored the run; `once`: a
   * run with the same values was already stored in the current time window
   */
  async add(run: OpenRun, conditions: QueueConditions): Promise<'queued' | 'repeated' | 'once'> {
    const { store } = this.#options;
    const mark = this.#putMark(conditions.mark);
    const window = this.#putWindow(run.reaction, conditions.window);
    // Add the run in memory before the write, so that concurrent calls of `count` include it.
    this.#open.set(run.jid, run);
    try {
      await store.write([
        ...mark,
        ...window,
        { op: 'put', key: openKey(run.jid), value: openRunRow.encode(this.#owned(run)) },
      ]);
      return 'queued';
    } catch (error) {
      this.#open.delete(run.jid);
      if (!isConflict(error)) {
        this.#doubt(run);
        throw error;
      }
      return (await this.isKnown(conditions.mark)) ? 'repeated' : 'once';
    }
  }

  /**
   * Marks the job as sent. When the promise resolves, the mark is durable, so that the job is not
   * sent again after a crash.
   */
  async markSent(jid: string): Promise<void> {
    const run = this.#open.get(jid);
    if (run === undefined) return;
    const sent = { ...run, isSent: true };
    const value = openRunRow.encode(this.#owned(sent));
    const condition = this.#condition(jid);
    await this.#options.store.write([{ op: 'put', key: openKey(jid), value, ...condition }]);
    this.#open.set(jid, sent);
  }

  /**
   * Gives up a run of this process. It stays in the store until the next start. In a cluster,
   * another member takes it over soon.
   */
  leave(jid: string): void {
    const run = this.#open.get(jid);
    this.#open.delete(jid);
    if (run !== undefined) this.#doubt(run);
  }

  /** Ends a run. The result is durable when the promise resolves. */
  async end(
    jid: string,
    outcome: ReactionResult['outcome'],
    reason?: string,
  ): Promise<EndedRun | undefined> {
    const run = this.#open.get(jid);
    if (run === undefined) return undefined;
    const { isSent: _isSent, member: _member, process: _process, ...rest } = run;
    const endedAt = this.#options.now();
    const ended = { ...rest, endedAt, outcome, ...(reason === undefined ? {} : { reason }) };
    const expiresAt = endedAt + this.#keepMs;
    const condition = this.#condition(jid);
    // If this write fails, the run counts as finished until the next start, which finds it in the
    // store.
    this.#open.delete(jid);
    try {
      await this.#options.store.write([
        { op: 'delete', key: openKey(jid), ...condition },
        { op: 'put', key: endedKey(jid), value: endedRunRow.encode(ended), expiresAt },
      ]);
    } catch (error) {
      if (!isConflict(error)) this.#doubt(run);
      throw error;
    }
    return ended;
  }

  /** Yields finished runs, the latest jid first. */
  async *ended(): AsyncIterableIterator<EndedRun> {
    const { store } = this.#options;
    for await (const entry of store.list(['reactions', 'ended'], { reverse: true })) {
      yield endedRunRow.decode(entry);
    }
  }

  /** Returns the run with this jid if it is stored. */
  async find(jid: string): Promise<OpenRun | EndedRun | undefined> {
    const open = this.#open.get(jid) ?? this.#elsewhere.get(jid)?.run;
    if (open !== undefined) return open;
    const entry = await this.#options.store.get(endedKey(jid));
    return entry === undefined ? undefined : endedRunRow.decode(entry);
  }

  #putMark(mark: QueueConditions['mark']): (Operation & { readonly op: 'put' })[] {
    if (mark === undefined) return [];
    const expiresAt = this.#options.now() + this.#options.keepMarksMs;
    return [{ op: 'put', key: markKey(mark), value: new Uint8Array(0), expiresAt, ifRevision: 0 }];
  }

  #putWindow(reaction: string, window: QueueConditions['window']): Operation[] {
    if (window === undefined) return [];
    const expiresAt = this.#options.now() + window.lengthMs;
    const key = onceKey(reaction, window);
    return [{ op: 'put', key, value: new Uint8Array(0), expiresAt, ifRevision: 0 }];
  }
}

function markKey({ minion, request, place }: NonNullable<QueueConditions['mark']>): Key {
  return ['reactions', 'requests', minion, request, digest([place])];
}

function onceKey(reaction: string, { values }: NonNullable<QueueConditions['window']>): Key {
  return ['reactions', 'once', reaction, digest(values)];
}

function digest(values: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(values), 'base64');
}
