/** Parses the response of an external pillar. */

import { MasterError } from '#master';
import type { FactMap } from '#minion-protocol';
import { isPillarMap } from '../render/pillar-data.ts';
import { toWirePillar } from '../render/pillar-wire.ts';
import { type ParsedFileCache, Renderer } from '../render/renderer.ts';

/** Parser that reads data from a JSON or YAML text. */
export type TextReader = Pick<ParsedFileCache, 'read'>;

/** Time after which an unused thread ends, in milliseconds. */
const idleMs = 10_000;
let shared: TextReader | undefined;

/**
 * Returns the parser of the external pillars that programs open. Its worker threads start when they
 * are needed. They end when they are idle, and do not keep the process running.
 */
export function textReaderOfPrograms(): TextReader {
  shared ??= new Renderer({ idleMs });
  return shared;
}

/**
 * Parses a response.
 * @param owner - minion for which the text is parsed
 * @throws TemplateError if the text is not valid JSON or YAML, or exceeds a limit
 * @throws MasterError ERR_PILLAR_FILE if the data is not a map; ERR_RENDER_GIVEN_UP if the thread
 * that parses the text fails; ERR_MASTER_STOPPED
 */
export async function readPillarText(
  bytes: Uint8Array,
  format: 'json' | 'yaml',
  { reader, owner }: { readonly reader: TextReader; readonly owner: string },
): Promise<FactMap> {
  const text = new TextDecoder().decode(bytes);
  const name = `external ${format}`;
  const data = await reader.read({ kind: 'read', format, text, name }, owner);
  if (isPillarMap(data)) return toWirePillar(data);
  throw new MasterError('ERR_PILLAR_FILE', `${name}: the content must be a map`);
}
