/** The audit log of a running master. */

import { createHash, createHmac } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { type FileHandle, open, readdir, rm, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import Type from 'typebox';
import type { Decision } from '#acl';
import {
  compileSchema,
  isMissing,
  isSmallJson,
  type JsonForm,
  makeDirectory,
  StepScheduler,
  TokenBuckets,
  writeFileAtomically,
  writeJsonInSteps,
} from '#runtime';
import { defineRow, type Key, type RowCodec, type Store } from '#store';
import type { AuditActor, AuditHead, AuditRequester, StoredHead } from '../api/index.ts';

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

/** Where nothing is audited. */
export const noAudit: AuditTrail = { append: () => {}, digest: async () => '' };

/** Before the first record. */
const chainStart: AuditHead = { sequence: 0, hash: '0'.repeat(64) };

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
function linkEntry(
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

// Files, each named by the sequence of its first record.

const form = /^audit-(\d{12})\.log$/;

/** Where a master's audit log lies. */
export function auditDirectory({ stateDir }: { readonly stateDir: string }): string {
  return `${stateDir}/audit`;
}

/** The file whose first record has this sequence. */
function auditFile(directory: string, sequence: number): string {
  return path.join(directory, `audit-${String(sequence).padStart(12, '0')}.log`);
}

/** The sequence that a file begins with. */
function firstSequence(file: string): number {
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

async function writeHead(store: Store, head: StoredHead): Promise<void> {
  await store.write([{ op: 'put', key, value: headRow.encode(head) }]);
}

/** @param user - what somebody at the local interface calls themselves; nobody vouches for it */
export function auditOf(by: AuditRequester | undefined, user: string): AuditRequester {
  // protection: interface-by-nobody
  return by ?? { who: { kind: 'local', name: user }, rule: 'local-interface' };
}

/** A minion whose key opened the request. */
export function minionActor(id: string): AuditActor {
  return { kind: 'minion', name: id };
}

// Recovery: where a log continues after a crash or a change from outside.

/** A place to go on from. */
interface Continuation {
  /** What the next record follows. */
  readonly head: AuditHead;
  /** The file to append to. */
  readonly file: string;
  /** What is to be told in the log itself. */
  readonly findings: readonly AuditEntry[];
}

interface Tail {
  /** The last record that is as it was written. */
  readonly head: AuditHead | undefined;
  /** Lines behind it that are not. */
  readonly broken: number;
  /** Bytes behind the last line feed. */
  readonly torn: { readonly text: string; readonly bytes: number } | undefined;
}

/**
 * Finds the end of a log. A torn last line is put aside, into a file of its own; where records are
 * missing or altered, the numbers go on behind those that the store knows of, so that the gap
 * stays to be seen.
 */
async function findContinuation(
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
  // protection: cut-tails-are-continued
  if (broken === 0 && isSame && head.sequence >= stored.sequence) return { head, file, findings };
  const sequence = Math.max(head.sequence + broken, stored.sequence);
  const detail =
    `the log ends with record ${head.sequence}, ${broken} altered lines behind it; ` +
    `the store knows of record ${stored.sequence}`;
  return {
    head: { sequence, hash: head.hash },
    file: auditFile(directory, sequence + 1),
    findings: [...findings, finding('audit.mismatch', 'failed', detail)],
  };
}

/** Bytes in which the last record is looked for first. */
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
    // What stands in the middle of a line when reading begins there is no line.
    else if (number > 1 || start === 0) broken += 1;
  }
  return { head, broken, torn };
}

/** Takes off the log what a crash left of a line, and keeps it if there is room. */
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
  const where = isKept ? `what there is of it is in ${path.basename(aside)}` : 'it is lost';
  return finding('audit.torn', 'done', `a record was not written to its end; ${where}`);
}

function finding(action: string, outcome: AuditEntry['outcome'], detail: string): AuditEntry {
  return { who: { kind: 'master', name: '' }, action, outcome, detail };
}

// The current file: appended, synchronised, rotated.

export interface AuditWriterOptions {
  readonly directory: string;
  /** Knows the head of the log. */
  readonly store: Store;
  /** Bytes of a file before the next one is begun. */
  readonly fileBytes: number;
  /** Files that are kept. */
  readonly keepFiles: number;
}

