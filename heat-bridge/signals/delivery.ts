import type { DeliveryWorker } from './delivery-worker.ts';
import type { Outbox, PendingSignal } from './outbox.ts';

/** Delivers the signals of the outbox while this master is to: one member of a cluster at a time is. */
export class Delivery {
  readonly #outbox: Pick<Outbox, 'pending'>;
  readonly #createWorker: (closing: AbortSignal) => DeliveryWorker;
  #worker: DeliveryWorker | undefined;
  #closed: Promise<void> = Promise.resolve();

  constructor(
    outbox: Pick<Outbox, 'pending'>,
    createWorker: (closing: AbortSignal) => DeliveryWorker,
  ) {
    this.#outbox = outbox;
    this.#createWorker = createWorker;
  }

  /** Begins with what waits. Once the signal has fired, nothing is sent any more. */
  async begin(ended: AbortSignal): Promise<void> {
    await this.close();
    if (ended.aborted) return;
    const worker = this.#createWorker(ended);
    this.#worker = worker;
    for (const pending of this.#outbox.pending) {
      if (pending.handle !== undefined) worker.add(pending, pending.handle);
    }
    const end = (): void => {
      this.#closed = worker.close();
      if (this.#worker === worker) this.#worker = undefined;
    };
    ended.addEventListener('abort', end, { once: true });
  }

  /** Delivers a signal behind the others of its handle, if it is delivered here. */
  add(pending: PendingSignal, handle: string): void {
    this.#worker?.add(pending, handle);
  }

  /** See {@link DeliveryWorker.wake}. */
  wake(handle: string): void {
    this.#worker?.wake(handle);
  }

  /** How it is with a signal that is not over, as far as this master knows. */
  stateOf(pending: PendingSignal): ReturnType<DeliveryWorker['stateOf']> {
    const state = pending.handle === undefined ? 'held' : 'waiting';
    return this.#worker?.stateOf(pending) ?? { state, failures: 0, reason: undefined };
  }

  /** Waits for what is under way, which the signal of {@link begin} ends. */
  async close(): Promise<void> {
    await Promise.all([this.#closed, this.#worker?.close()]);
  }
}
