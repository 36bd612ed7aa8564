import type { JobReturn, MasterApi, MasterEvent, RunRequest } from '#master';
import type { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { minionPrograms } from './programs.ts';
import { RealMinion, type RealMinionOptions } from './real-minion.ts';

/** Result of a job. */
export interface JobOutcome {
  readonly jid: string;
  readonly returns: ReadonlyMap<string, JobReturn>;
  readonly silent: readonly string[];
  /** Minions that have not connected since the master started. */
  readonly reconnecting: readonly string[];
  /** Number of times that minions reported that the job is still running. */
  readonly runningRounds: number;
}

/**
 * Time without news after which minions are treated as silent. It is long, because machines that
 * run tests may be slow.
 */
const patience = { timeoutSeconds: 60, gatherJobTimeoutSeconds: 20 };

/** Publishes a job and waits for its end. */
export async function runJob(api: MasterApi, request: RunRequest): Promise<JobOutcome> {
  const returns = new Map<string, JobReturn>();
  let runningRounds = 0;
  for await (const update of api.jobs.run({ ...patience, ...request })) {
    if (update.type === 'return') returns.set(update.minion, update);
    if (update.type === 'running') runningRounds += 1;
    if (update.type === 'finished') {
      const { jid, silent, reconnecting } = update;
      return { jid, returns, silent, reconnecting, runningRounds };
    }
  }
  throw new Error(`the updates of ${request.fun} ended without 'finished'`);
}

/** Real minions of several versions with one master. */
export class Fleet {
  readonly minions: readonly RealMinion[];

  private constructor(minions: readonly RealMinion[]) {
    this.minions = minions;
  }

  /** Creates one minion for each program in the environment, or for each given program. */
  static async create(
    options: Omit<RealMinionOptions, 'program'>,
    programs: readonly string[] = minionPrograms,
  ): Promise<Fleet> {
    const create = (program: string): Promise<RealMinion> =>
      RealMinion.create({ program, ...options });
    return new Fleet(await Promise.all(programs.map(create)));
  }

  get ids(): readonly string[] {
    return this.minions.map(({ id }) => id).sort();
  }

  start(): void {
    for (const minion of this.minions) minion.start();
  }

  /** Waits until the key of each minion is pending. */
  pending(events: EventLog): Promise<void> {
    return this.each(({ id }) => pended(events, id));
  }

  /**
   * Accepts the minions and waits for the event of each that it has started. No minion is
   * restarted.
   */
  async enrol(api: MasterApi, events: EventLog): Promise<void> {
    this.start();
    await this.pending(events);
    await api.keys.accept({ match: '*' });
    await this.started(events);
  }

  /** Waits until each minion has reported that it is ready for jobs. */
  started(events: EventLog, from = 0): Promise<void> {
    return this.each(({ id }) => {
      const tag = `salt/minion/${id}/start`;
      return events.seen(tag, (it) => it.tag === tag, { from });
    });
  }

  /** Waits until each minion has subscribed to publications. */
  async connected(api: MasterApi): Promise<void> {
    const { length } = this.minions;
    await eventually(
      `${length} subscribers`,
      async () => (await api.status()).subscribers >= length,
    );
  }

  /** Runs a job on all minions. Fails with the names of the minions that did not answer. */
  async ask(api: MasterApi, request: Omit<RunRequest, 'tgt'>): Promise<JobOutcome> {
    const outcome = await runJob(api, { tgt: '*', ...request });
    await this.each(async ({ id }) => {
      if (!outcome.returns.has(id)) throw new Error(`no answer to ${request.fun}`);
    });
    return outcome;
  }

  /** Runs `work` for each minion. An error names the minion and contains the end of its log. */
  async each(work: (minion: RealMinion) => Promise<unknown>): Promise<void> {
    const results = await Promise.allSettled(this.minions.map(async (minion) => work(minion)));
    const failures = results.flatMap((result, index) =>
      result.status === 'rejected' ? [`${result.reason}\n${this.minions[index]?.describe()}`] : [],
    );
    if (failures.length > 0) throw new Error(failures.join('\n\n'));
  }

  async dispose(): Promise<void> {
    await Promise.all(this.minions.map((minion) => minion.dispose()));
  }
}

/** Waits until the master has replied to a minion that its key is pending. */
export function pended(events: EventLog, id: string, from = 0): Promise<unknown> {
  const accepts = ({ tag, data }: MasterEvent): boolean =>
    tag === 'salt/auth' && data.act === 'pend' && data.id === id;
  return events.seen(`${id} to be pending`, accepts, { from });
}
