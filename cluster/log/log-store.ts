import { delay, errorMessage, inMilliseconds } from '#runtime';
import {
  type BackupReceipt,
  type EmbeddedStoreOptions,
  type HeldTables,
  openHeldTables,
  StoreError,
  type StreamStep,
  TableStore,
  type WriteStep,
} from '#store';
import { Appender } from './appender.ts';
import { LogCipher } from './cipher.ts';
import { encodeTransaction, type Transaction } from './entry.ts';
import { startingState } from './founding.ts';
import { LogEndWatch } from './log-end.ts';
import { type AcknowledgeRule, type MemberStatus, Members } from './members.ts';
import { type MessageListener, Messages } from './messages.ts';
import {
  type LogEntry,
  type LogHealth,
  LogUnavailableError,
  logWarnings,
  type TransactionLog,
} from './transaction-log.ts';
import { type AppliedEntry, digestOf, LogView } from './view.ts';

/** Options of {@link openLogStore}. */
export interface LogStoreOptions extends EmbeddedStoreOptions {
  /** Log that the store follows. When the store closes, it also closes the log. */
  readonly log: TransactionLog;
  /** Secret of at least 32 bytes that the members share. The servers of the log do not have it. */
  readonly secret: Uint8Array;
  /** Name of the cluster, the same for all members. */
  readonly cluster: string;
  /**
   * Name of this member. If another process opens the log with the same name, that process replaces
   * this process.
   */
  readonly member: string;
  /**
   * Rule for the number of members that must have applied a write before it is acknowledged.
   * Default: `second`.
   */
  readonly acknowledge?: AcknowledgeRule | undefined;
  /**
   * Behaviour while fewer members are running than `acknowledge` requires: `local` continues to
   * write, `refuse` rejects writes. Default: `local` while the cluster has one member, otherwise
   * `refuse`.
   */
  readonly whenAlone?: 'local' | 'refuse' | undefined;
  /** Function that is called once if the histories of the store and the log differ. */
  readonly onDiverged?: (error: StoreError) => void;
  /**
   * Maximum time that a write waits for the log and for other members, in milliseconds. Default:
   * 15,000.
   */
  readonly writeTimeoutMs?: number;
  /**
   * Time without a message after which a member is considered stopped, in milliseconds. Default:
   * 12,000.
   */
  readonly memberTimeoutMs?: number;
  /** Interval at which members report that they are running, in milliseconds. Default: 1,000. */
  readonly reportIntervalMs?: number;
  /** Interval at which the store is compared with the log, in milliseconds. Default: 5,000. */
  readonly checkIntervalMs?: number;
}

/** State of the cluster from the point of view of one member. */
interface LogStoreStatus {
  /** Identifier of the log. A log that replaces a lost one has another identifier. */
  readonly log: string;
  readonly position: number;
  /**
   * Running hash over all changes up to this position. It is equal for members with the same
   * content.
   */
  readonly hash: string;
  readonly members: readonly MemberStatus[];
  /** Whether fewer members are running than the option `acknowledge` requires. */
  readonly isAlone: boolean;
  /** Whether writes are rejected because too few members are running. */
  readonly refusesWrites: boolean;
  /**
   * Time since the log began to reject writes of this member, in milliseconds. 0 while writes
   * succeed.
   */
  readonly failingMs: number;
  /**
   * Number of entries that were ignored. An entry is ignored if it is a copy of an applied entry,
   * or belongs to an earlier session of a member.
   */
  readonly repeatedEntries: number;
  /** Number of entries that are not encrypted with a key of the cluster. They have no effect. */
  readonly foreignEntries: number;
  /** Last known state of the log. */
  readonly health: LogHealth;
  /** Warnings about the log's servers for the operator. */
  readonly warnings: readonly string[];
}

const maxOpenings = 5;
const maxEntriesPerTransaction = 256;
const maxEntriesAhead = 1024;
const retryMs = 250;

/**
 * Opens the store of a cluster member. Resolves when the store has applied all entries of the log.
 * @throws StoreError ERR_CLUSTER_LOG, ERR_CLUSTER_BEHIND, ERR_CLUSTER_SECRET, ERR_STORE_DIVERGED,
 * ERR_STORE_UNAVAILABLE, and the errors of an embedded store
 */
