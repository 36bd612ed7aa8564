/**
 * Limits for all files of a run together. Each file is small, but a run can contain thousands of
 * files.
 */

import { userWork, WorkBudget } from '#runtime';
import { configError, configLimits } from './state-config.ts';

/** Limits on the contents of all files of one run. */
export interface ContentLimits {
  /** Maximum size of all contents together, in bytes. */
  readonly bytes: number;
  /** Maximum number of Mustache nodes that are rendered: texts, variables and sections. */
  readonly tags: number;
}

/**
 * Counts the bytes and the Mustache nodes in all files of one run, and enforces
 * {@link ContentLimits}.
 */
export class ContentBudget {
  /** Budget for the work of reading templates. */
  readonly work: WorkBudget = new WorkBudget(userWork);
  readonly #limits: ContentLimits;
  #bytes = 0;
  #tags = 0;

  constructor(limits: ContentLimits = configLimits) {
    this.#limits = limits;
  }

  /**
   * Counts bytes of content.
   * @throws BridgeError ERR_CFN_INIT if the limit is exceeded
   */
  addBytes(count: number, place: string): void {
    this.#bytes += count;
    if (this.#bytes > this.#limits.bytes) {
      throw configError(place, `the files have more than ${this.#limits.bytes} bytes in total`);
    }
  }

  /**
   * Counts a Mustache node that is rendered.
   * @throws BridgeError ERR_CFN_INIT if the limit is exceeded
   */
  addTag(place: string): void {
    this.#tags += 1;
    if (this.#tags > this.#limits.tags) {
      throw configError(
        place,
        `the Mustache templates of the files render more than ${this.#limits.tags} tags in total`,
      );
    }
  }
}