/** An entry and when it came, milliseconds since 1970. */
export interface TimedEntry {
  readonly entry: AuditEntry;
  readonly time: number;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/** Not for several calls at once. */
export class AuditWriter {
  readonly #options: AuditWriterOptions;
  #file: OpenFile;
  #head: AuditHead;
  #first: number;

  private constructor(
    options: AuditWriterOptions,
    place: { readonly file: OpenFile; readonly head: AuditHead; readonly first: number },
  ) {
    this.#options = options;
    this.#file = place.file;
    this.#head = place.head;
    this.#first = place.first;
  }

  /** @returns with it what has to be told of the log's end, oldest first */
  static async open(
    options: AuditWriterOptions,
  ): Promise<{ readonly writer: AuditWriter; readonly findings: readonly AuditEntry[] }> {
    const { directory, store } = options;
    await makeDirectory(directory, 0o700);
    const { head, file, findings } = await findContinuation(directory, await readHead(store));
    const [oldest = file] = await auditFiles(directory);
    const place = { file: await openFile(file), head, first: firstSequence(oldest) };
    return { writer: new AuditWriter(options, place), findings };
  }

  /** What was written last, synchronised or not. */
  get head(): StoredHead {
    return { ...this.#head, first: this.#first };
  }

  /** Appends all of them or none. @throws the system's error: the log is as it was */
  async write(entries: readonly TimedEntry[]): Promise<void> {
    let head = this.#head;
    const lines = entries.map(({ entry, time }) => {
      const linked = linkEntry(entry, head, time);
      head = linked.head;
      return `${linked.line}\n`;
    });
    const bytes = Buffer.from(lines.join(''));
    await this.#makeRoom(bytes.length);
    const { handle, size } = this.#file;
    try {
      await handle.appendFile(bytes);
    } catch (error) {
      // What was written of it would stand before the next attempt.
      await handle.truncate(size);
      throw error;
    }
    this.#file = { handle, size: size + bytes.length };
    this.#head = head;
  }

  /** Resolves when all that was written is on disk, and the store knows of it. */
  async sync(): Promise<void> {
    const { head } = this;
    await this.#file.handle.datasync();
    await writeHead(this.#options.store, head);
  }

  async close(): Promise<void> {
    await this.#file.handle.close();
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { directory, fileBytes } = this.#options;
    if (this.#file.size === 0 || this.#file.size + bytes <= fileBytes) return;
    await this.#file.handle.datasync();
    const next = await openFile(auditFile(directory, this.#head.sequence + 1));
    await this.#file.handle.close();
    this.#file = next;
    await this.#forgetOldest();
  }

  async #forgetOldest(): Promise<void> {
    const { directory, keepFiles, store } = this.#options;
    const files = await auditFiles(directory);
    const kept = files.slice(-keepFiles);
    if (kept.length === files.length) return;
    this.#first = firstSequence(kept[0] ?? '');
    // Before they are gone, so that a crash between the two leaves too much rather than a gap.
    await writeHead(store, { ...this.#head, first: this.#first });
    for (const file of files.slice(0, -keepFiles)) await rm(file);
  }
}

async function openFile(file: string): Promise<OpenFile> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  const handle = await open(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  const { size } = await handle.stat();
  return { handle, size };
}

export interface AuditLogOptions extends AuditWriterOptions {
  /** Keys the digests of arguments. */
  readonly digestKey: Uint8Array;
  /** Told when records find no room, and when they do again. */
  readonly onFull: (isFull: boolean) => void;
  readonly now: () => number;
  readonly log: Logger;
}

/** Records that wait for room; then they are counted. */
const maxWaiting = 50_000;
/** Records that are written at once. */
const maxBatch = 1_000;
/** What was written is on disk after this time, milliseconds. */
const syncAfterMs = 1_000;
/** How long a disk that took nothing is left alone, milliseconds. */
const retryAfterMs = 2_000;
const digestCharacters = 32;

/**
 * Takes entries without waiting, writes them in batches and synchronises them within a second. A
 * disk that is full holds nobody up: entries wait, then are counted, and the log says how many it
 * lacks.
 */
export class AuditLog implements AuditTrail {
  readonly #options: AuditLogOptions;
  readonly #writer: AuditWriter;
  #waiting: TimedEntry[] = [];
  readonly #steps = new StepScheduler();
  #lost = 0;
  #isFull = false;
  #isClosed = false;
  /** Writes and synchronisations come one after the other. */
  #turn: Promise<void> = Promise.resolve();
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: AuditLogOptions, writer: AuditWriter) {
    this.#options = options;
    this.#writer = writer;
  }

  /** Opens the log where it ended, and tells in it how it did. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const { writer, findings } = await AuditWriter.open(options);
    const audit = new AuditLog(options, writer);
    for (const { action, detail } of findings) {
      options.log.warn({ action, reason: detail }, 'audit log was not as it was left');
    }
    for (const finding of findings) audit.append(finding);
    return audit;
  }

  /** Whether records find no room. */
  get isFull(): boolean {
    return this.#isFull;
  }

  append(entry: AuditEntry): void {
    if (this.#isClosed) return;
    if (this.#waiting.length >= maxWaiting) {
      this.#lost += 1;
      return;
    }
    this.#waiting.push({ entry, time: this.#options.now() });
    if (!this.#isWriting && !this.#isFull) this.#write();
  }

  async digest(value: unknown): Promise<string> {
    const mac = createHmac('sha256', this.#options.digestKey);
    if (isSmallJson(value)) mac.update(describe(value));
    else await this.#steps.run(writeJsonInSteps(value, described, (piece) => mac.update(piece)));
    return mac.digest('hex').slice(0, digestCharacters);
  }

  /** Resolves with the head when all that was appended is on disk. @throws the system's error */
  async flush(): Promise<StoredHead> {
    let head = this.#writer.head;
    await this.#inTurn(async () => {
      await this.#writeWaiting();
      await this.#writer.sync();
      head = this.#writer.head;
    });
    return head;
  }

  /** Writes what waits, if there is room. May be called twice. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    try {
      await this.flush();
    } catch (error) {
      this.#options.log.error({ err: error }, 'audit log was not written to its end');
    }
    await this.#writer.close();
  }

  /** Begins after what is under way now: a burst becomes one write. */
  #write(): void {
    this.#isWriting = true;
    setImmediate(() => {
      this.#inTurn(() => this.#writeWaiting())
        .then(
          () => this.#room(),
          (error: unknown) => this.#noRoom(error),
        )
        .finally(() => {
          this.#isWriting = false;
          // What came while the last batch was being finished.
          if (this.#waiting.length > 0 && !this.#isFull) this.#write();
        });
    });
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, maxBatch);
      await this.#writer.write(batch);
      this.#waiting = this.#waiting.slice(batch.length);
      if (this.#waiting.length === 0 && this.#lost > 0) this.#tellLost();
    }
  }

  #tellLost(): void {
    const time = this.#options.now();
    const detail = `${this.#lost} records found no room and are lost`;
    const who = { kind: 'master', name: '' } as const;
    this.#waiting.push({ entry: { who, action: 'audit.gap', outcome: 'failed', detail }, time });
    this.#lost = 0;
  }

  #room(): void {
    if (this.#isFull) {
      this.#isFull = false;
      this.#options.onFull(false);
    }
    this.#plan(syncAfterMs, () => {
      this.#inTurn(() => this.#writer.sync()).catch((error: unknown) => this.#noRoom(error));
    });
  }

  #noRoom(error: unknown): void {
    if (!this.#isFull) {
      this.#isFull = true;
      this.#options.log.error({ err: error }, 'audit log cannot be written: records wait');
      this.#options.onFull(true);
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#plan(retryAfterMs, () => this.#write());
  }

  #plan(afterMs: number, work: () => void): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      work();
    }, afterMs).unref();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {
      // Whoever asked for it is told.
    });
    return done;
  }
}

