/** Facts of a site's minions: the grains that a minion sends when it starts, and its presence. */

import {
  type ExtensionHost,
  followAgain,
  type Jobs,
  type MasterEvent,
  masterServices,
} from '#master';
import { packLocal, type WireMap } from '#minion-protocol';
import type { SiteLog } from '../log/log.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import { reportedGrains } from './reported-grains.ts';

/** Maximum size of a grain, in bytes. */
const maxGrainBytes = 1024;

/** Interval at which the presence of minions is checked, in milliseconds. */
const presenceMs = 60_000;

/** Number of events whose facts are appended at a time. The log then writes them together. */
const eventsAtOnce = 64;

const startTag = /^salt\/minion\/([^/]+)\/start$/;

/** Part of the extension `site`. It appends facts of the site's minions to the log. */
export function openSiteFacts({ host, log, onAnnounce }: SiteContext): EdgePart {
  const facts = new SiteFacts(host, log);
  onAnnounce(() => facts.announce());
  return { start: () => facts.start(), close: () => facts.close() };
}

class SiteFacts {
  readonly #host: ExtensionHost;
  readonly #jobs: Jobs;
  readonly #log: SiteLog;
  readonly #stopped = new AbortController();
  #present: ReadonlySet<string> = new Set();
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(host: ExtensionHost, log: SiteLog) {
    this.#host = host;
    this.#jobs = host.use(masterServices.jobs);
    this.#log = log;
  }

  start(): void {
    this.#running = this.#followStarts();
    this.#timer = setInterval(() => void this.#checkPresence(), presenceMs).unref();
  }

  /** Appends the facts of all connected minions to the log. */
  async announce(): Promise<void> {
    this.#present = new Set();
    await this.#checkPresence();
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    clearInterval(this.#timer);
    await this.#running;
  }

  async #followStarts(): Promise<void> {
    const { bus } = this.#host.use(masterServices.events);
    const { logger } = this.#host;
    const { signal } = this.#stopped;
    const follow = async (): Promise<void> => {
      for await (const events of bus.batches({ accepts: (tag) => startTag.test(tag), signal })) {
        for (let begin = 0; begin < events.length; begin += eventsAtOnce) {
          const some = events.slice(begin, begin + eventsAtOnce);
          await Promise.all(some.map((event) => this.#appendStart(event)));
        }
      }
    };
    const onDropped = (): void =>
      logger.warn(
        'too many minions have started: the grains of some are old at the centre until these minions start again',
      );
    try {
      await followAgain(follow, onDropped);
    } catch (error) {
      logger.error(
        { err: error },
        'cannot read events, so the centre no longer gets the presence and grains of minions; restart the master',
      );
    }
  }

  async #appendStart({ tag, data }: MasterEvent): Promise<void> {
    const [, minion = ''] = startTag.exec(tag) ?? [];
    const value = { minion, present: true, grains: this.#grainsOf(minion) };
    // Another minion may emit the event if the policy permits this.
    await this.#append(value, typeof data.id === 'string' ? data.id : minion);
  }

  /**
   * Appends an entry to the log for each minion that has connected or disconnected since the last
   * check.
   */
  async #checkPresence(): Promise<void> {
    const now = new Set(this.#jobs.present().map(({ id }) => id));
    const before = this.#present;
    this.#present = now;
    for (const minion of now) {
      if (before.has(minion)) continue;
      await this.#append({ minion, present: true, grains: this.#grainsOf(minion) });
    }
    for (const minion of before) {
      if (!now.has(minion)) await this.#append({ minion, present: false });
    }
  }

  #grainsOf(minion: string): WireMap {
    const { grains } = this.#jobs.facts.of(minion);
    const summary: WireMap = {};
    for (const name of reportedGrains) {
      const value = grains?.get(name);
      if (value !== undefined && packLocal(value).length <= maxGrainBytes) summary[name] = value;
    }
    return summary;
  }

  async #append(
    value: WireMap & { readonly minion: string },
    cause: string = value.minion,
  ): Promise<void> {
    try {
      await this.#log.append({ class: 'fact', kind: 'minion', value, minion: cause });
    } catch (error) {
      this.#host.logger.error(
        { err: error },
        'cannot store the presence and grains of a minion in the log that this site sends to the centre',
      );
    }
  }
}
