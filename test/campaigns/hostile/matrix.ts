/** Runs rows of the hostile-input matrix, and compares the counts of each case with the limits. */

import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { getHeapCodeStatistics } from 'node:v8';
import { type ReadingStep, readingSteps } from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';
import { maxSliceSteps, workSlices } from '#runtime/work-budget.ts';
import { send } from '../http-fuzz.ts';
import { Random } from '../random.ts';
import { allEntries } from './entries.ts';
import type { Entry } from './entry.ts';
import { type BlockCounter, StepSampler } from './measure.ts';
import { addresses, type HostileSite, startHostileSite } from './site.ts';
import { families } from './values.ts';

/** Selection of the cases to run. */
export interface MatrixPlan {
  readonly seed: number;
  /** Number of rounds. Each round sends one case for each entry. */
  readonly rounds: number;
  /** Maximum size of a value in bytes. Default: the largest that the interface admits. */
  readonly maxBytes?: number;
  /** Only entries whose name contains this text. Default: all. */
  readonly only?: string;
  /** Time after which no further round starts, in milliseconds. Default: none. */
  readonly durationMs?: number;
}

/** Limits on the counts of one case. */
export const bounds = {
  /**
   * Number of blocks of code that one turn of the event loop may execute. The honest minion waits
   * for the turn.
   */
  blocksOfTurn: 4_000_000,
  /** Number of turns of the event loop until the honest user gets an answer. */
  turnsUntilServed: 60,
  /** Rows that a request may add to the store. */
  rows: 64,
  /** Bytes that a request may add to the store. */
  bytes: 16_777_216,
  /** Number of pending keys that all addresses of one network together may add. */
  pendingKeys: 64,
} as const;

export interface MatrixReport {
  readonly cases: number;
  /** Entries that got no case, because they have no fields. */
  readonly missing: readonly string[];
  readonly problems: readonly string[];
  readonly answers: Readonly<Record<string, number>>;
  /** Largest value of each count, with the case that caused it. */
  readonly largest: Readonly<Record<string, string>>;
  /** Measurements of time and memory. They depend on the machine. Absent if blocks are counted. */
  readonly measured?: Measured;
}

/** Longest step of an entry. */
interface LongStep {
  /** Processor time, in milliseconds. */
  readonly ms: number;
  /** Case that caused the step. */
  readonly where: string;
}

interface Measured {
  /**
   * 99.9 % quantile of the processor time of the longest step of the event loop in a turn of the
   * run, in milliseconds.
   */
  readonly stepMs: number;
  /** Longest steps, in milliseconds of the processor, one for each entry, longest first. */
  readonly longest: readonly LongStep[];
  /** Memory in use after each of the first three quarters of the run, in megabytes. */
  readonly memoryOfQuarters: readonly number[];
  /** Memory in use a minute after the end of the run, in megabytes. */
  readonly memory: number;
}

/** Number of turns in which a case may work. After them, it only waits. */
const maxBusyTurns = 25;
const waitMs = 20;

/** Number of turns after which a case has no answer: about five minutes. */
const maxTurns = 15_000;

/** Longest step that is counted exactly, in tenths of a millisecond. */
const maxTenths = 100_000;

/** Number of long steps that a report shows. */
const shownSteps = 12;

/**
 * Number of cases that are counted together, because each count takes as long as several cases. If
 * these cases together exceed the limit of one turn, they are repeated and each turn is counted.
 */
const casesOfCount = 8;

/** Names for the operator, who could delete the key of the honest minion. */
const absent = {
  minion: 'absent',
  project: 'p-absent',
  handle: 'h-absent',
  jid: '20260101000000000000',
};

const sizes = [300, 8_000, 60_000, 900_000, Infinity] as const;

/**
 * Runs the matrix.
 * @param counter - counter of executed blocks; `undefined`: the run measures time and memory
 * instead
 */
export async function runMatrix(
  plan: MatrixPlan,
  counter: BlockCounter | undefined,
  print: (line: string) => void = () => {},
): Promise<MatrixReport> {
  const site = await startHostileSite({ isOnDisk: counter === undefined });
  const run = new MatrixRun(site, counter, plan, print);
  try {
    return await run.all();
  } finally {
    await site.close();
  }
}

/** One request to a row. The seeds determine the field, the value and its size. */
interface Case {
  readonly entry: Entry;
  readonly seeds: readonly number[];
}

class MatrixRun {
  readonly #site: HostileSite;
  readonly #counter: BlockCounter | undefined;
  readonly #plan: MatrixPlan;
  readonly #print: (line: string) => void;
  readonly #problems: string[] = [];
  readonly #answers: Record<string, number> = {};
  readonly #largest = new Map<string, { readonly count: number; readonly where: string }>();
  #cases = 0;
  /** The current case. */
  #where = '';
  /** Cases since the last count. */
  #uncounted: Case[] = [];
  readonly #steps = new StepSampler();
  /**
   * Number of turns by the processor time of their longest step, in tenths of a millisecond. Of
   * fixed size, like all counts.
   */
  readonly #longSteps = new Uint32Array(maxTenths + 1);
  /** Longest step of each entry, by the name of the entry. */
  readonly #longest = new Map<string, LongStep>();

