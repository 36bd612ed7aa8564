/**
 * Journal of the orchestrations in a cluster: it stores the call and the result of each state. If a
 * member stops, another member resumes its orchestrations from the journal.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import { type AuditRequester, followRows, type MasterContext, MasterError } from '#master';
import { localField, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { defineRow, HeldRows, type Hold, type Key, type RowOf, StoreError, Texts } from '#store';
import type { Outcome } from './state-result.ts';

/** A call of `state.orchestrate` with its original arguments. */
export interface OrchestrationCall {
  readonly user: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
  readonly by: AuditRequester | undefined;
}

/** Result of a state that has ended, as the journal stores it. */
export interface Settled {
  readonly outcome: Outcome;
  /** Number of times the function ran. */
  readonly attempts: number;
  /** Time at which the state started, in milliseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
}

/** A job, runner or wheel function that a state starts. */
export interface BegunWork {
  readonly jid: string;
  /**
   * Whether the store already contained this jid. If so, a process that has stopped may have
   * started the work.
   */
  readonly wasBegun: boolean;
}

/**
 * Start of a state that waits for events: the time in milliseconds since 1970, and the position in
 * the event stream.
 */
interface Begin {
  readonly at: number;
  readonly events?: string;
}

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const AnyMap = Type.Unsafe<WireMap>(Type.Record(Type.String(), Type.Unknown()));

/** Schema of a stored call of an orchestration, from which another member can resume it. */
const callRow = defineRow({
  name: 'orchestration',
  schema: Type.Object({
    fun: Type.String(),
    arg: Type.Unsafe<readonly WireValue[]>(Type.Array(AnyValue)),
    kwarg: AnyMap,
    user: Type.String(),
    by: Type.Optional(
      Type.Unsafe<AuditRequester>(
        Type.Object({
          who: Type.Object({ kind: Type.String(), name: Type.String() }),
          rule: Type.String(),
        }),
      ),
    ),
  }),
  packed: { arg: localField, kwarg: localField },
  unversioned: unpackLocal,
});

/**
 * Schema of the stored journal entry of one state, in the row
 * `orchestrations/steps/<root>/<jid>/<number>`. `<root>` is the job id of the outermost
 * orchestration.
 */
const stepRow = defineRow({
  name: 'step of an orchestration',
  schema: Type.Object({
    tag: Type.String(),
    begin: Type.Optional(Type.Object({ at: Type.Number(), events: Type.Optional(Type.String()) })),
    /** Jids of the jobs and functions that the state has started, in order. */
    jids: Texts,
    settled: Type.Optional(
      Type.Unsafe<Settled>(
        Type.Object({
          outcome: Type.Object({
            result: Type.Union([Type.Boolean(), Type.Null()]),
            changes: AnyMap,
            comment: Type.String(),
            more: Type.Optional(AnyMap),
          }),
          attempts: Type.Number(),
          startedAt: Type.Number(),
          endedAt: Type.Number(),
        }),
      ),
    ),
  }),
  packed: { settled: localField },
  unversioned: unpackLocal,
});

type StepRow = RowOf<typeof stepRow>;

const openPrefix: Key = ['orchestrations', 'open'];
const stepsPrefix: Key = ['orchestrations', 'steps'];
const trimmedChanges = { trimmed: 'the changes are too large to be stored' };
/**
 * Number of digits of a step number in a key. Keys sort as text, so numbers are padded with zeros.
 */
const numberWidth = 6;

export interface JournalOptions extends Pick<MasterContext, 'store' | 'nextJid'> {
  readonly cluster: Pick<NonNullable<MasterContext['cluster']>, 'follow' | 'isGone' | 'member'>;
  readonly duties: Pick<NonNullable<MasterContext['duties']>, 'isHeld' | 'onHeld'>;
  readonly log: Logger;
}

/**
 * Function that resumes an orchestration under its job id. The promise resolves when it has
 * started.
 */
export type ResumeOrchestration = (jid: string, call: OrchestrationCall) => Promise<void>;

/** Journals of the unfinished orchestrations in a cluster. */
export class OrchestrationJournal {
  readonly #options: JournalOptions;
  readonly #rows: HeldRows;
  #resume: ResumeOrchestration | undefined;

