/** Course of the campaign: a centre, sites in processes of up to 200, and the measurements. */

import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectExtension, type ExtensionClient } from '#client';
import type { IssuedTicket, ReleaseState, SiteInfo, SiteStatus } from '#edge';
import type { StoredEntry } from '#edge/log/centre-entries.ts';
import { type LogClass, logClasses } from '#edge/log/log.ts';
import { initKeys, type OfflineKeys, publish } from '../../edge/bundles/release-stage.ts';
import type { AbsencePlan, AbsenceReport } from './absence.ts';
import type { CentreFunctions, CentreSettings } from './centre-process.ts';
import { Child } from './child.ts';
import { distinctInputs, nodesOfSite } from './nodes.ts';
import type { ProcessFigures } from './process-figures.ts';
import type { BacklogPlan, SitesFunctions } from './sites-process.ts';
import { ReleaseSource, type SourceSizes } from './source.ts';

/** Extent of a run. */
export interface EdgePlan {
  readonly seed: number;
  readonly sites: number;
  readonly sitesOfProcess: number;
  readonly sizes: SourceSizes;
  readonly backlog: BacklogPlan;
  readonly absence: AbsencePlan;
  /** Duration for which the idle centre is measured, in milliseconds. 0: it is not measured. */
  readonly idleMs: number;
  /** Minimum duration of the absence of the centre, in milliseconds. */
  readonly awayMs: number;
  /** Maximum duration of each step, in milliseconds. */
  readonly stepMs: number;
}

/** Bytes that the sites have read for a release, and bytes that its packs have. */
export interface ReleaseFigures {
  /** Size of the packs that each site reads. */
  readonly packBytes: number;
  /** Bytes through the centre, in both directions, for each site. */
  readonly bytesOfSite: number;
  readonly seconds: number;
}

export interface EdgeFigures {
  readonly idle: { readonly memoryBytes: number; readonly cpu: number } | undefined;
  readonly whole: ReleaseFigures;
  /** Change of a few lines in 2 % of the files. */
  readonly small: ReleaseFigures;
  /** Change of the whole content of 2 % of the files. */
  readonly delta: ReleaseFigures;
  readonly pillars: {
    readonly nodes: number;
    readonly mostOfSite: number;
    readonly ofCentre: number;
  };
  readonly returned: {
    readonly bytesOfSite: number;
    readonly connectedSeconds: number;
    readonly alarmSeconds: number;
    readonly seconds: number;
  };
  readonly absence: AbsenceReport;
  readonly problems: readonly string[];
}

/** Log of a site before the centre returns. */
interface SiteLogs {
  readonly name: string;
  readonly log: SiteStatus['log'];
}

/** Site whose centre is away for the longest time, by its clock. */
const absentSite = 'site-0';

/** Centre of a run. It can be ended and started again at the same port. */
class Centre {
  readonly #settings: CentreSettings;
  #child: Child<CentreFunctions> | undefined;
  port = 0;
  socket = '';

  constructor(settings: CentreSettings) {
    this.#settings = settings;
  }

