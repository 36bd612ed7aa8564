import { type PlainData, parseYaml } from '../../template/index.ts';
import { parseJson } from '../pillar/json.ts';
import type { ReadTask } from './task.ts';

/** Reads a text, on whichever thread. @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT */
export function readData({ format, text, name }: ReadTask): PlainData {
  return format === 'json' ? parseJson(text, name) : parseYaml(text, { name });
}
