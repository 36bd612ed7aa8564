/**
 * Masters of a cluster that callers and minions use, while masters, NATS servers and the
 * connections between them fail at seeded times. The result is checked against the histories that
 * callers and minions wrote, and against the final state of each master (cluster/checker.ts).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectMaster } from '#client';
import { keepsCopiesEqual } from '../../bench/nats-cluster.ts';
import { startEndpoint } from '../../bench/signals/endpoint.ts';
import { until, within } from '../helpers/deadline.ts';
import { canMount, mountSmallDisk, type SmallDisk } from '../helpers/small-disk.ts';
import { Callers, type CallRates, loginAt } from './cluster/callers.ts';
import { check, checkRuns } from './cluster/checker.ts';
import { agreement, type EndKind, emptyServers, ends, refound } from './cluster/ends.ts';
import { faults, holderOf, isOfServers, kindsOf } from './cluster/faults.ts';
import { HistoryFile, readHistories } from './cluster/history.ts';
import { SimulatedMinions } from './cluster/minions.ts';
import { RealMinions } from './cluster/real-minions.ts';
import { Site } from './cluster/site.ts';
import { viewOf } from './cluster/view.ts';
import { Random } from './random.ts';

/** Extent of a run. */
interface ClusterPlan {
  readonly seed: number;
  /**
   * Number of faults, which happen one after the other. If `kinds` is given, only faults of these
   * kinds are used.
   */
  readonly faults: number;
  readonly kinds?: readonly string[];
  /** Approximate time between the beginnings of two faults. */
  readonly paceMs: number;
  readonly minions: number;
  /** Programs of real minions. */
  readonly programs?: readonly string[];
  readonly rates: CallRates;
  readonly signalsPerSecond: number;
  /**
   * Whether the first fault is the death of a master that stays down until another one has taken
   * over.
   */
  readonly measuresDeath: boolean;
  /**
   * Maximum time until every master with a quorum has applied a revocation, in milliseconds.
   * Less than 10,000, because calls stop waiting then.
   */
  readonly heardMs: number;
  /** Kinds of final failures, which follow the faults. */
  readonly ends: readonly EndKind[];
}

/** Results of a run. */
interface ClusterFigures {
  readonly faults: Readonly<Record<string, number>>;
  readonly jobs: number;
  readonly returns: number;
  readonly signals: number;
  readonly keyChanges: number;
  readonly revocations: number;
  readonly runs: number;
  readonly rows: number;
  readonly refusedJobs: number;
  readonly unknownJobs: number;
  /**
   * Number of times that members noticed different copies of the log, so that the log was founded
   * anew.
   */
  readonly refounded: number;
  /** Number of times that a connection of a minion signed in again. */
  readonly signIns: number;
  readonly runsOfRealMinions: number;
  /**
   * Measurements about a master that had the lease and was killed under load; `undefined` if there
   * was none.
   */
  readonly death: DeathFigures | undefined;
  /**
   * Longest time until every master rejected a token after another one had revoked it, without a
   * fault meanwhile.
   */
  readonly longestRevocationMs: number;
  /** Longest duration of a stored job or row: without a fault, and with a fault of each kind. */
  readonly longestWaitMs: number;
  readonly longestWaitsMs: Readonly<Record<string, number>>;
  /** Problems that were found. Empty if there were none. */
  readonly problems: readonly string[];
}

/** Effects of the death of a master under load on the others. */
interface DeathFigures {
  /** Time from its death until another master performs the duties of the cluster. */
  readonly takeoverMs: number;
  /** Longest duration of a job at another master in the first seconds. */
  readonly longestJobMs: number;
  /** Time from its restart until one of its minions was answered. */
  readonly minionsBackMs: number;
  /** Number of sign-ins of minions during this time. */
  readonly signIns: number;
}

interface Span {
  readonly kind: string;
  readonly from: number;
  readonly to: number;
}

const recoveryMs = 90_000;
const diskMebibytes = 512;
const soonMs = 5000;

/** Runs the campaign below a directory of its own. */
export async function runClusterFaults(
  plan: ClusterPlan,
  print: (line: string) => void = () => {},
): Promise<ClusterFigures> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-c-'));
  const teardowns: (() => unknown)[] = [];
  try {
    return await new Trial(plan, directory, print, (it) => teardowns.push(it)).run();
  } finally {
    for (const teardown of teardowns.reverse()) await teardown();
    if (process.env.CAMPAIGN_KEEP === undefined)
      rmSync(directory, { recursive: true, force: true });
    else print(`kept: ${directory}`);
  }
}

