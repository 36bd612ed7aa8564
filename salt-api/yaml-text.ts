import { readMarkedJson } from '#master';
import { formatYaml } from '#minion-protocol';

/** Converts marked JSON to YAML with the same data, in the layout of Salt. */
export function yamlText(json: string): string {
  return `${formatYaml(readMarkedJson(json))}\n`;
}
