/**
 * The data space in Puppet's facts and Chef's node attributes, with real Ruby and Facter and a
 * replacement for salt-call.
 */

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const library = fileURLToPath(
  new URL('../../../clients/guests/saltbridge/saltbridge.rb', import.meta.url),
);
const chef = fileURLToPath(
  new URL('../../../test/fixtures/guests/chef-stand-in.rb', import.meta.url),
);
const has = (program: string): boolean => existsSync(`/usr/bin/${program}`);
const withRuby = testWhere(has('ruby'), 'the package ruby');
const withFacter = testWhere(has('facter'), 'the package facter');
const withPuppet = testWhere(has('puppet'), 'the package puppet-agent', test);

interface StandIn {
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Calls of salt-call, without the options that are always the same. */
  readonly calls: () => readonly string[];
  /** Returns the values of the last `put_file`. */
  readonly written: () => unknown;
}

/** Creates a salt-call that returns these values by function, and records its calls. */
function standIn(t: ExecutionContext, answers: Readonly<Record<string, unknown>>): StandIn {
  const directory = temporaryDirectory(t);
  const cases = Object.entries(answers).map(([fun, answer]) => {
    const text = JSON.stringify({ local: answer }).replaceAll("'", "'\\''");
    return `  ${fun}) printf '%s' '${text}' ;;`;
  });
  const file = path.join(directory, 'salt-call');
  const script = `#!/bin/sh
[ "$1 $2 $3" = '--out=json --retcode-passthrough --log-level=quiet' ] || exit 64
shift 3
echo "$@" >> '${directory}/calls'
[ "$1" = saltbridge_data.put_file ] && { stat -c %a "$2" > '${directory}/mode'; cp "$2" '${directory}/written'; }
case $1 in
${cases.join('\n')}
  *) echo "db/password is not written yet" >&2; exit 1 ;;
esac
`;
  writeFileSync(file, script);
  chmodSync(file, 0o755);
  return {
    directory,
    env: { PATH: process.env.PATH, HOME: directory, LANG: 'C.UTF-8', SALTBRIDGE_SALT_CALL: file },
    calls: () => readFileSync(path.join(directory, 'calls'), 'utf8').trim().split('\n'),
    written: () => {
      const values: unknown = JSON.parse(readFileSync(path.join(directory, 'written'), 'utf8'));
      return { values, mode: readFileSync(path.join(directory, 'mode'), 'utf8').trim() };
    },
  };
}

const nasty = `'"$(id)\`#{1 + 1}` + '\u00e9';
const values = { 'mysql:password': nasty, 'mysql:host': '10.0.0.5', plain: 'x' };
const nested = { mysql: { password: nasty, host: '10.0.0.5' }, plain: 'x' };

withRuby(
  "Chef's handlers wait for the values that the role reads, and write its own values",
  (t) => {
    const { env, calls, written } = standIn(t, {
      'saltbridge_data.attributes': values,
      'pillar.get': {
        writes: {
          'app:url': 'app/url',
          'app:ports': 'app/ports',
          'app:no': 'app/no',
          gone: 'app/gone',
        },
        unread: ['app/ports'],
      },
      'saltbridge_data.put_file': { 'app:url': 1 },
    });
    const run = spawnSync('ruby', [chef, library], {
      env: { ...env, SALTBRIDGE_TIMEOUT: '77' },
      input: JSON.stringify({ mysql: { port: 3306, host: 'of a cookbook' } }),
      encoding: 'utf8',
    });
    t.is(run.stderr, '');
    t.deepEqual(JSON.parse(run.stdout), {
      mysql: { port: 3306, host: '10.0.0.5', password: nasty },
      plain: 'x',
      app: { url: 'http://10.0.0.5/', ports: [80, 443] },
    });
    t.deepEqual(calls().slice(0, 2), [
      'saltbridge_data.attributes timeout=77',
      'pillar.get saltbridge:data',
    ]);
    t.deepEqual(written(), { values: { 'app:url': 'http://10.0.0.5/' }, mode: '600' });
  },
);

withRuby('a missing value ends a run of Chef', (t) => {
  const { env } = standIn(t, {});
  const run = spawnSync('ruby', [chef, library], { env, input: '{}', encoding: 'utf8' });
  t.not(run.status, 0);
  t.regex(run.stderr, /saltbridge_data\.attributes: db\/password is not written yet/);
});

function factsOf(stand: StandIn): object {
  const folder = path.join(stand.directory, 'facts');
  mkdirSync(folder);
  copyFileSync(library, path.join(folder, 'saltbridge.rb'));
  return { ...stand.env, FACTERLIB: folder };
}

withFacter('the fact saltbridge contains the values that the role reads', (t) => {
  const stand = standIn(t, { 'saltbridge_data.attributes': values });
  const env = { ...stand.env, ...factsOf(stand) };
  const run = spawnSync('facter', ['--json', 'saltbridge'], { env, encoding: 'utf8' });
  t.deepEqual(JSON.parse(run.stdout), { saltbridge: nested }, run.stderr);
  t.deepEqual(stand.calls(), ['saltbridge_data.attributes timeout=300']);
});

withFacter('without its values the fact does not exist, and Facter reports the reason', (t) => {
  const stand = standIn(t, {});
  const env = { ...stand.env, ...factsOf(stand) };
  const run = spawnSync('facter', ['--json', 'saltbridge'], { env, encoding: 'utf8' });
  t.regex(`${run.stdout}${run.stderr}`, /db\/password is not written yet/);
  t.notRegex(run.stdout, /mysql/);
});

withPuppet('Puppet applies a manifest with values of the data space', (t) => {
  const stand = standIn(t, { 'saltbridge_data.attributes': values });
  const env = { ...stand.env, ...factsOf(stand) };
  const file = path.join(stand.directory, 'applied');
  const manifest = `file { '${file}': content => $facts['saltbridge']['mysql']['password'] }`;
  const run = spawnSync('puppet', ['apply', '--detailed-exitcodes', '-e', manifest], {
    env,
    encoding: 'utf8',
  });
  t.is(run.status, 2, `${run.stdout}${run.stderr}`);
  t.is(readFileSync(file, 'utf8'), nasty);
});