  get child(): Child<CentreFunctions> {
    if (this.#child === undefined) throw new Error('the centre does not run');
    return this.#child;
  }

  async start(): Promise<void> {
    this.#child = new Child<CentreFunctions>('./centre-process.ts');
    const { port, socket } = await this.child.ask('start', { ...this.#settings, port: this.port });
    this.port = port;
    this.socket = socket;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  rpc(extension: string): ExtensionClient {
    return connectExtension({ socketPath: this.socket }, extension);
  }

  figures(): Promise<ProcessFigures> {
    return this.child.ask('figures', undefined);
  }

  memory(): Promise<number> {
    return this.child.ask('memory', undefined);
  }

  async close(): Promise<void> {
    await this.#child?.ask('close', undefined);
    await this.#child?.kill();
    this.#child = undefined;
  }

  kill(): Promise<void> {
    return this.#child?.kill() ?? Promise.resolve();
  }
}

/** Runs the campaign in a directory. */
export async function runEdgePlan(
  plan: EdgePlan,
  directory: string,
  print: (line: string) => void,
): Promise<EdgeFigures> {
  const run = new Run(plan, directory, print);
  try {
    return await run.run();
  } finally {
    await run.end();
  }
}

class Run {
  readonly #plan: EdgePlan;
  readonly #directory: string;
  readonly #print: (line: string) => void;
  readonly #source: ReleaseSource;
  readonly #centre: Centre;
  readonly #hosts: Child<SitesFunctions>[] = [];
  readonly #problems: string[] = [];

  constructor(plan: EdgePlan, directory: string, print: (line: string) => void) {
    this.#plan = plan;
    this.#directory = directory;
    this.#print = print;
    this.#source = new ReleaseSource(path.join(directory, 'source'), plan.seed, plan.sizes);
    this.#centre = new Centre({
      directory: this.#prepare('centre'),
      port: 0,
      source: this.#source.directory,
      pillarRoot: this.#source.pillarRoot,
      nodes: plan.sites * nodesOfSite,
    });
  }

  async run(): Promise<EdgeFigures> {
    this.#source.write();
    const empty = this.#plan.idleMs === 0 ? undefined : await this.#measureEmpty();
    await this.#centre.start();
    const keys = await initKeys(this.#centre);
    await this.#startSites();
    const idle = empty === undefined ? undefined : await this.#measureIdle(empty);
    await this.#printMemoryOfSites('without a release');
    const whole = await this.#release('first release', keys);
    this.#source.change('second', 'insert');
    const small = await this.#release('delta of inserted lines', keys);
    this.#source.change('third', 'replace');
    const delta = await this.#release('delta of replaced files', keys);
    await this.#printMemoryOfSites('with a release');
    const pillars = await this.#compilePillars();
    await this.#reportFacts();
    const { absence, returned } = await this.#beAway();
    return { idle, whole, small, delta, pillars, returned, absence, problems: this.#problems };
  }

  /** Reports the facts of all nodes, and waits until the centre has them. */
  async #reportFacts(): Promise<void> {
    const what = 'the facts of all nodes are at the centre';
    const factsOf = ({ log }: SiteInfo): number => log.fact?.sequence ?? 0;
    const before = new Map((await this.#list()).map((site) => [site.name, factsOf(site)]));
    await this.#forEachHost((host) => host.ask('facts', undefined));
    await this.#untilSites(
      what,
      (site) => factsOf(site) >= (before.get(site.name) ?? 0) + nodesOfSite,
    );
    await this.#untilEmpty(what);
  }

  async end(): Promise<void> {
    await Promise.all(this.#hosts.map((host) => host.kill()));
    await this.#centre.kill();
  }

  get #names(): readonly string[] {
    return Array.from({ length: this.#plan.sites }, (_, index) => `site-${index}`);
  }

  /** Returns the memory of a master without sites. */
  async #measureEmpty(): Promise<number> {
    const empty = new Centre({
      directory: this.#prepare('empty'),
      port: 0,
      nodes: this.#plan.sites * nodesOfSite,
    });
    await empty.start();
    await sleep(2000);
    const memory = await empty.memory();
    await empty.kill();
    return memory;
  }

  async #startSites(): Promise<void> {
    const { sitesOfProcess, absence } = this.#plan;
    const settings = [];
    const client = this.#centre.rpc('site');
    const centre = this.#centre.url;
    for (const name of this.#names) {
      const { ticket } = await client.call<IssuedTicket>('ticket', { name, centre });
      const own =
        name === absentSite
          ? { logBytes: absence.logBytes, behindMs: absence.hours * 3_600_000 }
          : {};
      settings.push({ name, directory: this.#prepare(name), centre, ticket, ...own });
    }
    for (let first = 0; first < settings.length; first += sitesOfProcess) {
      const host = new Child<SitesFunctions>('./sites-process.ts');
      this.#hosts.push(host);
      await host.ask('start', settings.slice(first, first + sitesOfProcess));
    }
    await this.#untilSites('all sites are connected', ({ isConnected }) => isConnected);
    this.#print(`${settings.length} sites in ${this.#hosts.length} processes`);
  }

  async #measureIdle(empty: number): Promise<EdgeFigures['idle']> {
    const before = await this.#centre.figures();
    await sleep(this.#plan.idleMs);
    const after = await this.#centre.figures();
    const memoryBytes = (await this.#centre.memory()) - empty;
    const cpu = (after.cpuMs - before.cpuMs) / (after.atMs - before.atMs);
    this.#print(`idle centre: ${mib(memoryBytes)} above an empty one, ${percent(cpu)} of a core`);
    return { memoryBytes, cpu };
  }

  async #printMemoryOfSites(when: string): Promise<void> {
    if (this.#plan.idleMs === 0) return;
    const memory = await this.#forEachHost((host) => host.ask('memory', undefined));
    const bytes = memory.reduce((sum, it) => sum + it, 0);
    this.#print(`sites ${when}: ${mib(bytes)} in all processes`);
  }

  /** Publishes the source, and waits until all sites use it. */
  async #release(title: string, keys: OfflineKeys): Promise<ReleaseFigures> {
    const packs = path.join(this.#directory, 'centre', 'state', 'sites', 'packs');
    const known = new Set(filesOf(packs));
    const before = await this.#centre.figures();
    const { version } = await publish(this.#centre, keys);
    await this.#until(`${title}: all sites use version ${version}`, async () => {
      const [release] = await this.#centre
        .rpc('site')
        .call<readonly ReleaseState[]>('releases.list');
      if (release !== undefined && release.failed.length > 0) {
        throw new Error(`${title}: refused: ${JSON.stringify(release.failed[0])}`);
      }
      return release?.installed === this.#plan.sites;
    });
    const after = await this.#centre.figures();
    const packBytes = filesOf(packs)
      .filter((it) => !known.has(it))
      .reduce((sum, it) => sum + statSync(it).size, 0);
    const bytes = after.sent + after.received - before.sent - before.received;
    const bytesOfSite = bytes / this.#plan.sites;
    const seconds = (after.atMs - before.atMs) / 1000;
    this.#print(
      `${title}: packs ${packBytes} bytes, ${Math.round(bytesOfSite)} bytes for each site ` +
        `(${(bytesOfSite / packBytes).toFixed(3)} ×), ${seconds.toFixed(1)} s`,
    );
    return { packBytes, bytesOfSite, seconds };
  }

  async #compilePillars(): Promise<EdgeFigures['pillars']> {
    const bySite = await this.#forEachHost((host) => host.ask('pillars', undefined));
    const nodes = this.#plan.sites * nodesOfSite;
    const ofCentre = await this.#centre.child.ask('pillars', { nodes });
    const all = [...bySite.flat(), { name: 'centre', ...ofCentre }];
    for (const { name, renderings, wrong } of all) {
      if (renderings > distinctInputs) this.#problem(`${name}: ${renderings} renderings`);
      if (wrong > 0) this.#problem(`${name}: ${wrong} pillars are wrong`);
    }
    const mostOfSite = Math.max(...bySite.flat().map(({ renderings }) => renderings));
    this.#print(
      `pillars of ${nodes} nodes with ${distinctInputs} inputs: at most ${mostOfSite} ` +
        `renderings at a site, ${ofCentre.renderings} for all nodes at the centre`,
    );
    return { nodes, mostOfSite, ofCentre: ofCentre.renderings };
  }

  /** Stops the centre, lets all sites collect a backlog, and starts the centre again. */
  async #beAway(): Promise<Pick<EdgeFigures, 'absence' | 'returned'>> {
    const { backlog, absence: plan, awayMs } = this.#plan;
    const before = new Map((await this.#list()).map(({ name, log }) => [name, log]));
    const stoppedAt = performance.now();
    await this.#centre.close();
    const [first] = this.#hosts;
    if (first === undefined) throw new Error('the campaign has no sites');
    const absence = await first.ask('absence', { ...plan, site: absentSite });
    for (const problem of absence.problems) this.#problem(problem);
    this.#print(`${plan.hours} hours: ${describeLog(absence)}`);
    await this.#forEachHost((host) => host.ask('backlog', { ...backlog, except: absentSite }));
    const logs = (await this.#forEachHost((host) => host.ask('logs', undefined))).flat();
    const others = logs.filter(({ name }) => name !== absentSite);
    const bytes = others.reduce(
      (sum, { log }) => sum + logClasses.reduce((own, name) => own + log[name].bytes, 0),
      0,
    );
    const bytesOfSite = bytes / Math.max(1, others.length);
    await sleep(Math.max(0, stoppedAt + awayMs - performance.now()));
    await this.#centre.start();
    const logOf = new Map(logs.map((it) => [it.name, it.log]));
    const totalOf = (site: string, name: LogClass): number => {
      const { entries = 0, dropped = 0 } = logOf.get(site)?.[name] ?? {};
      return entries + dropped + (before.get(site)?.[name]?.sequence ?? 0);
    };
    const hasAll = (name: LogClass, { name: site, log }: SiteInfo): boolean =>
      (log[name]?.sequence ?? 0) >= totalOf(site, name);
    const [connectedSeconds = NaN, alarmSeconds = NaN, seconds = NaN] =
      await this.#secondsUntilEach(
        'all sites are connected, and all alarms and everything else are at the centre',
        [
          (site) => site.isConnected,
          (site) => hasAll('alarm', site),
          (site) => logClasses.every((name) => hasAll(name, site)),
        ],
      );
    await this.#checkPositions(logs, totalOf);
    const firstReturn = (before.get(absentSite)?.return?.sequence ?? 0) + 1;
    const absentLog = logOf.get(absentSite);
    if (absentLog !== undefined) await this.#checkKept(absentLog, firstReturn);
    this.#print(
      `return with ${mib(bytesOfSite)} each: connected after ${connectedSeconds.toFixed(1)} s, ` +
        `alarms ${alarmSeconds.toFixed(1)} s, everything ${seconds.toFixed(1)} s`,
    );
    return { absence, returned: { bytesOfSite, connectedSeconds, alarmSeconds, seconds } };
  }

  /** Checks that the centre has what the sites have kept, and that nothing was refused. */
  async #checkPositions(
    logs: readonly SiteLogs[],
    totalOf: (site: string, name: LogClass) => number,
  ): Promise<void> {
    await this.#untilEmpty('the logs of all sites are empty');
    for (const { name: site, log } of await this.#list()) {
      const kept = logs.find((it) => it.name === site)?.log;
      for (const name of logClasses) {
        const { sequence = 0, refused = 0, dropped = 0 } = log[name] ?? {};
        if (refused > 0) this.#problem(`${site} ${name}: ${refused} entries were refused`);
        // When a site connects, it may append the inputs of its pillars, which are a fact.
        const more = name === 'fact' ? 1 : 0;
        const total = totalOf(site, name);
        // Audit records may follow.
        if (name !== 'return' && (sequence < total || sequence > total + more)) {
          this.#problem(`${site} ${name}: sequence ${sequence} instead of ${total}`);
        }
        const expected = kept?.[name].dropped ?? 0;
        if (dropped < expected || dropped > expected + more) {
          this.#problem(`${site} ${name}: ${dropped} entries dropped instead of ${expected}`);
        }
      }
    }
  }

  /**
   * Checks that the centre has the latest returns of the absent site, and no gap in them.
   * @param log - the log after the absence. The report of the absence may be too early, because the
   * log counts new entries before it drops old ones.
   */
  async #checkKept(log: SiteStatus['log'], first: number): Promise<void> {
    const query = { name: absentSite, limit: 10_000 };
    const entries = await this.#centre.rpc('site').call<readonly StoredEntry[]>('entries', query);
    const sequences = entries
      .filter((it) => it.class === 'return' && it.sequence >= first)
      .map((it) => it.sequence)
      .sort((a, b) => a - b);
    const { dropped, entries: kept } = log.return;
    const isRight = sequences.every((it, index) => it === first + dropped + index);
    if (!isRight || sequences.length < kept) {
      const range = `${sequences[0]} to ${sequences.at(-1)}`;
      this.#problem(`${absentSite}: the centre has the returns ${range}, ${dropped} were dropped`);
    }
  }

  async #untilEmpty(what: string): Promise<void> {
    await this.#until(what, async () => {
      const logs = (await this.#forEachHost((host) => host.ask('logs', undefined))).flat();
      return logs.every(({ log }) => logClasses.every((name) => log[name].entries === 0));
    });
  }

  #list(): Promise<readonly SiteInfo[]> {
    return this.#centre.rpc('site').call<readonly SiteInfo[]>('list');
  }

  async #untilSites(what: string, condition: (site: SiteInfo) => boolean): Promise<void> {
    await this.#until(what, async () => (await this.#list()).every(condition));
  }

  /**
   * Waits until each condition was once true for all sites. Returns the time until then for each
   * condition, in seconds. One list of the sites serves all conditions, because a list of many sites
   * takes the centre's time.
   */
  async #secondsUntilEach(
    what: string,
    conditions: readonly ((site: SiteInfo) => boolean)[],
  ): Promise<readonly number[]> {
    const startedAt = performance.now();
    const seconds = conditions.map(() => Number.NaN);
    await this.#until(what, async () => {
      const sites = await this.#list();
      for (const [index, condition] of conditions.entries()) {
        if (Number.isNaN(seconds[index]) && sites.every(condition)) {
          seconds[index] = (performance.now() - startedAt) / 1000;
        }
      }
      return !seconds.some(Number.isNaN);
    });
    return seconds;
  }

  /**
   * Waits until the condition is true. The pause between two checks is longer than a check, so that
   * the checks do not take most of the centre's time.
   */
  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + this.#plan.stepMs;
    for (;;) {
      const askedAt = performance.now();
      if (await condition()) return;
      if (performance.now() > end) throw new Error(`not reached: ${what}`);
      await sleep(Math.max(200, 2 * (performance.now() - askedAt)));
    }
  }

  #forEachHost<T>(work: (host: Child<SitesFunctions>) => Promise<T>): Promise<T[]> {
    return Promise.all(this.#hosts.map(work));
  }

  #problem(text: string): void {
    this.#problems.push(text);
    this.#print(`PROBLEM ${text}`);
  }

  #prepare(name: string): string {
    const made = path.join(this.#directory, name);
    mkdirSync(made, { recursive: true });
    return made;
  }
}

function filesOf(directory: string): readonly string[] {
  const entries = existsSync(directory) ? readdirSync(directory, { withFileTypes: true }) : [];
  return entries.filter((it) => it.isFile()).map(({ name }) => path.join(directory, name));
}

function describeLog({ appended, log, largestBytes }: AbsenceReport): string {
  const classes = logClasses.map(
    (name) => `${name} ${appended[name]} appended, ${log[name].dropped} dropped`,
  );
  return `${classes.join('; ')}; at most ${mib(largestBytes)}`;
}

function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(2)} MiB`;
}

function percent(part: number): string {
  return `${(part * 100).toFixed(2)} %`;
}
