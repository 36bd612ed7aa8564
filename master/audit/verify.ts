/** Whether an audit log is as it was written. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { type MasterConfig, storeDirectory } from '#config';
import { readStore } from '#store';
import type { AuditHead, StoredHead } from '../api/index.ts';
import { clusterPlaceOf, ownPrefix } from '../context/index.ts';
import { auditDirectory, auditFiles, linesOf, readHead } from './audit-files.ts';
import { type AuditRecord, readLine } from './audit-record.ts';
import { readWitness } from './witness.ts';

/** Something that is not as it was written. */
export interface AuditProblem {
  readonly kind: /** A line is not what its hash says. */
    | 'altered'
    /** A record does not follow the one before it. */
    | 'broken-chain'
    /** Records are missing between two others. */
    | 'gap'
    /** Records are missing at the beginning. */
    | 'begin-missing'
    /** Records are missing at the end, or others stand there. */
    | 'end-missing'
    /** A record is another one than the log of another member of the cluster has noted. */
    | 'other-history';
  readonly file: string;
  /** 1 is the first; 0: the file as a whole. */
  readonly line: number;
  /** One sentence for a person. */
  readonly reason: string;
}

export interface AuditReport {
  readonly files: readonly string[];
  readonly records: number;
  /** Sequences of the first and the last record; 0: none. */
  readonly first: number;
  readonly last: number;
  /** Time of the last record. */
  readonly lastAt?: string;
  /** Whether what a running master, or the store, says of the end was compared. */
  readonly isEndKnown: boolean;
  /** Whether a line at the end is not finished: being written, or torn by a crash. */
  readonly isUnfinished: boolean;
  readonly problems: readonly AuditProblem[];
}

/** What is known of a log from elsewhere. */
export interface ExpectedLog extends AuditHead {
  /** Sequence of the first record that is kept, if that is known. */
  readonly first?: number;
}

/**
 * Reads a log from its first line to its last.
 * @param files - in their order
 * @param expected - what is known of it from elsewhere: without it a missing end cannot be seen
 */
export async function verifyAudit(
  files: readonly string[],
  expected?: ExpectedLog,
): Promise<AuditReport> {
  const verifier = new Verifier(expected);
  for (const file of files) await verifier.read(file);
  return verifier.report(files);
}

/** The logs of the members of a cluster. */
interface ClusterAuditReport {
  readonly members: readonly (AuditReport & { readonly member: string })[];
}

/**
 * Reads the logs of the members of a cluster, each from its first line to its last, and compares them
 * with what the others have noted of them.
 * @param logs - files of each member, in their order, by its name
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

/** Records by number, with the hash that others have noted of them. */
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
  /** After an altered line nothing can be said of the next one's link. */
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
        this.#complain('altered', file, line, 'the line is not what was written');
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
      const reason = `record ${record.sequence} stands where ${next} was expected`;
      this.#complain('gap', file, line, reason);
    } else if (before !== undefined && this.#isLinkKnown && record.previous !== before.hash) {
      this.#complain('broken-chain', file, line, `record ${next} does not follow the one before`);
    }
    this.#isLinkKnown = true;
    this.#records += 1;
    if (before === undefined) this.#first = record.sequence;
    if (record.sequence === this.#expected?.sequence) this.#hashAtExpected = record.hash;
    const noted = this.#noted.get(record.sequence);
    if (noted !== undefined && noted !== record.hash) {
      const reason = `record ${record.sequence} is not the one that another member has noted`;
      this.#complain('other-history', file, line, reason);
    }
    this.#last = record;
  }

  #compareEnds(firstFile: string, lastFile: string, last: number): void {
    const { sequence, hash, first } = this.#expected ?? {};
    if (first !== undefined && this.#first > first) {
      const reason = `it begins with record ${this.#first}; ${first} is the first one kept`;
      this.#complain('begin-missing', firstFile, 0, reason);
    }
    const latest = Math.max(0, ...this.#noted.keys());
    if (latest > last) {
      const reason = `it ends with record ${last}; another member has noted record ${latest}`;
      this.#complain('end-missing', lastFile, 0, reason);
    }
    if (sequence === undefined || sequence === 0 || this.#hashAtExpected === hash) return;
    const reason = `it ends with record ${last}; record ${sequence} is known and not there`;
    this.#complain('end-missing', lastFile, 0, reason);
  }

  #complain(kind: AuditProblem['kind'], file: string, line: number, reason: string): void {
    this.#problems.push({ kind, file, line, reason });
  }
}

/**
 * As {@link verifyClusterAudit}, with copies of the audit directories of members below one directory,
 * each by the name of its member.
 */
export async function verifyCopiedLogs(directory: string): Promise<ClusterAuditReport> {
  const found = await readdir(directory, { withFileTypes: true });
  const names = found.filter((it) => it.isDirectory()).map(({ name }) => name);
  const logs = new Map<string, readonly string[]>();
  for (const name of names.sort()) logs.set(name, await auditFiles(path.join(directory, name)));
  return verifyClusterAudit(logs);
}

/**
 * Looks whether a master's log is as it was written.
 * @param expected - what the running master says of its end; `null`: it does not say; default:
 * what the store says
 * @throws StoreError ERR_STORE_LOCKED when a master runs, and nothing is expected
 */
export async function verifyAuditLog(
  config: AuditedConfig,
  expected?: ExpectedLog | null,
): Promise<AuditReport> {
  const known = expected === undefined ? await readStoredHead(config) : expected;
  return verifyAudit(await auditFiles(auditDirectory(config)), known ?? undefined);
}

/** Where a log and its head are. */
type AuditedConfig = Pick<MasterConfig, 'stateDir'> & Partial<Pick<MasterConfig, 'cluster'>>;

async function readStoredHead({
  stateDir,
  cluster,
}: AuditedConfig): Promise<StoredHead | undefined> {
  const prefix = cluster ? ownPrefix(clusterPlaceOf(cluster, stateDir).member) : [];
  return readStore(storeDirectory(stateDir), (store) => readHead(store, prefix));
}
