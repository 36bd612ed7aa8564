/** Encodes responses of any size without blocking the event loop [THREATS A-17]. */
import { markedForm } from '#master';
import type { WireValue } from '#minion-protocol';
import { type StepScheduler, WorkerPool, WorkerPoolError, writeJsonInSteps } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { Format } from './formats.ts';
import { saltJson } from './json-text.ts';
import { apiLimits } from './limits.ts';

/** Time limit for encoding one response in a worker thread, in milliseconds. */
const deadlineMs = 30_000;

/**
 * Encodes responses without blocking the event loop: JSON in steps on the main thread, and YAML in
 * a worker thread.
 */
export class AnswerWriter {
  readonly #scheduler: Pick<StepScheduler, 'run'>;
  readonly #pool: WorkerPool<readonly Uint8Array[], Uint8Array>;

  constructor(scheduler: Pick<StepScheduler, 'run'>) {
    this.#scheduler = scheduler;
    const script = new URL('./yaml-worker.ts', import.meta.url);
    this.#pool = new WorkerPool(apiLimits.yamlThreads, { script, deadlineMs });
  }

  /**
   * Writes a value in the requested format.
   * @param owner - user or address that gets the response. The number of worker threads is limited
   * for each owner
   * @throws SaltApiError ERR_HTTP_BUSY, ERR_HTTP_FORMAT
   */
  async write(owner: string, { type }: Format, value: WireValue): Promise<readonly Uint8Array[]> {
    const isJson = type === 'application/json';
    const pieces: Uint8Array[] = [];
    await this.#scheduler.run(
      writeJsonInSteps(value, isJson ? saltJson : markedForm, (piece) => {
        pieces.push(Buffer.from(piece));
      }),
    );
    return isJson ? pieces : [await this.#yaml(owner, pieces)];
  }

  /** Ends the worker threads. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #yaml(owner: string, json: readonly Uint8Array[]): Promise<Uint8Array> {
    try {
      return await this.#pool.run(json, owner);
    } catch (cause) {
      if (!(cause instanceof WorkerPoolError)) throw cause;
      if (cause.reason === 'busy' || cause.reason === 'closed') {
        throw new SaltApiError(
          'ERR_HTTP_BUSY',
          'too many long responses are being encoded; retry later',
          {
            cause,
          },
        );
      }
      const message = 'the response is too large for YAML; request JSON';
      throw new SaltApiError('ERR_HTTP_FORMAT', message, { cause });
    }
  }
}
