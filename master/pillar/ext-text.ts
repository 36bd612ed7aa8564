import type { FactMap } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import type { KeptData } from '../rendering/kept-data.ts';
import { readData } from '../rendering/read-data.ts';
import { isPillarMap } from './merge.ts';
import { toWirePillar } from './wire.ts';

/** How pillar from elsewhere is written. */
export type PillarTextFormat = 'json' | 'yaml';

/** Reads texts as data. */
export type TextReader = Pick<KeptData, 'read'>;

/** Reads on the thread that it is asked on, whatever that takes. */
export const readAtOnce: TextReader = { read: async (task) => readData(task) };

/** @throws TemplateError; MasterError ERR_PILLAR_FILE for what is no map, ERR_RENDER_GIVEN_UP */
export async function readPillarText(
  bytes: Uint8Array,
  format: PillarTextFormat,
  reader: TextReader,
): Promise<FactMap> {
  const text = new TextDecoder().decode(bytes);
  const name = `external ${format}`;
  const data = await reader.read({ kind: 'read', format, text, name });
  if (isPillarMap(data)) return toWirePillar(data);
  throw new MasterError('ERR_PILLAR_FILE', `${name}: expected a map`);
}
