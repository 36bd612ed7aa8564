/**
 * Implements `/ws?format_events`, which sends the current state of jobs and minions instead of
 * events [salt/netapi/rest_cherrypy/event_processor.py].
 */

import type { LRUCache } from 'lru-cache';
import type { MasterEvent } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
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
const trimmed = jsonText('VALUE_TRIMMED');

/** A return as JSON texts. */
interface ReturnTexts {
  /** Value that the minion's function returned, as JSON. */
  readonly value: string;
  /** State of the minion in the job. */
  readonly state: string;
}

/** Cache of the encoded values of returns. A return is encoded once for all readers. */
export class FormattedTexts {
  /**
   * Maximum total size of the job states that are kept for one reader, in characters. A separate
   * total of the same size applies to the reader's minion states.
   */
  readonly maxBytes: number;
  readonly #texts = new WeakMap<MasterEvent, ReturnTexts>();

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  of(event: MasterEvent): ReturnTexts {
    const known = this.#texts.get(event);
    if (known !== undefined) return known;
    const { return: given = null, retcode = null, success = null } = event.data;
    const value = this.#fit(given);
    const rest = `"retcode": ${jsonText(retcode)}, "success": ${jsonText(success)}`;
    const texts = { value, state: `{"return": ${value}, ${rest}}` };
    this.#texts.set(event, texts);
    return texts;
  }

  #fit(value: WireValue): string {
    const maximum = this.maxBytes / 4;
    if (isLonger(value, maximum)) return trimmed;
    const text = jsonText(value);
    return text.length > maximum ? trimmed : text;
  }
}

/** State of a job for one reader, after the events that were applied last. */
interface JobState {
  /**
   * JSON of the properties that precede `minions` in the text of the job. `after` contains the
   * properties that follow `minions`.
   */
  readonly before: readonly string[];
  readonly after: readonly string[];
  readonly state: 'running' | 'complete' | undefined;
  readonly minions: Map<string, MinionOfJob>;
  /** Number of minions that have not returned successfully. */
  readonly unfinished: number;
  readonly bytes: number;
  /** The whole job as JSON. Encoded when it is sent. */
  text?: string;
}

interface MinionOfJob {
  readonly text: string;
  readonly isUnfinished: boolean;
}

const unknownJob: Omit<JobState, 'minions'> = {
  before: [],
  after: [],
  state: undefined,
  unfinished: 0,
  bytes: 0,
};

/**
 * State of a minion for one reader. `grains` is its grains as JSON. `text` is the JSON that the
 * reader receives for the minion.
 */
interface MinionState {
  readonly grains: string | undefined;
  readonly text: string;
}

/** State of jobs and minions that one reader has received. */
export class FormattedEvents {
  readonly #texts: FormattedTexts;
  readonly #jobs: LRUCache<string, JobState>;
  readonly #minions: LRUCache<string, MinionState>;
  #hasNewJobs = false;
  #hasNewMinions = false;

  constructor(texts: FormattedTexts) {
    this.#texts = texts;
    this.#jobs = createEntries(maxJobs, texts.maxBytes, ({ bytes }) => bytes);
    this.#minions = createEntries(maxMinions, texts.maxBytes, ({ text }) => text.length);
  }

  /** Whether the state has changed since the last call of {@link take}. */
  get hasChanged(): boolean {
    return this.#hasNewJobs || this.#hasNewMinions;
  }

  /** Applies new events to the state of jobs and minions that is kept for the reader. */
  apply(events: readonly MasterEvent[]): void {
    for (const event of events) {
      this.#hasNewJobs = this.#takeJob(event) || this.#hasNewJobs;
      this.#hasNewMinions = this.#takeMinions(event) || this.#hasNewMinions;
    }
  }

