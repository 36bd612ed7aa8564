/**
 * Detects publications that a former process of this master stored, but certainly never sent. A job
 * is stored before it is sent. If the process is killed in between, no minion receives the stored
 * job.
 *
 * Publications are numbered in the order in which they are sent. Before one is sent, its number is
 * written to a small file. The write is not synchronised to disk, so it survives the end of the
 * process, but not necessarily a crash of the machine. The file is therefore valid only while the
 * same kernel is running.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import Type from 'typebox';
import { compileSchema, isDiskFull, readTextIfPresent, tryParseJson } from '#runtime';
import { defineRow, hasEnded, type Key, ownIdentity, type Store } from '#store';
import { MasterError } from '../api/index.ts';

/** Identifier of a publication. */
export interface PublicationId {
  /** Random identifier of the process that sends the publication. */
  readonly process: string;
  /**
   * Number of the publication. It is higher than the numbers of all earlier publications of the
   * process.
   */
  readonly number: number;
}

export interface PublicationLogOptions {
  readonly store: Store;
  /**
   * Directory of the file that contains the number of the last publication. If it is `undefined`,
   * the master cannot find out which publications former processes have sent.
   */
  readonly directory: string | undefined;
  /** Storage time of jobs, in milliseconds. */
  readonly keepMs: number;
  readonly now: () => number;
}

const lineSchema = compileSchema(
  Type.Object({
    process: Type.String(),
    identity: Type.Object({
      pid: Type.Integer(),
      startTicks: Type.Integer(),
      pidNamespace: Type.String(),
      bootId: Type.String(),
      uid: Type.Integer(),
    }),
  }),
);

const fileName = 'publications';
const prefix: Key = ['publications'];

/**
 * Codec of the rows `publications/<process>`: the last publication that a former process may have
 * sent.
 */
const lastSentRow = defineRow({
  name: 'publication number',
  schema: Type.Object({ number: Type.Number() }),
  unversioned: (bytes) => ({ number: Number(Buffer.from(bytes).toString()) }),
});

/**
 * Width of a number in the file, in characters. All numbers have the same width, so that each one
 * overwrites the previous one completely.
 */
const digits = 16;

/**
 * Gives each publication of this process a number. For each former process, also stores the number
 * of the last publication that the process may have sent. Publications of that process with higher
 * numbers were never sent.
 */
export class PublicationLog {
  readonly #process = randomBytes(6).toString('hex');
  /**
   * For each former process of the master, the number of the last publication that it may have
   * sent.
   */
  readonly #lastSent: ReadonlyMap<string, number>;
  #file: NumberFile | undefined;
  #last = 0;
  #isClosed = false;

  private constructor(lastSent: ReadonlyMap<string, number>, directory: string | undefined) {
    this.#lastSent = lastSent;
    if (directory !== undefined) {
      this.#file = NumberFile.create(path.join(directory, fileName), this.#process);
    }
  }

  /**
   * Opens the log. Stores the number of the last publication that the previous process may have
   * sent.
   * @throws StoreError
   */
  static async open(options: PublicationLogOptions): Promise<PublicationLog> {
    const { store, directory, keepMs, now } = options;
    const lastSent = new Map<string, number>();
    for await (const entry of store.list(prefix)) {
      lastSent.set(String(entry.key.at(-1)), lastSentRow.decode(entry).number);
    }
    const left = directory && (await readLeftNumber(path.join(directory, fileName)));
    if (left) {
      const key = [...prefix, left.process];
      const value = lastSentRow.encode({ number: left.number });
      await store.write([{ op: 'put', key, value, expiresAt: now() + keepMs }]);
      lastSent.set(left.process, left.number);
    }
    return new PublicationLog(lastSent, directory);
  }

  /**
   * Returns the id of the next publication. Publications must be sent in the order of their ids. An
   * id may stay unused.
   */
  next(): PublicationId {
    this.#last += 1;
    return { process: this.#process, number: this.#last };
  }

  /**
   * Records that a publication is about to be sent.
   * @throws MasterError ERR_MASTER_STOPPED. In this case, the caller must not send the publication
   */
  noteSending({ number }: PublicationId): void {
    if (this.#isClosed) throw new MasterError('ERR_MASTER_STOPPED', 'the master is closed');
    if (this.#file?.write(number) === false) this.#file = undefined;
  }

  /**
   * Whether a publication was certainly never sent, because the process that prepared it ended
   * first.
   */
  wasNeverSent({ process, number }: PublicationId): boolean {
    const lastSent = this.#lastSent.get(process);
    return lastSent !== undefined && number > lastSent;
  }

  close(): void {
    this.#isClosed = true;
    this.#file?.close();
    this.#file = undefined;
  }
}

/**
 * File in which a process records the number of the last publication that it has begun to send. The
 * first line contains the identity of the process, the second line the number.
 */
class NumberFile {
  readonly #path: string;
  readonly #descriptor: number;
  readonly #position: number;

  private constructor(path: string, descriptor: number, position: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#position = position;
  }

  /**
   * Deletes an existing file and creates a new one, because another process may still have the
   * existing file open. Returns `undefined` if the disk is full, or if the identity of this process
   * is unknown.
   */
  static create(path: string, process: string): NumberFile | undefined {
    const identity = ownIdentity();
    rmSync(path, { force: true });
    if (identity === undefined) return undefined;
    const line = `${JSON.stringify({ process, identity })}\n`;
    try {
      const file = new NumberFile(path, openSync(path, 'wx', 0o600), Buffer.byteLength(line));
      return file.#write(line, 0) && file.write(0) ? file : undefined;
    } catch (error) {
      if (isDiskFull(error)) return undefined;
      throw error;
    }
  }

  /**
   * Overwrites the number in the file.
   * @returns `false` if the write failed, for example because the disk is full. The file is then
   * deleted, so that it cannot contain a wrong number
   */
  write(number: number): boolean {
    return this.#write(String(number).padStart(digits), this.#position);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #write(text: string, position: number): boolean {
    try {
      if (writeSync(this.#descriptor, text, position) === Buffer.byteLength(text)) return true;
    } catch {
      // Any error is treated as if the number had not been written.
    }
    rmSync(this.#path, { force: true });
    this.close();
    return false;
  }
}

/**
 * Reads the number of the last publication of the process that wrote the file. Returns `undefined`
 * if the file does not exist or is invalid, or if that process may still be running.
 */
async function readLeftNumber(path: string): Promise<PublicationId | undefined> {
  const text = (await readTextIfPresent(path)) ?? '';
  const [line = '', number = ''] = text.split('\n');
  const left: unknown = tryParseJson(line);
  if (!lineSchema.Check(left) || number.length !== digits) return undefined;
  if (!hasEnded(left.identity)) return undefined;
  return { process: left.process, number: Number(number) };
}
