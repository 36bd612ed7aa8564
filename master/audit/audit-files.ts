/**
 * Names and reads the files of the audit log. The name of a file contains the sequence number of
 * its first record.
 */

import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import Type from 'typebox';
import { isMissing } from '#runtime';
import { defineRow, type Key, type RowCodec, type Store } from '#store';
import type { AuditRequester, StoredHead } from '../api/index.ts';

const form = /^audit-(\d{12})\.log$/;

/** Returns the directory of a master's audit log. */
export function auditDirectory({ stateDir }: { readonly stateDir: string }): string {
  return `${stateDir}/audit`;
}

/** Returns the path of the file that begins with the record of this sequence number. */
export function auditFile(directory: string, sequence: number): string {
  return path.join(directory, `audit-${String(sequence).padStart(12, '0')}.log`);
}

/** Returns the sequence number of a file's first record. */
export function firstSequence(file: string): number {
  return Number(form.exec(path.basename(file))?.[1] ?? 0);
}

/** Returns the files of a log, oldest first. Empty if the directory does not exist. */
export async function auditFiles(directory: string): Promise<string[]> {
  try {
    const names = await readdir(directory);
    return names
      .filter((name) => form.test(name))
      .sort()
      .map((name) => path.join(directory, name));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** A line of an audit file. */
export interface FileLine {
  readonly text: string;
  /** Length in bytes, without the line feed. */
  readonly bytes: number;
  /** Line number, starting at 1. */
  readonly number: number;
  /** Whether the line ends with a line feed. The last line of a file may be incomplete. */
  readonly isWhole: boolean;
}

const lineFeed = 0x0a;

/**
 * Yields the lines of a file. Only a line feed ends a line.
 * @param start - offset of the first byte. Default: 0
 */
export async function* linesOf(file: string, start = 0): AsyncGenerator<FileLine, void, void> {
  let rest: Buffer[] = [];
  let number = 0;
  const line = (last: Buffer, isWhole: boolean): FileLine => {
    const bytes = Buffer.concat([...rest, last]);
    rest = [];
    number += 1;
    return { text: bytes.toString(), bytes: bytes.length, number, isWhole };
  };
  for await (const chunk of createReadStream(file, { start })) {
    const bytes = Buffer.from(chunk);
    let begin = 0;
    for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, begin)) {
      yield line(bytes.subarray(begin, end), true);
      begin = end + 1;
    }
    if (begin < bytes.length) rest.push(bytes.subarray(begin));
  }
  if (rest.length > 0) yield line(Buffer.alloc(0), false);
}

const key = ['audit', 'head'] as const;

/** Codec of the store row with the sequence number and hash of the log's last record. */
const headRow: RowCodec<StoredHead> = defineRow({
  name: 'head of the audit log',
  schema: Type.Object({ sequence: Type.Number(), first: Type.Number(), hash: Type.String() }),
  unversioned: (bytes) => {
    const [sequence, first, hash = ''] = Buffer.from(bytes).toString().split(' ');
    return { sequence: Number(sequence), first: Number(first), hash };
  },
});

/**
 * Reads the sequence number and hash of a log's last record from the store.
 * @param prefix - key prefix of the cluster member that owns the log. Default: no prefix
 * @returns `undefined` if the store does not contain them
 */
export async function readHead(
  store: Pick<Store, 'get'>,
  prefix: Key = [],
): Promise<StoredHead | undefined> {
  const entry = await store.get([...prefix, ...key]);
  return entry && headRow.decode(entry);
}

export async function writeHead(store: Store, head: StoredHead): Promise<void> {
  await store.write([{ op: 'put', key, value: headRow.encode(head) }]);
}

/**
 * Returns `by`, or a requester of the local interface if `by` is `undefined`.
 * @param user - name that a client of the local interface states. It is not verified
 */
export function auditOf(by: AuditRequester | undefined, user: string): AuditRequester {
  return by ?? { who: { kind: 'local', name: user }, rule: 'local-interface' };
}
