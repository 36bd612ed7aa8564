import { stringify } from 'yaml';
import { parseJson } from '#runtime';

/** Converts JSON to YAML with the same data. */
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
