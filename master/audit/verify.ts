/** Verifies that audit logs are complete and unaltered. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { type MasterConfig, storeDirectory } from '#config';
import { readStore } from '#store';
import type { AuditHead, StoredHead } from '../api/index.ts';
import { clusterPlaceOf, ownPrefix } from '../context/index.ts';
import { auditDirectory, auditFiles, linesOf, readHead } from './audit-files.ts';
import { type AuditRecord, readLine } from './audit-record.ts';
import { readWitness } from './witness.ts';

/** Problem found in an audit log. */
export interface AuditProblem {
  readonly kind: /** The hash of a line does not match its content. */
    | 'altered'
    /** A record's `previous` is not the hash of the record before it. */
    | 'broken-chain'
    /** Records are missing between two existing records. */
    | 'gap'
    /** Records are missing at the beginning. */
    | 'begin-missing'
    /** Records at the end are missing or were replaced. */
    | 'end-missing'
    /** The hash of a record differs from the hash that another cluster member recorded for it. */
    | 'other-history';
  readonly file: string;
  /** Line number, starting at 1. With 0, the problem concerns the whole file. */
  readonly line: number;
  /** Explanation for operators, in one sentence. */
  readonly reason: string;
}

/** Result of a check of the audit log: what the log contains, and the problems that were found. */
export interface AuditReport {
  readonly files: readonly string[];
  readonly records: number;
  /** Sequence number of the first record. 0 if the log is empty. */
  readonly first: number;
  /** Sequence number of the last record. 0 if the log is empty. */
  readonly last: number;
  /** Time of the last record, in ISO 8601. */
  readonly lastAt?: string;
  /**
   * Whether the end of the log was compared with an independent source: the running master, the
   * store or other members.
   */
  readonly isEndKnown: boolean;
  /**
   * Whether the last line is incomplete. The master is just writing it, or a crash interrupted the
   * write.
   */
  readonly isUnfinished: boolean;
  readonly problems: readonly AuditProblem[];
}

/** Expected end of a log, obtained from a source other than its files. */
export interface ExpectedLog extends AuditHead {
  /** Sequence number of the oldest stored record, if known. */
  readonly first?: number;
}

/**
 * Verifies a log from its first line to its last.
 * @param files - paths of the files, oldest first
 * @param expected - expected end of the log. Without it, missing records at the end cannot be
 * detected
 */
export async function verifyAudit(
  files: readonly string[],
  expected?: ExpectedLog,
): Promise<AuditReport> {
  const verifier = new Verifier(expected);
  for (const file of files) await verifier.read(file);
  return verifier.report(files);
}

/** Verification results of the logs of all cluster members. */
interface ClusterAuditReport {
  readonly members: readonly (AuditReport & { readonly member: string })[];
}

/**
 * Verifies the logs of the members of a cluster, and compares each log with the hashes that the
 * other members recorded.
 * @param logs - paths of the files by member name, oldest first
 */
async function verifyClusterAudit(
  logs: ReadonlyMap<string, readonly string[]>,
): Promise<ClusterAuditReport> {
  const notes = await readNotes([...logs.values()].flat());
  const members: (AuditReport & { readonly member: string })[] = [];
  for (const [member, files] of logs) {
    const verifier = new Verifier(undefined, notes.get(member));
    for (const file of files) await verifier.read(file);
    members.push({ member, ...verifier.report(files) });
  }
  return { members };
}

/**
 * Hashes of the records of one log, by sequence number. Other cluster members have recorded these
 * hashes.
 */
type NotedRecords = ReadonlyMap<number, string>;

async function readNotes(files: readonly string[]): Promise<ReadonlyMap<string, NotedRecords>> {
  const notes = new Map<string, Map<number, string>>();
  for (const file of files) {
    for await (const { text } of linesOf(file)) {
      const record = readLine(text);
      const witness = record && readWitness(record);
      if (witness === undefined) continue;
      const own = notes.get(witness.member) ?? new Map<number, string>();
      notes.set(witness.member, own.set(witness.sequence, witness.hash));
    }
  }
  return notes;
}

class Verifier {
  readonly #expected: ExpectedLog | undefined;
  readonly #noted: NotedRecords;
  readonly #problems: AuditProblem[] = [];
  #records = 0;
  #first = 0;
  #last: AuditRecord | undefined;
  /**
   * Whether the next record can be checked against the record before it, by its field `previous`.
   * This is not possible if a line between them was altered.
   */
  #isLinkKnown = true;
  #hashAtExpected: string | undefined;
  #isUnfinished = false;

  constructor(expected: ExpectedLog | undefined, noted: NotedRecords = new Map()) {
    this.#expected = expected;
    this.#noted = noted;
  }

