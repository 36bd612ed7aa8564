import type { PlainData } from '../../template/index.ts';
import type { Renderer } from './renderer.ts';
import type { ReadTask } from './task.ts';
import { WeightedCache } from './weighted-cache.ts';

/** Texts that were read before: the same text gives the same data, for however many minions. */
export class KeptData {
  readonly #renderer: Pick<Renderer, 'read'>;
  readonly #kept: WeightedCache<Promise<PlainData>>;

  /** @param maxCharacters of all texts that are kept. Default 8 Mi */
  constructor(renderer: Pick<Renderer, 'read'>, maxCharacters: number = 8 * 1024 * 1024) {
    this.#renderer = renderer;
    this.#kept = new WeightedCache(maxCharacters);
  }

  /** @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED */
  read(task: ReadTask): Promise<PlainData> {
    const mark = `${task.format}\0${task.name}\0${task.text}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const reading = this.#renderer.read(task);
    this.#kept.set(mark, reading, mark.length);
    reading.catch(() => this.#kept.delete(mark));
    return reading;
  }
}
