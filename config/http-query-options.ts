/**
 * Options under `saltbridge: http_query:`. They list the services that the runner `http.query` may
 * send requests to.
 */

import type { Static } from 'typebox';
import { parseAllowedEndpoints } from '#runtime';
import {
  bytes,
  custom,
  list,
  number,
  optional,
  parseValue,
  refusals,
  section,
  text,
  textList,
} from './schema.ts';
import { sectionEntries } from './settings.ts';

const hostSection = section({
  url: text({ description: 'Scheme, host and port.' }),
  addresses: optional(
    textList({
      description:
        'Networks in which the addresses of the host must be. Default: public addresses.',
    }),
  ),
  caFile: optional(
    text({
      description: 'CA certificates that verify the service, PEM. Default: those of Node.js.',
    }),
  ),
});

type HttpQueryHost = Static<typeof hostSection>;

const host = custom<HttpQueryHost>(
  {
    expected: 'an address without a path, and networks such as 10.0.0.0/8',
    accept: (value) => {
      const read = parseValue(hostSection, typeof value === 'string' ? { url: value } : value);
      return read !== undefined && isHost(read) ? read : undefined;
    },
    explain: (setting) =>
      sectionEntries(setting.value) === undefined ? [] : refusals(hostSection, setting),
  },
  { anyOf: [{ type: 'string' }, hostSection] },
);

function isHost(given: HttpQueryHost): boolean {
  if (!URL.canParse(given.url)) return false;
  const { pathname, search, username, password } = new URL(given.url);
  if (pathname !== '/' || search !== '' || username !== '' || password !== '') return false;
  try {
    parseAllowedEndpoints([given]);
    return true;
  } catch {
    return false;
  }
}

export const httpQueryOptions = section(
  {
    hosts: list(host, {
      takesOne: false,
      default: [],
      expected:
        'a list of addresses without a path (https://cmdb.example.org), or of maps with url, addresses (networks) and ca_file',
      description: 'Services that may be requested. If there are none, `http.query` is rejected.',
    }),
    timeout: number(0.1, 300, {
      default: 20,
      unit: 'seconds',
      description: 'Time limit for a request and its response.',
    }),
    maxBytes: bytes(1, 16_777_216, {
      default: 1_048_576,
      description: 'Size of the body of a request and of a response.',
    }),
  },
  { expected: 'a map with hosts, timeout and max_bytes' },
);
