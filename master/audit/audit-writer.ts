import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { makeDirectory } from '#runtime';
import type { Store } from '#store';
import type { AuditHead, StoredHead } from '../api/index.ts';
import { findContinuation } from './audit-continuation.ts';
import { auditFile, auditFiles, firstSequence, readHead, writeHead } from './audit-files.ts';
import { type AuditEntry, linkEntry } from './audit-record.ts';

export interface AuditWriterOptions {
  readonly directory: string;
  /** Store in which the sequence number and hash of the last record are saved. */
  readonly store: Store;
  /** Size of a file after which a new file is started, in bytes. */
  readonly fileBytes: number;
  /** Number of files that are retained. Older files are deleted. */
  readonly keepFiles: number;
}

/** Entry with its time, in milliseconds since 1970. */
export interface TimedEntry {
  readonly entry: AuditEntry;
  readonly time: number;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/**
 * Appends records to the current audit file, synchronises it to disk, and starts new files. Calls
 * must not overlap.
 */
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

  /**
   * Opens the log at its end.
   * @returns the writer, and the problems found at the log's end, oldest first
   */
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

  /**
   * Sequence number and hash of the last record written, even if the record is not synchronised to
   * disk yet.
   */
  get head(): StoredHead {
    return { ...this.#head, first: this.#first };
  }

  /**
   * Appends all entries or none.
   * @throws the system error. The log is then unchanged
   */
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
      // A partially written line is removed, because the next attempt would append after it.
      await handle.truncate(size);
      throw error;
    }
    this.#file = { handle, size: size + bytes.length };
    this.#head = head;
  }

  /**
   * Synchronises the written records to disk. Then saves the sequence number and hash of the last
   * record in the store.
   */
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
    // The head is saved before old files are deleted. After a crash in between, there are too many
    // files instead of an apparent gap.
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
