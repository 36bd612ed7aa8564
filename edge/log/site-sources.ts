/** Appends returns, events, alarms and audit records of a site to its log. */

import type { SiteOptions } from '#config';
import {
  type ExtensionHost,
  followAgain,
  type JobReturn,
  type MasterEvent,
  masterServices,
  type StateOperation,
} from '#master';
import { formatEventStamp, type WireMap, type WireValue } from '#minion-protocol';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import type { NewLogEntry, SiteLog } from './log.ts';

/**
 * Maximum number of unread events on the event bus. If more events wait for this reader, the bus
 * disconnects it.
 */
const unreadEvents = 100_000;

/** Tag of the events about sign-ins. Anyone can sign in with any id and key, without proof. */
const signInTag = 'salt/auth';

/**
 * Owner of the events about sign-ins in the log. Ids of minions contain no slash, so the sign-ins
 * do not count for a minion.
 */
const signIns = '/sign-ins';

const refreshTag = /^(?:minion|resource)\/refresh\/(.+)$/;

/** Tag of a return. The job id may have a suffix, for example with the option `unique_jid`. */
const returnTag = /^salt\/job\/(\d+(?:_[^/]+)?)\/ret\/(.+)$/s;

/**
 * Opens the part of the extension `site` that appends returns, events, alarms and audit records to
 * the log of the site.
 */
export function openSources({ host, options, log }: SiteContext): EdgePart {
  const sources = new Sources(host, options, log);
  return {
    // In a cluster, the members share their jobs, but not the log.
    returnRows:
      host.shared.cluster !== undefined
        ? () => []
        : (jid, result) =>
            // Without an event with a known tag, the row would never be deleted.
            returnTag.test(returnTagOf(jid, result))
              ? [{ op: 'put', key: unloggedKey(jid, result), value: nothing }]
              : [],
    start: () => sources.start(),
    close: () => sources.close(),
  };
}

/**
 * Returns the key of the row that marks a stored return as missing in the log of the site. The
 * master writes the row in the same transaction as the return. The log deletes the row in the
 * transaction that appends the entry.
 */
function unloggedKey(jid: string, { minion, resource }: Returner): readonly string[] {
  return [...unlogged, jid, minion, ...(resource === undefined ? [] : [resource])];
}

type Returner = Pick<JobReturn, 'minion' | 'resource'>;

function returnTagOf(jid: string, { minion, resource }: Returner): string {
  return `salt/job/${jid}/ret/${resource ?? minion}`;
}

const unlogged = ['log', 'unlogged'];
const nothing = new Uint8Array(0);

