/** The master's schedule: starts runners and jobs at configured times [salt/utils/schedule.py]. */

import { randomInt } from 'node:crypto';
import Type from 'typebox';
import { type LiveConfig, readSchedule, type ScheduleEntry } from '#config';
import type { AuditRequester, Functions, Jobs, MasterContext } from '#master';
import { longestTimerMs, processUser } from '#runtime';
import { defineRow, type Key } from '#store';
import { isAllowed, nextTime } from './schedule-times.ts';

export interface ScheduleDeps {
  readonly config: { readonly fixed: Pick<LiveConfig['fixed'], 'schedule' | 'user'> };
  readonly context: Pick<MasterContext, 'store' | 'now' | 'log' | 'closing' | 'closers'> &
    Partial<Pick<MasterContext, 'duties'>>;
  readonly jobs: { readonly api: Pick<Jobs['api'], 'run'> };
  readonly functions: { readonly runners: Pick<Functions['runners'], 'run'> };
}

/**
 * Maximum age of missed jobs that a member starts when it takes over the schedule, in milliseconds.
 * The member starts the jobs that became due in this period and that no other member started. It
 * does not start jobs that became due earlier.
 */
const takenOverMs = 60_000;

/** Runs the entries of the option `schedule` until the master closes. */
export class Schedule {
  readonly #deps: ScheduleDeps;
  readonly #entries: readonly ScheduleEntry[];
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #running = new Map<string, number>();
  readonly #last = new Map<string, number>();
  /**
   * For each entry, the latest time at which it was due while another cluster member ran the
   * schedule.
   */
  readonly #skipped = new Map<ScheduleEntry, number>();

  constructor(deps: ScheduleDeps) {
    this.#deps = deps;
    this.#entries = readSchedule(deps.config.fixed.schedule);
  }

