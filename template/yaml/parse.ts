import { type PlainData, toPlain } from '../python/convert.ts';
import { loadYaml, type YamlOptions } from './load.ts';

export type { YamlOptions } from './load.ts';

/**
 * Reads YAML as Salt does: YAML 1.1 as PyYAML reads it, `0755` without its zero, dates as text, a
 * key that is there twice refused. A mapping becomes a `Map`, because its keys need not be text.
 * @throws TemplateError ERR_YAML with file and line; ERR_TEMPLATE_LIMIT for aliases or nesting
 * without end
 */
export function parseYaml(text: string, options: YamlOptions): PlainData {
  return toPlain(loadYaml(text, options));
}
