/**
 * Implements `/ws?format_events`, which sends the current state of jobs and minions instead of
 * events [salt/netapi/rest_cherrypy/event_processor.py].
 */

import type { LRUCache } from 'lru-cache';
import type { MasterEvent } from '#master';
import { emptyWireMap, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { encodeTextFrame } from './event-stream.ts';
import { jsonText } from './json-text.ts';
import { apiLimits } from './limits.ts';

/**
 * Maximum number of jobs whose state is kept for one reader. The oldest are evicted. Salt keeps all
 * of them.
 */
const maxJobs = 100;
/** Maximum number of minions whose state is kept for one reader. The oldest are evicted. */
const maxMinions = 10_000;

const jobTag = /^salt\/job\/([^/]+)\/(new|ret\/([^/]+))$/;

/** Text that replaces a value that is too large. Salt's events use the same text. */
const trimmed = 'VALUE_TRIMMED';

/** State of jobs and minions that one reader has received. */
export class FormattedEvents {
  readonly #maxBytes: number;
  readonly #jobs: LRUCache<string, Entry>;
  readonly #minions: LRUCache<string, Entry>;

  /**
   * @param maxBytes - maximum size of the state of jobs, and of the state of minions; the oldest
   * entries are evicted
   */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#jobs = createEntries(maxJobs, maxBytes);
    this.#minions = createEntries(maxMinions, maxBytes);
  }

  /** Applies events, and returns a WebSocket frame for each change of the state. */
  encode(events: readonly MasterEvent[]): Buffer[] {
    let hasNewJobs = false;
    let hasNewMinions = false;
    for (const event of events) {
      hasNewJobs = this.#takeJob(event) || hasNewJobs;
      hasNewMinions = this.#takeMinions(event) || hasNewMinions;
    }
    return [
      ...(hasNewJobs ? [frame({ jobs: this.#listJobs() })] : []),
      ...(hasNewMinions ? [frame({ minions: this.#listMinions() })] : []),
    ];
  }

  /**
   * Applies an event about a job.
   * @returns whether the state has changed
   */
  #takeJob({ tag, data }: MasterEvent): boolean {
    const [, jid, what, minion] = jobTag.exec(tag) ?? [];
    if (jid === undefined) return false;
    if (what === 'new') {
      const { _stamp: start_time = null, fun = null, tgt = null, tgt_type = null } = data;
      const minions = emptyWireMap();
      for (const id of idsIn(data.minions)) minions[id] = { success: false };
      const job = { jid, start_time, minions, fun, tgt, tgt_type, state: 'running' };
      const unfinished = Object.keys(minions).length;
      this.#jobs.set(jid, { value: job, bytes: sizeOf(job), unfinished });
      return true;
    }
    if (minion === undefined) return false;
    const { value: job, bytes, unfinished = 0 } = this.#jobs.get(jid) ?? { value: {}, bytes: 0 };
    const { return: given = null, retcode = null, success = null } = data;
    const value = this.#fit(given);
    // A copy of the minions for each return would take time that grows with the square of their
    // number.
    const minions = isWireMap(job.minions) ? job.minions : emptyWireMap();
    const left = unfinished + countUnfinished({ success }) - countUnfinished(minions[minion]);
    minions[minion] = { return: value, retcode, success };
    const change = { ...job, minions, ...(left === 0 ? { state: 'complete' } : {}) };
    const size = bytes + sizeOf({ [minion]: value });
    this.#jobs.set(jid, { value: change, bytes: size, unfinished: left });
    return true;
  }

  /**
   * Applies an event about minions.
   * @returns whether the state has changed
   */
  #takeMinions({ tag, data }: MasterEvent): boolean {
    const [, , what, minion] = jobTag.exec(tag) ?? [];
    if (data.fun === 'grains.items' && what === 'new') this.#minions.clear();
    if (data.fun === 'grains.items' && minion !== undefined) {
      this.#add(minion, { grains: this.#fit(data.return ?? null) });
      return true;
    }
    if (tag === 'salt/key' && typeof data.id === 'string') {
      if (data.act === 'delete') this.#minions.delete(data.id);
      else if (data.act === 'accept') this.#add(data.id, {});
      return true;
    }
    return tag === 'salt/presence/present' && this.#setPresent(idsIn(data.present));
  }

  #setPresent(present: readonly string[]): boolean {
    const known = new Set(this.#minions.keys());
    const now = new Set(present);
    const gone = [...known].filter((id) => !now.has(id));
    const come = present.filter((id) => !known.has(id));
    for (const id of gone) this.#minions.delete(id);
    for (const id of come) this.#add(id, {});
    return gone.length + come.length > 0;
  }

  #add(id: string, more: WireMap): void {
    const value = { ...this.#minions.get(id)?.value, ...more };
    this.#minions.set(id, { value, bytes: sizeOf({ id, ...value }) });
  }

  #listJobs(): WireMap {
    return Object.fromEntries(oldestFirst(this.#jobs));
  }

  #listMinions(): WireMap[] {
    return oldestFirst(this.#minions).map(([id, value]) => ({ ...value, id }));
  }

  #fit(value: WireValue): WireValue {
    return sizeOf(value) > this.#maxBytes / 4 ? trimmed : value;
  }
}

/** State of a job or minion, as last sent to the reader. */
interface Entry {
  readonly value: WireMap;
  readonly bytes: number;
  /** Number of minions of a job that have not returned successfully. Absent for minions. */
  readonly unfinished?: number;
}

/** Returns 1 for a minion of a job without a successful return, and 0 for any other value. */
function countUnfinished(minion: WireValue | undefined): 0 | 1 {
  return minion === undefined || (isWireMap(minion) && minion.success === true) ? 0 : 1;
}

/**
 * Creates a cache of entries.
 * @param maxEntries - maximum number of entries; each entry counts as at least `maxBytes /
 * maxEntries` bytes
 */
function createEntries(maxEntries: number, maxBytes: number): LRUCache<string, Entry> {
  const minBytes = Math.ceil(maxBytes / maxEntries);
  return createBoundedMap<string, Entry>(apiLimits.formattedJobs, {
    total: maxBytes,
    sizeOf: ({ bytes }) => Math.max(bytes, minBytes),
  });
}

function oldestFirst(entries: LRUCache<string, Entry>): [string, WireMap][] {
  const list: [string, WireMap][] = [];
  entries.rforEach(({ value }, key) => list.push([key, value]));
  return list;
}

function sizeOf(value: WireValue): number {
  return jsonText(value).length;
}

function frame(value: WireMap): Buffer {
  return encodeTextFrame(jsonText(value));
}

function idsIn(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((id) => typeof id === 'string') : [];
}
