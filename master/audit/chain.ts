/**
 * The chain of the audit log: each line holds the hash of the one before and its own, which is made
 * of the line's very bytes. Nothing has to be written again to be checked.
 */
import { createHash } from 'node:crypto';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { type AuditEntry, type AuditRecord, bounded } from './record.ts';

/** The last record of a log. */
export interface AuditHead {
  readonly sequence: number;
  readonly hash: string;
}

/** Before the first record. */
export const chainStart: AuditHead = { sequence: 0, hash: '0'.repeat(64) };

const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' });
const Count = Type.Integer({ minimum: 1 });
const Text = Type.Optional(Type.String());
const Line = Compile(
  Type.Object({
    sequence: Count,
    time: Type.String(),
    who: Type.Object({ kind: Type.String(), name: Type.String(), eauth: Text }),
    action: Type.String(),
    what: Text,
    arguments: Text,
    target: Text,
    on: Type.Optional(Type.Array(Type.String())),
    onCount: Type.Optional(Count),
    rule: Text,
    outcome: Type.String(),
    jid: Text,
    count: Type.Optional(Count),
    detail: Text,
    previous: Hash,
    hash: Hash,
  }),
);

/** A line, without its end, and the head that it makes. */
export function linkEntry(
  entry: AuditEntry,
  { sequence: before, hash: previous }: AuditHead,
  time: number,
): { readonly line: string; readonly head: AuditHead } {
  const sequence = before + 1;
  const record = {
    sequence,
    time: new Date(time).toISOString(),
    ...bounded(entry),
    previous,
  };
  const content = JSON.stringify(record).slice(0, -1);
  const hash = hashOf(content);
  return { line: `${content},"hash":"${hash}"}`, head: { sequence, hash } };
}

/** The record of a line; `undefined` if it is none, or not as it was written. */
export function readLine(line: string): AuditRecord | undefined {
  const [, content, hash] = /^(\{.*),"hash":"([0-9a-f]{64})"\}$/s.exec(line) ?? [];
  if (content === undefined || hashOf(content) !== hash) return undefined;
  const value = parse(line);
  // The check has looked at every field but the words of two unions, which the hash vouches for.
  return Line.Check(value) ? (value as AuditRecord) : undefined;
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
