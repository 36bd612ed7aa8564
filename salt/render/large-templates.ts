import { FairTable } from '#runtime';
import { saltLimits } from '../limits.ts';

/**
 * Number of owners that make a template count as large for all owners. For each of them, a
 * rendering of the template has exceeded the limits of the main thread. One owner does not suffice,
 * because it can make any template slow, for example with many grains.
 */
const ownersOfLarge = 4;

/** Templates that exceeded the limits of the main thread, with the owners of the renderings. */
export class LargeTemplates {
  readonly #rows = new FairTable<string>(saltLimits.largeTemplates, {
    onEvict: (_key, template) => this.#count(template, -1),
  });
  /** For each template, the number of owners whose renderings of it exceeded the limits. */
  readonly #owners = new Map<string, number>();

  /**
   * Whether a template must be rendered on a worker thread for this owner. True if a rendering for
   * this owner has exceeded the limits of the main thread, or if this was so for at least
   * {@link ownersOfLarge} owners.
   */
  has(template: string, owner: string): boolean {
    if ((this.#owners.get(template) ?? 0) >= ownersOfLarge) return true;
    return this.#rows.get(keyOf(template, owner)) !== undefined;
  }

  /** Records that a template exceeded the limits in a rendering for this owner. */
  add(template: string, owner: string): void {
    const key = keyOf(template, owner);
    if (this.#rows.peek(key) !== undefined) return;
    if (this.#rows.trySet(owner, key, template)) this.#count(template, 1);
  }

  #count(template: string, change: 1 | -1): void {
    const count = (this.#owners.get(template) ?? 0) + change;
    if (count === 0) this.#owners.delete(template);
    else this.#owners.set(template, count);
  }
}

function keyOf(template: string, owner: string): string {
  return `${owner}\0${template}`;
}