function describe(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'string') return JSON.stringify(value);
  return JSON.stringify(value, (_, part: unknown) => plain(part)) ?? 'nothing';
}

/** Bytes and maps are told apart; what no form of text exists for has its type's. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('base64')}`;
  if (value instanceof Map) return [...value];
  return typeof value === 'bigint' ? `integer ${value}` : value;
}

/** The same in steps. */
const described: JsonForm = {
  write: (value) => (value === undefined ? 'null' : describe(value)),
  open: (given) => {
    const value = plain(given);
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (typeof value !== 'object' || value === null) return undefined;
    return { members: Object.entries(value).filter(([, item]) => item !== undefined) };
  },
  comma: ',',
  colon: ':',
};

// Bursts: the first event of a kind is recorded at once, its repetitions as one record a minute, so
// that repetitions do not fill the log.

export interface AuditBurstsOptions {
  readonly audit: AuditTrail;
  readonly now: () => number;
}

interface Burst {
  readonly entry: AuditEntry;
  count: number;
}

const burstMs = 60_000;
/** Kinds of entries that are told apart in a minute. */
const maxKinds = 200;
/** New kinds of one source, and of all together. */
const ofOne = { perSecond: 0.1, burst: 20 };
const ofAll = { perSecond: 1, burst: 200 };