export async function openLogStore(options: LogStoreOptions): Promise<LogStore> {
  if (options.secret.length < 32) {
    throw new StoreError(
      'ERR_CLUSTER_SECRET',
      'the secret of a cluster must have at least 32 bytes',
    );
  }
  let fail: (error: StoreError) => void = () => {};
  const held = await openHeldTables({
    ...options,
    onFenced: (error) => {
      fail(error);
      options.onFenced?.(error);
    },
  });
  try {
    const cipher = new LogCipher(options.secret, options.cluster, 'entry');
    const state = await startingState(held.tables, options.log, cipher);
    const health = await options.log.health();
    const view = new LogView(held.tables, cipher, state);
    const store = new LogStore({ held, view, cipher, options, health });
    fail = (error) => store.fail(error);
    try {
      await store.start();
    } catch (error) {
      await store.close();
      throw error;
    }
    return store;
  } catch (error) {
    await held.tables.close();
    if (!(error instanceof LogUnavailableError)) throw error;
    throw new StoreError('ERR_STORE_UNAVAILABLE', `the log does not respond: ${error.message}`, {
      cause: error,
    });
  }
}

interface LogStoreDeps {
  readonly held: HeldTables;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly options: LogStoreOptions;
  readonly health: LogHealth;
}

/** Store of a cluster member. Each write is an entry of the log, which all members apply. */
export class LogStore extends TableStore {
  readonly #held: HeldTables;
  readonly #view: LogView;
  readonly #options: LogStoreOptions;
  readonly #writeTimeoutMs: number;
  readonly #appender: Appender;
  readonly #members: Members;
  readonly #messages: Messages;
  readonly #ending: AbortController;
  readonly #checker: NodeJS.Timeout;
  #health: LogHealth;
  readonly #end = new LogEndWatch();
  #failure: StoreError | undefined;
  #entries: LogEntry[] = [];
  #isApplying = false;
  #drained = (): void => {};
  #passed: { readonly position: number; readonly resolve: () => void }[] = [];
  #following: Promise<void> = Promise.resolve();
  #suspicions = 0;
  /** Whether this member has applied the log entry that announces its own session. */
  #hasOpened = false;

