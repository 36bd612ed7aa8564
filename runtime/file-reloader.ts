import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** Options of {@link FileReloader}. */
export interface FileReloaderOptions {
  readonly files: readonly string[];
  /**
   * Applies the contents of all files, in the order of the file list. Throws if they are invalid.
   */
  readonly apply: (contents: readonly Buffer[]) => void;
  /** Interval between two checks, in milliseconds. Default: 20,000. */
  readonly intervalMs?: number;
  /**
   * Called when a periodic check has applied new content. {@link FileReloader.check} does not call
   * it.
   */
  readonly onRenewed: () => void;
  /**
   * Called when a periodic check fails. If successive checks fail for the same reason, it is called
   * only once.
   */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Checks files periodically, for example a certificate and its key, and applies their content when
 * it has changed.
 */
export class FileReloader {
  readonly #options: FileReloaderOptions;
  readonly #timer: NodeJS.Timeout;
  #applied: string | undefined;
  /** Reason of the last failed check. It prevents the same failure from being reported again. */
  #failure: string | undefined;

  /** @param contents - present contents of the files, which the caller has already applied */
  constructor(options: FileReloaderOptions, contents: readonly Buffer[]) {
    this.#options = options;
    this.#applied = digestOf(contents);
    this.#timer = setInterval(() => this.#look(), options.intervalMs ?? 20_000).unref();
  }

  /**
   * Checks the files now.
   * @returns whether new content was applied
   * @throws the system error, or the error of `apply`. The previous content stays applied
   */
  async check(): Promise<boolean> {
    const contents = await Promise.all(this.#options.files.map((file) => readFile(file)));
    const digest = digestOf(contents);
    if (digest === this.#applied) return false;
    this.#options.apply(contents);
    this.#applied = digest;
    return true;
  }

  /** Stops the checks. */
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
