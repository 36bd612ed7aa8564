/** All filters and tests: closed tables, in which nothing else can be found. */

import { hashKey, type Value } from '../python/values.ts';
import { type FilterDefinition, simpleFilter, unsupportedFilter } from './definition.ts';
import { selectFilters, sequenceFilters } from './jinja-collections.ts';
import { numberFilters, textFilters } from './jinja-scalars.ts';
import { itertoolsFilters, saltDataFilters, setFilters } from './salt-collections.ts';
import { networkFilters } from './salt-network.ts';
import { saltSerialFilters } from './salt-serializers.ts';
import { saltTextFilters } from './salt-text.ts';
import { testDefinitions } from './tests.ts';

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

const unsupported: readonly (readonly [string, FilterDefinition])[] = Object.entries(
  reasons,
).flatMap(([reason, names]) =>
  names.map((name) => [name, unsupportedFilter('filter', name, reason)] as const),
);

/** Every filter. */
export const filters: ReadonlyMap<string, FilterDefinition> = new Map([
  ...unsupported,
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
export const tests: ReadonlyMap<string, FilterDefinition> = new Map([
  ...Object.entries(testDefinitions),
  ['filter', simpleFilter((value) => filters.has(asName(value)))] as const,
  ['test', simpleFilter((value) => known.has(asName(value)))] as const,
]);
