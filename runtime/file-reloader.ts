import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** Options of {@link FileReloader}: the file, and what to do with new content. */
export interface FileReloaderOptions {
  readonly files: readonly string[];
  /** Puts the contents in force, in the order of the files; throws if they cannot be. */
  readonly apply: (contents: readonly Buffer[]) => void;
  /** Milliseconds between two looks. Default 20,000. */
  readonly intervalMs?: number;
  /** Called when new content is in force that nobody asked for by {@link FileReloader.check}. */
  readonly onRenewed: () => void;
  /** Called when a look by itself fails; once while it fails for the same reason. */
  readonly onFailure: (error: unknown) => void;
}

/** Puts the content of files in force again when it changes, such as a certificate and its key. */
export class FileReloader {
  readonly #options: FileReloaderOptions;
  readonly #timer: NodeJS.Timeout;
  #applied: string | undefined;
  /** Of the last look that failed, so that it is told once. */
  #failure: string | undefined;

  /** @param contents - what is in force now */
  constructor(options: FileReloaderOptions, contents: readonly Buffer[]) {
    this.#options = options;
    this.#applied = digestOf(contents);
    this.#timer = setInterval(() => this.#look(), options.intervalMs ?? 20_000).unref();
  }

  /**
   * Looks at the files now.
   * @returns whether new content is in force
   * @throws the system's error, or that of `apply`: what was in force stays
   */
  async check(): Promise<boolean> {
    const contents = await Promise.all(this.#options.files.map((file) => readFile(file)));
    const digest = digestOf(contents);
    if (digest === this.#applied) return false;
    this.#options.apply(contents);
    this.#applied = digest;
    return true;
  }

  /** Looks no more. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.check().then(
      (isRenewed) => {
        this.#failure = undefined;
        if (isRenewed) this.#options.onRenewed();
      },
      (error: unknown) => {
        const failure = String(error);
        if (failure !== this.#failure) this.#options.onFailure(error);
        this.#failure = failure;
      },
    );
  }
}

function digestOf(contents: readonly Buffer[]): string {
  const hash = createHash('sha256');
  for (const content of contents) hash.update(`${content.length}:`).update(content);
  return hash.digest('base64');
}
