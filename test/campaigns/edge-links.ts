/** Measures a site behind a slow, lossy link that is cut. Needs root and /dev/net/tun. */

import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectExtension, type ExtensionClient } from '#client';
import type { IssuedTicket, OrderReport, SiteInfo } from '#edge';
import { initKeys, type OfflineKeys, publish } from '../edge/bundles/release-stage.ts';
import { makeCertificate } from '../helpers/certificate.ts';
import { BadLink, hasBadLinks, type LinkSettings } from './edge/bad-link.ts';
import type { CentreFunctions } from './edge/centre-process.ts';
import { Child } from './edge/child.ts';
import type { SitesFunctions } from './edge/sites-process.ts';
import { ReleaseSource, wholeSizes } from './edge/source.ts';
import { Random } from './random.ts';

const site = 'north';

/** Size of the large bundle, in bytes that cannot be compressed. */
const largeBytes = 2_000_000;

/** Times that must hold at a delay of one second, in seconds. */
const bounds = { order: 6, alarm: 10, delta: 15 };

/** Part of the tries in which the bound must hold. */
const enough = 0.9;

/** Durations between cuts, and of each cut, in seconds. */
const cutEvery = 120;
const cutFor = 30;

const stepSeconds = 1800;

/** Figures that the campaign measures, in order. */
const allFigures = ['order', 'alarm', 'delta', 'large'] as const;
type Figure = (typeof allFigures)[number];

/**
 * Runs the campaign.
 * @param parameters - seed, number of tries, delays one way in seconds and figures, both with
 * commas. Default: all figures with delays of 1 and 2 seconds
 * @returns 1 if a time at a delay of one second is outside its bound
 */
export async function runEdgeLinks(
  [seed = '1', tries = '10', delays = '1,2', figures = allFigures.join()]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  if (!hasBadLinks) {
    print('skipped: this user cannot create network namespaces, or /dev/net/tun is missing');
    return 0;
  }
  print(`edge-links ${seed} ${tries} ${delays} ${figures}`);
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-links-'));
  const run = new LinkRun(Number(seed), directory, print);
  try {
    await run.start();
    const chosen = allFigures.filter((it) => figures.split(',').includes(it));
    for (const delay of delays.split(',')) await run.measure(Number(delay), Number(tries), chosen);
  } finally {
    await run.end();
    rmSync(directory, { recursive: true, force: true });
  }
  for (const problem of run.problems) print(`PROBLEM ${problem}`);
  print(run.problems.length === 0 ? 'nothing was wrong' : `${run.problems.length} problems`);
  return run.problems.length === 0 ? 0 : 1;
}

class LinkRun {
  readonly problems: string[] = [];
  readonly #directory: string;
  readonly #print: (line: string) => void;
  readonly #random: Random;
  readonly #source: ReleaseSource;
  readonly #centre = new Child<CentreFunctions>('./centre-process.ts');
  #link: BadLink | undefined;
  #site: Child<SitesFunctions> | undefined;
  #socket = '';
  #keys: OfflineKeys | undefined;

