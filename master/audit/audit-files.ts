/** Files of the audit log, each named by the sequence of its first record. */

import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import Type from 'typebox';
import { isMissing } from '#runtime';
import { defineRow, type Key, type RowCodec, type Store } from '#store';
import type { AuditRequester, StoredHead } from '../api/index.ts';

const form = /^audit-(\d{12})\.log$/;

/** Where a master's audit log lies. */
export function auditDirectory({ stateDir }: { readonly stateDir: string }): string {
  return `${stateDir}/audit`;
}

/** The file whose first record has this sequence. */
export function auditFile(directory: string, sequence: number): string {
  return path.join(directory, `audit-${String(sequence).padStart(12, '0')}.log`);
}

/** The sequence that a file begins with. */
export function firstSequence(file: string): number {
  return Number(form.exec(path.basename(file))?.[1] ?? 0);
}

/** Every file of a log, the oldest first; none if there is no such folder. */
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

/** A line of a file. */
export interface FileLine {
  readonly text: string;
  /** Bytes of it, without its end. */
  readonly bytes: number;
  /** 1 is the first. */
  readonly number: number;
  /** Whether it has its end: the last one may be torn. */
  readonly isWhole: boolean;
}

const lineFeed = 0x0a;

/**
 * The lines of a file; only a line feed ends one, whatever else a text holds.
 * @param start - byte to begin at. Default: the first
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

/** The row of the last record of the log. */
const headRow: RowCodec<StoredHead> = defineRow({
  name: 'head of the audit log',
  schema: Type.Object({ sequence: Type.Number(), first: Type.Number(), hash: Type.String() }),
  unversioned: (bytes) => {
    const [sequence, first, hash = ''] = Buffer.from(bytes).toString().split(' ');
    return { sequence: Number(sequence), first: Number(first), hash };
  },
});

/** @param prefix - of a member of a cluster. @returns `undefined`: there was none */
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

/** @param user - what somebody at the local interface calls themselves; nobody vouches for it */
export function auditOf(by: AuditRequester | undefined, user: string): AuditRequester {
  return by ?? { who: { kind: 'local', name: user }, rule: 'local-interface' };
}
