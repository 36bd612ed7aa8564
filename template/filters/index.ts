/** All filters and tests: closed tables, in which nothing else can be found. */

import { hashKey, type Value } from '../python/values.ts';
import { type Definition, leftOut, simple } from './definition.ts';
import { itertoolsFilters } from './itertools.ts';
import { networkFilters } from './network.ts';
import { numberFilters } from './number.ts';
import { saltDataFilters } from './salt-data.ts';
import { saltSerialFilters } from './salt-serial.ts';
import { saltTextFilters } from './salt-text.ts';
import { selectFilters } from './select.ts';
import { sequenceFilters } from './sequence.ts';
import { setFilters } from './set-operations.ts';
import { testDefinitions } from './tests.ts';
import { textFilters } from './text.ts';

const reasons: Readonly<Record<string, readonly string[]>> = {
  'it reaches out of the template': [
    'dns_check',
    'file_hashsum',
    'get_uid',
    'http_query',
    'is_bin_file',
    'is_empty',
    'is_text_file',
    'list_files',
    'which',
  ],
  'its result is another one each time': [
    'gen_mac',
    'rand_str',
    'random_hash',
    'random_sample',
    'random_shuffle',
    'random_str',
  ],
  'nothing here needs it yet': [
    'append_dict_key_value',
    'extend_dict_key_value',
    'filter_by_networks',
    'ipwrap',
    'json_decode_dict',
    'json_decode_list',
    'json_encode_dict',
    'json_encode_list',
    'json_query',
    'mac_str_to_bytes',
    'mysql_to_dict',
    'set_dict_key_value',
    'update_dict_key_value',
    'urlize',
    'xml',
  ],
};

const refused: readonly (readonly [string, Definition])[] = Object.entries(reasons).flatMap(
  ([reason, names]) => names.map((name) => [name, leftOut('filter', name, reason)] as const),
);

/** Every filter. */
export const filters: ReadonlyMap<string, Definition> = new Map([
  ...refused,
  ...Object.entries(textFilters),
  ...Object.entries(sequenceFilters),
  ...Object.entries(selectFilters),
  ...Object.entries(numberFilters),
  // Salt's own come last: where jinja2 has one of the same name, Salt's is the one that counts.
  ...Object.entries(saltDataFilters),
  ...Object.entries(itertoolsFilters),
  ...Object.entries(setFilters),
  ...Object.entries(saltTextFilters),
  ...Object.entries(saltSerialFilters),
  ...Object.entries(networkFilters),
]);

/** A name to look up; what has no hash cannot be looked up in Python either. */
function asName(value: Value): string {
  const key = hashKey(value);
  return typeof key === 'string' ? key : '';
}

const known = new Set([...Object.keys(testDefinitions), 'filter', 'test']);

/** Every test. */
export const tests: ReadonlyMap<string, Definition> = new Map([
  ...Object.entries(testDefinitions),
  ['filter', simple((value) => filters.has(asName(value)))] as const,
  ['test', simple((value) => known.has(asName(value)))] as const,
]);