class Trial {
  readonly #plan: ClusterPlan;
  readonly #directory: string;
  readonly #print: (line: string) => void;
  readonly #onEnd: (teardown: () => unknown) => void;
  readonly #random: Random;
  readonly #spans: Span[] = [];
  readonly #problems: string[] = [];
  /** Periods in which members stopped by themselves. */
  readonly #deaths: { readonly from: number; readonly to: number }[] = [];
  #death: DeathFigures | undefined;
  #refounded = 0;
  readonly #copiesStayEqual = keepsCopiesEqual();
  /** Whether servers have failed since the log was founded. */
  #hasUnsureLog = false;

  constructor(
    plan: ClusterPlan,
    directory: string,
    print: (line: string) => void,
    onEnd: (teardown: () => unknown) => void,
  ) {
    this.#plan = plan;
    this.#directory = directory;
    this.#print = print;
    this.#onEnd = onEnd;
    this.#random = new Random(plan.seed);
  }

  async run(): Promise<ClusterFigures> {
    const { minions: minionCount, rates, signalsPerSecond } = this.#plan;
    const endpoint = await startEndpoint(() => this.#endpointRandom());
    this.#onEnd(() => endpoint.close());
    const disk = canMount ? this.#mount() : undefined;
    const last = 'e';
    const site = await Site.start({
      directory: this.#directory,
      minions: minionCount,
      origin: endpoint.origin,
      ...(disk === undefined ? {} : { stateDirs: { [last]: path.join(disk.directory, 'state') } }),
    });
    this.#onEnd(() => site.end());
    const [first] = site.members;
    if (first === undefined) throw new Error('no member');
    const minions = await SimulatedMinions.start(site, minionCount);
    this.#onEnd(() => minions.stop());
    const real = await RealMinions.start(site, this.#plan.programs ?? []);
    this.#onEnd(() => real.dispose());
    const token = await loginAt(first.api);
    const callers = new Callers(site, token, minions.ids);
    this.#onEnd(() => callers.stop());
    // After the deletion of a key, all minions sign in again.
    callers.keepsKeys = true;
    real.run(connectMaster({ urls: site.urls, token }));
    await callers.addHandles(endpoint.origin);
    callers.start(rates);
    minions.signal({ signalsPerSecond });
    await this.#progress(site, callers);
    const setting = {
      site,
      random: this.#random,
      disk: disk === undefined ? undefined : { member: site.member(last), disk },
    };
    if (this.#plan.measuresDeath) await this.#measureDeath(site, callers, minions);
    callers.keepsKeys = false;
    await this.#fail(setting, callers);
    for (const kind of this.#plan.ends) {
      if (this.#problems.length > 0) break;
      const underLoad = (): Promise<void> => this.#progress(site, callers);
      await this.#step(kind, site, callers, () => ends[kind](site, underLoad));
    }
    // If something is wrong, some of this may wait forever.
    if (this.#problems.length === 0) {
      await within('callers', callers.end(), recoveryMs);
      await within('minions', minions.stopSignals(), recoveryMs);
      await within('real minions', real.end(), recoveryMs);
      await this.#drain(site);
      const arrivals = new HistoryFile(site.histories, 'endpoint');
      for (const arrival of endpoint.arrivals) arrivals.note({ fact: 'arrived', ...arrival });
      await this.#judge(site);
    }
    return this.#figures(callers, minions, real);
  }

  #mount(): SmallDisk {
    return mountSmallDisk({ teardown: this.#onEnd }, diskMebibytes);
  }

  #endpointRandom(): number {
    return Math.random() < 0.05 ? 0.1 : 0.9;
  }

  async #fail(
    setting: Parameters<NonNullable<(typeof faults)[string]>>[0],
    callers: Callers,
  ): Promise<void> {
    const { faults: count, paceMs, kinds } = this.#plan;
    const begun = Date.now();
    const order = kindsOf(this.#random, kinds);
    for (let done = 1; done <= count && this.#problems.length === 0; done += 1) {
      const kind = order.next().value;
      const fault = faults[kind];
      if (fault === undefined) throw new Error(`no fault ${kind}`);
      await this.#step(kind, setting.site, callers, async () => {
        const what = await fault(setting);
        this.#print(`${done}: ${kind}: ${what}`);
        return [];
      });
      await sleep(Math.max(200, begun + done * paceMs - Date.now()));
    }
  }

  /** Causes one fault, and waits until all members write again. */
  async #step(
    kind: string,
    site: Site,
    callers: Callers,
    work: () => Promise<readonly string[]>,
  ): Promise<void> {
    const from = Date.now();
    const told: string[] = [];
    try {
      told.push(...(await work()));
      if (told.length === 0) await this.#progress(site, callers);
    } catch (error) {
      told.push(error instanceof Error ? error.message : String(error));
    }
    // The remaining steps for a member that has stopped are skipped.
    if (await this.#recover(kind, site)) {
      await this.#progress(site, callers);
      this.#deaths.push({ from, to: Date.now() });
    } else this.#problems.push(...told.map((it) => `${kind}: ${it}`));
    for (const problem of this.#problems) this.#print(`WRONG: ${problem}`);
    this.#spans.push({ kind, from, to: Date.now() });
    this.#print(`   ${Date.now() - from} ms; ${callers.figures.jobs} jobs`);
  }

  /**
   * After faults of servers or the routes between them, the copies of the log on older nats-servers
   * sometimes differ permanently. Members notice it and stop. The servers are then emptied, and the
   * log is founded anew. A member that stops for any other reason is a problem.
   * @returns whether the log was founded anew
   */
  async #recover(kind: string, site: Site): Promise<boolean> {
    if (isOfServers(kind) && !this.#copiesStayEqual) this.#hasUnsureLog = true;
    const ended = site.members.flatMap(({ name, end }) =>
      end === undefined ? [] : { name, ...end },
    );
    if (ended.length === 0) return false;
    const told = ended.map(
      ({ name, code, message }) => `${kind}: ${name} ended: ${code} ${message}`,
    );
    if (!this.#hasUnsureLog || ended.some(({ code }) => code !== 'ERR_STORE_DIVERGED')) {
      this.#problems.push(...told);
      return false;
    }
    for (const line of told) this.#print(`   ${line}`);
    this.#problems.push(...(await refound(site, emptyServers)));
    this.#hasUnsureLog = false;
    this.#refounded += 1;
    return true;
  }

  /** Waits until each member has stored something again. */
  async #progress({ members }: Site, { waits }: Callers): Promise<void> {
    const { length } = waits;
    const writing = (): Set<string> =>
      new Set(waits.slice(length).flatMap(({ kind, by }) => (kind === 'put' ? [by] : [])));
    await until(
      'all members to write',
      () => members.some(({ end }) => end !== undefined) || writing().size === members.length,
      recoveryMs,
    );
  }

  async #measureDeath(site: Site, callers: Callers, minions: SimulatedMinions): Promise<void> {
    await this.#step('master killed under load', site, callers, async () => {
      await until('a holder of the lease', () => holderOf(site) !== undefined, recoveryMs);
      const former = holderOf(site);
      if (former === undefined) return ['nobody holds the lease'];
      const { name } = former;
      const signIns = minions.signIns.length;
      const from = Date.now();
      await former.kill();
      former.heldSince = undefined;
      await until('another holder', () => holderOf(site) !== undefined, recoveryMs);
      const takeoverMs = Date.now() - from;
      former.start();
      await former.ready();
      const startedAt = Date.now();
      const isBack = (): boolean => (minions.answeredAt.get(name) ?? 0) > startedAt;
      await until(`minions of ${name}`, isBack, recoveryMs);
      const jobs = callers.waits.filter(
        (it) => it.kind === 'job' && it.by !== name && it.from >= from && it.from < from + soonMs,
      );
      this.#death = {
        takeoverMs,
        longestJobMs: Math.max(0, ...jobs.map((it) => it.to - it.from)),
        minionsBackMs: Date.now() - startedAt,
        signIns: minions.signIns.length - signIns,
      };
      this.#print(`master killed under load: ${JSON.stringify(this.#death)}`);
      return [];
    });
  }

  /** Waits until the outbox is empty, and minions have returned all jobs that they ran. */
  async #drain(site: Site): Promise<void> {
    const end = performance.now() + recoveryMs;
    const [member] = site.members;
    while (performance.now() < end) {
      const left = await member?.bridge.call<unknown[]>('outbox.list');
      const facts = readHistories(site.histories);
      const returned = new Set(
        facts.flatMap((it) => (it.fact === 'returned' ? [`${it.jid} ${it.minion}`] : [])),
      );
      const open = facts.filter(
        (it) => it.fact === 'ran' && !returned.has(`${it.jid} ${it.minion}`),
      );
      if (left?.length === 0 && open.length === 0) return;
      await sleep(500);
    }
  }

  async #judge(site: Site): Promise<void> {
    // Members continue with their ledger meanwhile.
    const facts = readHistories(site.histories);
    const wanted = {
      jids: facts.flatMap((it) => (it.fact === 'job' ? [it.jid] : [])),
      tokens: [...new Set(facts.flatMap((it) => (it.fact === 'token' ? [it.token] : [])))],
      runs: facts.flatMap((it) => (it.fact === 'run' ? [it] : [])),
    };
    const views = [];
    for (const member of site.members) {
      views.push(await viewOf(member, await site.stateDirsOf(member), wanted));
    }
    const killed = this.#spans.filter(({ kind }) => /killed|log without/.test(kind));
    const deaths = [...killed, ...this.#deaths];
    this.#problems.push(
      ...check(facts, views, deaths),
      ...checkRuns(readHistories(site.histories)),
    );
    this.#problems.push(...(await agreement(site.members)));
  }

  #figures(callers: Callers, minions: SimulatedMinions, real: RealMinions): ClusterFigures {
    const counts = new Map<string, number>();
    for (const { kind } of this.#spans) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const waits = new Map<string, number>();
    let longestWaitMs = 0;
    let longestRevocationMs = 0;
    for (const { kind: what, from, to } of callers.waits) {
      const met = this.#spans.filter((span) => from <= span.to && to >= span.from);
      if (what === 'revocation') {
        if (met.length === 0) longestRevocationMs = Math.max(longestRevocationMs, to - from);
        continue;
      }
      if (met.length === 0) longestWaitMs = Math.max(longestWaitMs, to - from);
      for (const { kind } of met) waits.set(kind, Math.max(waits.get(kind) ?? 0, to - from));
    }
    const { jobs, keyChanges, revocations, runs, puts, refusedJobs, unknownJobs } = callers.figures;
    if (longestRevocationMs > this.#plan.heardMs) {
      this.#problems.push(`a revocation was heard of after ${longestRevocationMs} ms`);
    }
    return {
      faults: Object.fromEntries(counts),
      jobs,
      returns: minions.returns,
      signals: minions.signals,
      keyChanges,
      revocations,
      runs,
      rows: puts,
      refusedJobs,
      unknownJobs,
      refounded: this.#refounded,
      signIns: minions.signIns.length,

      runsOfRealMinions: real.runs,
      death: this.#death,
      longestRevocationMs,
      longestWaitMs,
      longestWaitsMs: Object.fromEntries(waits),
      problems: this.#problems,
    };
  }
}

