/** Reads the answer of an external pillar as data. */

import { MasterError } from '#master';
import type { FactMap } from '#minion-protocol';
import { isPillarMap } from '../render/pillar-data.ts';
import { toWirePillar } from '../render/pillar-wire.ts';
import { readData } from '../render/render-task.ts';
import type { ParsedFileCache } from '../render/renderer.ts';

/** Reads texts as data. */
export type TextReader = Pick<ParsedFileCache, 'read'>;

/** Reads on the thread that it is asked on, whatever that takes. */
export const readAtOnce: TextReader = { read: async (task) => readData(task) };

/** @throws TemplateError; MasterError ERR_PILLAR_FILE for what is no map, ERR_RENDER_GIVEN_UP */
export async function readPillarText(
  bytes: Uint8Array,
  format: 'json' | 'yaml',
  reader: TextReader,
): Promise<FactMap> {
  const text = new TextDecoder().decode(bytes);
  const name = `external ${format}`;
  const data = await reader.read({ kind: 'read', format, text, name });
  if (isPillarMap(data)) return toWirePillar(data);
  throw new MasterError('ERR_PILLAR_FILE', `${name}: expected a map`);
}
