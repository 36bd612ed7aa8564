/** Reads objects of a repository with `git cat-file --batch`. */

import type { ChildProcess } from 'node:child_process';
import { open } from 'node:fs/promises';
import { MasterError } from '#master';
import { endedError, type GitSetting, placeOfRemote, startError, startGit } from './git-program.ts';

/** Header that git prints before an object. */
export interface ObjectHeader {
  readonly id: string;
  readonly type: string;
  /** Size in bytes. */
  readonly size: number;
}

/** A `git cat-file` process that answers one request at a time. */
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
    // Listeners are attached at once, because the process may end before `close` is called.
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
   * Requests an object. The caller must read its bytes next.
   * @param name - an object id, or a git revision expression without line breaks
   * @throws MasterError ERR_GIT if the object does not exist
   */
  async header(name: string): Promise<ObjectHeader> {
    this.#child.stdin.write(`${name}\n`);
    const line = await this.#line();
    const [id = '', type = '', size = ''] = line.split(' ');
    if (!/^\d+$/.test(size)) throw this.#failure(`the repository has no object ${name}`);
    return { id, type, size: Number(size) };
  }

  /**
   * Reads the bytes of the current object, whose header was read last. The caller must limit the
   * size.
   */
  async bytes({ size }: ObjectHeader): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(size);
    let at = 0;
    for await (const part of this.#content(size)) at += part.copy(bytes, at);
    return bytes;
  }

  /** Writes the bytes of the current object, whose header was read last, to a new file. */
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
    // Git writes a line break after each object.
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
      if (this.#rest.length > 8192) throw this.#failure('git wrote a line of more than 8192 bytes');
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    if (done === true) throw this.#failure('git exited before it answered');
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

/** An entry of a tree in git's format. */
export interface RawEntry {
  /** Octal mode as git writes it: `100644`, `100755`, `120000`, `40000` or `160000`. */
  readonly mode: string;
  readonly name: Buffer;
  readonly id: string;
}

/**
 * Parses a tree object, one entry at a time, because a tree may have millions of entries.
 * @param idBytes - length of an object id in bytes: 32 in repositories that use SHA-256, otherwise
 * 20
 * @throws RangeError if the bytes are not a tree
 */
export function* parseTree(bytes: Buffer, idBytes: number): Generator<RawEntry, void, void> {
  let at = 0;
  while (at < bytes.length) {
    const space = bytes.indexOf(0x20, at);
    const end = bytes.indexOf(0, space);
    const next = end + 1 + idBytes;
    if (space < 0 || end < 0 || next > bytes.length)
      throw new RangeError('git returned an invalid tree object');
    yield {
      mode: bytes.toString('latin1', at, space),
      name: bytes.subarray(space + 1, end),
      id: bytes.toString('hex', end + 1, next),
    };
    at = next;
  }
}
