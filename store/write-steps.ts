import type { KeyedChange } from './change-feed.ts';
import { StoreError } from './errors.ts';
import { encodeKey, encodePrefix, endOfPrefix } from './key.ts';
import {
  type EntryRecord,
  packEntry,
  packExpiry,
  packNumber,
  packRecord,
  packRecordKey,
  setRevision,
  unpackEntry,
  unpackNumber,
} from './row-format.ts';
import type { Operation } from './store.ts';
import { streamHeadKey } from './table-stream.ts';
import type { Tables } from './tables.ts';

const none = Buffer.alloc(0);

/** An {@link Operation} with its key encoded and its value copied. */
export type Step =
  | {
      readonly op: 'put';
      readonly key: Buffer;
      /** But for its revision. */
      readonly row: Buffer;
      readonly expiresAt: number;
      readonly ifRevision: number | undefined;
    }
  | { readonly op: 'delete'; readonly key: Buffer; readonly ifRevision: number | undefined }
  | { readonly op: 'delete-prefix'; readonly prefix: Buffer }
  | { readonly op: 'append'; readonly stream: string; readonly value: Buffer };

/** The write that steps belong to. */
export interface WriteContext {
  readonly revision: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Makes an operation independent of the caller's memory.
 * @throws StoreError ERR_KEY
 */
export function prepareStep(operation: Operation): Step {
  switch (operation.op) {
    case 'put': {
      const { key, value, expiresAt = Number.POSITIVE_INFINITY, ifRevision } = operation;
      const row = packEntry(value, expiresAt);
      return { op: 'put', key: encodeKey(key), row, expiresAt, ifRevision };
    }
    case 'delete':
      return { op: 'delete', key: encodeKey(operation.key), ifRevision: operation.ifRevision };
    case 'delete-prefix':
      return { op: 'delete-prefix', prefix: encodePrefix(operation.prefix) };
    case 'append':
      streamHeadKey(operation.stream);
      return { op: 'append', stream: operation.stream, value: Buffer.from(operation.value) };
  }
}

/** @throws StoreError ERR_REVISION */
export function checkConditions(tables: Tables, steps: readonly Step[], now: number): void {
  for (const step of steps) {
    if (step.op !== 'put' && step.op !== 'delete') continue;
    if (step.ifRevision === undefined) continue;
    const record = find(tables, step.key);
    const revision = record === undefined || record.expiresAt <= now ? 0 : record.revision;
    if (revision !== step.ifRevision) {
      throw new StoreError(
        'ERR_REVISION',
        `the entry has revision ${revision}, the write is for ${step.ifRevision}`,
      );
    }
  }
}

/** Does the steps in their order, and tells what changed. */
export function applySteps(
  tables: Tables,
  steps: readonly Step[],
  context: WriteContext,
): KeyedChange[] {
  return steps.flatMap((step) => applyStep(tables, step, context));
}

function applyStep(tables: Tables, step: Step, context: WriteContext): KeyedChange[] {
  switch (step.op) {
    case 'put':
      return [put(tables, step, context)];
    case 'delete':
      return remove(tables, step.key, context);
    case 'delete-prefix':
      return removePrefix(tables, step.prefix, context);
    case 'append':
      append(tables, step, context);
      return [];
  }
}

function put(
  tables: Tables,
  { key, row, expiresAt }: Step & { readonly op: 'put' },
  { revision }: WriteContext,
): KeyedChange {
  const previous = find(tables, key);
  if (previous !== undefined) forgetExpiry(tables, key, previous);
  setRevision(row, revision);
  tables.entries.put(key, row);
  if (expiresAt !== Number.POSITIVE_INFINITY) tables.expiries.put(packExpiry(expiresAt, key), none);
  return { type: 'put', key, row };
}

function remove(tables: Tables, key: Buffer, context: WriteContext): KeyedChange[] {
  const record = find(tables, key);
  if (record === undefined) return [];
  tables.entries.remove(key);
  forgetExpiry(tables, key, record);
  if (record.expiresAt <= context.now) return [];
  return [{ type: 'delete', key, revision: context.revision }];
}

function removePrefix(tables: Tables, prefix: Buffer, context: WriteContext): KeyedChange[] {
  const rows = tables.entries.range({ from: prefix, to: endOfPrefix(prefix) });
  return rows.flatMap(({ key }) => remove(tables, key, context));
}

function append(
  tables: Tables,
  step: Step & { readonly op: 'append' },
  { now }: WriteContext,
): void {
  const headKey = streamHeadKey(step.stream);
  const sequence = unpackNumber(tables.meta.get(headKey)) + 1;
  tables.meta.put(headKey, packNumber(sequence));
  const recordKey = packRecordKey(encodeKey([step.stream]), sequence);
  tables.records.put(recordKey, packRecord(now, step.value));
}

function find(tables: Tables, key: Buffer): EntryRecord | undefined {
  const record = tables.entries.get(key);
  return record === undefined ? undefined : unpackEntry(record);
}

function forgetExpiry(tables: Tables, key: Buffer, record: EntryRecord): void {
  if (record.expiresAt === Number.POSITIVE_INFINITY) return;
  tables.expiries.remove(packExpiry(record.expiresAt, key));
}
