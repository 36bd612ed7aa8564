import type { MasterEvent } from '#master';
import { within } from '../helpers/deadline.ts';

/** All events of a master so far. Tests can wait for further events. */
export class EventLog {
  readonly #events: MasterEvent[] = [];
  readonly #changed = new Set<() => void>();

  /** Reads events until they end with their master. */
  constructor(events: AsyncIterable<MasterEvent>) {
    this.#read(events).catch(() => {});
  }

  /** Number of events so far. It can be used as a mark for {@link EventLog.seen}. */
  get length(): number {
    return this.#events.length;
  }

  /** Whether an event with this tag was fired. */
  has(tag: string): boolean {
    return this.#events.some((event) => event.tag === tag);
  }

  /** Returns the first event from `mark` on that `accepts` accepts. */
  async seen(
    what: string,
    accepts: (event: MasterEvent) => boolean,
    options: { readonly from?: number; readonly ms?: number } = {},
  ): Promise<MasterEvent> {
    let changed = (): void => {};
    const found = new Promise<MasterEvent>((resolve) => {
      changed = () => {
        const event = this.#events.slice(options.from ?? 0).find(accepts);
        if (event !== undefined) resolve(event);
      };
    });
    this.#changed.add(changed);
    changed();
    return within(what, found, options.ms ?? 90_000).finally(() => this.#changed.delete(changed));
  }

  async #read(events: AsyncIterable<MasterEvent>): Promise<void> {
    for await (const event of events) {
      this.#events.push(event);
      for (const changed of this.#changed) changed();
    }
  }
}