  /**
   * Returns the WebSocket frames to send: the list of jobs and the list of minions. A list that has
   * not changed since the last call is omitted.
   */
  take(): Buffer[] {
    const frames = [
      ...(this.#hasNewJobs ? [encodeTextFrame(`{"jobs": {${this.#listJobs()}}}`)] : []),
      ...(this.#hasNewMinions ? [encodeTextFrame(`{"minions": [${this.#listMinions()}]}`)] : []),
    ];
    this.#hasNewJobs = false;
    this.#hasNewMinions = false;
    return frames;
  }

  /**
   * Applies an event about a job.
   * @returns whether the state has changed
   */
  #takeJob(event: MasterEvent): boolean {
    const [, jid, what, minion] = jobTag.exec(event.tag) ?? [];
    if (jid === undefined) return false;
    if (what === 'new') {
      this.#jobs.set(jid, newJob(jid, event));
      return true;
    }
    if (minion === undefined) return false;
    const job = this.#jobs.get(jid) ?? { ...unknownJob, minions: new Map() };
    // A copy of the minions for each return would take time that grows with the square of their
    // number.
    const { text: _, minions, ...rest } = job;
    const before = minions.get(minion);
    const now = { text: this.#texts.of(event).state, isUnfinished: event.data.success !== true };
    minions.set(minion, now);
    const { text: oldText = '', isUnfinished: wasUnfinished = false } = before ?? {};
    const bytes =
      job.bytes + now.text.length - oldText.length + (before === undefined ? minion.length : 0);
    const unfinished = job.unfinished + Number(now.isUnfinished) - Number(wasUnfinished);
    const state = unfinished === 0 ? 'complete' : job.state;
    this.#jobs.set(jid, { ...rest, minions, bytes, unfinished, state });
    return true;
  }

  /**
   * Updates the list of minions after an event about a minion's key, grains or presence.
   * @returns whether the list may have changed
   */
  #takeMinions(event: MasterEvent): boolean {
    const { tag, data } = event;
    const [, , what, minion] = jobTag.exec(tag) ?? [];
    if (data.fun === 'grains.items' && what === 'new') this.#minions.clear();
    if (data.fun === 'grains.items' && minion !== undefined) {
      this.#add(minion, this.#texts.of(event).value);
      return true;
    }
    if (tag === 'salt/key' && typeof data.id === 'string') {
      if (data.act === 'delete') this.#minions.delete(data.id);
      else if (data.act === 'accept') this.#add(data.id);
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
    for (const id of come) this.#add(id);
    return gone.length + come.length > 0;
  }

  #add(id: string, newGrains?: string): void {
    const grains = newGrains ?? this.#minions.get(id)?.grains;
    const members = [...(grains === undefined ? [] : [`"grains": ${grains}`]), member('id', id)];
    this.#minions.set(id, { grains, text: `{${members.join(', ')}}` });
  }

  #listJobs(): string {
    const list: string[] = [];
    this.#jobs.rforEach((job, jid) => {
      job.text ??= textOf(job);
      list.push(`${jsonText(jid)}: ${job.text}`);
    });
    return list.join(', ');
  }

  #listMinions(): string {
    const list: string[] = [];
    this.#minions.rforEach(({ text }) => list.push(text));
    return list.join(', ');
  }
}

function newJob(jid: string, { data }: MasterEvent): JobState {
  const { _stamp: start = null, fun = null, tgt = null, tgt_type: type = null } = data;
  const before = [member('jid', jid), member('start_time', start)];
  const after = [member('fun', fun), member('tgt', tgt), member('tgt_type', type)];
  const text = '{"success": false}';
  const ids = idsIn(data.minions);
  const minions = new Map(ids.map((id) => [id, { text, isUnfinished: true }]));
  const size = [...before, ...after, ...minions.keys()].reduce((sum, it) => sum + it.length, 0);
  const bytes = size + text.length * minions.size;
  return { before, after, state: 'running', minions, unfinished: minions.size, bytes };
}

function textOf({ before, after, state, minions }: JobState): string {
  const list = Array.from(minions, ([id, { text }]) => `${jsonText(id)}: ${text}`);
  const last = state === undefined ? [] : [member('state', state)];
  return `{${[...before, `"minions": {${list.join(', ')}}`, ...after, ...last].join(', ')}}`;
}

function member(name: string, value: WireValue): string {
  return `${jsonText(name)}: ${jsonText(value)}`;
}

/**
 * Creates a cache with a maximum total size and a maximum number of entries.
 * @param maxEntries - maximum number of entries. To enforce it, each entry counts as at least
 * `maxBytes / maxEntries` bytes
 */
function createEntries<Entry extends object>(
  maxEntries: number,
  maxBytes: number,
  sizeOf: (entry: Entry) => number,
): LRUCache<string, Entry> {
  const minBytes = Math.ceil(maxBytes / maxEntries);
  return createBoundedMap<string, Entry>(apiLimits.formattedJobs, {
    total: maxBytes,
    sizeOf: (entry) => Math.max(sizeOf(entry), minBytes),
  });
}

/**
 * Whether the JSON of a value is certainly longer than `characters`. Computes a minimum length
 * without encoding the value.
 */
function isLonger(value: WireValue, characters: number): boolean {
  let length = 0;
  const left: WireValue[] = [value];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    length += typeof next === 'string' ? next.length : 1;
    if (length > characters) return true;
    if (next instanceof Map) for (const entry of next) left.push(...entry);
    else if (Array.isArray(next)) for (const each of next) left.push(each);
    else if (isWireMap(next)) for (const each of Object.values(next)) left.push(each);
  }
  return false;
}

function idsIn(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((id) => typeof id === 'string') : [];
}
