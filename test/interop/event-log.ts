import type { MasterEvent } from '#master';
import { within } from '../helpers/deadline.ts';

/** Everything that a master has told, and waiting for what it will tell. */
export class EventLog {
  readonly #events: MasterEvent[] = [];
  readonly #changed = new Set<() => void>();

  /** Reads until the events end, as they do with their master. */
  constructor(events: AsyncIterable<MasterEvent>) {
    this.#read(events).catch(() => {});
  }

  /** How many there were; a mark for {@link EventLog.seen}. */
  get length(): number {
    return this.#events.length;
  }

  /** Whether an event with this tag has been told. */
  has(tag: string): boolean {
    return this.#events.some((event) => event.tag === tag);
  }

  /** The first event from `mark` on that `accepts` takes. */
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