  constructor(
    site: HostileSite,
    counter: BlockCounter | undefined,
    plan: MatrixPlan,
    print: (line: string) => void,
  ) {
    this.#site = site;
    this.#counter = counter;
    this.#plan = plan;
    this.#print = print;
  }

  async all(): Promise<MatrixReport> {
    const { seed, rounds, only = '', durationMs = Infinity } = this.#plan;
    const entries = await allEntries(this.#site);
    const chosen = entries.filter(({ name, fields }) => fields.length > 0 && name.includes(only));
    const end = performance.now() + durationMs;
    const stop = this.#watchSteps();
    await this.#serveHonestMinion();
    await this.#askHonestUser();
    this.#counter?.take();
    const start = performance.now();
    const memoryOfQuarters: number[] = [];
    for (let round = 0; round < rounds && performance.now() < end; round += 1) {
      for (const [index, entry] of chosen.entries()) {
        await this.#try({ entry, seeds: [seed, round, index] });
        if (performance.now() > end) break;
        const isDue = performance.now() - start > (durationMs / 4) * (memoryOfQuarters.length + 1);
        if (isDue) memoryOfQuarters.push(await usedMemory());
      }
    }
    await this.#countBlocks();
    stop();
    this.#steps.stop();
    const pending = await this.#site.master.keys.list({ state: 'pending' });
    this.#note('pendingKeys', pending.length, 'the addresses of one network');
    const largest = [...this.#largest].map(([name, it]) => [name, `${it.count} ${it.where}`]);
    return {
      cases: this.#cases,
      missing: entries.filter(({ fields }) => fields.length === 0).map(({ name }) => name),
      problems: this.#problems,
      answers: this.#answers,
      largest: Object.fromEntries(largest),
      ...(this.#counter === undefined ? { measured: await this.#measure(memoryOfQuarters) } : {}),
    };
  }

  async #measure(memoryOfQuarters: readonly number[]): Promise<Measured> {
    return {
      stepMs: quantileOf(this.#longSteps, 0.999),
      longest: [...this.#longest.values()].sort((a, b) => b.ms - a.ms).slice(0, shownSteps),
      memoryOfQuarters,
      memory: await settledMemory(),
    };
  }

  async #try(it: Case): Promise<void> {
    await this.#case(it, false);
    if (this.#counter === undefined) return;
    this.#uncounted.push(it);
    if (this.#uncounted.length >= casesOfCount) await this.#countBlocks();
  }

  /** Counts the blocks of the latest cases. If they are many, repeats the cases turn by turn. */
  async #countBlocks(): Promise<void> {
    if (this.#counter === undefined) return;
    const cases = this.#uncounted;
    this.#uncounted = [];
    if (this.#counter.take().blocks <= bounds.blocksOfTurn) return;
    for (const it of cases) await this.#case(it, true);
  }

  async #case({ entry, seeds }: Case, countsTurns: boolean): Promise<void> {
    const random = new Random(...seeds);
    const [first = '', ...rest] = entry.fields;
    const field = random.of([first, ...rest]);
    const [family = '', ...others] = entry.families ?? Object.keys(families);
    const name = random.of([family, ...others]);
    const size = Math.min(random.of(sizes), entry.maxBytes, this.#plan.maxBytes ?? Infinity);
    const where = `${entry.name} ${field || 'all'}: ${name} of ${size} bytes`;
    this.#where = where;
    const value = families[name]?.(size, random, {
      foreign: entry.isOfOperator === true ? absent : this.#site.foreign,
      maxDepth: entry.maxDepth ?? 2_000,
    });
    const sendHostile = entry.prepare(field, value);
    const before = await this.#stored();
    if (countsTurns) this.#counter?.take();
    this.#site.takeDefects();
    const state = { isOver: false, isServed: false };
    const hostile = sendHostile().finally(() => {
      state.isOver = true;
    });
    const honest = this.#askHonestUser(entry).finally(() => {
      state.isServed = true;
    });
    for (let turn = 1; !state.isOver || !state.isServed; turn += 1) {
      this.#steps.begin();
      // Cases that take longer wait for threads and timers.
      await (turn < maxBusyTurns ? nextTurn() : wait(waitMs));
      await this.#serveHonestMinion(entry);
      const longest = this.#steps.longest();
      if (entry.isAlone !== true) this.#noteStep(longest, entry, where);
      const work = countsTurns ? this.#counter?.take() : undefined;
      if (work !== undefined && entry.isAlone !== true) {
        this.#note('blocksOfTurn', work.blocks, `${where} (${work.busiest.place})`);
      }
      if (!state.isServed) this.#note('turnsUntilServed', turn, where);
      if (turn === maxTurns) {
        const who = [state.isOver ? '' : 'hostile', state.isServed ? '' : 'honest']
          .join(' ')
          .trim();
        this.#fail(`${where}: no answer to the ${who} request`);
        return;
      }
    }
    const { answer, defect } = await hostile;
    await honest;
    const after = await this.#stored();
    this.#note('rows', after.rows - before.rows, where);
    this.#note('bytes', after.bytes - before.bytes, where);
    if (defect !== undefined) this.#fail(`${where}: ${defect}`);
    for (const text of this.#site.takeDefects()) this.#fail(`${where}: ${text}`);
    this.#cases += 1;
    this.#answers[answer] = (this.#answers[answer] ?? 0) + 1;
    // The case may have ended the session.
    if (answer === '401') await this.#site.logInAgain();
  }

  async #serveHonestMinion({ isOfOperator = false }: Partial<Entry> = {}): Promise<void> {
    const { honest, master } = this.#site;
    const event = { cmd: '_minion_event', tag: 'salt/minion/honest/start', data: 'up' };
    try {
      await honest.ask(event);
    } catch (error) {
      // The operator may end all sessions and delete all keys.
      if (!isOfOperator) this.#fail(`${this.#where}: the honest minion got ${String(error)}`);
      if ((await honest.signIn()) === 'accepted') return;
      await master.keys.accept({ match: honest.id, include: ['pending', 'rejected', 'denied'] });
      await honest.signIn();
    }
  }

  async #askHonestUser({ isOfOperator = false }: Partial<Entry> = {}): Promise<void> {
    const { port, sessions } = this.#site;
    const headers = { 'x-auth-token': sessions.honest ?? '' };
    const localAddress = addresses.honest;
    const request = { method: 'GET', path: '/bridge/v1/commands', headers, localAddress };
    // Turns are counted instead of time, so that a loaded machine does not matter.
    const answer = await send(port, request, Buffer.of(), 120_000);
    // The operator may end all sessions.
    if (isOfOperator && answer?.status === 401) await this.#site.logInAgain();
    else if (answer?.status !== 200)
      this.#fail(`${this.#where}: the honest user got ${answer?.status}: ${answer?.text}`);
  }

  /** Returns the number of rows in the store and their size, without those of the audit log. */
  async #stored(): Promise<{ readonly rows: number; readonly bytes: number }> {
    let rows = 0;
    let bytes = 0;
    // Listing a store on disk would be measured as the work of a case.
    if (this.#counter === undefined) return { rows, bytes };
    for await (const { key, value } of this.#site.store.list([])) {
      if (key[0] === 'audit') continue;
      rows += 1;
      bytes += value.length;
    }
    return { rows, bytes };
  }

  #noteStep(ms: number, { name }: Entry, where: string): void {
    const tenths = Math.min(maxTenths, Math.floor(ms * 10));
    this.#longSteps[tenths] = (this.#longSteps[tenths] ?? 0) + 1;
    if (ms > (this.#longest.get(name)?.ms ?? 0)) this.#longest.set(name, { ms, where });
  }

  #note(name: keyof typeof bounds, count: number, where: string): void {
    if (count > (this.#largest.get(name)?.count ?? 0)) this.#largest.set(name, { count, where });
    if (count > bounds[name]) this.#fail(`${where}: ${count} ${name} (maximum ${bounds[name]})`);
  }

  #fail(problem: string): void {
    this.#problems.push(problem);
    this.#print(`PROBLEM ${problem}`);
  }

  /**
   * Checks that metered work and the reading of JSON let other work run after each slice of steps.
   */
  #watchSteps(): () => void {
    const onSlice = (steps: unknown): void => {
      if (Number(steps) > 3 * maxSliceSteps)
        this.#fail(`${this.#where}: a slice of ${String(steps)} steps`);
    };
    const onReading = (step: unknown): void => {
      const { characters, values } = step as ReadingStep; // as it is published
      if (characters > maxReadingStep.characters || values > maxReadingStep.values) {
        this.#fail(
          `${this.#where}: a reading step of ${characters} characters and ${values} values`,
        );
      }
    };
    workSlices.subscribe(onSlice);
    readingSteps.subscribe(onReading);
    return () => {
      workSlices.unsubscribe(onSlice);
      readingSteps.unsubscribe(onReading);
    };
  }
}

/** Returns the upper limit of the class of a histogram that contains a quantile, in milliseconds. */
function quantileOf(turns: Uint32Array, share: number): number {
  let left = turns.reduce((sum, count) => sum + count, 0) * share;
  const tenths = turns.findIndex((count) => {
    left -= count;
    return left <= 0;
  });
  return (tenths + 1) / 10;
}

/**
 * Time in which the master releases the last requests, in milliseconds. Large requests may wait for
 * the rate limit of their sender.
 */
const settleMs = 60_000;

/** Returns the memory in use after the last requests have ended, in megabytes. */
async function settledMemory(): Promise<number> {
  await wait(settleMs);
  return await usedMemory();
}

/**
 * Returns the memory in use after garbage collection, in megabytes. It does not contain compiled
 * code, because V8 compiles more functions the longer it runs.
 */
async function usedMemory(): Promise<number> {
  for (let turn = 0; turn < 10; turn += 1) {
    globalThis.gc?.();
    await nextTurn();
  }
  const { heapUsed, external } = process.memoryUsage();
  const code = getHeapCodeStatistics();
  const compiled = code.code_and_metadata_size + code.bytecode_and_metadata_size;
  return (heapUsed + external - compiled) / 1_048_576;
}
