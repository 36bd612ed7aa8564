/**
 * Processes that share a master. Its holder is killed, suspended or closed at seeded times, while
 * all processes publish jobs and minions send signals. This process checks the acknowledgements to
 * callers and minions, how often each job arrived at each minion, and the final state of the
 * master.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobReport, JobSummary } from '#master';
import { Line } from '../../bench/crash/line.ts';
import { type RecordingEndpoint, startEndpoint } from '../../bench/signals/endpoint.ts';
import { emit, handleOptions } from '../../bench/signals/setting.ts';
import { importKey, swarmId } from '../../bench/swarm/keys.ts';
import { type Known, SwarmMinion } from '../../bench/swarm/minion.ts';
import { until } from '../helpers/deadline.ts';
import { RealMinion } from '../interop/real-minion.ts';
import { Group, type Member, type MemberMessage } from '../shared-master/members.ts';
import { Random } from './random.ts';

/** Extent of a run. */
export interface ProcessesPlan {
  /** Number of times that the holder is ended. */
  readonly ends: number;
  readonly seed: number;
  readonly processes: number;
  /** Number of simulated minions for jobs. There are as many for signals. */
  readonly minions: number;
  readonly jobsPerSecond: number;
  readonly signalsPerSecond: number;
  readonly takeoverAfter: number;
  /** Programs of real minions, which run a job every two seconds. */
  readonly programs: readonly string[];
  /** Interval of ends after which a holder is suspended instead of killed or closed. */
  readonly stopEvery: number;
  /** Minimum time before a holder is ended. */
  readonly shortestLifeMs: number;
  /** Maximum additional time. */
  readonly longerLifeMs: number;
}

/** Results of a run. */
export interface ProcessesFigures {
  readonly ends: number;
  readonly kills: number;
  readonly stops: number;
  readonly closes: number;
  readonly jobs: number;
  readonly returns: number;
  readonly signals: number;
  /** Number of acknowledged jobs that no minion received. */
  readonly unsent: number;
  /** Number of stored jobs that the master reports as never sent. */
  readonly notSent: number;
  readonly longestTakeoverMs: number;
  /** Longest duration of a call without an end of the holder. */
  readonly longestCallMs: number;
  /**
   * Longest delay of a call during which one holder was killed or closed. It is measured from that
   * end, or from the beginning of the call if that is later.
   */
  readonly longestDelayMs: number;
  /** Longest delay of a call during which one holder was suspended. */
  readonly longestStoppedDelayMs: number;
  readonly runsOfRealMinions: number;
  /** Problems that were found. Empty if there were none. */
  readonly problems: readonly string[];
}

type EndKind = 'kill' | 'stop' | 'close';

interface Span {
  readonly kind: EndKind;
  readonly from: number;
  readonly to: number;
}

/**
 * Names of the handles. Their number is large enough for 200 signals per second, although their
 * services fail at times.
 */
const handles = Array.from({ length: 16 }, (_, index) => `h${index}`);
/** Maximum duration of a call in milliseconds for each end of the holder during it. */
const deathDelayMs = 5000;
const drainMs = 120_000;
const maxJobs = 100_000;
const takeoverMs = 60_000;

/** Runs the campaign below a directory of its own. */
export async function runSharedProcesses(
  plan: ProcessesPlan,
  onEnd: (done: number, text: string) => void = () => {},
): Promise<ProcessesFigures> {
  const directory = await mkdtemp(path.join(tmpdir(), 'sb-p-'));
  const endpoint = await startEndpoint(() => 0.9);
  const group = await Group.prepare(directory, {
    minions: 2 * plan.minions,
    takeoverAfter: plan.takeoverAfter,
    own: {
      acl: { signals: [{ tag: 'heat/*', minions: '*' }] },
      bridge: { handles: handleOptions(endpoint.origin, 5) },
    },
    more: { auto_accept: plan.programs.length > 0 },
    listening: plan.minions,
  });
  const trial = new Trial(plan, group, endpoint);
  try {
    return await trial.run(onEnd);
  } finally {
    await trial.end();
    await endpoint.close();
    await rm(directory, { recursive: true, force: true });
  }
}

class Trial {
  readonly #plan: ProcessesPlan;
  readonly #group: Group;
  readonly #endpoint: RecordingEndpoint;
  readonly #random: Random;
  readonly #published: Extract<MemberMessage, { readonly type: 'published' }>[] = [];
  readonly #problems: string[] = [];
  readonly #spans: Span[] = [];
  readonly #quiet: Promise<void>[] = [];
  readonly #signals: string[] = [];
  readonly #realMinions: RealMinion[] = [];
  #isOver = false;
  #realRuns = 0;
  #notSent = 0;

