/** Forwards updates of runs to members of the cluster at which the runs are followed. */

import { hash } from 'node:crypto';
import { readMarkedJson, type SharedArea, writeMarkedJson } from '#master';
import type { WireMap } from '#minion-protocol';
import { inMilliseconds } from '#runtime';
import type { TrackedRun } from './tracked-run.ts';

/**
 * Interval at which a follower repeats its request, in milliseconds, because messages can be lost.
 */
const askMs = 2000;
/** Time without a request after which a run counts as no longer followed, in milliseconds. */
const heardMs = 10_000;
/** Maximum wait for the last updates after a run has ended, in milliseconds. */
const lastMs = 1000;
/** Maximum size of a message, in characters. A larger result is sent without its return. */
const maxText = 262_144;

/** Update of a command or plan, with the fields that are used here. */
interface Update {
  readonly type: string;
  readonly result?: { readonly return?: unknown; readonly state: string };
}

type Run = TrackedRun<Update, { readonly status: string }>;

interface RunUpdatesOptions {
  readonly cluster: Pick<NonNullable<SharedArea['cluster']>, 'onMessage' | 'send'>;
  readonly kind: string;
  /** Id of this process. */
  readonly process: string;
  /** Returns a run that this member knows. */
  readonly find: (id: string) => Run | undefined;
}

/** Run of this process that other members follow. */
interface Sender {
  /** Number of updates that were sent. */
  next: number;
  sentAt: number;
  heardAt: number;
  isOver: boolean;
}

/** Run of another process that is followed here. */
interface Follower {
  readonly run: Run;
  process: string | undefined;
  /** Number of updates received from this process. */
  next: number;
  readonly digests: Set<string>;
  /** Whether another process ran it earlier and sent some of its updates. */
  isTakenOver: boolean;
  isLocal: boolean;
  onLast: () => void;
}

/**
 * Exchanges updates of runs between members. A follower requests the updates from a number on. The
 * member with the run sends those and all later ones. Messages are sent outside of the replicated
 * log; missing updates are requested again.
 */
export class RunUpdates {
  readonly #options: RunUpdatesOptions;
  readonly #senders = new Map<string, Sender>();
  readonly #followers = new Map<string, Follower>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: RunUpdatesOptions) {
    this.#options = options;
    const { cluster, kind } = options;
    cluster.onMessage(`follow-${kind}`, (asked) => this.#answer(asked));
    cluster.onMessage(`updates-${kind}`, (told) => this.#take(told));
    this.#timer = setInterval(() => {
      for (const [id, follower] of this.#followers) this.#ask(id, follower);
    }, askMs).unref();
  }

  /** Whether this run is followed because another process runs it. */
  follows(run: Pick<Run, 'id'>): boolean {
    return this.#followers.get(run.id)?.run === run;
  }

  /** Adds the updates that another process sends to a run. */
  follow(run: Run, process: string | undefined): void {
    const follower: Follower = {
      run,
      process,
      next: 0,
      digests: new Set(),
      isTakenOver: false,
      isLocal: false,
      onLast: () => {},
    };
    this.#followers.set(run.id, follower);
    this.#ask(run.id, follower);
  }

  /** Switches to another process that now runs it, and requests its updates from the start. */
  passOn(id: string, process: string): void {
    const follower = this.#followers.get(id);
    if (follower === undefined || follower.process === process) return;
    follower.process = process;
    follower.next = 0;
    follower.isTakenOver = true;
    this.#ask(id, follower);
  }

  /** Resolves when an ended run has all its updates, or they no longer arrive. */
  async rest(id: string): Promise<void> {
    const follower = this.#followers.get(id);
    if (follower === undefined) return;
    const last = new Promise<void>((resolve) => {
      follower.onLast = resolve;
    });
    this.#ask(id, follower);
    await inMilliseconds(last, lastMs);
    this.#followers.delete(id);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const sender of this.#senders.values()) sender.isOver = true;
  }

