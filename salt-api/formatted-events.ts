/**
 * `/ws?format_events`: jobs and minions as they are now, in place of events [salt/netapi/rest_cherrypy/event_processor.py].
 */
import type { MasterEvent } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { encodeTextFrame } from './event-stream.ts';
import { jsonText } from './json-text.ts';

/** Jobs and minions that one reader is told of; the oldest are forgotten. Salt forgets none. */
const maxJobs = 100;
const maxMinions = 10_000;

const jobTag = /^salt\/job\/([^/]+)\/(new|ret\/([^/]+))$/;

/** What stands for a value that there is no room for, as in events. */
const trimmed = 'VALUE_TRIMMED';

/** What one reader has been told. */
export class FormattedEvents {
  readonly #maxBytes: number;
  readonly #jobs: BoundedCache;
  #minions: BoundedCache;

  /** @param maxBytes of the jobs that are told, and of the minions; what is older is forgotten */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#jobs = new BoundedCache(maxJobs, maxBytes);
    this.#minions = new BoundedCache(maxMinions, maxBytes);
  }

  /** A frame for each of what has changed. */
  encode(events: readonly MasterEvent[]): Buffer[] {
    let hasNewJobs = false;
    let hasNewMinions = false;
    for (const event of events) {
      hasNewJobs = this.#takeJob(event) || hasNewJobs;
      hasNewMinions = this.#takeMinions(event) || hasNewMinions;
    }
    return [
      ...(hasNewJobs ? [frame({ jobs: Object.fromEntries(this.#jobs.entries()) })] : []),
      ...(hasNewMinions ? [frame({ minions: this.#listMinions() })] : []),
    ];
  }

  /** @returns whether it changed anything */
  #takeJob({ tag, data }: MasterEvent): boolean {
    const [, jid, what, minion] = jobTag.exec(tag) ?? [];
    if (jid === undefined) return false;
    if (what === 'new') {
      const { _stamp: start_time = null, fun = null, tgt = null, tgt_type = null } = data;
      const minions = Object.fromEntries(idsIn(data.minions).map((id) => [id, { success: false }]));
      const job = { jid, start_time, minions, fun, tgt, tgt_type, state: 'running' };
      this.#jobs.set(jid, job, sizeOf(job));
      return true;
    }
    if (minion === undefined) return false;
    const job = this.#jobs.get(jid) ?? {};
    const { return: given = null, retcode = null, success = null } = data;
    const value = this.#fit(given);
    const known = isWireMap(job.minions) ? job.minions : {};
    const minions = { ...known, [minion]: { return: value, retcode, success } };
    const isOver = Object.values(minions).every((it) => isWireMap(it) && it.success === true);
    const change = { ...job, minions, ...(isOver ? { state: 'complete' } : {}) };
    this.#jobs.set(jid, change, this.#jobs.bytesOf(jid) + sizeOf({ [minion]: value }));
    return true;
  }

  /** @returns whether it changed anything */
  #takeMinions({ tag, data }: MasterEvent): boolean {
    const [, , what, minion] = jobTag.exec(tag) ?? [];
    if (data.fun === 'grains.items' && what === 'new') {
      this.#minions = new BoundedCache(maxMinions, this.#maxBytes);
    }
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
    const known = new Set(this.#minions.entries().map(([id]) => id));
    const now = new Set(present);
    const gone = [...known].filter((id) => !now.has(id));
    const come = present.filter((id) => !known.has(id));
    for (const id of gone) this.#minions.delete(id);
    for (const id of come) this.#add(id, {});
    return gone.length + come.length > 0;
  }

  #add(id: string, more: WireMap): void {
    const known = { ...this.#minions.get(id), ...more };
    this.#minions.set(id, known, sizeOf({ id, ...known }));
  }

  #listMinions(): WireMap[] {
    return this.#minions.entries().map(([id, known]) => ({ ...known, id }));
  }

  #fit(value: WireValue): WireValue {
    return sizeOf(value) > this.#maxBytes / 4 ? trimmed : value;
  }
}

/** The latest of some things, so many and so many bytes of them. */
class BoundedCache {
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #held = new Map<string, { readonly value: WireMap; readonly bytes: number }>();
  #bytes = 0;

  constructor(maxEntries: number, maxBytes: number) {
    this.#maxEntries = maxEntries;
    this.#maxBytes = maxBytes;
  }

  get(key: string): WireMap | undefined {
    return this.#held.get(key)?.value;
  }

  bytesOf(key: string): number {
    return this.#held.get(key)?.bytes ?? 0;
  }

  entries(): [string, WireMap][] {
    return [...this.#held].map(([key, { value }]) => [key, value]);
  }

  /** Forgets the oldest of the others where there is no room for all. */
  set(key: string, value: WireMap, bytes: number): void {
    this.#bytes += bytes - this.bytesOf(key);
    this.#held.set(key, { value, bytes });
    for (const oldest of this.#held.keys()) {
      const isOver = this.#bytes > this.#maxBytes || this.#held.size > this.#maxEntries;
      if (!isOver || oldest === key) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    this.#bytes -= this.bytesOf(key);
    this.#held.delete(key);
  }
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