  constructor(plan: ProcessesPlan, group: Group, endpoint: RecordingEndpoint) {
    this.#plan = plan;
    this.#group = group;
    this.#endpoint = endpoint;
    this.#random = new Random(plan.seed);
  }

  async run(onEnd: (done: number, text: string) => void): Promise<ProcessesFigures> {
    const { ends, processes, programs, shortestLifeMs, longerLifeMs } = this.#plan;
    for (let count = 0; count < processes; count += 1) await this.#addMember();
    await this.#group.addMinions();
    const signalling = (await this.#openSignals()).map((minion, index) =>
      this.#signal(minion, index),
    );
    const real = programs.map((program) => this.#runReal(program));
    for (const member of this.#group.members) this.#publish(member);
    for (let end = 1; end <= ends; end += 1) {
      await sleep(shortestLifeMs + this.#random.next() * longerLifeMs);
      onEnd(end, await this.#endHolder(end));
    }
    await sleep(longerLifeMs);
    this.#isOver = true;
    for (const member of this.#group.members) if (!member.hasEnded) member.send({ type: 'rest' });
    await Promise.all([...signalling, ...real, ...this.#quiet]);
    await this.#drain();
    await this.#judge();
    return this.#figures();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#group.end();
    await Promise.all(this.#realMinions.map((it) => it.dispose()));
  }

  /** Ends the holder, waits for the next one, and adds a process in its place. */
  async #endHolder(number: number): Promise<string> {
    const kinds: readonly [EndKind, ...EndKind[]] = ['kill', 'kill', 'close'];
    const kind = number % this.#plan.stopEvery === 0 ? 'stop' : this.#random.of(kinds);
    // On a busy machine, the others may replace a holder that answers too late.
    await until('a process to hold the master', () => this.#group.holder !== undefined, takeoverMs);
    const { holder } = this.#group;
    if (holder === undefined) throw new Error('no process holds the master');
    const from = Date.now();
    if (kind === 'kill') await holder.kill();
    else if (kind === 'stop') holder.stop();
    else void holder.close();
    await this.#group.nextHolder(holder, takeoverMs + this.#plan.takeoverAfter * 1000);
    const to = Date.now();
    this.#spans.push({ kind, from, to });
    this.#publish(await this.#addMember());
    return `${kind}: ${to - from} ms until the next process held the master`;
  }

  #addMember(): Promise<Member> {
    return this.#group.addMember();
  }

  /** Publishes this process's share of the jobs, until the run or the process ends. */
  #publish(member: Member): void {
    const { jobsPerSecond, processes } = this.#plan;
    const ids = this.#group.ids.slice(0, this.#plan.minions);
    this.#quiet.push(
      new Promise((resolve) => {
        member.onEnd(resolve);
        member.on((told) => {
          if (told.type === 'published') this.#published.push(told);
          // A process that leaves by itself reports this.
          if (told.type === 'refused' && told.code !== 'ERR_MASTER_STOPPED') {
            this.#problems.push(`a call failed after ${told.to - told.from} ms: ${told.reason}`);
          }
          if (told.type === 'quiet') resolve();
        });
      }),
    );
    member.send({ type: 'publish', perSecond: jobsPerSecond / processes, minions: ids });
  }

  /** Opens minions that only send signals, and the handles for these signals. */
  async #openSignals(): Promise<SwarmMinion[]> {
    const { minions } = this.#plan;
    const keys = this.#group.keys.map(importKey);
    const signalling: SwarmMinion[] = [];
    let known: Known | undefined;
    for (let index = minions; index < 2 * minions; index += 1) {
      const [key] = keys.slice(index % keys.length);
      if (key === undefined) throw new Error('no key');
      const line = new Line(this.#group.requestPort);
      const minion = new SwarmMinion(swarmId(index), index, key, line);
      known = await minion.signIn(known);
      signalling.push(minion);
    }
    for (const alias of handles) {
      const signal = { endpoint: `${this.#endpoint.origin}/${alias}`, token: 'token' };
      const registration = { alias, minions: signalling.map(({ id }) => id), signal };
      const [member] = this.#group.members;
      await member?.callExtension('bridge', 'handles.add', { registration });
    }
    return signalling;
  }

  async #signal(minion: SwarmMinion, offset: number): Promise<void> {
    const pauseMs = (1000 * this.#plan.minions) / this.#plan.signalsPerSecond;
    for (let number = 0; !this.#isOver; number += 1) {
      const from = performance.now();
      const handle = handles[(offset + number) % handles.length] ?? '';
      const isTaken = await emit(minion, handle, number, () => this.#isOver);
      if (isTaken) this.#signals.push(`${handle} ${minion.id} ${number}`);
      const wait = pauseMs - (performance.now() - from);
      if (wait > 0) await sleep(wait);
    }
  }

  /** Runs a real minion that counts its runs in a file. Each run has its own number. */
  async #runReal(program: string): Promise<void> {
    const { requestPort, publishPort } = this.#group;
    const name = `p${this.#realMinions.length}`;
    const minion = await RealMinion.create({ program, name, requestPort, publishPort });
    this.#realMinions.push(minion);
    minion.start();
    const file = path.join(minion.directory, 'runs');
    const returned: number[] = [];
    for (let number = 0; !this.#isOver; number += 1) {
      const [member] = this.#group.siblings;
      const request = {
        tgt: [minion.id],
        tgtType: 'list',
        fun: 'cmd.run',
        arg: [`echo ${number} >> ${file}`],
        kwarg: { python_shell: true },
      };
      const updates = (await member?.call('jobs.run', request).catch(() => [])) as {
        readonly type: string;
      }[];
      if (updates?.some(({ type }) => type === 'return')) returned.push(number);
      await sleep(2000);
    }
    const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean);
    this.#realRuns += lines.length;
    if (new Set(lines).size < lines.length) this.#problems.push(`${minion.id} ran a job twice`);
    if (returned.length === 0) this.#problems.push(`${minion.id} returned nothing`);
    for (const number of returned) {
      if (!lines.includes(String(number))) this.#problems.push(`${minion.id}: ${number} was lost`);
    }
  }

  /** Waits until the outbox is empty. Signals that remain in it are counted as lost. */
  async #drain(): Promise<void> {
    const end = performance.now() + drainMs;
    while (performance.now() < end) {
      const left = await this.#anyMember().callExtension('bridge', 'outbox.list', {});
      if (Array.isArray(left) && left.length === 0) return;
      await sleep(200);
    }
  }

  async #judge(): Promise<void> {
    await this.#judgeJobs();
    const arrived = new Set(
      this.#endpoint.arrivals.map(({ handle, minion, number }) => `${handle} ${minion} ${number}`),
    );
    const lost = this.#signals.filter((it) => !arrived.has(it));
    if (lost.length > 0) this.#problems.push(`${lost.length} signals were lost: ${lost[0]}`);
    for (const [name, count] of this.#group.arrivals) {
      if (count > 1) this.#problems.push(`a job came ${count} times: ${name}`);
    }
    this.#problems.push(...this.#group.outdated);
    for (const call of this.#published) {
      const allowedMs = this.#causesOf(call)
        .map(({ kind }) => deathDelayMs + (kind === 'stop' ? this.#plan.takeoverAfter * 1000 : 0))
        .reduce((sum, ms) => sum + ms, 0);
      const tookMs = this.#delayOf(call);
      if (tookMs > Math.max(deathDelayMs, allowedMs))
        this.#problems.push(`a call took ${tookMs} ms`);
    }
  }

  /**
   * Returns the ends of holders during a call, or the last one before it, after which the call may
   * have had to wait.
   */
  #causesOf(call: Pick<Span, 'from' | 'to'>): readonly Span[] {
    const met = this.#spansOf(call);
    if (met.length > 0) return met;
    const before = this.#spans.findLast(({ to }) => to < call.from);
    return before === undefined ? [] : [before];
  }

  /** Checks that each acknowledged job is stored, with each acknowledged return. */
  async #judgeJobs(): Promise<void> {
    const returned = new Map<string, string[]>();
    for (const line of this.#group.acknowledged) {
      const [jid = '', id = ''] = line.split(' ');
      returned.set(jid, [...(returned.get(jid) ?? []), id]);
    }
    for (const { jid } of this.#published) if (!returned.has(jid)) returned.set(jid, []);
    // This includes jobs of callers whose process has ended.
    const all = (await this.#anyMember().call('jobs.list', { limit: maxJobs })) as JobSummary[];
    for (const { jid } of all) if (!returned.has(jid)) returned.set(jid, []);
    for (const [jid, ids] of returned) {
      const report = await this.#anyMember()
        .call('jobs.show', jid)
        .catch(() => undefined);
      const kept = (report as JobReport | undefined)?.returns.map(({ minion }) => minion);
      if (kept === undefined) this.#problems.push(`job ${jid} was lost`);
      else if (!ids.every((id) => kept.includes(id))) {
        this.#problems.push(`a return of ${jid} was lost`);
      }
      this.#judgeNotSent(report as JobReport | undefined);
    }
  }

  /** Checks that a job that is reported as never sent has arrived at no minion. */
  #judgeNotSent(report: JobReport | undefined): void {
    const notSent = report?.deliveries.filter(({ reason }) => reason === 'not-sent') ?? [];
    if (notSent.length > 0) this.#notSent += 1;
    for (const { minion } of notSent) {
      const name = `${report?.jid} ${minion}`;
      if (this.#group.arrivals.has(name)) this.#problems.push(`not sent, and came: ${name}`);
    }
  }

  /** Returns the ends of holders during a call. */
  #spansOf({ from, to }: Pick<Span, 'from' | 'to'>): readonly Span[] {
    return this.#spans.filter((span) => from <= span.to && to >= span.from);
  }

  /**
   * Returns the delay of a call since the first end during it, or since its beginning if that is
   * later.
   */
  #delayOf(call: Pick<Span, 'from' | 'to'>): number {
    const [first] = this.#spansOf(call);
    return call.to - Math.max(call.from, first?.from ?? 0);
  }

  /**
   * Returns the longest delay of calls during which only such ends happened; without a kind, of
   * calls without any end.
   */
  #longestDelay(wanted: readonly EndKind[]): number {
    const met = this.#published.filter((call) => {
      const [span, ...more] = this.#spansOf(call);
      if (span === undefined) return wanted.length === 0;
      return more.length === 0 && wanted.includes(span.kind);
    });
    return Math.max(0, ...met.map((call) => this.#delayOf(call)));
  }

  #anyMember(): Member {
    // The newest process is used, because an older one may be about to leave.
    const member = this.#group.members.findLast(({ hasEnded }) => !hasEnded);
    if (member === undefined) throw new Error('no process is left');
    return member;
  }

