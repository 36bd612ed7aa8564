/** Sends the updates of runs to other cluster members whose clients follow these runs. */

import { hash } from 'node:crypto';
import { readMarkedJson, type SharedArea, writeMarkedJson } from '#master';
import type { WireMap } from '#minion-protocol';
import { inMilliseconds } from '#runtime';
import type { CommandResult } from './command-request.ts';
import type { TrackedRun } from './tracked-run.ts';

/**
 * Interval at which a member that follows a run repeats its request for updates, in milliseconds.
 * Requests are repeated, because messages can be lost.
 */
const askMs = 2000;
/**
 * Time after which a member stops sending updates of a run to another member, in milliseconds. Each
 * request of the other member restarts the time.
 */
const heardMs = 10_000;
/** Maximum time to wait for the last updates after a run has ended, in milliseconds. */
const lastMs = 1000;
/**
 * Maximum size of a message, in characters. If the result of a single minion is larger, the message
 * contains this result without the minion's return.
 */
const maxText = 262_144;

/** Update of a command or plan, with the fields that this module reads. */
interface Update {
  readonly type: string;
  readonly result?: CommandResult;
}

type Run = TrackedRun<Update, { readonly status: string }>;

interface RunUpdatesOptions {
  readonly cluster: Pick<NonNullable<SharedArea['cluster']>, 'onMessage' | 'send'>;
  readonly kind: string;
  /** Id of this process. */
  readonly process: string;
  /** Returns a run that this member has in memory. */
  readonly find: (id: string) => Run | undefined;
}

/**
 * State of a run that this process executes, for sending its updates to the other cluster members.
 */
interface Sender {
  /** Position of the next update to send. The first update of a run has the position 0. */
  next: number;
  sentAt: number;
  heardAt: number;
  isOver: boolean;
}

/** Command run that another process executes, and that clients of this process follow. */
interface Follower {
  readonly run: Run;
  process: string | undefined;
  /** Number of updates received from the process that currently executes the run. */
  next: number;
  readonly digests: Set<string>;
  /**
   * Whether the process that executes the run has taken it over from another process. Some updates
   * can then arrive a second time.
   */
  isTakenOver: boolean;
  isLocal: boolean;
  onLast: () => void;
}

/**
 * Exchanges updates of runs between cluster members. A member that follows a run states the number
 * of the first update that it lacks. The member that executes the run sends this update and all
 * later ones. Messages bypass the replicated log and can be lost. In this case, the missing updates
 * are requested again.
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
    cluster.onMessage(`updates-${kind}`, (message) => this.#take(message));
    this.#timer = setInterval(() => {
      for (const [id, follower] of this.#followers) this.#ask(id, follower);
    }, askMs).unref();
  }

  /** Whether this run object follows a run of another process. */
  follows(run: Pick<Run, 'id'>): boolean {
    return this.#followers.get(run.id)?.run === run;
  }

  /** Follows a run of another process: adds the updates of that process to the local run object. */
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

  /**
   * Records that another process continues a run, and requests all updates of the run from that
   * process.
   */
  passOn(id: string, process: string): void {
    const follower = this.#followers.get(id);
    if (follower === undefined || follower.process === process) return;
    follower.process = process;
    follower.next = 0;
    follower.isTakenOver = true;
    this.#ask(id, follower);
  }

  /**
   * Resolves when an ended run has received all its updates, or after {@link lastMs} without
   * updates.
   */
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
    // This process now executes the run itself, so no longer follow another process.
    const own = find(id);
    if (follower.isLocal || own === undefined || own === follower.run) return;
    follower.isLocal = true;
    void this.#followHere(own, follower);
  }

  async #followHere(own: Run, follower: Follower): Promise<void> {
    for await (const batch of own.batches(0)) this.#add(follower, batch);
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
    // No updates were being sent, or one was lost: send again from the requested number on.
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
    // Some updates are missing. The next request asks for them again.
    if (from > follower.next) return;
    const list = updatesIn(updates);
    this.#add(follower, list.slice(follower.next - from));
    follower.next = Math.max(follower.next, from + list.length);
    if (isLast === true) follower.onLast();
  }

  /**
   * Adds updates to the run, without repetitions. Skips the outcome, which this member reads from
   * the store. Also skips `unfinished` results, which a member sends when it closes. The member
   * that continues the run still waits for results of these minions.
   */
  #add({ run, digests, isTakenOver }: Follower, updates: readonly Update[]): void {
    for (const update of updates) {
      if (update.type === 'outcome' || update.result?.state === 'unfinished') continue;
      const digest = hash('sha1', writeMarkedJson(update), 'base64');
      if (isTakenOver && digests.has(digest)) continue;
      digests.add(digest);
      if (update.result !== undefined) run.admit(update.result);
      run.tell(update);
    }
  }
}

/**
 * Splits updates into messages of limited size. Returns the text of each message and the number of
 * its updates.
 */
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

/** Parses the text of a message from {@link messagesOf}. */
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