  constructor({ held, view, cipher, options, health }: LogStoreDeps) {
    const now = options.now ?? Date.now;
    const ending = new AbortController();
    const close = async (): Promise<void> => {
      ending.abort();
      clearInterval(this.#checker);
      this.#members.close();
      await this.#following;
      await held.tables.close();
      await options.log.close();
    };
    super({ ...held.tables, close }, () => Math.max(view.state.time, now()), false);
    this.#held = held;
    this.#view = view;
    this.#options = options;
    this.#health = health;
    this.#ending = ending;
    const { log, member, memberTimeoutMs = 12_000 } = options;
    this.#writeTimeoutMs = options.writeTimeoutMs ?? 15_000;
    this.#appender = new Appender({
      log,
      view,
      cipher,
      member,
      now,
      writeTimeoutMs: this.#writeTimeoutMs,
      onBehind: (position) => this.#failBehind(position),
    });
    const { session } = this.#appender;
    const link = (kind: 'announcement' | 'message') => {
      const cipher = new LogCipher(options.secret, options.cluster, kind);
      return { log, view, member, session, cipher };
    };
    this.#members = new Members({
      ...link('announcement'),
      acknowledge: options.acknowledge ?? 'second',
      whenAlone: options.whenAlone,
      now,
      memberTimeoutMs,
      reportIntervalMs: options.reportIntervalMs ?? 1000,
      onDiverged: (error) => this.fail(error),
    });
    this.#messages = new Messages({ ...link('message'), ending: ending.signal });
    const interval = options.checkIntervalMs ?? 5000;
    this.#checker = setInterval(() => void this.#check(), interval).unref();
  }

  get isFull(): boolean {
    return this.#held.isFull;
  }

  /** Time since this member was last known to have applied the whole log, in milliseconds. */
  get uncertainMs(): number {
    return this.#end.uncertainMs;
  }

  get status(): LogStoreStatus {
    const { log, position, hash } = this.#view.state;
    return {
      log,
      position,
      hash,
      members: this.#members.status(),
      isAlone: this.#members.isAlone,
      refusesWrites: this.#members.refusesWrites,
      failingMs: this.#appender.failingMs,
      repeatedEntries: this.#view.repeated,
      foreignEntries: this.#view.foreign,
      health: this.#health,
      warnings: logWarnings(this.#health),
    };
  }

  /**
   * Begins to follow the log, and appends an entry that announces the new session of this member.
   */
  async start(): Promise<void> {
    this.#following = this.#follow();
    const { member } = this.#options;
    // If another process opens the log with the same name at this moment, this entry has no effect.
    for (let tries = 0; tries < maxOpenings; tries += 1) {
      const at = performance.now();
      const { last } = await this.#options.log.health();
      await this.#applied(last);
      this.#end.note(last, at, last);
      await this.#applied(await this.#appender.append({ kind: 'open' }));
      if (this.#view.state.members[member]?.session === this.#appender.session) return;
    }
    throw new StoreError(
      'ERR_STORE_FENCED',
      `another process is running as member ${member} of the cluster`,
    );
  }

  /**
   * Sends a message to the other connected members. The message may be lost.
   * @throws StoreError ERR_STORE_TOO_LARGE
   */
  send(body: Uint8Array): void {
    this.assertUsable();
    this.#messages.send(body);
  }

  /** Registers a listener for the messages of other members. It is called once for each message. */
  onMessage(listener: MessageListener): void {
    this.#messages.onMessage(listener);
  }

  /** Waits until this store has applied all writes that members had made before this call. */
  async barrier(): Promise<void> {
    this.assertUsable();
    await this.#applied(await this.#appender.append({ kind: 'barrier' }));
  }

  /** Removes from the cluster a member that will not return. */
  async removeMember(name: string): Promise<void> {
    this.assertUsable();
    await this.#applied(await this.#appender.append({ kind: 'leave', member: name }));
  }

  /**
   * Creates a backup for restoring another member, and then trims the log. Trimming deletes the
   * entries that all running members have applied, if the second-latest backup already includes
   * them.
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL, ERR_CLUSTER_OUTCOME
   */
  backup(target: string): Promise<BackupReceipt> {
    return this.busy(async () => {
      const { position } = this.#view.state;
      const receipt = await this.#held.backup(target);
      await this.#applied(await this.#appender.append({ kind: 'snapshot', position }));
      await this.#trim();
      return { ...receipt, position };
    });
  }

  /**
   * Creates a temporary backup for a new member, without trimming the log.
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  handOver(target: string): Promise<BackupReceipt> {
    return this.busy(() => this.#held.backup(target));
  }

  /** Makes all pending and later operations of the store fail with this error. */
  fail(error: StoreError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#ending.abort();
    this.#members.close();
    this.#appender.fail(error);
    for (const { resolve } of this.#passed.splice(0)) resolve();
    if (error.code === 'ERR_STORE_DIVERGED') this.#options.onDiverged?.(error);
  }

  protected override assertUsable(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  protected override async commit(steps: readonly WriteStep[]): Promise<number> {
    return await this.#transact({ type: 'write', steps });
  }

  protected override async commitStreamStep(step: StreamStep): Promise<void> {
    await this.#transact({ type: 'stream', step });
  }

  #transact(transaction: Transaction): Promise<number> {
    if (this.isFull) {
      throw new StoreError('ERR_STORE_FULL', 'the disk of the store is full: nothing was written');
    }
    this.#members.assertEnough();
    return this.follow(this.#acknowledged(encodeTransaction(transaction)));
  }

  async #acknowledged(bytes: Buffer): Promise<number> {
    const { result, position } = await this.#appender.transaction(bytes);
    if ('error' in result) throw result.error;
    await this.#kept(position);
    return result.revision;
  }

  /**
   * Waits until enough members have applied the log up to a position.
   * @throws StoreError ERR_CLUSTER_OUTCOME
   */
  async #kept(position: number): Promise<void> {
    const kept = this.#members.keptAt(position).then(() => true);
    const isKept = await inMilliseconds(kept, this.#writeTimeoutMs);
    if (isKept !== true) {
      const message =
        'the write is stored on this member, but too few other members have confirmed it';
      throw new StoreError('ERR_CLUSTER_OUTCOME', message);
    }
    this.assertUsable();
  }

  /** Waits until the entry at a position is applied. */
  async #applied(position: number): Promise<void> {
    if (this.#view.state.position < position && this.#failure === undefined) {
      await new Promise<void>((resolve) => this.#passed.push({ position, resolve }));
    }
    this.assertUsable();
  }

  async #trim(): Promise<void> {
    const [behind, newest] = this.#view.state.snapshots;
    if (behind === undefined || newest === undefined) return;
    // The log must still contain the last entry that this member applied, because the next start
    // compares the store with it.
    const to = Math.min(behind, this.#members.lowestAlive()) - 1;
    if (to >= this.#health.first) await this.#options.log.trim(to);
    this.#health = await this.#options.log.health();
  }

  /** Reads entries of the log until the store closes. Reconnects if the connection is lost. */
  async #follow(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        for await (const entry of this.#options.log.read(this.#next(), signal)) {
          if (!this.#take(entry)) return;
          if (this.#entries.length < maxEntriesAhead) continue;
          await new Promise<void>((resolve) => {
            this.#drained = resolve;
          });
        }
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) {
          this.fail(unexpected(error));
          return;
        }
      }
      if (!signal.aborted) await delay(retryMs);
    }
  }

  #next(): number {
    return (this.#entries.at(-1)?.position ?? this.#view.state.position) + 1;
  }

  /**
   * Handles an entry that was read from the log.
   * @returns `false` if reading must stop, because entries are missing or the store has failed
   */
  #take(entry: LogEntry): boolean {
    const next = this.#next();
    if (this.#failure !== undefined) return false;
    if (entry.position < next) return true;
    if (entry.position > next) {
      const message = `entries ${next} to ${entry.position - 1} are missing in the log`;
      this.fail(new StoreError('ERR_STORE_DIVERGED', message));
      return false;
    }
    this.#entries.push(entry);
    void this.#apply();
    return true;
  }

  async #apply(): Promise<void> {
    if (this.#isApplying) return;
    this.#isApplying = true;
    while (this.#entries.length > 0 && this.#failure === undefined) {
      const batch = this.#entries.slice(0, maxEntriesPerTransaction);
      try {
        const applied = await this.#view.apply(batch);
        this.#entries.splice(0, batch.length);
        this.#notifyFollowers(applied);
      } catch (error) {
        if (!mayBeRetried(error)) this.fail(unexpected(error));
        // On a full disk, the entries are retried until there is free space.
        else if (this.#ending.signal.aborted) break;
        else await delay(retryMs);
      }
    }
    this.#isApplying = false;
    this.#drained();
  }

  #notifyFollowers(applied: readonly AppliedEntry[]): void {
    const { session } = this.#appender;
    for (const entry of applied) {
      this.publish(entry.changes);
      if (entry.session === session) {
        this.#hasOpened = true;
        this.#appender.settle(entry);
      }
      const { sender } = entry;
      if (sender === undefined) continue;
      if (sender.member === this.#options.member) this.#assertNotReplaced();
      else this.#members.compare(sender.member, sender.known);
    }
    if (this.#entries.length < maxEntriesAhead) this.#drained();
    const { position } = this.#view.state;
    this.#end.applied(position);
    this.#members.applied();
    this.#passed = this.#passed.filter((waiting) => {
      if (waiting.position > position) return true;
      waiting.resolve();
      return false;
    });
  }

  /**
   * Makes all operations of the store fail if another process has opened the log with this member's
   * name.
   */
  #assertNotReplaced(): void {
    const { member } = this.#options;
    const known = this.#view.state.members[member]?.session;
    if (!this.#hasOpened || known === undefined || known === this.#appender.session) return;
    const message = `another process has opened the log as member ${member}`;
    const error = new StoreError('ERR_STORE_FENCED', message);
    this.fail(error);
    this.#options.onFenced?.(error);
  }

  /**
   * Compares the last entry that this store has applied with the log. If the log has a different
   * entry at this position, the store fails with ERR_STORE_DIVERGED.
   */
  async #check(): Promise<void> {
    if (this.#failure !== undefined || this.#ending.signal.aborted) return;
    const { position, entry } = this.#view.state;
    const at = performance.now();
    try {
      this.#health = await this.#options.log.health();
      this.#noteEnd(at);
      const found = await this.#options.log.entry(position);
      if (found !== undefined && digestOf(found.bytes) !== entry) this.#failChanged(position);
      this.#suspicions = this.#health.last < position ? this.#suspicions + 1 : 0;
      // A server may report an outdated end of the log. The position of a newly appended entry is
      // reliable.
      if (this.#suspicions >= 2) await this.#appender.append({ kind: 'barrier' });
    } catch {
      // The next check retries.
    }
  }

  /**
   * Records the end of the log. A server may report an outdated end, so the positions that other
   * members have reported are considered too. If too few members are running, the end is unknown
   * and is not recorded.
   */
  #noteEnd(at: number): void {
    if (this.#members.refusesWrites) return;
    const position = Math.max(this.#health.last, this.#members.highest);
    this.#end.note(position, at, this.#view.state.position);
  }

  #failChanged(position: number): void {
    const message = `entry ${position} of the log differs from the one that this store has applied`;
    this.fail(new StoreError('ERR_STORE_DIVERGED', message));
  }

  #failBehind(position: number): void {
    const own = this.#view.state.position;
    const message = `this store is ahead of the log: the store has applied entry ${own}, but the log wrote a new entry at position ${position}`;
    this.fail(new StoreError('ERR_STORE_DIVERGED', message));
  }
}

function mayBeRetried(error: unknown): boolean {
  if (!(error instanceof StoreError)) return false;
  return error.code === 'ERR_STORE_FULL' || error.code === 'ERR_STORE_UNAVAILABLE';
}

function unexpected(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = errorMessage(error);
  return new StoreError('ERR_STORE_UNAVAILABLE', `cannot follow the log: ${message}`, {
    cause: error,
  });
}
