/** Records of the audit log and their hash chain. */

import { hash } from 'node:crypto';
import Type from 'typebox';
import { compileSchema, tryParseJson } from '#runtime';
import type { AuditActor, AuditHead } from '../api/index.ts';

/** Outcome of an audited action. */
type AuditOutcome = 'done' | 'failed' | 'permitted' | 'denied' | 'expired';

/**
 * Content of an audit record. It contains no secrets, because arguments are stored only as a
 * digest.
 */
export interface AuditEntry {
  readonly who: AuditActor;
  /**
   * Name of the action: `job.publish`, `runner.run`, `wheel.run`, `key.accept`, `signal`,
   * `policy.reload`, `login`, …
   */
  readonly action: string;
  /** Function, tag, option or pattern that the action concerns. */
  readonly what?: string;
  /** Digest of the arguments, made by {@link AuditTrail.digest}. */
  readonly arguments?: string;
  /** Target as requested: type and expression. */
  readonly target?: string;
  /** Ids of the minions that the target matched, at most {@link maxNamed} of them. */
  readonly on?: readonly string[];
  /**
   * Total number of minions that the target matched. Present only if the list `on` does not contain
   * all of them.
   */
  readonly onCount?: number;
  /** Name of the rule that decided about the action. */
  readonly rule?: string;
  readonly outcome: AuditOutcome;
  readonly jid?: string;
  /** Number of repetitions since the previous record with the same content. */
  readonly count?: number;
  /** Explanation for operators, in one sentence. */
  readonly detail?: string;
}

/** Record of the log, which is stored as one line. */
export interface AuditRecord extends AuditEntry {
  /** Sequence number: 1, 2, 3, … A missing number means that a record is missing. */
  readonly sequence: number;
  /** Time by the master's clock, in ISO 8601. */
  readonly time: string;
  /** `hash` of the previous record. For the first record, zeros. */
  readonly previous: string;
  /** SHA-256 of the record's line without this field, in hexadecimal. */
  readonly hash: string;
}

/** Interface for appending audit entries. */
export interface AuditTrail {
  /**
   * Appends an entry. Never throws. Does not wait until the entry is written. `docs/audit.md`
   * describes when a record is durable.
   */
  append(entry: AuditEntry): void;
  /**
   * Returns a digest of arguments, keyed with a secret of this master. With digests, calls can be
   * compared. Readers of the log cannot find out short secrets by guessing, because they do not
   * have the key. Large values are processed in steps.
   */
  digest(value: unknown): Promise<string>;
}

/** Audit trail that discards all entries. */
export const noAudit: AuditTrail = { append: () => {}, digest: async () => '' };

/** Sequence number and hash that the first record of a log continues from. */
export const chainStart: AuditHead = { sequence: 0, hash: '0'.repeat(64) };

const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' });
const Count = Type.Integer({ minimum: 1 });
const Text = Type.Optional(Type.String());
const Line = compileSchema(
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

/**
 * Returns the line of a new record, without its line feed, and the record's sequence number and
 * hash.
 */
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

/** Parses a line as a record. Returns `undefined` if the line is invalid or was altered. */
export function readLine(line: string): AuditRecord | undefined {
  const [, content, hash] = /^(\{.*),"hash":"([0-9a-f]{64})"\}$/s.exec(line) ?? [];
  if (content === undefined || hashOf(content) !== hash) return undefined;
  const value = tryParseJson(line);
  // The schema does not check the values of two union types. The hash ensures that they are valid.
  return Line.Check(value) ? (value as AuditRecord) : undefined;
}

function hashOf(text: string): string {
  return hash('sha256', text);
}

/** Maximum number of ids in one record. */
const maxNamed = 100;
const maxText = 512;

/**
 * Returns the fields `on` and `onCount` of an audit record for these ids. If there are more than
 * {@link maxNamed}, `on` contains the first ones, and `onCount` is their total number.
 */
export function named(ids: readonly string[]): Pick<AuditEntry, 'on' | 'onCount'> {
  if (ids.length <= maxNamed) return { on: ids };
  return { on: ids.slice(0, maxNamed), onCount: ids.length };
}

/**
 * Returns the entry with its texts truncated to their maximum length, and with its fields in the
 * order of the log.
 */
function bounded(entry: AuditEntry): AuditEntry {
  const { who, action, what, target, on, onCount, rule, outcome, jid, count, detail } = entry;
  const { eauth } = who;
  return {
    who: {
      kind: who.kind,
      name: clip(who.name),
      ...(eauth === undefined ? {} : { eauth: clip(eauth) }),
    },
    action,
    ...(what === undefined ? {} : { what: clip(what) }),
    ...(entry.arguments === undefined ? {} : { arguments: entry.arguments }),
    ...(target === undefined ? {} : { target: clip(target) }),
    ...(on === undefined ? {} : { on: on.slice(0, maxNamed).map(clip) }),
    ...(onCount === undefined ? {} : { onCount }),
    ...(rule === undefined ? {} : { rule: clip(rule) }),
    outcome,
    ...(jid === undefined ? {} : { jid: clip(jid) }),
    ...(count === undefined ? {} : { count }),
    ...(detail === undefined ? {} : { detail: clip(detail) }),
  };
}

function clip(text: string): string {
  return text.length <= maxText ? text : `${text.slice(0, maxText)}… (${text.length} characters)`;
}
