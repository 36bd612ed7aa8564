/**
 * Finds the end of the audit log when a master starts. It also finds the end after a crash, or
 * after another program has changed the files.
 */

import { stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { writeFileAtomically } from '#runtime';
import type { AuditHead, StoredHead } from '../api/index.ts';
import { auditFile, auditFiles, linesOf } from './audit-files.ts';
import { type AuditEntry, chainStart, readLine } from './audit-record.ts';

/** End of the audit log, where new records are appended. */
interface Continuation {
  /** Sequence number and hash that the next record continues from. */
  readonly head: AuditHead;
  /** File for the next records. */
  readonly file: string;
  /** Problems of the existing log, which are recorded as entries of the log. */
  readonly findings: readonly AuditEntry[];
}

interface Tail {
  /** Sequence number and hash of the last valid record, or `undefined` if there is none. */
  readonly head: AuditHead | undefined;
  /** Number of invalid lines after the last valid record. */
  readonly broken: number;
  /**
   * Incomplete line at the end of the file, with its length in bytes. `undefined` if the file ends
   * with a line feed.
   */
  readonly torn: { readonly text: string; readonly bytes: number } | undefined;
}

/**
 * Finds the end of a log, where new records are appended. An incomplete last line is moved to a
 * separate file. If records are missing or altered, the next record gets a higher number than the
 * last record that the store knows. The gap therefore stays visible.
 */
export async function findContinuation(
  directory: string,
  stored: StoredHead | undefined,
): Promise<Continuation> {
  const files = await auditFiles(directory);
  const findings: AuditEntry[] = [];
  for (const file of files.reverse()) {
    const { head, broken, torn } = await readTail(file);
    const next = (head ?? stored ?? chainStart).sequence + 1;
    if (torn !== undefined) findings.push(await putAside(file, torn, next));
    if (head === undefined && broken === 0) continue;
    return continueFrom({ directory, file, head: head ?? chainStart, broken, stored, findings });
  }
  const file = auditFile(directory, (stored?.sequence ?? 0) + 1);
  return continueFrom({ directory, file, head: chainStart, broken: 0, stored, findings });
}

function continueFrom({
  directory,
  file,
  head,
  broken,
  stored = { ...chainStart, first: 1 },
  findings,
}: {
  readonly directory: string;
  readonly file: string;
  readonly head: AuditHead;
  readonly broken: number;
  readonly stored: StoredHead | undefined;
  readonly findings: readonly AuditEntry[];
}): Continuation {
  const isSame = head.sequence > stored.sequence || head.hash === stored.hash;
  if (broken === 0 && isSame && head.sequence >= stored.sequence) return { head, file, findings };
  const sequence = Math.max(head.sequence + broken, stored.sequence);
  const detail =
    `the last valid record of the log is ${head.sequence}, and ${broken} altered lines follow it; ` +
    `according to the store, the last record is ${stored.sequence}`;
  return {
    head: { sequence, hash: head.hash },
    file: auditFile(directory, sequence + 1),
    findings: [...findings, finding('audit.mismatch', 'failed', detail)],
  };
}

/** Number of bytes at the end of a file that are searched first for the last record. */
const tailBytes = 1_048_576;

async function readTail(file: string): Promise<Tail> {
  const { size } = await stat(file);
  const start = Math.max(0, size - tailBytes);
  const tail = await readLines(file, start);
  return tail.head === undefined && start > 0 ? readLines(file, 0) : tail;
}

async function readLines(file: string, start: number): Promise<Tail> {
  let head: AuditHead | undefined;
  let broken = 0;
  let torn: Tail['torn'];
  for await (const { text, bytes, number, isWhole } of linesOf(file, start)) {
    const record = isWhole ? readLine(text) : undefined;
    if (record !== undefined) {
      head = { sequence: record.sequence, hash: record.hash };
      broken = 0;
    } else if (!isWhole) torn = { text, bytes };
    // A line that starts before `start` is incomplete, and is not counted.
    else if (number > 1 || start === 0) broken += 1;
  }
  return { head, broken, torn };
}

/**
 * Removes an incomplete line from the log. Saves the line to another file if the disk has free
 * space.
 */
async function putAside(
  file: string,
  { text, bytes }: NonNullable<Tail['torn']>,
  sequence: number,
): Promise<AuditEntry> {
  const aside = path.join(path.dirname(file), `torn-${sequence}.part`);
  const isKept = await writeFileAtomically(aside, text, 0o600).then(
    () => true,
    () => false,
  );
  await truncate(file, (await stat(file)).size - bytes);
  const where = isKept
    ? `the written part was moved to ${path.basename(aside)}`
    : 'the written part is lost';
  return finding('audit.torn', 'done', `the last record was written incompletely; ${where}`);
}

function finding(action: string, outcome: AuditEntry['outcome'], detail: string): AuditEntry {
  return { who: { kind: 'master', name: '' }, action, outcome, detail };
}
