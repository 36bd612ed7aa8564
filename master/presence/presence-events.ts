import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';

/** What {@link PresenceEvents} needs. */
export interface PresenceEventsOptions {
  readonly bus: EventBus;
  /** Ids of the minions that are there. */
  readonly present: () => readonly string[];
}

/** Tells who is there, as Salt's master does with `presence_events` [WIRE 14.2; salt/master.py]. */
export class PresenceEvents {
  readonly #options: PresenceEventsOptions;
  #before: ReadonlySet<string> = new Set();

  constructor(options: PresenceEventsOptions) {
    this.#options = options;
  }

  /** One look: what has changed since the last one, if anything, and who is there. */
  look(): void {
    const { bus, present } = this.#options;
    const now = new Set(present());
    const appeared = [...now].filter((id) => !this.#before.has(id));
    const lost = [...this.#before].filter((id) => !now.has(id));
    if (appeared.length > 0 || lost.length > 0) {
      bus.fire(tags.presenceChange, { new: appeared, lost });
    }
    bus.fire(tags.presencePresent, { present: [...now] });
    this.#before = now;
  }

  /** Looks now and every so often. */
  start(intervalMs: number): { stop: () => void } {
    this.look();
    const timer = setInterval(() => this.look(), intervalMs);
    timer.unref();
    return { stop: () => clearInterval(timer) };
  }
}
