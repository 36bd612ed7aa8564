import { readMarkedJson } from '#master';
import { formatYaml } from '#minion-protocol';

/**
 * Converts JSON to YAML with the same data, in the layout of Salt. In the JSON, the master has
 * marked values of Salt's special types.
 */
export function yamlText(json: string): string {
  return `${formatYaml(readMarkedJson(json))}\n`;
}
