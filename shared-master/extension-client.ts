/** Methods of extensions, whichever process holds the master. */

import { randomUUID } from 'node:crypto';
import { callMethod, type ExtensionClient, openMethodStream } from '../client/index.ts';
import { breakOf } from './holder.ts';
import { Attempts, type HolderSource } from './shared-caller.ts';

/** Runs that are the same run under the same key; they tell all of it from the beginning. */
const keyedStreams: ReadonlySet<string> = new Set(['bridge.run', 'bridge.runPlan']);

export function extensionClient(source: HolderSource, extension: string): ExtensionClient {
  return {
    call: <T>(method: string, parameters: object = {}) =>
      callExtension<T>(source, `${extension}.${method}`, parameters),
    stream: <T>(method: string, parameters: object = {}, signal?: AbortSignal) => {
      const name = `${extension}.${method}`;
      if (!keyedStreams.has(name)) return streamOnce<T>(source, name, parameters, signal);
      return streamKeyed<T>(source, name, { idempotencyKey: randomUUID(), ...parameters }, signal);
    },
  };
}

async function callExtension<T>(source: HolderSource, name: string, parameters: object) {
  const attempts = new Attempts(source, name);
  for (;;) {
    const holder = await source.holder();
    if (holder === undefined) throw new TypeError('nothing ends the wait');
    try {
      return await callMethod<T>(holder.connection, name, parameters);
    } catch (error) {
      await attempts.afterBreak(breakOf(error, holder));
      attempts.refuseRepetition();
    }
  }
}

/** @throws what it broke with; nobody knows whether it may begin anew */
async function* streamOnce<T>(
  source: HolderSource,
  name: string,
  parameters: object,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, void> {
  const attempts = new Attempts(source, name);
  for (;;) {
    const holder = await source.holder(signal);
    if (holder === undefined) return;
    try {
      yield* await openMethodStream<T>(holder.connection, name, parameters, signal);
      return;
    } catch (error) {
      await attempts.afterBreak(breakOf(error, holder));
      attempts.refuseRepetition();
    }
  }
}

/** Goes on with the run of the same key. What was told is not told again. */
async function* streamKeyed<T>(
  source: HolderSource,
  name: string,
  parameters: object,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, void> {
  const attempts = new Attempts(source, name);
  const told = new Set<string>();
  for (;;) {
    const holder = await source.holder(signal);
    if (holder === undefined) return;
    try {
      for await (const item of await openMethodStream<T>(
        holder.connection,
        name,
        parameters,
        signal,
      )) {
        const text = textOf(item);
        if (told.has(text)) continue;
        told.add(text);
        yield item;
      }
      return;
    } catch (error) {
      await attempts.afterBreak(breakOf(error, holder));
    }
  }
}

/** The first item of a run says whether the key was there before: it is the same item. */
function textOf(item: unknown): string {
  if (typeof item === 'object' && item !== null && 'type' in item && item.type === 'begun') {
    return item.type;
  }
  return JSON.stringify(item, (_, value: unknown) =>
    value instanceof Map ? [...value] : typeof value === 'bigint' ? String(value) : value,
  );
}
