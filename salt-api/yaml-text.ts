import { readMarkedJson } from '#master';
import { formatYaml } from '#minion-protocol';

/**
 * Converts JSON in which the master has marked Salt's special types to YAML with the same data, in
 * the layout of Salt.
 */
export function yamlText(json: string): string {
  return `${formatYaml(readMarkedJson(json))}\n`;
}