  #ask(id: string, follower: Follower): void {
    const { cluster, kind, process, find } = this.#options;
    if (follower.process !== process) {
      cluster.send(`follow-${kind}`, { id, from: follower.next });
      return;
    }
    // This process now runs it.
    const own = find(id);
    if (follower.isLocal || own === undefined || own === follower.run) return;
    follower.isLocal = true;
    void this.#followHere(own, follower);
  }

  async #followHere(own: Run, follower: Follower): Promise<void> {
    for await (const batch of own.batches(0)) this.#tell(follower, batch);
    follower.onLast();
  }

  #answer({ id, from }: WireMap): void {
    if (typeof id !== 'string' || typeof from !== 'number') return;
    const run = this.#options.find(id);
    if (run === undefined || this.follows(run)) return;
    const now = performance.now();
    const known = this.#senders.get(id);
    if (known !== undefined && (from >= known.next || now - known.sentAt < askMs / 2)) {
      known.heardAt = now;
      return;
    }
    // No sender existed, or an update was lost.
    if (known !== undefined) known.isOver = true;
    const sender: Sender = { next: from, sentAt: now, heardAt: now, isOver: false };
    this.#senders.set(id, sender);
    void this.#send(run, sender).finally(() => {
      sender.isOver = true;
      if (this.#senders.get(id) === sender) this.#senders.delete(id);
    });
  }

  async #send(run: Run, sender: Sender): Promise<void> {
    const { cluster, kind, process } = this.#options;
    const send = (updates: string, isLast: boolean): void => {
      const { next: from } = sender;
      cluster.send(`updates-${kind}`, { id: run.id, process, from, updates, isLast });
      sender.sentAt = performance.now();
    };
    for await (const batch of run.batches(sender.next)) {
      if (sender.isOver || performance.now() - sender.heardAt > heardMs) return;
      for (const { count, text } of messagesOf(batch)) {
        send(text, false);
        sender.next += count;
      }
    }
    if (!sender.isOver) send('[]', true);
  }

  #take({ id, process, from, updates, isLast }: WireMap): void {
    const follower = this.#followers.get(String(id));
    if (follower === undefined || process !== follower.process) return;
    if (typeof from !== 'number' || typeof updates !== 'string') return;
    // Missing updates are included in the next request.
    if (from > follower.next) return;
    const list = updatesIn(updates);
    this.#tell(follower, list.slice(follower.next - from));
    follower.next = Math.max(follower.next, from + list.length);
    if (isLast === true) follower.onLast();
  }

  /**
   * Adds each update once. Two kinds are skipped: the outcome, because it is read from the store,
   * and `unfinished` results, because a member that closes sends them for minions for which the
   * next one still waits.
   */
  #tell({ run, digests, isTakenOver }: Follower, updates: readonly Update[]): void {
    for (const update of updates) {
      if (update.type === 'outcome' || update.result?.state === 'unfinished') continue;
      const digest = hash('sha1', writeMarkedJson(update), 'base64');
      if (isTakenOver && digests.has(digest)) continue;
      digests.add(digest);
      run.tell(update);
    }
  }
}

/** Splits updates into messages of limited size, each with its number of updates. */
function messagesOf(batch: readonly Update[]): { readonly count: number; readonly text: string }[] {
  const messages: { count: number; text: string }[] = [];
  let texts: string[] = [];
  let length = 0;
  const end = (): void => {
    if (texts.length > 0) messages.push({ count: texts.length, text: `[${texts.join(',')}]` });
    texts = [];
    length = 0;
  };
  for (const update of batch) {
    const text = textOf(update);
    if (length + text.length > maxText) end();
    texts.push(text);
    length += text.length;
  }
  end();
  return messages;
}

/** Parses the text of {@link messagesOf}. */
function updatesIn(text: string): readonly Update[] {
  const list: unknown = readMarkedJson(text);
  return Array.isArray(list) ? list.filter(isUpdate) : [];
}

function isUpdate(value: unknown): value is Update {
  return typeof value === 'object' && value !== null && 'type' in value;
}

function textOf(update: Update): string {
  if (update.type === 'outcome') return writeMarkedJson({ type: 'outcome' });
  const text = writeMarkedJson(update);
  if (text.length <= maxText || update.result === undefined) return text;
  const { return: _, ...result } = update.result;
  return writeMarkedJson({ ...update, result });
}