const paceMs = 10_000;

/**
 * Runs `cluster [seconds [seed]]`.
 * @returns 1 if there were problems
 */
export async function runCluster(
  [seconds = '120', seed = String(Date.now() % 1_000_000), ...kinds]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`cluster ${seconds} ${seed}`);
  const { problems, ...figures } = await runClusterFaults(
    {
      seed: Number(seed),
      faults: Math.round((Number(seconds) * 1000) / paceMs),
      ...(kinds.length === 0 ? {} : { kinds }),
      paceMs,
      minions: 30,
      programs: (process.env.SALT_MINION ?? '').split(',').filter(Boolean),
      measuresDeath: true,
      heardMs: 2000,
      rates: { jobs: 8, puts: 8, keys: 0.5, tokens: 0.5, runs: 0.7 },
      signalsPerSecond: 6,
      ends: ['store altered', 'log without its end'],
    },
    print,
  );
  for (const [name, value] of Object.entries(figures)) {
    print(`${name.padEnd(18)} ${typeof value === 'object' ? JSON.stringify(value) : value}`);
  }
  printProblems(problems, print);
  return problems.length === 0 ? 0 : 1;
}

/** Prints problems. Those that differ only in numbers are printed once. */
function printProblems(problems: readonly string[], print: (line: string) => void): void {
  const kinds = new Map<string, string[]>();
  for (const problem of problems) {
    const kind = problem.replace(/[\da-f]+/g, '#');
    kinds.set(kind, [...(kinds.get(kind) ?? []), problem]);
  }
  for (const [first, ...more] of kinds.values()) print(`PROBLEM ${first}, and ${more.length} more`);
}
