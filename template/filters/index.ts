/** The complete tables of filters and tests. */

import { hashKey, type Value } from '../python/values.ts';
import { type FilterDefinition, simpleFilter, unsupportedFilter } from './definition.ts';
import { sequenceFilters } from './jinja-collections.ts';
import { numberFilters } from './jinja-numbers.ts';
import { textFilters } from './jinja-scalars.ts';
import { selectFilters } from './jinja-select.ts';
import { saltDataFilters } from './salt-collections.ts';
import { itertoolsFilters } from './salt-itertools.ts';
import { nestedKeyFilters } from './salt-nested-keys.ts';
import { networkFilters } from './salt-network.ts';
import { randomFilters } from './salt-random.ts';
import { saltSerialFilters } from './salt-serializers.ts';
import { setFilters } from './salt-sets.ts';
import { saltTextFilters } from './salt-text.ts';
import { testDefinitions } from './tests.ts';

const reasons: Readonly<Record<string, readonly string[]>> = {
  'it accesses files, users or the network': [
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
  'its result would differ at each rendering': ['gen_mac', 'rand_str', 'random_hash', 'random_str'],
  'it is not implemented': ['filter_by_networks', 'json_query', 'mysql_to_dict', 'urlize', 'xml'],
};

/** Reasons why some of Salt's filters are not supported, by name. */
export const filterRefusals: ReadonlyMap<string, string> = new Map(
  Object.entries(reasons).flatMap(([reason, names]) => names.map((name) => [name, reason])),
);

const unsupported = Array.from(filterRefusals, ([name, reason]) => {
  return [name, unsupportedFilter('filter', name, reason)] as const;
});

/** All filters by name. */
export const filters: ReadonlyMap<string, FilterDefinition> = new Map([
  ...unsupported,
  ...Object.entries(textFilters),
  ...Object.entries(sequenceFilters),
  ...Object.entries(selectFilters),
  ...Object.entries(numberFilters),
  // Salt's filters come last, because a filter of Salt replaces jinja2's filter of the same name.
  ...Object.entries(saltDataFilters),
  ...Object.entries(itertoolsFilters),
  ...Object.entries(setFilters),
  ...Object.entries(saltTextFilters),
  ...Object.entries(saltSerialFilters),
  ...Object.entries(networkFilters),
  ...Object.entries(nestedKeyFilters),
  ...Object.entries(randomFilters),
]);

/**
 * Converts a value to the name with which a filter or a test is looked up. Returns an empty string
 * if the value is not text. As in Python, a value that is not hashable raises an error.
 */
function asName(value: Value): string {
  const key = hashKey(value);
  return typeof key === 'string' ? key : '';
}

const known = new Set([...Object.keys(testDefinitions), 'filter', 'test']);

/** All tests by name. */
export const tests: ReadonlyMap<string, FilterDefinition> = new Map([
  ...Object.entries(testDefinitions),
  ['filter', simpleFilter((value) => filters.has(asName(value)))] as const,
  ['test', simpleFilter((value) => known.has(asName(value)))] as const,
]);