  constructor(seed: number, directory: string, print: (line: string) => void) {
    this.#directory = directory;
    this.#print = print;
    this.#random = new Random(seed, 11);
    this.#source = new ReleaseSource(path.join(directory, 'source'), seed, {
      ...wholeSizes,
      files: 20,
    });
  }

  /** Starts the centre and the site over a fast link, and installs a first release. */
  async start(): Promise<void> {
    this.#source.write();
    this.#link = await BadLink.start(1);
    const { address, namespace } = this.#link;
    const tls = makeCertificate(this.#directory, address);
    const { port, socket } = await this.#centre.ask('start', {
      directory: this.#prepare('centre'),
      host: address,
      port: 0,
      tls,
      source: this.#source.directory,
      nodes: 0,
    });
    this.#socket = socket;
    this.#keys = await initKeys(this);
    const centre = `https://${address}:${port}`;
    const { ticket } = await this.rpc('site').call<IssuedTicket>('ticket', { name: site, centre });
    this.#site = new Child<SitesFunctions>('./sites-process.ts', [], namespace);
    const settings = { name: site, directory: this.#prepare('site'), centre, ticket };
    await this.#site.ask('start', [{ ...settings, ca: tls.certificate }]);
    await this.#installed((await publish(this, this.#keys)).version);
    this.#print('the site uses the first release');
  }

  async end(): Promise<void> {
    await this.#site?.kill();
    await this.#centre.kill();
    this.#link?.close();
  }

  async measure(delay: number, tries: number, figures: readonly Figure[]): Promise<void> {
    const settings: LinkSettings = { rate: 50_000, delay, loss: 0.05 };
    this.#opened.set(settings);
    const title = `50 kbit/s, ${delay} s one way, 5 % loss`;
    const timed = {
      order: { text: 'order acknowledged', measure: () => this.#order() },
      alarm: { text: 'alarm after a cut', measure: () => this.#alarm() },
      delta: {
        text: 'delta after a cut',
        measure: (index: number) => this.#delta(`${delay} ${index}`),
      },
    };
    for (const figure of figures) {
      if (figure === 'large') {
        await this.#large(title, String(delay));
        continue;
      }
      const { text, measure } = timed[figure];
      const seconds: number[] = [];
      for (let index = 0; index < tries; index += 1) {
        seconds.push(await measure(index));
        this.#print(`  ${text} ${index + 1}: ${seconds.at(-1)?.toFixed(1)} s`);
      }
      this.#tell(`${title}: ${text}`, seconds, bounds[figure], delay <= 1);
    }
  }

  rpc(extension: string): ExtensionClient {
    return connectExtension({ socketPath: this.#socket }, extension);
  }

  get #opened(): BadLink {
    if (this.#link === undefined) throw new Error('there is no link');
    return this.#link;
  }

  get #host(): Child<SitesFunctions> {
    if (this.#site === undefined) throw new Error('there is no site');
    return this.#site;
  }

  get #offline(): OfflineKeys {
    if (this.#keys === undefined) throw new Error('there are no keys');
    return this.#keys;
  }

  /** Issues an order over an open connection. Returns the seconds until the site has stored it. */
  async #order(): Promise<number> {
    await this.#connected();
    const begun = performance.now();
    const work = { kind: 'job', tgt: 'none', fun: 'test.ping' };
    const client = this.rpc('site');
    const { id } = await client.call<OrderReport>('order', { sites: [site], work });
    await this.#until('the order is acknowledged', async () => {
      const { sites } = await client.call<OrderReport>('result', { id });
      return sites.every(({ state }) => state !== 'waiting');
    });
    return secondsSince(begun);
  }

  /** Cuts the link and creates an alarm. Returns the seconds from the end of the cut. */
  async #alarm(): Promise<number> {
    await this.#connected();
    const before = await this.#alarms();
    this.#opened.cut();
    await sleep(5000);
    await this.#host.ask('alarm', { site });
    await sleep(15_000 + this.#random.below(15_000));
    this.#opened.mend();
    const begun = performance.now();
    await this.#until('the alarm is at the centre', async () => (await this.#alarms()) > before);
    return secondsSince(begun);
  }

  /** Publishes a change of the policy while the link is cut. Returns the seconds from its end. */
  async #delta(mark: string): Promise<number> {
    await this.#connected();
    this.#opened.cut();
    await sleep(5000);
    this.#source.change(`m${mark.replaceAll(/\W/g, '')}`, 'insert');
    const { version } = await publish(this, this.#offline);
    // The site notices the loss at its next heartbeat.
    await sleep(80_000 + this.#random.below(15_000));
    this.#opened.mend();
    const begun = performance.now();
    await this.#installed(version);
    return secondsSince(begun);
  }

  /** Publishes 2 MB that cannot be compressed over a link that is cut. */
  async #large(title: string, mark: string): Promise<void> {
    await this.#connected();
    const file = path.join(this.#source.fileRoot, `image-${mark}`);
    writeFileSync(file, randomBytes(largeBytes));
    const before = await this.#opened.figures();
    await this.#host.ask('received', undefined);
    const { version } = await publish(this, this.#offline);
    const begun = performance.now();
    const ended = new AbortController();
    const cuts = this.#cutAgainAndAgain(ended.signal);
    await this.#installed(version);
    ended.abort();
    const seconds = secondsSince(begun);
    const after = await this.#opened.figures();
    const { parts, continued, repeated } = await this.#centre.ask('parts', undefined);
    const received = await this.#host.ask('received', undefined);
    const count = await cuts;
    this.#print(
      `${title}: 2 MB in ${seconds.toFixed(0)} s with ${count} cuts; ${parts} parts with ` +
        `${received} bytes; ${continued} requests for the rest of a part, ${repeated} requests ` +
        `without a reply; ${after.bytes - before.bytes} bytes over the link`,
    );
    if (received > largeBytes * 1.001) this.problems.push(`${title}: bytes of parts arrived twice`);
  }

  async #cutAgainAndAgain(signal: AbortSignal): Promise<number> {
    let count = 0;
    while (!signal.aborted) {
      await sleep(cutEvery * 1000, undefined, { signal }).catch(() => {});
      if (signal.aborted) break;
      this.#opened.cut();
      count += 1;
      await sleep(cutFor * 1000);
      this.#opened.mend();
    }
    return count;
  }

  async #alarms(): Promise<number> {
    return (await this.#info()).log.alarm?.sequence ?? 0;
  }

  #info(): Promise<SiteInfo> {
    return this.rpc('site').call<SiteInfo>('show', { name: site });
  }

  /** Waits until both sides know that they are connected, and nothing waits to be sent. */
  async #connected(): Promise<void> {
    await this.#until('the site is connected', async () => {
      const [status] = await this.#host.ask('logs', undefined);
      const isEmpty = Object.values(status?.log ?? {}).every(({ entries }) => entries === 0);
      return isEmpty && status?.isConnected === true && (await this.#info()).isConnected;
    });
  }

  async #installed(version: number): Promise<void> {
    await this.#until(`version ${version} is in use`, async () => {
      return (await this.#host.ask('bundle', { site })) === version;
    });
  }

  /** @param isRequired - whether nine of ten tries must be within the bound */
  #tell(title: string, seconds: readonly number[], bound: number, isRequired: boolean): void {
    const sorted = seconds.toSorted((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
    const shown = sorted.map((it) => it.toFixed(1)).join(' ');
    const within = sorted.filter((it) => it <= bound).length;
    const reached = `within ${bound} s in ${within} of ${sorted.length} tries`;
    this.#print(`${title}: median ${median.toFixed(1)} s, ${reached} (${shown})`);
    if (isRequired && within < sorted.length * enough) this.problems.push(`${title}: ${reached}`);
  }

  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + stepSeconds * 1000;
    while (!(await condition())) {
      if (performance.now() > end) throw new Error(`not reached: ${what}`);
      await sleep(50);
    }
  }

  #prepare(name: string): string {
    const made = path.join(this.#directory, name);
    mkdirSync(made, { recursive: true });
    return made;
  }
}

function secondsSince(begun: number): number {
  return (performance.now() - begun) / 1000;
}