  async read(file: string): Promise<void> {
    for await (const { text, number: line, isWhole } of linesOf(file)) {
      const record = readLine(text);
      if (record !== undefined) this.#follow(record, file, line);
      else if (isWhole) {
        this.#isLinkKnown = false;
        this.#complain('altered', file, line, 'the line was altered');
      } else this.#isUnfinished = true;
    }
  }

  report(files: readonly string[]): AuditReport {
    const { sequence: last = 0, time } = this.#last ?? {};
    this.#compareEnds(files.at(0) ?? '', files.at(-1) ?? '', last);
    return {
      files,
      records: this.#records,
      first: this.#first,
      last,
      ...(time === undefined ? {} : { lastAt: time }),
      isEndKnown: this.#expected !== undefined || this.#noted.size > 0,
      isUnfinished: this.#isUnfinished,
      problems: this.#problems,
    };
  }

  #follow(record: AuditRecord, file: string, line: number): void {
    const before = this.#last;
    const next = (before?.sequence ?? record.sequence - 1) + 1;
    if (record.sequence !== next && this.#isLinkKnown) {
      const reason = `found record ${record.sequence} instead of record ${next}`;
      this.#complain('gap', file, line, reason);
    } else if (before !== undefined && this.#isLinkKnown && record.previous !== before.hash) {
      this.#complain(
        'broken-chain',
        file,
        line,
        `record ${next} does not contain the hash of the record before it`,
      );
    }
    this.#isLinkKnown = true;
    this.#records += 1;
    if (before === undefined) this.#first = record.sequence;
    if (record.sequence === this.#expected?.sequence) this.#hashAtExpected = record.hash;
    const noted = this.#noted.get(record.sequence);
    if (noted !== undefined && noted !== record.hash) {
      const reason = `record ${record.sequence} differs from the one that another member noted`;
      this.#complain('other-history', file, line, reason);
    }
    this.#last = record;
  }

  #compareEnds(firstFile: string, lastFile: string, last: number): void {
    const { sequence, hash, first } = this.#expected ?? {};
    if (first !== undefined && this.#first > first) {
      const reason = `the log begins with record ${this.#first} instead of record ${first}`;
      this.#complain('begin-missing', firstFile, 0, reason);
    }
    const latest = Math.max(0, ...this.#noted.keys());
    if (latest > last) {
      const reason = `the log ends with record ${last}, but another member noted record ${latest}`;
      this.#complain('end-missing', lastFile, 0, reason);
    }
    if (sequence === undefined || sequence === 0 || this.#hashAtExpected === hash) return;
    const reason = `the log ends with record ${last}, but record ${sequence} must exist`;
    this.#complain('end-missing', lastFile, 0, reason);
  }

  #complain(kind: AuditProblem['kind'], file: string, line: number, reason: string): void {
    this.#problems.push({ kind, file, line, reason });
  }
}

/**
 * Verifies copies of the members' audit directories, as {@link verifyClusterAudit} does.
 * @param directory - directory with one subdirectory per member, which has the name of the member
 */
export async function verifyCopiedLogs(directory: string): Promise<ClusterAuditReport> {
  const found = await readdir(directory, { withFileTypes: true });
  const names = found.filter((it) => it.isDirectory()).map(({ name }) => name);
  const logs = new Map<string, readonly string[]>();
  for (const name of names.sort()) logs.set(name, await auditFiles(path.join(directory, name)));
  return verifyClusterAudit(logs);
}

/**
 * Verifies the log of a master.
 * @param expected - end of the log that the running master reports, or `null` if it is unknown.
 * Default: the end that the store contains
 * @throws StoreError ERR_STORE_LOCKED if the master is running and `expected` is not given
 */
export async function verifyAuditLog(
  config: AuditedConfig,
  expected?: ExpectedLog | null,
): Promise<AuditReport> {
  const known = expected === undefined ? await readStoredHead(config) : expected;
  return verifyAudit(await auditFiles(auditDirectory(config)), known ?? undefined);
}

/**
 * Configuration options with which this module finds the audit log of a master. They determine the
 * log's directory, and the key under which the store contains the log's last sequence number and
 * hash.
 */
type AuditedConfig = Pick<MasterConfig, 'stateDir'> & Partial<Pick<MasterConfig, 'cluster'>>;

async function readStoredHead({
  stateDir,
  cluster,
}: AuditedConfig): Promise<StoredHead | undefined> {
  const prefix = cluster ? ownPrefix(clusterPlaceOf(cluster, stateDir).member) : [];
  return readStore(storeDirectory(stateDir), (store) => readHead(store, prefix));
}