class Sources {
  readonly #host: ExtensionHost;
  readonly #log: SiteLog;
  readonly #isAlarm: (tag: string) => boolean;
  readonly #isWanted: (tag: string) => boolean;
  readonly #stopped = new AbortController();
  readonly #audited = new Set<Promise<void>>();
  /**
   * Event tags of the returns that {@link #recover} has appended to the log from the store. The
   * next event with such a tag is ignored, because its return is already in the log.
   */
  readonly #recovered = new Set<string>();
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
      const minion = who.kind === 'minion' ? who.name : undefined;
      const written = this.#append([{ class: 'return', kind: 'audit', value, minion }], []);
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
    const accepts = (tag: string): boolean =>
      returnTag.test(tag) || this.#isAlarm(tag) || this.#isWanted(tag);
    const follow = async (): Promise<void> => {
      if (signal.aborted) return;
      // Subscribe first, so that each return has an event or a row.
      const batches = bus.batches({ accepts, capacity: unreadEvents, signal });
      await this.#recover();
      for await (const batch of batches) {
        await Promise.all(batch.map((event) => this.#appendEvent(event)));
      }
    };
    const onDropped = async (): Promise<void> => {
      const value = { tag: 'saltbridge/edge/events-lost', data: { time: this.#host.now() } };
      await this.#append([{ class: 'alarm', kind: 'event', value }], []);
    };
    try {
      await followAgain(follow, onDropped);
    } catch (error) {
      this.#host.logger.error(
        { err: error },
        'cannot read events, so the centre no longer gets returns, events and alarms of this site; restart the master',
      );
    }
  }

  /**
   * Appends the stored returns that the log lacks. The log lacks a return if the process ended, or
   * the event bus disconnected this reader, before the return was appended.
   */
  async #recover(): Promise<void> {
    this.#recovered.clear();
    const { cache } = this.#host.use(masterServices.jobs);
    const keys: (readonly string[])[] = [];
    for await (const { key } of this.#host.state.list(unlogged)) keys.push(key);
    for (const key of keys) {
      const [jid = '', minion = '', resource] = key.slice(unlogged.length);
      const returner = resource === undefined ? { minion } : { minion, resource };
      const tag = returnTagOf(jid, returner);
      const result = await cache.storedReturn(jid, returner);
      // The job was stored for too short a time if its return has expired.
      const entries = result === undefined ? [] : this.#entriesOf({ tag, data: dataOf(result) });
      this.#recovered.add(tag);
      await this.#append(entries, [{ op: 'delete', key }]);
    }
  }

  async #appendEvent(event: MasterEvent): Promise<void> {
    const { tag, data } = event;
    const [, jid] = returnTag.exec(tag) ?? [];
    if (jid === undefined) return this.#append(this.#entriesOf(event), []);
    if (this.#recovered.delete(tag)) return;
    const { id, resource_id: resource } = data;
    const minion = typeof id === 'string' ? id : '';
    const isOwn = typeof resource !== 'string' || resource === minion;
    const key = unloggedKey(jid, isOwn ? { minion } : { minion, resource });
    await this.#append(this.#entriesOf(event), [{ op: 'delete', key }]);
  }

  #entriesOf({ tag, data }: Pick<MasterEvent, 'data' | 'tag'>): readonly NewLogEntry[] {
    const event = { kind: 'event', value: { tag, data }, minion: causeOf(tag, data) } as const;
    if (this.#isAlarm(tag)) {
      const alarm = { class: 'alarm', ...event } as const;
      return returnTag.test(tag) ? [alarm, ...returnsOf(tag, data)] : [alarm];
    }
    const returned = returnsOf(tag, data);
    if (returned.length > 0) return returned;
    return [{ class: 'return', ...event }];
  }

  async #append(
    entries: readonly NewLogEntry[],
    operations: readonly StateOperation[],
  ): Promise<void> {
    try {
      await this.#log.appendTogether(entries, operations);
    } catch (error) {
      this.#host.logger.error(
        { err: error },
        'cannot store entries in the log that this site sends to the centre',
      );
    }
  }
}

/**
 * Returns the event data for a stored return. The data contain only the fields that the log needs.
 */
function dataOf({ minion, resource, receivedAt, ...result }: JobReturn): WireMap {
  const { fun, retcode, success } = result;
  return {
    id: minion,
    ...(resource === undefined ? {} : { resource_id: resource }),
    fun: typeof fun === 'string' ? fun : [...fun],
    retcode,
    success,
    return: result.return,
    ...(result.notStored === true ? { not_stored: true } : {}),
    _stamp: formatEventStamp(new Date(receivedAt)),
  };
}

function returnsOf(tag: string, data: WireMap): readonly NewLogEntry[] {
  const [, jid, minion] = returnTag.exec(tag) ?? [];
  if (jid === undefined || minion === undefined) return [];
  const { fun = null, retcode = null, success = null, _stamp: stamp = null } = data;
  const value: WireMap = { jid, minion, fun, retcode, success, stamp };
  if (data.return !== undefined) value.return = data.return;
  if (data.not_stored === true) value.not_stored = true;
  // A minion reports the returns of its resources.
  const owner = typeof data.id === 'string' ? data.id : minion;
  return [{ class: 'return', kind: 'return', value, minion: owner }];
}

/**
 * Returns the minion that has caused an event. In each event that a minion emits, the master sets
 * `id` to this minion.
 */
function causeOf(tag: string, { id }: WireMap): string | undefined {
  if (tag === signInTag) return signIns;
  return typeof id === 'string' && id !== '' ? id : refreshTag.exec(tag)?.[1];
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