/** Counts entries that say the same. */
export class AuditBursts {
  readonly #options: AuditBurstsOptions;
  readonly #perSource: TokenBuckets;
  readonly #all: TokenBuckets;
  readonly #bursts = new Map<string, Burst>();
  /** Those that were not told apart, by outcome. */
  readonly #others = new Map<AuditEntry['outcome'], number>();
  #begunAt: number;

  constructor(options: AuditBurstsOptions) {
    this.#options = options;
    this.#perSource = new TokenBuckets(ofOne, options.now);
    this.#all = new TokenBuckets(ofAll, options.now);
    this.#begunAt = options.now();
  }

  /**
   * @param source - whoever causes such entries: no source uses up what is told of the others
   * @returns whether it was appended, and not only counted
   */
  note(entry: AuditEntry, source: string): boolean {
    this.flushIfDue();
    const key = JSON.stringify(entry);
    const known = this.#bursts.get(key);
    if (known !== undefined) {
      known.count += 1;
      return false;
    }
    if (!this.#isTold(source)) {
      this.#others.set(entry.outcome, (this.#others.get(entry.outcome) ?? 0) + 1);
      return false;
    }
    this.#bursts.set(key, { entry, count: 0 });
    this.#options.audit.append(entry);
    return true;
  }

  /** Tells how often each was repeated in a minute that is over, without waiting for the next one. */
  flushIfDue(): void {
    if (this.#options.now() - this.#begunAt >= burstMs) this.flush();
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    const { audit, now } = this.#options;
    this.#begunAt = now();
    for (const { entry, count } of this.#bursts.values()) {
      if (count > 0) audit.append({ ...entry, count });
    }
    this.#bursts.clear();
    const who = { kind: 'master', name: '' } as const;
    const detail = 'too many to be told apart';
    for (const [outcome, count] of this.#others) {
      audit.append({ who, action: 'decisions', outcome, count, detail });
    }
    this.#others.clear();
  }

  #isTold(source: string): boolean {
    return this.#bursts.size < maxKinds && this.#perSource.tryTake(source) && this.#all.tryTake('');
  }
}

// Decisions: what rules permitted to minions, and what was refused to minions and users.

/** What somebody asked for. */
export interface RuledQuestion {
  readonly who: AuditActor;
  readonly action: string;
  /** Tag, function, path or operation. */
  readonly what: string;
}

/** Counts decisions by who asked, what, and rule. */
export class RuledDecisions {
  readonly #bursts: AuditBursts;

  constructor(options: AuditBurstsOptions) {
    this.#bursts = new AuditBursts(options);
  }

  note(
    { who, action, what }: RuledQuestion,
    { effect, rule }: Pick<Decision, 'effect' | 'rule'>,
  ): void {
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    const asker = `${who.kind} ${who.eauth ?? ''} ${who.name}`;
    this.#bursts.note({ who, action, what, rule, outcome }, asker);
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    this.#bursts.flush();
  }
}
