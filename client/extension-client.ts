/** Calls methods of extensions over several masters. */

import { randomUUID } from 'node:crypto';
import { Attempts, type MasterSource } from './fail-over.ts';
import type { ExtensionClient } from './master-client.ts';
import { callMethod, openMethodStream } from './rpc-client.ts';

/**
 * Methods that continue the same run under the same key and send all its items from the beginning.
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
 * Streams items and continues with the next master if the parameters have an idempotency key.
 * @param told - items of the run that the caller has already received, which are skipped. Without
 * it the parameters have no key, and the call must not be repeated
 * @throws the error with which the stream broke
 */
function streamExtension<T>(
  source: MasterSource,
  name: string,
  parameters: object,
  signal: AbortSignal | undefined,
  told?: Set<string>,
): AsyncGenerator<T, void, void> {
  const attempts = new Attempts(source, name, { isOnce: told === undefined });
  return attempts.settleStream(async function* () {
    const items = await attempts.open(
      ({ connection }) => openMethodStream<T>(connection, name, parameters, signal),
      signal,
    );
    if (items !== undefined) yield* told === undefined ? items : untold(items, told);
  });
}

async function* untold<T>(
  items: AsyncIterable<T>,
  told: Set<string>,
): AsyncGenerator<T, void, void> {
  for await (const item of items) {
    const text = textOf(item);
    if (told.has(text)) continue;
    told.add(text);
    yield item;
  }
}

/**
 * Returns a text that identifies the item. The first item says whether the key was used before;
 * both forms count as the same item.
 */
function textOf(item: unknown): string {
  if (typeof item === 'object' && item !== null && 'type' in item && item.type === 'begun') {
    return item.type;
  }
  return JSON.stringify(item, (_, value: unknown) =>
    value instanceof Map ? [...value] : typeof value === 'bigint' ? String(value) : value,
  );
}
