/** What the files of one run may come to: a file is small, and a run can have thousands. */

import { userWork, WorkBudget } from '#runtime';
import { configError, configLimits } from './state-config.ts';

/** Bounds of one run. */
export interface ContentLimits {
  /** Bytes of contents. */
  readonly bytes: number;
  /** Nodes of Mustache that are rendered. */
  readonly tags: number;
}

/** Counts what all files of a run use. For a single use. */
export class ContentBudget {
  /** Steps of reading templates. */
  readonly work: WorkBudget = new WorkBudget(userWork);
  readonly #limits: ContentLimits;
  #bytes = 0;
  #tags = 0;

  constructor(limits: ContentLimits = configLimits) {
    this.#limits = limits;
  }

  /** @throws BridgeError ERR_CFN_INIT */
  addBytes(count: number, place: string): void {
    this.#bytes += count;
    if (this.#bytes > this.#limits.bytes) {
      throw configError(place, `more than ${this.#limits.bytes} bytes in all`);
    }
  }

  /** @throws BridgeError ERR_CFN_INIT */
  addTag(place: string): void {
    this.#tags += 1;
    if (this.#tags > this.#limits.tags) {
      throw configError(place, `more than ${this.#limits.tags} tags are rendered`);
    }
  }
}
