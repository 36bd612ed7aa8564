/** What orchestrations have done, in a cluster: another member goes on where one ends. */

import type { Logger } from 'pino';
import Type from 'typebox';
import { type AuditRequester, followRows, type MasterContext, MasterError } from '#master';
import { localField, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { defineRow, HeldRows, type Hold, type Key, type RowOf, StoreError, Texts } from '#store';
import type { Outcome } from './state-result.ts';

/** A call of `state.orchestrate`, as it was asked for. */
export interface OrchestrationCall {
  readonly user: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
  readonly by: AuditRequester | undefined;
}

/** What came of a state's function. */
export interface Settled {
  readonly outcome: Outcome;
  /** How often it was run. */
  readonly attempts: number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
}

/** A job or function of the master that a state begins. */
export interface BegunWork {
  readonly jid: string;
  /** Another process had this id before, and may have begun it. */
  readonly wasBegun: boolean;
}

/** When a state began to wait, milliseconds since 1970, and behind which event. */
interface Begin {
  readonly at: number;
  readonly events?: string;
}

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const AnyMap = Type.Unsafe<WireMap>(Type.Record(Type.String(), Type.Unknown()));

/** The call of an orchestration, in its row of work that is held. */
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

/** Rows `orchestrations/steps/<root>/<jid>/<number>`. */
const stepRow = defineRow({
  name: 'step of an orchestration',
  schema: Type.Object({
    tag: Type.String(),
    begin: Type.Optional(Type.Object({ at: Type.Number(), events: Type.Optional(Type.String()) })),
    /** Of what the state has begun, in order. */
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
const trimmedChanges = { trimmed: 'the changes are too large to be written down' };
/** Keys are in the order of their text. */
const numberWidth = 6;

export interface JournalOptions extends Pick<MasterContext, 'store' | 'nextJid'> {
  readonly cluster: Pick<NonNullable<MasterContext['cluster']>, 'follow' | 'isGone' | 'member'>;
  readonly duties: Pick<NonNullable<MasterContext['duties']>, 'isHeld' | 'onHeld'>;
  readonly log: Logger;
}

/** Goes on with an orchestration under its job id; resolves when that has begun. */
export type ResumeOrchestration = (jid: string, call: OrchestrationCall) => Promise<void>;

/** The orchestrations of a cluster that are not over. */
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
      resume: (jid, body) => this.#goOn(jid, body),
      log,
    });
  }

  /** Goes on with what other processes left. */
  async start(resume: ResumeOrchestration): Promise<void> {
    this.#resume = resume;
    await this.#rows.follow();
    this.#rows.start();
  }

  /**
   * Begins one, or goes on with it.
   * @returns `undefined`: it is too large to be written down
   * @throws StoreError
   */
  async begin(jid: string, call: OrchestrationCall): Promise<Journal | undefined> {
    const { store, log } = this.#options;
    const own = this.#rows.get(jid)?.process === this.#rows.process;
    try {
      if (!own) await store.write(this.#rows.take(jid, encodeCall(call)));
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      log.warn({ jid }, 'an orchestration is too large for other members: it ends with this one');
      return undefined;
    }
    const steps = new Map<string, StepRow>();
    for await (const entry of store.list([...stepsPrefix, jid])) {
      steps.set(entry.key.slice(-2).join('/'), stepRow.decode(entry));
    }
    return Journal.ofRoot({ ...this.#options, rows: this.#rows, root: jid, steps });
  }

  /** Leaves what is not over to other members. */
  close(): Promise<void> {
    return this.#rows.close();
  }

  async #goOn(jid: string, body: Uint8Array): Promise<void> {
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
  /** The orchestration that this one is, or is a part of. */
  readonly root: string;
  /** What was written down, by job id and number. */
  readonly steps: Map<string, StepRow>;
}

/** What one orchestration has done, or one that is a part of it. */
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

  /** Fires when another member goes on with it. */
  get lost(): AbortSignal {
    return this.#hold.lost;
  }

  /** That of a part; `undefined`: none of its states has begun this one. */
  ofPart(jid: string): Journal | undefined {
    return this.#begun.has(jid)
      ? new Journal(this.#place, jid, this.#hold, this.#begun)
      : undefined;
  }

  /**
   * The next call of a state's function; they are the same each time that the SLS are run.
   * @throws MasterError ERR_ORCHESTRATION where another state was the next one before
   */
  next(tag: string): JournalStep {
    const number = String(this.#next).padStart(numberWidth, '0');
    this.#next += 1;
    const { store, nextJid, log, rows, root, steps } = this.#place;
    const row = steps.get(`${this.#jid}/${number}`) ?? { tag, jids: [] };
    if (row.tag !== tag) {
      const reason = `SLS of this member are not those that it began with: ${tag} in place of ${row.tag}`;
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

  /** It is over, and that was told. */
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
      log.warn({ jid: root, err: error }, 'an orchestration that is over is still written down');
    }
  }
}

interface StepPlace {
  readonly row: StepRow;
  readonly nextJid: () => string;
  readonly write: (row: StepRow) => Promise<void>;
  readonly log: Logger;
}

/** One call of a state's function. */
export class JournalStep {
  readonly #place: StepPlace;
  #row: StepRow;
  #begun = 0;
  /** Rows are written in the order of what they say. */
  #writing: Promise<void> = Promise.resolve();

  constructor(place: StepPlace) {
    this.#place = place;
    this.#row = place.row;
  }

  /** What came of it, where it was over before. */
  get settled(): Settled | undefined {
    return this.#row.settled;
  }

  /**
   * The state begins to wait, or did so at a member that is gone.
   * @param events - what a reader names that has read all until now
   * @throws StoreError
   */
  async start(at: number, events: string | undefined): Promise<Begin> {
    const begin = this.#row.begin ?? { at, ...(events === undefined ? {} : { events }) };
    if (this.#row.begin === undefined) await this.#write({ ...this.#row, begin });
    return begin;
  }

  /**
   * The state begins a job or a function of the master; its id is durable when this resolves.
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

  /** It is over. What cannot be written down is looked at anew by the next member. */
  async settle(settled: Settled): Promise<void> {
    try {
      await this.#write({ ...this.#row, settled }).catch((error: unknown) => {
        if (!isTooLarge(error)) throw error;
        const outcome = { ...settled.outcome, changes: trimmedChanges };
        return this.#write({ ...this.#row, settled: { ...settled, outcome } });
      });
    } catch (error) {
      this.#place.log.debug({ tag: this.#row.tag, err: error }, 'a state was not written down');
    }
  }

  #write(row: StepRow): Promise<void> {
    this.#row = row;
    this.#writing = this.#writing.catch(() => {}).then(() => this.#place.write(row));
    return this.#writing;
  }
}
