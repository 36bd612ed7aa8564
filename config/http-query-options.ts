/** `saltbridge: http_query:`: what the runner `http.query` may ask. */

import { parseAllowedEndpoints } from '#runtime';
import { ConfigError, typeError } from './config-error.ts';
import {
  entriesOf,
  explainSection,
  integer,
  itemsOf,
  number,
  type OptionKind,
  readSection,
  type SectionTable,
  type Setting,
  sectionProblems,
  text,
  textList,
  toPlain,
} from './option-kinds.ts';

/** A service that may be asked. */
interface HttpQueryHost {
  /** `url`: scheme, host and port. */
  readonly url: string;
  /** `addresses`: networks that its name may lead to. Default: public addresses. */
  readonly addresses?: readonly string[];
  /** `ca_file`: the authorities that sign its certificate, PEM. Default: those of Node. */
  readonly caFile?: string;
}

/** Bounds of `http.query`. */
export interface HttpQueryOptions {
  /** `hosts`: services that may be asked. Default: none, so `http.query` is refused. */
  readonly hosts: readonly HttpQueryHost[];
  /** `timeout`: seconds for the whole exchange. Default 20. */
  readonly timeout: number;
  /** `max_bytes`: largest body, of a request and of an answer. Default 1 MiB. */
  readonly maxBytes: number;
}

export const httpQueryDefaults: HttpQueryOptions = {
  hosts: [],
  timeout: 20,
  maxBytes: 1_048_576,
};

const hostTable: SectionTable<HttpQueryHost> = {
  url: { name: 'url', kind: text },
  addresses: { name: 'addresses', kind: textList },
  caFile: { name: 'ca_file', kind: text },
};

const hosts: OptionKind<readonly HttpQueryHost[]> = {
  expected:
    'a list of addresses without a path (https://cmdb.example.org), or of maps with url, addresses (networks) and ca_file',
  isPath: false,
  parse: (value) => {
    const list = toPlain(value);
    if (!Array.isArray(list)) return undefined;
    const read = list.map((item) => readHost(typeof item === 'string' ? { url: item } : item));
    return read.every((item) => item !== undefined) ? read : undefined;
  },
  explain: (setting) => ConfigError.of(itemsOf(setting).flatMap(explainHost)),
};

function explainHost(item: Setting): readonly ConfigError[] {
  if (hosts.parse([item.value]) !== undefined) return [];
  const found = sectionProblems(hostTable, item, ['url']);
  const expected = 'an address without a path, and networks such as 10.0.0.0/8';
  return found.length > 0 ? found : [typeError(item.origin, item.value, expected)];
}

function readHost(item: unknown): HttpQueryHost | undefined {
  // Items of lists have the names of files; a program has those of members.
  const pairs = entriesOf(item)?.map(([name, found]): [string, unknown] => [
    name === 'ca_file' ? 'caFile' : name,
    found,
  ]);
  const { url, ...rest } = (pairs && readSection(hostTable, Object.fromEntries(pairs))) ?? {};
  if (url === undefined || !URL.canParse(url)) return undefined;
  const { pathname, search, username, password } = new URL(url);
  if (pathname !== '/' || search !== '' || username !== '' || password !== '') return undefined;
  try {
    parseAllowedEndpoints([{ url, ...rest }]);
    return { url, ...rest };
  } catch {
    return undefined;
  }
}

const table: SectionTable<HttpQueryOptions> = {
  hosts: { name: 'hosts', kind: hosts },
  timeout: { name: 'timeout', kind: number(0.1, 300) },
  maxBytes: { name: 'max_bytes', kind: integer(1, 16_777_216) },
};

export const httpQueryOptions: OptionKind<HttpQueryOptions> = {
  expected: 'a map with hosts, timeout and max_bytes',
  isPath: false,
  parse: (value) => {
    const section = readSection(table, value);
    return section && { ...httpQueryDefaults, ...section };
  },
  explain: (setting) => explainSection(table, setting),
};