  async start(): Promise<void> {
    const { store, now, duties } = this.#deps.context;
    duties?.onHeld(() => {
      this.#takeOver().catch((err: unknown) => {
        this.#deps.context.log.error(
          { err },
          'cannot take over the schedule from another cluster member',
        );
      });
    });
    for (const entry of this.#entries) {
      const kept = await store.get(keyOf(entry));
      const last = kept && scheduleRow.decode(kept).at;
      // The interval of a new entry begins now.
      if (last === undefined) await this.#remember(entry, now());
      else this.#last.set(entry.name, last);
      if (entry.runsOnStart) void this.#fire(entry, now());
      this.#wait(entry);
    }
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  #wait(entry: ScheduleEntry): void {
    const { now, closing } = this.#deps.context;
    if (closing.aborted) return;
    const due = nextTime(entry.trigger, now(), this.#last.get(entry.name));
    if (due === undefined) return;
    const { start, end } = entry.splay;
    const splay = end === 0 ? 0 : randomInt(Math.round(start * 1000), Math.round(end * 1000) + 1);
    this.#sleepUntil(entry, due, due + splay);
  }

  /**
   * Waits until an entry must run, and then runs it.
   * @param due - time for which the entry is scheduled
   * @param at - time at which to run the entry: `due`, or later because of a random delay (`splay`)
   */
  #sleepUntil(entry: ScheduleEntry, due: number, at: number): void {
    const { now } = this.#deps.context;
    const left = Math.min(Math.max(0, at - now()), longestTimerMs);
    const wake = (): void => {
      if (now() < at) this.#sleepUntil(entry, due, at);
      else void this.#fire(entry, due).finally(() => this.#wait(entry));
    };
    this.#timers.set(entry.name, setTimeout(wake, left).unref());
  }

  /**
   * Starts the job of an entry. The promise resolves when the job has started, so that a long job
   * does not delay the next due time.
   */
  async #fire(entry: ScheduleEntry, due: number): Promise<void> {
    const { log, now, duties } = this.#deps.context;
    const { name, isCounted, maxRunning } = entry;
    if (duties?.isHeld === false) {
      this.#last.set(name, due);
      this.#skipped.set(entry, due);
      return;
    }
    try {
      // Store the due time before the job starts. If a crash then interrupts the job, it does not
      // run twice.
      await this.#remember(entry, due);
    } catch (err) {
      return log.error(
        { schedule: name, err },
        'did not start a scheduled job, because its due time cannot be stored',
      );
    }
    if (!isAllowed(entry, now())) return;
    // Check this after the write, because earlier jobs may have ended during it.
    const running = this.#running.get(name) ?? 0;
    if (isCounted && running >= maxRunning) {
      return log.info(
        { schedule: name, running },
        'did not start a scheduled job, because earlier runs of this job have not ended',
      );
    }
    this.#running.set(name, running + 1);
    this.#run(entry)
      .catch((err: unknown) => log.error({ schedule: name, err }, 'a scheduled job failed'))
      .finally(() => this.#running.set(name, (this.#running.get(name) ?? 1) - 1));
  }

  async #run({ name, fun, arg, kwarg, target, isKept, metadata }: ScheduleEntry): Promise<void> {
    const { config, context, jobs, functions } = this.#deps;
    const { log, closing } = context;
    const by: AuditRequester = {
      who: { kind: 'master', name: 'schedule' },
      rule: `schedule:${name}`,
    };
    const user = config.fixed.user ?? processUser() ?? `uid:${process.getuid?.()}`;
    const call = { fun, arg, kwarg, user };
    if (target === undefined) {
      const result = await functions.runners.run({ ...call, by }, { isKept });
      const { jid, success } = result;
      if (success) log.info({ schedule: name, jid, fun }, 'a scheduled runner finished');
      else log.error({ schedule: name, jid, fun }, 'a scheduled runner failed');
      return;
    }
    const request = { ...call, ...target, by, ...(metadata === undefined ? {} : { metadata }) };
    for await (const update of jobs.api.run(request, closing)) {
      if (update.type === 'published' && update.missing.length > 0) {
        const { jid, missing } = update;
        log.warn(
          { schedule: name, jid, fun, missing },
          'the target of a scheduled job names minions without an accepted key; these minions do not run the job',
        );
      }
      if (update.type !== 'finished') continue;
      const { jid, answered, silent } = update;
      const counts = { answered: answered.length, silent: silent.length };
      log.info({ schedule: name, jid, fun, ...counts }, 'a scheduled job finished');
    }
  }

  async #remember(entry: ScheduleEntry, at: number): Promise<void> {
    const { store, duties } = this.#deps.context;
    this.#last.set(entry.name, at);
    const value = scheduleRow.encode({ at: Math.floor(at) });
    const operation = { op: 'put', key: keyOf(entry), value } as const;
    if (duties?.isHeld) await duties.write([operation]);
    else await store.write([operation]);
  }

  /** Whether another member of the cluster has already started the job for this due time. */
  async #wasBegun(entry: ScheduleEntry, due: number): Promise<boolean> {
    const kept = await this.#deps.context.store.get(keyOf(entry));
    return kept !== undefined && scheduleRow.decode(kept).at >= Math.floor(due);
  }

  /** Starts jobs that became due while no member of the cluster was responsible. */
  async #takeOver(): Promise<void> {
    const since = this.#deps.context.now() - takenOverMs;
    const skipped = [...this.#skipped].filter(([, due]) => due >= since);
    this.#skipped.clear();
    for (const [entry, due] of skipped) {
      if (!(await this.#wasBegun(entry, due))) await this.#fire(entry, due);
    }
  }
}

/** Schema of the stored due time of one entry, in the row `schedule/<name>`. */
export const scheduleRow = defineRow({
  name: 'scheduled run',
  schema: Type.Object({
    /** Due time of the latest run of the entry, in milliseconds since 1970. */
    at: Type.Number(),
  }),
  unversioned: (bytes) => ({ at: Number(Buffer.from(bytes).toString()) }),
});

function keyOf({ name }: ScheduleEntry): Key {
  return ['schedule', name];
}
