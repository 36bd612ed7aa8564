import type { MasterEvent } from '../master/index.ts';
import { jsonText } from './json-text.ts';

/** Events as readers get them: written once, however many read them. */
export class EventTexts {
  readonly #json = new WeakMap<MasterEvent, string>();
  readonly #chunks = new WeakMap<MasterEvent, Buffer>();

  /** `{"tag": …, "data": {…}}` on one line. */
  json(event: MasterEvent): string {
    const known = this.#json.get(event);
    if (known !== undefined) return known;
    const text = jsonText({ tag: event.tag, data: event.data });
    this.#json.set(event, text);
    return text;
  }

  /** The same as a server-sent event; scripts look at the line with the tag. */
  serverSent(event: MasterEvent): Buffer {
    const known = this.#chunks.get(event);
    if (known !== undefined) return known;
    const tag = event.tag.replace(/[\r\n]/g, ' ');
    const chunk = Buffer.from(`tag: ${tag}\ndata: ${this.json(event)}\n\n`);
    this.#chunks.set(event, chunk);
    return chunk;
  }
}
