import { setTimeout as pause } from 'node:timers/promises';
import { openHeldTables, StoreError } from '#store';
import { LogCipher } from './cipher.ts';
import { decodeEntry } from './entry.ts';
import { startingState } from './founding.ts';
import { type LogEntry, LogUnavailableError, type TransactionLog } from './transaction-log.ts';
import { LogView, readViewState } from './view.ts';

/**
 * Point at which a replay ends. If both a position and a time are given, the earlier point applies.
 * Default: the end of the log.
 */
export interface ReplayPoint {
  /** Position of the last entry to apply. */
  readonly position?: number;
  /** Time in milliseconds since 1970. Later entries are not applied. */
  readonly time?: number;
}

/** Options of {@link replayLog}. */
export interface ReplayOptions {
  /**
   * Directory of a store that was restored from a member's backup. No process may have the store
   * open.
   */
  readonly directory: string;
  /** Log to read. {@link replayLog} does not close the log. */
  readonly log: TransactionLog;
  readonly secret: Uint8Array;
  readonly cluster: string;
  readonly until: ReplayPoint;
}

/** Result of a replay. */
export interface ReplayReceipt {
  /** Position in the log at which the backup was made. */
  readonly from: number;
  /** Position of the last applied entry. */
  readonly to: number;
  /** Latest time of an applied entry, in milliseconds since 1970. */
  readonly time: number;
  /** Position of the end of the log. 0 if the log is empty. */
  readonly last: number;
}

const entriesPerStep = 256;
const retryMs = 250;
/** Maximum number of consecutive reads of the log that may fail or return nothing. */
const maxFailures = 40;

/**
 * Applies log entries to a store that was restored from a backup: the entries after the backup, up
 * to a point. An empty log changes nothing.
 * @throws StoreError ERR_STORE_BACKUP if the point is before the backup or after the end of the
 * log; ERR_CLUSTER_LOG if the backup is not from a member; ERR_CLUSTER_BEHIND, ERR_CLUSTER_SECRET,
 * ERR_STORE_DIVERGED, ERR_STORE_UNAVAILABLE
 */
export async function replayLog(options: ReplayOptions): Promise<ReplayReceipt> {
  const { directory, log, secret, cluster, until } = options;
  const { tables } = await openHeldTables({ directory });
  try {
    const known = readViewState(tables);
    if (known === undefined) {
      throw new StoreError('ERR_CLUSTER_LOG', 'the backup was not made by a member of a cluster');
    }
    const { first, last } = await log.health();
    const { position: from, time } = known;
    checkPoint(until, { from, time, last: Math.max(from, last) });
    if (last < first) return { from, to: from, time, last };
    const cipher = new LogCipher(secret, cluster, 'entry');
    const starting = await startingState(tables, log, cipher).catch((cause: unknown) => {
      if (!(cause instanceof StoreError && cause.code === 'ERR_CLUSTER_BEHIND')) throw cause;
      const message = `the log begins at position ${first}, but the backup ends at ${from}: use a later backup`;
      throw new StoreError('ERR_CLUSTER_BEHIND', message, { cause });
    });
    const view = new LogView(tables, cipher, starting);
    const { time: latest = Number.POSITIVE_INFINITY, position: end = last } = until;
    const isWanted = ({ bytes }: LogEntry): boolean => {
      const message = cipher.open(bytes);
      return message === undefined || decodeEntry(message.body).time <= latest;
    };
    await applyWhile(log, view, { end, isWanted });
    const { position: to, time: reached } = view.state;
    return { from, to, time: reached, last };
  } finally {
    await tables.close();
  }
}

/**
 * Checks that the point up to which the log is replayed is between the end of the backup and the
 * end of the log.
 * @throws StoreError ERR_STORE_BACKUP if it is not
 */
function checkPoint(
  until: ReplayPoint,
  { from, time, last }: { readonly from: number; readonly time: number; readonly last: number },
): void {
  const { position = last, time: latest = time } = until;
  if (position > last) {
    const message = `the log ends at position ${last}; it does not contain position ${position}`;
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  if (position >= from && latest >= time) return;
  throw new StoreError(
    'ERR_STORE_BACKUP',
    `the backup ends at position ${from}, written at ${new Date(time).toISOString()}: use an earlier backup for an earlier point`,
  );
}

interface Range {
  readonly end: number;
  readonly isWanted: (entry: LogEntry) => boolean;
}

/**
 * Applies entries of the log up to the position `end`. Stops earlier before the first entry for
 * which `isWanted` returns false. If the log is unavailable, tries again.
 * @throws StoreError ERR_STORE_UNAVAILABLE, ERR_STORE_DIVERGED
 */
async function applyWhile(
  log: TransactionLog,
  view: LogView,
  { end, isWanted }: Range,
): Promise<void> {
  for (let failures = 0; view.state.position < end; ) {
    const { position: before } = view.state;
    const stop = new AbortController();
    try {
      if (await applyEntries(log.read(before + 1, stop.signal), view, { end, isWanted })) return;
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error;
    } finally {
      stop.abort();
    }
    failures = view.state.position === before ? failures + 1 : 0;
    if (failures > maxFailures) {
      const message = `cannot read entry ${before + 1} of ${end} from the log`;
      throw new StoreError('ERR_STORE_UNAVAILABLE', message);
    }
    await pause(retryMs);
  }
}

/**
 * Applies a batch of entries.
 * @returns whether the last requested entry was applied
 */
async function applyEntries(
  entries: AsyncIterable<LogEntry>,
  view: LogView,
  { end, isWanted }: Range,
): Promise<boolean> {
  let batch: LogEntry[] = [];
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await view.apply(batch);
    batch = [];
  };
  for await (const entry of entries) {
    const next = view.state.position + batch.length + 1;
    if (entry.position < next) continue;
    if (entry.position > next) {
      const message = `entries ${next} to ${entry.position - 1} are missing in the log`;
      throw new StoreError('ERR_STORE_DIVERGED', message);
    }
    const isOver = !isWanted(entry);
    if (!isOver) batch.push(entry);
    if (isOver || entry.position >= end || batch.length >= entriesPerStep) await flush();
    if (isOver || entry.position >= end) return true;
  }
  await flush();
  return false;
}
