import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** Options of {@link FileReloader}. */
export interface FileReloaderOptions {
  readonly files: readonly string[];
  /** Applies the contents, in the order of the files. Throws if they are invalid. */
  readonly apply: (contents: readonly Buffer[]) => void;
  /** Interval between two checks, in milliseconds. Default: 20,000. */
  readonly intervalMs?: number;
  /**
   * Called when a periodic check has applied new content, but not after {@link FileReloader.check}.
   */
  readonly onRenewed: () => void;
  /** Called when a periodic check fails, once for successive failures with the same reason. */
  readonly onFailure: (error: unknown) => void;
}

/** Applies the content of files again when it changes, for example a certificate and its key. */
export class FileReloader {
  readonly #options: FileReloaderOptions;
  readonly #timer: NodeJS.Timeout;
  #applied: string | undefined;
  /** Reason of the last failed check, so that it is reported once. */
  #failure: string | undefined;

  /** @param contents - contents that are applied now */
  constructor(options: FileReloaderOptions, contents: readonly Buffer[]) {
    this.#options = options;
    this.#applied = digestOf(contents);
    this.#timer = setInterval(() => this.#look(), options.intervalMs ?? 20_000).unref();
  }

  /**
   * Checks the files now.
   * @returns whether new content was applied
   * @throws the system's error, or that of `apply`; the previous content stays applied
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
