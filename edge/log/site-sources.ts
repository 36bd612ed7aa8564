/** Appends returns, events, alarms and audit records of a site to its log. */

import type { SiteOptions } from '#config';
import { type ExtensionHost, type MasterEvent, masterServices } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { codeOf } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import type { NewLogEntry, SiteLog } from './log.ts';

/**
 * Maximum number of unread events on the event bus. If more events wait for this reader, the bus
 * disconnects it.
 */
const unreadEvents = 100_000;

const returnTag = /^salt\/job\/(\d+)\/ret\/(.+)$/;

/**
 * Part of the extension `site`. It appends returns, events, alarms and audit records to the log of
 * the site.
 */
export function openSources({ host, options, log }: SiteContext): EdgePart {
  const sources = new Sources(host, options, log);
  return { start: () => sources.start(), close: () => sources.close() };
}

class Sources {
  readonly #host: ExtensionHost;
  readonly #log: SiteLog;
  readonly #isAlarm: (tag: string) => boolean;
  readonly #isWanted: (tag: string) => boolean;
  readonly #stopped = new AbortController();
  readonly #audited = new Set<Promise<void>>();
  #running: Promise<void> | undefined;

  constructor(host: ExtensionHost, { alarms, events }: SiteOptions, log: SiteLog) {
    this.#host = host;
    this.#log = log;
    this.#isAlarm = anyOf(alarms);
    this.#isWanted = anyOf(events);
  }

  start(): void {
    this.#running = this.#follow();
    this.#host.use(masterServices.audit).onAppend((entry) => {
      const { who, ...rest } = entry;
      const value = plain({ ...rest, who: { ...who }, time: this.#host.now() });
      const written = this.#append([{ class: 'return', kind: 'audit', value }]);
      this.#audited.add(written);
      void written.finally(() => this.#audited.delete(written));
    });
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
    await Promise.all(this.#audited);
  }

  /**
   * Reads the event bus. If the bus has disconnected this reader because it was too slow,
   * subscribes again and appends the event `saltbridge/edge/events-lost`.
   */
  async #follow(): Promise<void> {
    const { bus } = this.#host.use(masterServices.events);
    const signal = this.#stopped.signal;
    while (!signal.aborted) {
      try {
        const accepts = (tag: string): boolean =>
          returnTag.test(tag) || this.#isAlarm(tag) || this.#isWanted(tag);
        for await (const batch of bus.batches({ accepts, capacity: unreadEvents, signal })) {
          await this.#append(batch.flatMap((event) => this.#entriesOf(event)));
        }
        return;
      } catch (error) {
        if (codeOf(error) !== 'ERR_READER_DROPPED') {
          this.#host.logger.error(
            { err: error },
            'cannot read events; returns, events and alarms are not stored in the log of the site',
          );
          return;
        }
        const value = { tag: 'saltbridge/edge/events-lost', data: { time: this.#host.now() } };
        await this.#append([{ class: 'alarm', kind: 'event', value }]);
      }
    }
  }

  #entriesOf({ tag, data }: MasterEvent): readonly NewLogEntry[] {
    const event = { tag, data };
    if (this.#isAlarm(tag)) {
      const alarm = { class: 'alarm', kind: 'event', value: event } as const;
      return returnTag.test(tag) ? [alarm, ...returnsOf(tag, data)] : [alarm];
    }
    const returned = returnsOf(tag, data);
    if (returned.length > 0) return returned;
    return [{ class: 'return', kind: 'event', value: event }];
  }

  async #append(entries: readonly NewLogEntry[]): Promise<void> {
    try {
      await Promise.all(entries.map((entry) => this.#log.append(entry)));
    } catch (error) {
      this.#host.logger.error({ err: error }, 'cannot store entries in the log of the site');
    }
  }
}

function returnsOf(tag: string, data: WireMap): readonly NewLogEntry[] {
  const [, jid, minion] = returnTag.exec(tag) ?? [];
  if (jid === undefined || minion === undefined) return [];
  const { fun = null, retcode = null, success = null, _stamp: stamp = null } = data;
  const value: WireMap = { jid, minion, fun, retcode, success, stamp };
  if (data.return !== undefined) value.return = data.return;
  return [{ class: 'return', kind: 'return', value }];
}

function anyOf(globs: readonly string[]): (tag: string) => boolean {
  const tests = globs.map((glob) => compileGlob(glob));
  return (tag) => tests.some((test) => test(tag));
}

/** Converts an audit entry to a value that MessagePack can encode. */
function plain(entry: Readonly<Record<string, unknown>>): WireMap {
  // An audit entry consists of text, numbers, lists and maps.
  return JSON.parse(JSON.stringify(entry)) as Record<string, WireValue>;
}