  constructor(options: JournalOptions) {
    const { store, cluster, duties, log } = options;
    this.#options = options;
    this.#rows = new HeldRows({
      state: {
        get: (key) => store.get(key),
        write: (operations) => store.write(operations),
        follow: (prefix, listener) => followRows({ store, cluster, log }, prefix, listener),
      },
      cluster: {
        member: cluster.member,
        isGone: (member) => cluster.isGone(member),
        get isHeld() {
          return duties.isHeld;
        },
        onHeld: (listener) => duties.onHeld(listener),
      },
      prefix: openPrefix,
      resume: (jid, body) => this.#resumeStored(jid, body),
      log,
    });
  }

  /** Starts to resume orchestrations that other processes left unfinished. */
  async start(resume: ResumeOrchestration): Promise<void> {
    this.#resume = resume;
    await this.#rows.follow();
    this.#rows.start();
  }

  /**
   * Starts a new orchestration or resumes a stored one.
   * @returns its journal, or `undefined` if the call is too large to be stored
   * @throws StoreError
   */
  async begin(jid: string, call: OrchestrationCall): Promise<Journal | undefined> {
    const { store, log } = this.#options;
    const own = this.#rows.get(jid)?.process === this.#rows.process;
    try {
      if (!own) await store.write(this.#rows.take(jid, encodeCall(call)));
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      log.warn(
        { jid },
        'an orchestration is too large to store; if this cluster member fails, no other member can resume it',
      );
      return undefined;
    }
    const steps = new Map<string, StepRow>();
    for await (const entry of store.list([...stepsPrefix, jid])) {
      steps.set(entry.key.slice(-2).join('/'), stepRow.decode(entry));
    }
    return Journal.ofRoot({ ...this.#options, rows: this.#rows, root: jid, steps });
  }

  /** Closes the journal. Unfinished orchestrations are left to other members. */
  close(): Promise<void> {
    return this.#rows.close();
  }

  async #resumeStored(jid: string, body: Uint8Array): Promise<void> {
    const call = callRow.decode({ key: [...openPrefix, jid], value: body });
    if (this.#resume === undefined) throw new MasterError('ERR_MASTER_STOPPED', 'not started yet');
    await this.#options.store.write(this.#rows.take(jid, body));
    const { fun, arg, kwarg, user, by } = call;
    await this.#resume(jid, { fun, arg, kwarg, user, by });
  }
}

function encodeCall({ by, ...call }: OrchestrationCall): Uint8Array {
  return callRow.encode(by === undefined ? call : { ...call, by });
}

function isTooLarge(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_STORE_TOO_LARGE';
}

interface JournalPlace extends Pick<JournalOptions, 'store' | 'nextJid' | 'log'> {
  readonly rows: HeldRows;
  /** Job id of the outermost orchestration: this one, or the one in which it is nested. */
  readonly root: string;
  /** Stored journal entries of the states, by job id and number of the state. */
  readonly steps: Map<string, StepRow>;
}

/** Journal of one orchestration. The orchestration may be nested in another one. */
export class Journal {
  readonly #place: JournalPlace;
  readonly #jid: string;
  readonly #hold: Hold;
  readonly #begun: Set<string>;
  #next = 0;

  static ofRoot(place: JournalPlace): Journal {
    const begun = new Set([...place.steps.values()].flatMap(({ jids }) => jids));
    return new Journal(place, place.root, place.rows.hold(place.root), begun);
  }

  private constructor(place: JournalPlace, jid: string, hold: Hold, begun: Set<string>) {
    this.#place = place;
    this.#jid = jid;
    this.#hold = hold;
    this.#begun = begun;
  }

  /** Aborted when another member takes over the orchestration. */
  get lost(): AbortSignal {
    return this.#hold.lost;
  }

  /**
   * Returns the journal of a nested orchestration. Returns `undefined` if the present orchestration
   * did not start the nested one.
   */
  ofPart(jid: string): Journal | undefined {
    return this.#begun.has(jid)
      ? new Journal(this.#place, jid, this.#hold, this.#begun)
      : undefined;
  }

  /**
   * Returns the journal entry of the next state. An orchestration always has the same states in the
   * same order.
   * @throws MasterError ERR_ORCHESTRATION if the stored entry belongs to another state
   */
  next(tag: string): JournalStep {
    const number = String(this.#next).padStart(numberWidth, '0');
    this.#next += 1;
    const { store, nextJid, log, rows, root, steps } = this.#place;
    const row = steps.get(`${this.#jid}/${number}`) ?? { tag, jids: [] };
    if (row.tag !== tag) {
      const reason = `cannot resume the orchestration: its SLS files have changed; the next state is ${tag}, but ${row.tag} had started`;
      throw new MasterError('ERR_ORCHESTRATION', reason);
    }
    return new JournalStep({
      row,
      nextJid: () => {
        const jid = nextJid();
        this.#begun.add(jid);
        return jid;
      },
      write: async (changed) => {
        const key = [...stepsPrefix, root, this.#jid, number];
        const put = { op: 'put', key, value: stepRow.encode(changed) } as const;
        await rows.whileOwn(root, async () => {
          await store.write([...rows.condition(root), put]);
        });
      },
      log,
    });
  }

  /** Deletes the journal after the result of the orchestration has been published. */
  async end(): Promise<void> {
    const { store, rows, root, log } = this.#place;
    this.#hold.release();
    try {
      const keys: Key[] = [];
      for await (const { key } of store.list([...stepsPrefix, root])) keys.push(key);
      const steps = keys.map((key) => ({ op: 'delete', key }) as const);
      await rows.whileOwn(
        root,
        async () => void (await store.write([...rows.end(root), ...steps])),
      );
    } catch (error) {
      log.warn(
        { jid: root, err: error },
        'cannot delete the stored steps of a finished orchestration',
      );
    }
  }
}

interface StepPlace {
  readonly row: StepRow;
  readonly nextJid: () => string;
  readonly write: (row: StepRow) => Promise<void>;
  readonly log: Logger;
}

/** Journal entry of one state. */
export class JournalStep {
  readonly #place: StepPlace;
  #row: StepRow;
  #begun = 0;
  /** Pending write. Writes of a row run in order. */
  #writing: Promise<void> = Promise.resolve();

  constructor(place: StepPlace) {
    this.#place = place;
    this.#row = place.row;
  }

  /** Stored result, if an earlier process has finished this state. */
  get settled(): Settled | undefined {
    return this.#row.settled;
  }

  /**
   * Stores when a state that waits has started. If an earlier process has already stored a start
   * for this state, returns that earlier start.
   * @param at - start of the state, in milliseconds since 1970
   * @param events - position in the event stream behind its latest event
   * @throws StoreError
   */
  async start(at: number, events: string | undefined): Promise<Begin> {
    const begin = this.#row.begin ?? { at, ...(events === undefined ? {} : { events }) };
    if (this.#row.begin === undefined) await this.#write({ ...this.#row, begin });
    return begin;
  }

  /**
   * Allocates the jid of a job or function that the state is about to start. The jid is durable
   * when the promise resolves.
   * @throws StoreError
   */
  async begin(): Promise<BegunWork> {
    const known = this.#row.jids[this.#begun];
    this.#begun += 1;
    if (known !== undefined) return { jid: known, wasBegun: true };
    const jid = this.#place.nextJid();
    await this.#write({ ...this.#row, jids: [...this.#row.jids, jid] });
    return { jid, wasBegun: false };
  }

  /**
   * Stores the result. If it cannot be stored, a member that resumes the orchestration runs the
   * state again.
   */
  async settle(settled: Settled): Promise<void> {
    try {
      await this.#write({ ...this.#row, settled }).catch((error: unknown) => {
        if (!isTooLarge(error)) throw error;
        const outcome = { ...settled.outcome, changes: trimmedChanges };
        return this.#write({ ...this.#row, settled: { ...settled, outcome } });
      });
    } catch (error) {
      this.#place.log.debug(
        { tag: this.#row.tag, err: error },
        'cannot store the result of a state',
      );
    }
  }

  #write(row: StepRow): Promise<void> {
    this.#row = row;
    this.#writing = this.#writing.catch(() => {}).then(() => this.#place.write(row));
    return this.#writing;
  }
}
