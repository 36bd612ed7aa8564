/** The registry of limits lists every limiter, and docs/limits.md every limit. */

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { errorTables } from '../scripts/errors-doc.ts';
import { limitTables, withLimits } from '../scripts/limits-doc.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const rooms =
  'acl cli client cluster config edge guests heat-bridge master minion-protocol runtime salt salt-api server store template';
const sources = rooms
  .split(' ')
  .flatMap((room) =>
    readdirSync(`${root}${room}`, { recursive: true, encoding: 'utf8' }).map(
      (name) => `${room}/${name}`,
    ),
  )
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ file, text: readFileSync(`${root}${file}`, 'utf8') }));

const limits = Object.values(limitTables).flatMap((table) => Object.values(table));

/** Files with limiters that the registry does not describe, with the reason. */
const exempt: Readonly<Record<string, string>> = {
  'acl/rules-by-subject.ts': 'size of the policy',
  'client/shared/join-master.ts': 'calls of the own process',
  'cluster/log/log-end.ts': 'positions of the own member',
  'cluster/log/rights.ts': 'size of one report',
  'heat-bridge/commands/states/content-budget.ts': 'size of one input',
  'minion-protocol/payload-scanner.ts': 'takes a limit',
  'minion-protocol/targeting/nodegroups.ts': 'size of one input',
  'minion-protocol/transport/concurrency-limiter.ts': 'takes a limit',
  'minion-protocol/transport/tcp-listener.ts': 'messages of one connection',
  'salt/file-trees/walk-roots.ts': 'size of one input',
  'salt/pillar/compile-pillar.ts': 'size of one input',
  'salt/pillar/own-pillar.ts': 'log lines',
  'salt/reactor/reactor-runner.ts': 'size of the configuration',
  'template/python/regex-size.ts': 'size of one input',
  'template/yaml.ts': 'size of one input',
};

/** Constructs of a limiter that is made by hand. */
const ownLimiters: readonly RegExp[] = [
  /\b(?:import|import \{[^}]*\}) from 'lru-cache'/,
  /#\w+\.size >=? (?:this\.)?#?(?:max|capacity|limit)/i,
  /#(?:waiting|count|total|held|queue|open)\w*(?:\.length)? >=? (?:this\.)?#?(?:options\.)?(?:max|capacity|limit)/i,
  /class \w*(?:Limiter|Throttle|Semaphore|Buckets?|Budget|Quotas?|Slots|Concurrency)\b/,
];

test('docs/limits.md lists the limits of all rooms', (t) => {
  const page = readFileSync(`${root}docs/limits.md`, 'utf8');
  t.is(withLimits(page), page, 'run: node scripts/limits-doc.ts');
  const defined = sources.filter(({ text }) => /= defineLimits\(/.test(text));
  t.deepEqual(defined.map(({ file }) => file).sort(), Object.keys(limitTables).sort());
});

test('each limit has a limiter, a unique name, amounts, and a code that exists', (t) => {
  const codes = new Set(errorTables.flatMap((table) => Object.keys(table)));
  const all = sources.map(({ text }) => text).join('\n');
  t.is(new Set(limits.map(({ name }) => name)).size, limits.length);
  for (const { name, row, perOwner, total, rate, waiting } of limits) {
    const amounts = [row.amounts, perOwner, total, rate, waiting];
    t.true(
      amounts.some((it) => it !== undefined),
      `${name} has no amounts`,
    );
    t.true(row.code === undefined || codes.has(row.code), `${name}: unknown code`);
    const key = name.slice(name.indexOf('.') + 1);
    const use = new RegExp(`Limits\\.${key}\\b|\\{[^{}]*\\b${key}\\b[^{}]*\\} = \\w+Limits\\b`);
    t.true(use.test(all), `${name} is not used`);
  }
});

test('no limiter is outside of the registry', (t) => {
  const found = sources
    .filter(({ file }) => !file.startsWith('runtime/'))
    .filter(({ text }) => !/\w+Limits\.\w+/.test(text) && ownLimiters.some((it) => it.test(text)))
    .map(({ file }) => file);
  t.deepEqual(
    found.filter((file) => exempt[file] === undefined),
    [],
  );
  t.deepEqual(
    Object.keys(exempt).filter((file) => !found.includes(file)),
    [],
  );
});
