import type { FactMap } from '../../minion-protocol/index.ts';
import { parseYaml } from '../../template/index.ts';
import { MasterError } from '../errors.ts';
import { parseJson } from './json.ts';
import { isPillarMap } from './merge.ts';
import { toWirePillar } from './wire.ts';

/** How pillar from elsewhere is written. */
export type PillarTextFormat = 'json' | 'yaml';

/** @throws TemplateError, MasterError ERR_PILLAR_FILE for what is no map */
export function readPillarText(bytes: Uint8Array, format: PillarTextFormat): FactMap {
  const text = new TextDecoder().decode(bytes);
  const name = `external ${format}`;
  const data = format === 'json' ? parseJson(text, name) : parseYaml(text, { name });
  if (isPillarMap(data)) return toWirePillar(data);
  throw new MasterError('ERR_PILLAR_FILE', `${name}: expected a map`);
}
