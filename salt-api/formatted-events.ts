/**
 * `/ws?format_events`: jobs and minions as they are now, in place of events
 * [salt/netapi/rest_cherrypy/event_processor.py; CONTRACT 6.2].
 */
import type { MasterEvent } from '../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../minion-protocol/index.ts';
import { textFrame } from './event-texts.ts';
import { jsonText } from './json-text.ts';

/** Jobs and minions that one reader is told of; the oldest are forgotten. Salt forgets none. */
const maxJobs = 100;
const maxMinions = 10_000;

const jobTag = /^salt\/job\/([^/]+)\/(new|ret\/([^/]+))$/;

/** What one reader has been told. */
export class FormattedEvents {
  readonly #jobs = new Map<string, WireMap>();
  #minions = new Map<string, WireMap>();

  /** A frame for each of what has changed. */
  encode(events: readonly MasterEvent[]): Buffer {
    let hasNewJobs = false;
    let hasNewMinions = false;
    for (const event of events) {
      hasNewJobs = this.#takeJob(event) || hasNewJobs;
      hasNewMinions = this.#takeMinions(event) || hasNewMinions;
    }
    return Buffer.concat([
      hasNewJobs ? frame({ jobs: Object.fromEntries(this.#jobs) }) : Buffer.alloc(0),
      hasNewMinions ? frame({ minions: this.#listMinions() }) : Buffer.alloc(0),
    ]);
  }

  /** @returns whether it changed anything */
  #takeJob({ tag, data }: MasterEvent): boolean {
    const [, jid, what, minion] = jobTag.exec(tag) ?? [];
    if (jid === undefined) return false;
    if (what === 'new') {
      const { _stamp: start_time = null, fun = null, tgt = null, tgt_type = null } = data;
      const minions = Object.fromEntries(idsIn(data.minions).map((id) => [id, { success: false }]));
      this.#jobs.set(jid, { jid, start_time, minions, fun, tgt, tgt_type, state: 'running' });
      forgetOldest(this.#jobs, maxJobs);
      return true;
    }
    if (minion === undefined) return false;
    const job = this.#jobs.get(jid) ?? {};
    const { return: value = null, retcode = null, success = null } = data;
    const known = isWireMap(job.minions) ? job.minions : {};
    const minions = { ...known, [minion]: { return: value, retcode, success } };
    const isOver = Object.values(minions).every((it) => isWireMap(it) && it.success === true);
    this.#jobs.set(jid, { ...job, minions, ...(isOver ? { state: 'complete' } : {}) });
    forgetOldest(this.#jobs, maxJobs);
    return true;
  }

  /** @returns whether it changed anything */
  #takeMinions({ tag, data }: MasterEvent): boolean {
    const [, , what, minion] = jobTag.exec(tag) ?? [];
    if (data.fun === 'grains.items' && what === 'new') this.#minions = new Map();
    if (data.fun === 'grains.items' && minion !== undefined) {
      this.#add(minion, { grains: data.return ?? null });
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
    const gone = [...this.#minions.keys()].filter((id) => !present.includes(id));
    const come = present.filter((id) => !this.#minions.has(id));
    for (const id of gone) this.#minions.delete(id);
    for (const id of come) this.#add(id, {});
    return gone.length + come.length > 0;
  }

  #add(id: string, more: WireMap): void {
    this.#minions.set(id, { ...this.#minions.get(id), ...more });
    forgetOldest(this.#minions, maxMinions);
  }

  #listMinions(): WireMap[] {
    return [...this.#minions].map(([id, known]) => ({ ...known, id }));
  }
}

function frame(value: WireMap): Buffer {
  return textFrame(jsonText(value));
}

function idsIn(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((id) => typeof id === 'string') : [];
}

function forgetOldest(map: Map<string, unknown>, max: number): void {
  const [oldest] = map.size > max ? map.keys() : [];
  if (oldest !== undefined) map.delete(oldest);
}
