import { stringify } from 'yaml';
import { parseJson } from '#runtime';

/** YAML by way of JSON: what one says, the other says. */
export function yamlText(json: string): string {
  return stringify(parseJson(json), {
    version: '1.1',
    indentSeq: false,
    singleQuote: true,
    lineWidth: 0,
    sortMapEntries: true,
    aliasDuplicateObjects: false,
  });
}
