/** Reading objects of a repository, by `git cat-file --batch`. */

import type { ChildProcess } from 'node:child_process';
import { open } from 'node:fs/promises';
import { MasterError } from '#master';
import { endedError, type GitSetting, placeOfRemote, startError, startGit } from './git-program.ts';

/** What git says in front of an object. */
export interface ObjectHeader {
  readonly id: string;
  readonly type: string;
  /** Bytes. */
  readonly size: number;
}

/** One process that answers one question after the other. */
export class ObjectReader {
  readonly #setting: GitSetting;
  readonly #signal: AbortSignal;
  readonly #child: ReturnType<typeof startGit>;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #ended: Promise<unknown>;
  #rest: Buffer = Buffer.alloc(0);
  #startFailure: Error | undefined;

  constructor(setting: GitSetting, signal: AbortSignal) {
    this.#setting = setting;
    this.#signal = signal;
    this.#child = startGit(setting, ['cat-file', '--batch'], signal);
    // From the beginning: what ends it may come before close.
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', resolve);
      this.#child.once('error', (error) => {
        this.#startFailure = startError(setting, error);
        resolve(error);
      });
    });
    this.#child.stderr?.resume();
    this.#chunks = chunksOf(this.#child);
  }

  /**
   * Asks for an object, whose bytes have to be read next.
   * @param name an id, or an expression of git's without line breaks
   * @throws MasterError ERR_GIT where there is none
   */
  async header(name: string): Promise<ObjectHeader> {
    this.#child.stdin.write(`${name}\n`);
    const line = await this.#line();
    const [id = '', type = '', size = ''] = line.split(' ');
    if (!/^\d+$/.test(size)) throw this.#failure(`git has no object ${name}`);
    return { id, type, size: Number(size) };
  }

  /** The bytes of the object whose header was read. */
  async bytes({ size }: ObjectHeader): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.#content(size)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Writes them to a new file instead. */
  async toFile({ size }: ObjectHeader, file: string): Promise<void> {
    const handle = await open(file, 'wx', 0o600);
    try {
      for await (const part of this.#content(size)) await handle.writeFile(part);
    } finally {
      await handle.close();
    }
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    this.#child.stdout?.destroy();
    await this.#ended;
  }

  async *#content(size: number): AsyncGenerator<Buffer> {
    let left = size;
    while (left > 0) {
      if (this.#rest.length === 0) await this.#more();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
    // A line break follows each object.
    if (this.#rest.length === 0) await this.#more();
    this.#rest = this.#rest.subarray(1);
  }

  async #line(): Promise<string> {
    for (;;) {
      const end = this.#rest.indexOf(0x0a);
      if (end >= 0) {
        const line = this.#rest.toString('utf8', 0, end);
        this.#rest = this.#rest.subarray(end + 1);
        return line;
      }
      if (this.#rest.length > 8192) throw this.#failure('git wrote a line without an end');
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    if (done === true) throw this.#failure('git ended before it had answered');
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
  }

  #failure(reason: string): Error {
    if (this.#startFailure !== undefined) return this.#startFailure;
    if (this.#signal.aborted) return endedError(this.#setting, this.#signal);
    return new MasterError('ERR_GIT', `${placeOfRemote(this.#setting.access)}: ${reason}`);
  }
}

async function* chunksOf({ stdout }: ChildProcess): AsyncGenerator<Buffer> {
  for await (const chunk of stdout ?? []) {
    if (Buffer.isBuffer(chunk)) yield chunk;
  }
}

/** An entry of a tree as git keeps it. */
export interface RawEntry {
  /** Octal, as git writes it: `100644`, `100755`, `120000`, `40000`, `160000`. */
  readonly mode: string;
  readonly name: Buffer;
  readonly id: string;
}

/** @param idBytes 20, or 32 in repositories of SHA-256 @throws RangeError for what is no tree */
export function parseTree(bytes: Buffer, idBytes: number): RawEntry[] {
  const entries: RawEntry[] = [];
  let at = 0;
  while (at < bytes.length) {
    const space = bytes.indexOf(0x20, at);
    const end = bytes.indexOf(0, space);
    const next = end + 1 + idBytes;
    if (space < 0 || end < 0 || next > bytes.length) throw new RangeError('no tree of git');
    entries.push({
      mode: bytes.toString('latin1', at, space),
      name: bytes.subarray(space + 1, end),
      id: bytes.toString('hex', end + 1, next),
    });
    at = next;
  }
  return entries;
}
