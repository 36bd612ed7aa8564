import type { KeyedChange } from './change-feed.ts';
import { StoreError } from './errors.ts';
import { encodeKey, encodePrefix, endOfPrefix } from './key-bytes.ts';
import {
  type EntryRecord,
  packEntry,
  packExpiry,
  packNumber,
  packRecord,
  packRecordKey,
  revisionKey,
  setRevision,
  unpackEntry,
  unpackNumber,
} from './row-layout.ts';
import type { Operation } from './store.ts';
import { streamHeadKey } from './table-stream.ts';
import type { RowTables } from './tables.ts';

const emptyBuffer = Buffer.alloc(0);

/** An {@link Operation} with an encoded key and a copied value. */
export type WriteStep =
  | {
      readonly op: 'put';
      readonly key: Buffer;
      /** Row of the entry. Its revision is not set yet. */
      readonly row: Buffer;
      readonly expiresAt: number;
      readonly ifRevision: number | undefined;
    }
  | { readonly op: 'delete'; readonly key: Buffer; readonly ifRevision: number | undefined }
  | { readonly op: 'require'; readonly key: Buffer; readonly ifRevision: number }
  | { readonly op: 'delete-prefix'; readonly prefix: Buffer }
  | { readonly op: 'append'; readonly stream: string; readonly value: Buffer };

/** Revision and time of the write to which a step belongs. */
interface WriteContext {
  readonly revision: number;
  /** Time of the write, in milliseconds since 1970. */
  readonly now: number;
}

/**
 * Copies and encodes an operation, so that it does not depend on the caller's memory.
 * @throws StoreError ERR_KEY
 */
export function prepareStep(operation: Operation): WriteStep {
  switch (operation.op) {
    case 'put': {
      const { key, value, expiresAt = Number.POSITIVE_INFINITY, ifRevision } = operation;
      const row = packEntry(value, expiresAt);
      return { op: 'put', key: encodeKey(key), row, expiresAt, ifRevision };
    }
    case 'delete':
      return { op: 'delete', key: encodeKey(operation.key), ifRevision: operation.ifRevision };
    case 'require':
      return { op: 'require', key: encodeKey(operation.key), ifRevision: operation.ifRevision };
    case 'delete-prefix':
      return { op: 'delete-prefix', prefix: encodePrefix(operation.prefix) };
    case 'append':
      streamHeadKey(operation.stream);
      return { op: 'append', stream: operation.stream, value: Buffer.from(operation.value) };
  }
}

/**
 * Checks the conditions of all steps.
 * @throws StoreError ERR_REVISION
 */
function checkConditions(tables: RowTables, steps: readonly WriteStep[], now: number): void {
  for (const step of steps) {
    if (step.op === 'delete-prefix' || step.op === 'append') continue;
    if (step.ifRevision === undefined) continue;
    const record = find(tables, step.key);
    const revision = record === undefined || record.expiresAt <= now ? 0 : record.revision;
    if (revision !== step.ifRevision) {
      throw new StoreError(
        'ERR_REVISION',
        `the entry has revision ${revision}, but the write requires ${step.ifRevision}`,
      );
    }
  }
}

/** Result of {@link applyWrite}: the revision of the write, and the changes for watchers. */
export interface AppliedWrite {
  readonly revision: number;
  readonly changes: readonly KeyedChange[];
}

/**
 * Applies the steps of a write inside a transaction, if all its conditions are met.
 * @param now - milliseconds since 1970
 * @throws StoreError ERR_REVISION, before anything is written
 */
export function applyWrite(
  tables: RowTables,
  steps: readonly WriteStep[],
  now: number,
): AppliedWrite {
  checkConditions(tables, steps, now);
  const revision = unpackNumber(tables.meta.get(revisionKey)) + 1;
  tables.meta.put(revisionKey, packNumber(revision));
  return { revision, changes: applySteps(tables, steps, { revision, now }) };
}

/** Applies the steps in order and returns the changes. */
function applySteps(
  tables: RowTables,
  steps: readonly WriteStep[],
  context: WriteContext,
): KeyedChange[] {
  return steps.flatMap((step) => applyStep(tables, step, context));
}

function applyStep(tables: RowTables, step: WriteStep, context: WriteContext): KeyedChange[] {
  switch (step.op) {
    case 'put':
      return [put(tables, step, context)];
    case 'delete':
      return remove(tables, step.key, context);
    case 'require':
      return [];
    case 'delete-prefix':
      return removePrefix(tables, step.prefix, context);
    case 'append':
      append(tables, step, context);
      return [];
  }
}

function put(
  tables: RowTables,
  { key, row, expiresAt }: WriteStep & { readonly op: 'put' },
  { revision }: WriteContext,
): KeyedChange {
  const previous = find(tables, key);
  if (previous !== undefined) forgetExpiry(tables, key, previous);
  setRevision(row, revision);
  tables.entries.put(key, row);
  if (expiresAt !== Number.POSITIVE_INFINITY)
    tables.expiries.put(packExpiry(expiresAt, key), emptyBuffer);
  return { type: 'put', key, row };
}

function remove(tables: RowTables, key: Buffer, context: WriteContext): KeyedChange[] {
  const record = find(tables, key);
  if (record === undefined) return [];
  tables.entries.remove(key);
  forgetExpiry(tables, key, record);
  if (record.expiresAt <= context.now) return [];
  return [{ type: 'delete', key, revision: context.revision }];
}

function removePrefix(tables: RowTables, prefix: Buffer, context: WriteContext): KeyedChange[] {
  const rows = tables.entries.range({ from: prefix, to: endOfPrefix(prefix) });
  return rows.flatMap(({ key }) => remove(tables, key, context));
}

function append(
  tables: RowTables,
  step: WriteStep & { readonly op: 'append' },
  { now }: WriteContext,
): void {
  const headKey = streamHeadKey(step.stream);
  const sequence = unpackNumber(tables.meta.get(headKey)) + 1;
  tables.meta.put(headKey, packNumber(sequence));
  const recordKey = packRecordKey(encodeKey([step.stream]), sequence);
  tables.records.put(recordKey, packRecord(now, step.value));
}

function find(tables: RowTables, key: Buffer): EntryRecord | undefined {
  const record = tables.entries.get(key);
  return record === undefined ? undefined : unpackEntry(record);
}

function forgetExpiry(tables: RowTables, key: Buffer, record: EntryRecord): void {
  if (record.expiresAt === Number.POSITIVE_INFINITY) return;
  tables.expiries.remove(packExpiry(record.expiresAt, key));
}