  #figures(): ProcessesFigures {
    const { arrivals, acknowledged } = this.#group;
    const reached = new Set([...arrivals.keys()].map((name) => name.split(' ')[0]));
    const count = (wanted: EndKind): number =>
      this.#spans.filter(({ kind }) => kind === wanted).length;
    const deaths = this.#spans.filter(({ kind }) => kind !== 'stop');
    return {
      ends: this.#spans.length,
      kills: count('kill'),
      stops: count('stop'),
      closes: count('close'),
      jobs: this.#published.length,
      returns: acknowledged.length,
      signals: this.#signals.length,
      unsent: this.#published.filter(({ jid }) => !reached.has(jid)).length,
      notSent: this.#notSent,
      longestTakeoverMs: Math.max(0, ...deaths.map(({ from, to }) => to - from)),
      longestCallMs: this.#longestDelay([]),
      longestDelayMs: this.#longestDelay(['kill', 'close']),
      longestStoppedDelayMs: this.#longestDelay(['stop']),
      runsOfRealMinions: this.#realRuns,
      problems: this.#problems,
    };
  }
}

/**
 * Runs `processes [ends [seed [jobs [signals]]]]`; jobs and signals are per second.
 * @returns 1 if there were problems
 */
export async function runProcesses(
  [
    ends = '50',
    seed = String(Date.now() % 1_000_000),
    jobs = '100',
    signals = '200',
  ]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`processes ${ends} ${seed} ${jobs} ${signals}`);
  const programs = (process.env.SALT_MINION ?? '').split(',').filter(Boolean).slice(0, 2);
  const plan: ProcessesPlan = {
    ends: Number(ends),
    seed: Number(seed),
    processes: 5,
    minions: 20,
    jobsPerSecond: Number(jobs),
    signalsPerSecond: Number(signals),
    takeoverAfter: 5,
    programs,
    stopEvery: 5,
    // On a small machine, the processes need seconds to answer calls that waited for the next
    // holder.
    shortestLifeMs: 6_000,
    longerLifeMs: 8_000,
  };
  const { problems, ...figures } = await runSharedProcesses(plan, (done, text) =>
    print(`${done}: ${text}`),
  );
  for (const [name, value] of Object.entries(figures)) print(`${name.padEnd(22)} ${value}`);
  const kinds = new Map<string, string[]>();
  for (const problem of problems) {
    const kind = problem.replace(/\d+/g, '#');
    kinds.set(kind, [...(kinds.get(kind) ?? []), problem]);
  }
  for (const [first, ...more] of kinds.values()) print(`PROBLEM ${first}, and ${more.length} more`);
  return problems.length === 0 ? 0 : 1;
}
