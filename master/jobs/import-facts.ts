/** Imports a salt-master's minion data cache [salt/cache/localfs.py]. */

import { open } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import { type FactMap, isWireMap, unpackLocal, type WireValue } from '#minion-protocol';
import { isMissing } from '#runtime';
import type { FactsOfMinion, KnownFacts } from './minion-facts.ts';

/** Where to look, and for whom. */
export interface SaltDataCache {
  /** `cachedir` of that master. */
  readonly cachedir: string;
  /** Whose files are read. */
  readonly ids: readonly string[];
  /** Largest file, bytes. */
  readonly maxBytes: number;
  readonly log: Logger;
}

/** Minions that are written to the store at a time. */
const batchSize = 200;

/**
 * Takes grains and pillar over from `<cachedir>/minions/<id>/data.p`. A file that cannot be read
 * is named in a warning; its minion is then one of whom nothing is known.
 * @returns how many minions were taken over
 */
export async function takeOverFacts(facts: KnownFacts, cache: SaltDataCache): Promise<number> {
  for (let start = 0; start < cache.ids.length; start += batchSize) {
    const ids = cache.ids.slice(start, start + batchSize);
    const read = await Promise.all(ids.map((id) => readFacts(cache, id)));
    await facts.keep(read.filter((minion) => minion !== undefined));
  }
  return facts.size;
}

async function readFacts(cache: SaltDataCache, id: string): Promise<FactsOfMinion | undefined> {
  const file = path.join(cache.cachedir, 'minions', id, 'data.p');
  try {
    const bytes = await readBounded(file, cache.maxBytes);
    return bytes && { id, ...parseFacts(bytes) };
  } catch (error) {
    cache.log.warn({ minion: id, file, err: error }, 'minion data were not taken over');
    return undefined;
  }
}

/**
 * A file of Salt's cache; `undefined` when there is none.
 * @throws RangeError when it is larger, TypeError when it is no file
 */
export async function readBounded(file: string, maxBytes: number): Promise<Buffer | undefined> {
  const handle = await open(file).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  try {
    const stats = await handle?.stat();
    if (stats?.isFile() === false) throw new TypeError('not a file');
    if (stats !== undefined && stats.size > maxBytes) {
      throw new RangeError(`${stats.size} bytes; at most ${maxBytes} are taken`);
    }
    return await handle?.readFile();
  } finally {
    await handle?.close();
  }
}

function parseFacts(bytes: Uint8Array): { grains: FactMap; pillar: FactMap } {
  const record = unpackLocal(bytes);
  if (!isWireMap(record)) throw new TypeError('not a map');
  return { grains: asMap(record.grains), pillar: asMap(record.pillar) };
}

function asMap(value: WireValue | undefined): FactMap {
  if (value instanceof Map || isWireMap(value)) return value;
  throw new TypeError('grains or pillar are not a map');
}
