import { setTimeout as pause } from 'node:timers/promises';
import { openHeldTables, StoreError } from '#store';
import { LogCipher } from './cipher.ts';
import { decodeEntry } from './entry.ts';
import { startingState } from './founding.ts';
import { type LogEntry, LogUnavailableError, type TransactionLog } from './transaction-log.ts';
import { LogView, readViewState } from './view.ts';

/** Up to where a log is replayed; both: whichever comes first. Default: to its end. */
export interface ReplayPoint {
  /** Of the last entry that is applied. */
  readonly position?: number;
  /** Entries that were written later are not applied, milliseconds since 1970. */
  readonly time?: number;
}

/** What is replayed, and onto what. */
export interface ReplayOptions {
  /** Of a backup of a member that was restored; no process has it open. */
  readonly directory: string;
  /** Stays open. */
  readonly log: TransactionLog;
  readonly secret: Uint8Array;
  readonly cluster: string;
  readonly until: ReplayPoint;
}

/** How far a store has come. */
export interface ReplayReceipt {
  /** Position of the backup. */
  readonly from: number;
  /** Position of the last entry that it has now. */
  readonly to: number;
  /** The latest time that an entry up to there carried, milliseconds since 1970. */
  readonly time: number;
  /** Position of the end of the log; 0 for a log that has nothing. */
  readonly last: number;
}

const entriesPerStep = 256;
const retryMs = 250;
/** So many times the log may fail, or give nothing, one after the other. */
const maxFailures = 40;

/**
 * Applies what a log has after a backup, up to a point. A log that has nothing leaves it as it is.
 * @throws StoreError ERR_STORE_BACKUP for a point that the backup is behind of, or that the log does
 * not reach; ERR_CLUSTER_LOG for no backup of a member, ERR_CLUSTER_BEHIND, ERR_CLUSTER_SECRET,
 * ERR_STORE_DIVERGED, ERR_STORE_UNAVAILABLE
 */
export async function replayLog(options: ReplayOptions): Promise<ReplayReceipt> {
  const { directory, log, secret, cluster, until } = options;
  const { tables } = await openHeldTables({ directory });
  try {
    const known = readViewState(tables);
    if (known === undefined) {
      throw new StoreError('ERR_CLUSTER_LOG', 'the backup is not one of a member of a cluster');
    }
    const { first, last } = await log.health();
    const { position: from, time } = known;
    checkPoint(until, { from, time, last: Math.max(from, last) });
    if (last < first) return { from, to: from, time, last };
    const cipher = new LogCipher(secret, cluster, 'entry');
    const starting = await startingState(tables, log, cipher).catch((cause: unknown) => {
      if (!(cause instanceof StoreError && cause.code === 'ERR_CLUSTER_BEHIND')) throw cause;
      const message = `the log begins with position ${first}, and the backup ends with ${from}: take a later one`;
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

/** @throws StoreError ERR_STORE_BACKUP */
function checkPoint(
  until: ReplayPoint,
  { from, time, last }: { readonly from: number; readonly time: number; readonly last: number },
): void {
  const { position = last, time: latest = time } = until;
  if (position > last) {
    const message = `the log ends with position ${last}; position ${position} is not in it`;
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  if (position >= from && latest >= time) return;
  throw new StoreError(
    'ERR_STORE_BACKUP',
    `the backup has all up to position ${from}, written until ${new Date(time).toISOString()}: take an earlier one for an earlier point`,
  );
}

interface Range {
  readonly end: number;
  readonly isWanted: (entry: LogEntry) => boolean;
}

/** @throws StoreError ERR_STORE_UNAVAILABLE, ERR_STORE_DIVERGED */
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
      const message = `the log gives no entry ${before + 1} of ${end}`;
      throw new StoreError('ERR_STORE_UNAVAILABLE', message);
    }
    await pause(retryMs);
  }
}

/** @returns whether the last one that is wanted was applied */
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
