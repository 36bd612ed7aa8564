import type { EventEmitter } from 'node:events';

/**
 * Handles an event of an emitter before the listeners that it has now.
 * @param handle - gets the values of the event; calls `proceed` when the listeners may get them
 */
export function intercept<Values extends unknown[]>(
  emitter: EventEmitter,
  event: string,
  handle: (proceed: () => void, ...values: Values) => void,
): void {
  const listeners = emitter.listeners(event);
  emitter.removeAllListeners(event);
  emitter.on(event, (...values: Values) => {
    const proceed = (): void => {
      for (const listener of listeners) listener.apply(emitter, values);
    };
    handle(proceed, ...values);
  });
}
