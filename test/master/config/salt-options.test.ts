/** Every option of Salt's master is served, or there is advice what to do instead. */
import { readFileSync } from 'node:fs';
import test from 'ava';
import { anyValue, notNeeded, notServed, notYet } from '../../../master/config/advice.ts';
import { eauthOptions, rightsOptions, saltOptions } from '../../../master/config/option-table.ts';
import { findUnserved, unservedNames } from '../../../master/config/unserved-options.ts';

interface SaltOption {
  /** As Python names it; absent where Salt states none. */
  readonly type?: readonly string[];
  readonly default?: unknown;
}

const fixture = new URL('../../../../test/fixtures/salt-master-options.json', import.meta.url);
const parsed: { readonly options: Readonly<Record<string, SaltOption>> } = JSON.parse(
  readFileSync(fixture, 'utf8'),
);
const salts = Object.entries(parsed.options);
const served = new Map(
  Object.values({ ...saltOptions, ...rightsOptions, ...eauthOptions }).map((row) => [
    row.name,
    row,
  ]),
);
const usual = new Map(
  [...notServed, ...notYet, ...notNeeded].flatMap(({ options }) => Object.entries(options)),
);

/** Where our default is another one; docs/compatibility.md says why. */
const ourDefaults = new Map<string, unknown>([
  ['allow_minion_key_revoke', false],
  ['netapi_enable_clients', null],
  ['request_server_ttl', 300],
  // Off is written as `false` or not at all.
  ['ssl', false],
]);

/** Values of each of Python's types. */
const examples: Readonly<Record<string, unknown>> = {
  bool: true,
  float: 1.5,
  int: 4096,
  dict: new Map(),
  str: 'text',
};

test('the fixture has the options of Salt', (t) => {
  t.true(salts.length > 340);
});

test('every option of Salt is served or has advice, and none has both', (t) => {
  const included = ['include', 'default_include'];
  for (const [name] of salts.filter(([known]) => !included.includes(known))) {
    t.is(Number(served.has(name)) + Number(usual.has(name)), 1, name);
  }
});

for (const [name, { default: salt }] of salts) {
  const row = served.get(name);
  if (row === undefined || salt === undefined) continue;
  test(`${name} has Salt's default, or the one that is told`, (t) => {
    t.deepEqual(row.default, ourDefaults.has(name) ? ourDefaults.get(name) : salt);
    if (salt !== null) t.deepEqual(row.kind.parse(salt), salt);
  });
}

test('options are of the type that Salt gives them', (t) => {
  const closed =
    /^(hash_type|log_level(_logfile)?|pillar_source_merging_strategy|publish_signing_algorithm|ssl|top_file_merging_strategy|transport)$/;
  for (const [name, { type = [] }] of salts) {
    const row = served.get(name);
    if (row === undefined || closed.test(name)) continue;
    const taken = type.filter((one) => row.kind.parse(examples[one]) !== undefined);
    // Nothing is commented out in a file, and is no value; Salt's list of nodegroups is one of maps.
    const expected = type.filter((one) => one !== 'NoneType' && one !== 'list');
    t.deepEqual(taken, expected, name);
  }
});

test("no advice is given for Salt's own default", (t) => {
  for (const [name, { default: salt }] of salts) {
    const value = usual.get(name);
    if (value === undefined || value === anyValue) continue;
    t.deepEqual(value, salt, name);
  }
});

test('no option is in two groups of advice', (t) => {
  const groups = [...notServed, ...notYet, ...notNeeded];
  const names = groups.flatMap(({ options }) => Object.keys(options));
  t.deepEqual(names, [...new Set(names)]);
  for (const name of unservedNames()) t.false(served.has(name), name);
});

test('advice tells what to do, in one line that follows the name', (t) => {
  for (const name of unservedNames()) {
    const { message = '' } = findUnserved(name) ?? {};
    t.regex(
      message,
      /^(is not served( yet)?|has no effect|is an option of minions)[:;] [^\n]+[^.]$/,
    );
  }
});
