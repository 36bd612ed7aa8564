import { randomBytes } from 'node:crypto';
import { openHeldTables, type RowTables, revisionKey, StoreError, unpackNumber } from '#store';
import { LogCipher } from './cipher.ts';
import { decodeEntry, encodeEntry, type HistoryMark } from './entry.ts';
import type { LogEntry, TransactionLog } from './transaction-log.ts';
import { digestOf, readViewState, type ViewState, writeViewState } from './view.ts';

/** Options of {@link foundLog}. */
export interface FoundingOptions {
  /**
   * Directory of a store, whose content becomes the initial content of the cluster. Default: an
   * empty store.
   */
  readonly directory?: string;
  /** Log to which the first entry is appended. {@link foundLog} does not close the log. */
  readonly log: TransactionLog;
  readonly secret: Uint8Array;
  readonly cluster: string;
  /**
   * Whether to discard an existing log and begin a new one with this store. Choose the most
   * advanced store. Members whose store has the same content follow the new log; all others must
   * restore a backup. Default: `false`.
   */
  readonly replace?: boolean;
  readonly now?: () => number;
}

/**
 * Begins a log with the content of a store. No process may have the store open.
 * @throws StoreError ERR_CLUSTER_FOUNDED, and the errors of opening an embedded store
 */
export async function foundLog(options: FoundingOptions): Promise<void> {
  const { log, now = Date.now } = options;
  const { first, last } = await log.health();
  if (last >= first) {
    if (options.replace !== true) {
      throw new StoreError(
        'ERR_CLUSTER_FOUNDED',
        `the cluster log already contains entries ${first} to ${last}`,
      );
    }
    await log.trim(last);
  }
  const from = options.directory === undefined ? undefined : await markHistory(options.directory);
  const cipher = new LogCipher(options.secret, options.cluster, 'entry');
  const known = { log: newIdentity(), position: 0, hash: '' };
  const content = { kind: 'found' as const, ...(from === undefined ? {} : { from }) };
  const { bytes } = cipher.seal(encodeEntry({ member: '', time: now(), known, content }));
  await log.append(`founding-${known.log}`, bytes);
}

function newIdentity(): string {
  return randomBytes(16).toString('hex');
}

/**
 * Returns the history of an embedded store: the id of its log, the position of the last entry that
 * it has applied, and the hash at this position. If the store has never followed a log, first gives
 * it a new history with a random id. Returns `undefined` if the store is empty.
 */
async function markHistory(directory: string): Promise<HistoryMark | undefined> {
  const { tables } = await openHeldTables({ directory });
  try {
    const known = readViewState(tables);
    if (known === undefined && isEmpty(tables)) return undefined;
    const state = known ?? stateOf({ log: newIdentity(), position: 0, hash: '' }, '', 0);
    if (known === undefined) await tables.transaction(() => writeViewState(tables, state));
    const { log, position, hash } = state;
    return { log, position, hash };
  } finally {
    await tables.close();
  }
}

function isEmpty({ meta }: RowTables): boolean {
  return unpackNumber(meta.get(revisionKey)) === 0;
}

function stateOf(mark: HistoryMark, entry: string, time: number): ViewState {
  return { ...mark, entry, time, members: {}, departed: {}, snapshots: [] };
}

/**
 * Checks that a store can follow a log. Returns the state from which the store continues: its own
 * state, or the state after the first entry of the log.
 * @throws StoreError ERR_CLUSTER_LOG, ERR_CLUSTER_BEHIND, ERR_CLUSTER_SECRET, ERR_STORE_DIVERGED
 */
export async function startingState(
  tables: RowTables,
  log: TransactionLog,
  cipher: LogCipher,
): Promise<ViewState> {
  const { first, last } = await log.health();
  const state = readViewState(tables);
  if (last < first && state === undefined) {
    throw new StoreError(
      'ERR_CLUSTER_LOG',
      'the cluster log is empty: run saltbridge cluster init on the first member',
    );
  }
  if (state !== undefined && (await follows(state, log, { first, cipher }))) return state;
  const oldest = await log.entry(first);
  const adopted = oldest && adopt(oldest, { cipher, state, isEmpty: isEmpty(tables) });
  if (adopted !== undefined) return adopted;
  if (state === undefined || state.position + 1 < first) {
    const own =
      state === undefined ? 'applied no entry' : `applied only entries up to ${state.position}`;
    throw new StoreError(
      'ERR_CLUSTER_BEHIND',
      `the log begins with entry ${first}, but this store has ${own}: restore a backup of another member`,
    );
  }
  const where =
    state.position > last
      ? `this store is ahead of the log: the store has applied entry ${state.position}, but the log ends with entry ${last}`
      : `entry ${state.position} of the log differs from the one that this store has applied`;
  throw new StoreError('ERR_STORE_DIVERGED', where);
}

/**
 * Whether the entries that a store has applied are the beginning of this log. Compares the last
 * entry that the store has applied with the entry at the same position in the log.
 */
async function follows(
  state: ViewState,
  log: TransactionLog,
  { first, cipher }: { readonly first: number; readonly cipher: LogCipher },
): Promise<boolean> {
  const entry = await log.entry(state.position);
  if (entry !== undefined) {
    const isOpened = cipher.open(entry.bytes) !== undefined;
    if (digestOf(entry.bytes) !== state.entry) return false;
    return isOpened || refuseSecret(entry.position);
  }
  const next = await log.entry(first);
  if (state.position === 0 || state.position + 1 !== first || next === undefined) return false;
  const message = cipher.open(next.bytes) ?? refuseSecret(first);
  return decodeEntry(message.body).known.log === state.log;
}

interface AdoptContext {
  readonly cipher: LogCipher;
  readonly state: ViewState | undefined;
  readonly isEmpty: boolean;
}

/**
 * Returns the state with which a store begins to follow a new log, after the first entry of the
 * log. This entry names the history that the log continues, and the end of that history. Returns
 * `undefined` if it is not the history of this store.
 * @throws StoreError ERR_CLUSTER_SECRET
 */
function adopt(
  { position, bytes }: LogEntry,
  { cipher, state, isEmpty: hasNothing }: AdoptContext,
): ViewState | undefined {
  const message = cipher.open(bytes) ?? refuseSecret(position);
  const { known, content, time } = decodeEntry(message.body);
  if (content.kind !== 'found') return undefined;
  const { from } = content;
  const isSame =
    from === undefined
      ? state === undefined && hasNothing
      : state?.log === from.log && state.position === from.position && state.hash === from.hash;
  if (!isSame) return undefined;
  const mark = { log: known.log, position, hash: digestOf(bytes) };
  return stateOf(mark, digestOf(bytes), Math.max(time, state?.time ?? 0));
}

function refuseSecret(position: number): never {
  throw new StoreError(
    'ERR_CLUSTER_SECRET',
    `entry ${position} of the log cannot be decrypted with this secret and cluster name`,
  );
}
