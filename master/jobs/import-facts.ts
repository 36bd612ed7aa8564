/** Imports the minion data cache of a salt-master [salt/cache/localfs.py]. */

import { open } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import { type FactMap, isWireMap, unpackLocal, type WireValue } from '#minion-protocol';
import { isMissing } from '#runtime';
import type { FactsOfMinion, KnownFacts } from './minion-facts.ts';

/** Location of the cache, and the minions to import. */
export interface SaltDataCache {
  /** `cachedir` of the salt-master. */
  readonly cachedir: string;
  /** Ids of the minions. Only their files are read. */
  readonly ids: readonly string[];
  /** Maximum size of a file, in bytes. */
  readonly maxBytes: number;
  readonly log: Logger;
}

/** Number of minions that are written to the store together. */
const batchSize = 200;

/**
 * Imports grains and pillar from `<cachedir>/minions/<id>/data.p`. If a file cannot be read, a
 * warning is logged, and the grains and pillar of its minion stay unknown.
 * @returns the number of imported minions
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
    cache.log.warn(
      { minion: id, file, err: error },
      'cannot import grains and pillar of a minion from the cache of the salt-master',
    );
    return undefined;
  }
}

/**
 * Reads a file of Salt's cache. Returns `undefined` if it does not exist.
 * @throws RangeError if the file is too large, TypeError if the path is not a file
 */
export async function readBounded(file: string, maxBytes: number): Promise<Buffer | undefined> {
  const handle = await open(file).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  try {
    const stats = await handle?.stat();
    if (stats?.isFile() === false) throw new TypeError('the path does not lead to a regular file');
    if (stats !== undefined && stats.size > maxBytes) {
      throw new RangeError(`the file has ${stats.size} bytes; the limit is ${maxBytes}`);
    }
    return await handle?.readFile();
  } finally {
    await handle?.close();
  }
}

function parseFacts(bytes: Uint8Array): { grains: FactMap; pillar: FactMap } {
  const record = unpackLocal(bytes);
  if (!isWireMap(record))
    throw new TypeError(
      'the file of a minion in the cache of the salt-master does not contain a map',
    );
  return { grains: asMap(record.grains), pillar: asMap(record.pillar) };
}

function asMap(value: WireValue | undefined): FactMap {
  if (value instanceof Map || isWireMap(value)) return value;
  throw new TypeError('the grains or the pillar in the cache of the salt-master are not a map');
}
