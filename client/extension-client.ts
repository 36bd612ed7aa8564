/** Calls methods of extensions on one of several masters. */

import { randomUUID } from 'node:crypto';
import { Attempts, type MasterSource } from './fail-over.ts';
import type { ExtensionClient } from './master-client.ts';
import { callMethod, openMethodStream } from './rpc-client.ts';

/**
 * Methods that can be called again with the same idempotency key. The next master then continues
 * the same run, and sends all items of the stream from the beginning.
 */
const keyedStreams: ReadonlySet<string> = new Set(['bridge.run', 'bridge.runPlan']);

export function failOverExtension(source: MasterSource, extension: string): ExtensionClient {
  return {
    call: <T>(method: string, parameters: object = {}) =>
      callExtension<T>(source, `${extension}.${method}`, parameters),
    stream: <T>(method: string, parameters: object = {}, signal?: AbortSignal) => {
      const name = `${extension}.${method}`;
      if (!keyedStreams.has(name)) return streamExtension<T>(source, name, parameters, signal);
      const keyed = { idempotencyKey: randomUUID(), ...parameters };
      return streamExtension<T>(source, name, keyed, signal, new Set());
    },
  };
}

function callExtension<T>(source: MasterSource, name: string, parameters: object): Promise<T> {
  const attempts = new Attempts(source, name, { isOnce: true });
  return attempts.settle(() =>
    attempts.try(({ connection }) => callMethod<T>(connection, name, parameters)),
  );
}

/**
 * Streams the items of a method. If `received` is given and the connection is lost, opens the
 * stream again on the next master. Items whose texts are in `received` are then skipped.
 * @param received - texts of the items that the caller already has. The function adds the text of
 * each item that it yields. Pass it only if the call has an idempotency key, because other calls
 * must not be repeated
 * @throws the error that ended the stream
 */
function streamExtension<T>(
  source: MasterSource,
  name: string,
  parameters: object,
  signal: AbortSignal | undefined,
  received?: Set<string>,
): AsyncGenerator<T, void, void> {
  const attempts = new Attempts(source, name, { isOnce: received === undefined });
  return attempts.settleStream(async function* () {
    const items = await attempts.open(
      ({ connection }) => openMethodStream<T>(connection, name, parameters, signal),
      signal,
    );
    if (items !== undefined) yield* received === undefined ? items : newItems(items, received);
  });
}

async function* newItems<T>(
  items: AsyncIterable<T>,
  received: Set<string>,
): AsyncGenerator<T, void, void> {
  for await (const item of items) {
    const text = textOf(item);
    if (received.has(text)) continue;
    received.add(text);
    yield item;
  }
}

/**
 * Returns a text for comparing items of two masters. Equal items have equal texts. A `begun` item
 * states whether the idempotency key was used before, so it differs between masters. All `begun`
 * items therefore get the same text.
 */
function textOf(item: unknown): string {
  if (typeof item === 'object' && item !== null && 'type' in item && item.type === 'begun') {
    return item.type;
  }
  return JSON.stringify(item, (_, value: unknown) =>
    value instanceof Map ? [...value] : typeof value === 'bigint' ? String(value) : value,
  );
}
