import { readFileSync } from 'node:fs';
import test from 'ava';
import { policyErrors } from '../acl/index.ts';
import { commandErrors } from '../cli/errors.ts';
import { bridgeErrors } from '../heat-bridge/index.ts';
import {
  authenticationErrors,
  authorizationErrors,
  configErrors,
  type ErrorEntry,
  keyErrors,
  masterErrors,
} from '../master/index.ts';
import { protocolErrors, transportErrors } from '../minion-protocol/index.ts';
import { saltApiErrors } from '../salt-api/index.ts';
import { storeErrors } from '../store/index.ts';
import { templateErrors } from '../template/index.ts';

const rooms: readonly Readonly<Record<string, ErrorEntry>>[] = [
  protocolErrors,
  transportErrors,
  storeErrors,
  configErrors,
  policyErrors,
  keyErrors,
  masterErrors,
  authenticationErrors,
  authorizationErrors,
  saltApiErrors,
  bridgeErrors,
  commandErrors,
  templateErrors,
];
const entries = rooms.flatMap((room) => Object.entries(room));
const document = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');
const rows = new Map(
  [...document.matchAll(/^\| `(ERR_\w+)` *\| (.*?) *\| (.*?) *\| (yes|no) *\|$/gm)].map(
    ([, code = '', meaning, action, retry]) => [code, { meaning, action, retry: retry === 'yes' }],
  ),
);

test('no code is used by two rooms', (t) => {
  const codes = entries.map(([code]) => code);
  t.deepEqual([...new Set(codes)].sort(), codes.sort());
});

test('docs/errors.md says of each code what its table says', (t) => {
  for (const [code, entry] of entries) t.deepEqual({ ...rows.get(code) }, { ...entry }, code);
});

test('docs/errors.md has no code that nobody gives', (t) => {
  t.deepEqual([...rows.keys()].sort(), entries.map(([code]) => code).sort());
});
