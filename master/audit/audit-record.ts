/** Records of the audit log and their hash chain. */

import { createHash } from 'node:crypto';
import Type from 'typebox';
import { compileSchema } from '#runtime';
import type { AuditActor, AuditHead } from '../api/index.ts';

/** What became of it. */
type AuditOutcome = 'done' | 'failed' | 'permitted' | 'denied' | 'expired';

/** What somebody hands to the log. Nothing of it is a secret: arguments come as a digest. */
export interface AuditEntry {
  readonly who: AuditActor;
  /** `job.publish`, `runner.run`, `wheel.run`, `key.accept`, `signal`, `policy.reload`, `login`, … */
  readonly action: string;
  /** Function, tag, option or pattern. */
  readonly what?: string;
  /** See {@link AuditTrail.digest}. */
  readonly arguments?: string;
  /** Whom it was for, as it was asked: type and expression of a target. */
  readonly target?: string;
  /** Whom that meant, at most {@link maxNamed} of them. */
  readonly on?: readonly string[];
  /** How many that were, where there are more. */
  readonly onCount?: number;
  /** Name of the rule that decided. */
  readonly rule?: string;
  readonly outcome: AuditOutcome;
  readonly jid?: string;
  /** How often since the record before it that says the same. */
  readonly count?: number;
  /** One sentence for a person. */
  readonly detail?: string;
}

/** A line of the log. */
export interface AuditRecord extends AuditEntry {
  /** 1, 2, 3 …; a number that is missing is a record that is missing. */
  readonly sequence: number;
  /** ISO 8601, of the master's clock. */
  readonly time: string;
  /** `hash` of the record before; zeros before the first one. */
  readonly previous: string;
  /** SHA-256 of the line without this field, in hex. */
  readonly hash: string;
}

/** Takes what is to be audited. */
export interface AuditTrail {
  /** Never throws and never waits; see `docs/audit.md` for when a record is durable. */
  append(entry: AuditEntry): void;
  /**
   * A digest of arguments under a key of this master's, so that two calls can be compared and
   * short secrets cannot be guessed by whoever reads the log. Long ones are worked through in steps.
   */
  digest(value: unknown): Promise<string>;
}

/** Where nothing is audited. */
export const noAudit: AuditTrail = { append: () => {}, digest: async () => '' };

/** Before the first record. */
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

/** Ids that one record names. */
const maxNamed = 100;
const maxText = 512;

/** Whom something was for, within bounds. */
export function named(ids: readonly string[]): Pick<AuditEntry, 'on' | 'onCount'> {
  if (ids.length <= maxNamed) return { on: ids };
  return { on: ids.slice(0, maxNamed), onCount: ids.length };
}

/** The entry with every text within bounds, and its fields in the order of the log. */
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
