import { createHash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { type Cluster, followRows, openRunsPrefix, type ReactionResult } from '#master';
import { packLocal, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import {
  type Change,
  defineRow,
  type Key,
  type Operation,
  type RowOf,
  type Store,
  StoreError,
} from '#store';
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
   * Of the job, the first job of the command, the runner or the wheel function; it is known before
   * anything is done.
   */
  jid: Type.String(),
  reaction: Type.String(),
  /** Tag of the event that it follows from. */
  tag: Type.String(),
  /** The minion that emitted the event. Absent: the master itself. */
  sender: Type.Optional(Type.String()),
  /** How many runs led to the event that it follows from. */
  depth: Type.Number(),
  /** Milliseconds since 1970. */
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

/** Rows `reactions/open/<jid>`. */
export const openRunRow = defineRow({
  name: 'run of a reaction',
  schema: Type.Object({
    ...runFields,
    /** Whether the job has left, or the runner was started; it is not done again then. */
    isSent: Type.Boolean(),
    /** In a cluster: the member that does it. */
    member: Type.Optional(Type.String()),
    /** In a cluster: the process that does it; empty: it was left to the others. */
    process: Type.Optional(Type.String()),
  }),
  packed,
  unversioned: unpackLocal,
});

/** Rows `reactions/ended/<jid>`. */
const endedRunRow = defineRow({
  name: 'run of a reaction',
  schema: Type.Object({
    ...runFields,
    /** Milliseconds since 1970. */
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
    /** Why, for a person. Absent: the outcome says it. */
    reason: Type.Optional(Type.String()),
  }),
  packed,
  unversioned: unpackLocal,
});

/** A run that is not over. */
export type OpenRun = RowOf<typeof openRunRow>;

/** A run that is over. */
export type EndedRun = RowOf<typeof endedRunRow>;

function packCall(planned: PlannedCall): WireMap {
  const { kind, fun, arg, kwarg } = planned;
  const common = { kind, fun, arg: [...arg], kwarg: { ...kwarg } };
  if (!('target' in planned)) return common;
  const { tgt, tgtType = 'glob' } = planned.target;
  return { ...common, target: { tgt: typeof tgt === 'string' ? tgt : [...tgt], tgtType } };
}

/** What the keys of all runs begin with that are not over. */

const openKey = (jid: string): Key => [...openRunsPrefix, jid];
const endedKey = (jid: string): Key => ['reactions', 'ended', jid];

/** What a run depends on; each is written with it. */
export interface QueueConditions {
  /** The place of the run among all that follow from one request: the request again adds none. */
  readonly mark:
    | { readonly minion: string; readonly request: string; readonly place: string }
    | undefined;
  /** Only one run of these values in so many milliseconds. */
  readonly window: { readonly values: readonly unknown[]; readonly lengthMs: number } | undefined;
}

export interface ReactionQueueOptions {
  readonly store: Pick<Store, 'get' | 'list' | 'write'>;
  /** `undefined`: no other master has the queue. */
  readonly cluster: Pick<Cluster, 'follow' | 'isGone' | 'member'> | undefined;
  readonly log: Logger;
  /** How long runs that end from now on are kept, milliseconds. */
  readonly keepMs: number;
  /** As long as a request that was sent once can still be opened, milliseconds. */
  readonly keepMarksMs: number;
  readonly now: () => number;
}

/** A run of another process of the cluster. */
interface RunElsewhere {
  readonly run: OpenRun;
  readonly revision: number;
}

const nobody = '';
/** Longer than a write takes effect after it has failed. */
const unconfirmedMs = 60_000;
/** That no row has. */
const noRevision = Number.MAX_SAFE_INTEGER;

/**
 * The runs of reactions in the store: those that are not over, and for `keep_jobs_seconds` those
 * that are. What is written together is either all there after a crash or not at all.
 *
 * Members of a cluster have one queue. A run is of the process that queued it, or has taken it since;
 * what another one writes of it changes nothing.
 */
export class ReactionQueue {
  readonly #options: ReactionQueueOptions;
  #keepMs: number;
  readonly #open = new Map<string, OpenRun>();
  readonly #process = randomUUID();
  readonly #elsewhere = new Map<string, RunElsewhere>();
  /** Of the rows of this process in the store of a cluster. */
  readonly #revisions = new Map<string, number>();
  /** Of which nobody knows whether they were kept: they are taken over where they were. */
  readonly #unconfirmed = new Set<string>();
  /** In a cluster: of each reaction, who has the runs that are not over, in the order of the log. */
  readonly #order = new Map<string, Map<string, string>>();
  readonly #reactions = new Map<string, string>();
  #onLeft: () => void = () => {};
  #onEnded: (reaction: string) => void = () => {};

  private constructor(options: ReactionQueueOptions) {
    this.#options = options;
    this.#keepMs = options.keepMs;
  }

  /** With what a master before this one left. @throws StoreError ERR_STORE_CORRUPT */
  static async open(options: ReactionQueueOptions): Promise<ReactionQueue> {
    const queue = new ReactionQueue(options);
    await followRows(options, openRunsPrefix, (change) => queue.#note(change));
    return queue;
  }

  /** Told when another member of the cluster has left a run. */
  set onLeft(listener: () => void) {
    this.#onLeft = listener;
  }

  /** Told the reaction of each run that has ended at another member of the cluster. */
  set onEnded(listener: (reaction: string) => void) {
    this.#onEnded = listener;
  }

  /**
   * In a cluster: so many runs of a reaction that are not over, of all members. Before a run in the
   * order of the log nothing comes later, so that all members agree on what is among them.
   * @returns jids; `undefined`: all runs are of this process
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

  /** Keeps runs that end from now on so many milliseconds. */
  keepFor(milliseconds: number): void {
    this.#keepMs = milliseconds;
  }

  /** Runs that are not over, the oldest first; in a cluster those of other members behind them. */
  get open(): readonly OpenRun[] {
    return [...this.#open.values(), ...Array.from(this.#elsewhere.values(), ({ run }) => run)];
  }

  /**
   * Jids of runs that nobody does any more.
   * @param isHeld - whether this member goes on with what others left
   */
  abandoned(isHeld: boolean): readonly string[] {
    const { cluster } = this.#options;
    const isLeft = ({ member = '', process }: OpenRun): boolean => {
      if (member === cluster?.member && process !== nobody) return true;
      return isHeld && (process === nobody || cluster?.isGone(member) === true);
    };
    return [...this.#elsewhere.values()].flatMap(({ run }) => (isLeft(run) ? run.jid : []));
  }

  /** Makes a run of another process one of this process, unless a third one was first. */
  async take(jid: string): Promise<OpenRun | undefined> {
    const known = this.#elsewhere.get(jid);
    if (known === undefined) return undefined;
    const run = this.#owned(known.run);
    this.#unconfirmed.delete(jid);
    const put = { op: 'put', key: openKey(jid), value: openRunRow.encode(run) } as const;
    try {
      await this.#options.store.write([{ ...put, ifRevision: known.revision }]);
      return run;
    } catch (error) {
      if (!isConflict(error)) throw error;
      return undefined;
    }
  }

  /** Leaves the runs of this process to the other members. */
  async leaveAll(): Promise<void> {
    const { store, cluster } = this.#options;
    if (cluster === undefined) return;
    for (const [jid, run] of this.#open) {
      const value = openRunRow.encode({ ...run, member: cluster.member, process: nobody });
      const condition = this.#condition(jid);
      await store.write([{ op: 'put', key: openKey(jid), value, ...condition }]).catch(() => {
        // It is taken over once this member is missed.
      });
    }
  }

  /** In a cluster a write that fails may be applied all the same, now or later. */
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

  /** In a cluster: only where this process still has the run. */
  #condition(jid: string): { readonly ifRevision?: number } {
    if (this.#options.cluster === undefined) return {};
    return { ifRevision: this.#revisions.get(jid) ?? noRevision };
  }

  /** What is in the store; in a cluster also what any member makes of it. */
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
    if (run.process === nobody) this.#onLeft();
  }

  /** Whoever takes a run comes behind those that others have by then. */
  #enterOrder({ reaction, jid, process = nobody }: OpenRun): void {
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

  /** How many of a reaction are not over. */
  count(reaction: string): number {
    let count = 0;
    for (const run of this.#open.values()) if (run.reaction === reaction) count += 1;
    for (const { run } of this.#elsewhere.values()) if (run.reaction === reaction) count += 1;
    return count;
  }

  /** Whether this place of a request led to something, or to nothing, before. */
  async isKnown(mark: QueueConditions['mark']): Promise<boolean> {
    return mark !== undefined && (await this.#options.store.get(markKey(mark))) !== undefined;
  }

  /** Remembers that nothing follows from this place of a request, also when it comes again. */
  async remember(mark: QueueConditions['mark']): Promise<void> {
    const { store } = this.#options;
    const operations = this.#putMark(mark).map(({ ifRevision: _new, ...operation }) => operation);
    if (operations.length > 0) await store.write(operations);
  }

  /** Whether a run of these values is in the window; the last word has {@link add}. */
  async isWithin(reaction: string, window: QueueConditions['window']): Promise<boolean> {
    if (window === undefined) return false;
    return (await this.#options.store.get(onceKey(reaction, window))) !== undefined;
  }

  /**
   * Keeps a run; durable when it resolves with `queued`.
   * @returns `repeated`: it was kept for the same request before; `once`: there was one in the
   * window of time
   */
  async add(run: OpenRun, conditions: QueueConditions): Promise<'queued' | 'repeated' | 'once'> {
    const { store } = this.#options;
    const mark = this.#putMark(conditions.mark);
    const window = this.#putWindow(run.reaction, conditions.window);
    // At once, so that what is counted meanwhile counts it.
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

  /** Durable when it resolves: after a crash the run is not done again. */
  async markSent(jid: string): Promise<void> {
    const run = this.#open.get(jid);
    if (run === undefined) return;
    const sent = { ...run, isSent: true };
    const value = openRunRow.encode(this.#owned(sent));
    const condition = this.#condition(jid);
    await this.#options.store.write([{ op: 'put', key: openKey(jid), value, ...condition }]);
    this.#open.set(jid, sent);
  }

  /** Leaves a run in the store, for the next start; in a cluster it is taken again soon. */
  leave(jid: string): void {
    const run = this.#open.get(jid);
    this.#open.delete(jid);
    if (run !== undefined) this.#doubt(run);
  }

  /** Ends a run; durable when it resolves. */
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
    // Where the store fails, the next start finds it again; until then it is over.
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

  /** Runs that are over, the latest jid first. */
  async *ended(): AsyncIterableIterator<EndedRun> {
    const { store } = this.#options;
    for await (const entry of store.list(['reactions', 'ended'], { reverse: true })) {
      yield endedRunRow.decode(entry);
    }
  }

  /** The run of this jid, if it is kept. */
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

function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

function markKey({ minion, request, place }: NonNullable<QueueConditions['mark']>): Key {
  return ['reactions', 'requests', minion, request, digest([place])];
}

function onceKey(reaction: string, { values }: NonNullable<QueueConditions['window']>): Key {
  return ['reactions', 'once', reaction, digest(values)];
}

function digest(values: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(values)).digest('base64');
}
