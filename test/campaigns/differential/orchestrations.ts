/** Orchestrations at random: `test` states with requisites, orders, includes and extensions. */

import type { Random } from '../random.ts';

/** SLS files in a folder of their own. The orchestration runs `site.sls`. */
export interface OrchestrationQuestion {
  readonly folder: string;
  readonly files: Readonly<Record<string, string>>;
  readonly test: boolean | null;
}

const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g'] as const;
const functions = [
  'nop',
  'nop',
  'succeed_without_changes',
  'succeed_with_changes',
  'fail_without_changes',
  'fail_with_changes',
  'configurable_test_state',
  'show_notification',
] as const;
const requisites = [
  'require',
  'watch',
  'onchanges',
  'onfail',
  'require_any',
  'watch_any',
  'onchanges_any',
  'onfail_any',
  'onfail_all',
  'prereq',
  'listen',
  'use',
] as const;
const turned = [
  'require_in',
  'watch_in',
  'onchanges_in',
  'onfail_in',
  'prereq_in',
  'listen_in',
  'use_in',
] as const;

/** Generates one orchestration. */
export function orchestration(random: Random, number: number): OrchestrationQuestion {
  const isSplit = random.below(4) === 0;
  const own = isSplit ? ids.slice(0, 4) : ids.slice(0, 2 + random.below(6));
  const head = isSplit ? `include:\n  - ${random.of(['.web', `o${number}.web`])}\n` : '';
  const tail = random.below(10) === 0 ? extras(random) : '';
  const files: Record<string, string> = {
    'site.sls': `${head}${own.map((id) => declaration(random, id)).join('')}${tail}`,
  };
  if (isSplit) {
    files['web.sls'] = ids
      .slice(4)
      .map((id) => declaration(random, id))
      .join('');
  }
  return { folder: `o${number}`, files, test: random.of([null, null, null, true]) };
}

function declaration(random: Random, id: string): string {
  const name = random.of(functions);
  const lines = argumentsOf(random, name);
  for (let count = random.below(4); count > 0; count -= 1) lines.push(requisite(random));
  if (random.below(6) === 0) lines.push(option(random));
  const body = lines.map((line) => `    - ${line}\n`).join('');
  switch (random.below(12)) {
    case 0:
      return `${id}:\n  test:\n    - ${name}\n${body}`;
    case 1:
      return lines.length === 0 ? `${id}: test.${name}\n` : `${id}:\n  test.${name}:\n${body}`;
    case 2:
      return `${id}:\n  test.${name}:\n    - names: [${id}1, ${id}2]\n${body}`;
    default:
      return `${id}:\n  test.${name}:${body === '' ? ' []\n' : `\n${body}`}`;
  }
}

function argumentsOf(random: Random, name: string): string[] {
  const flag = (): string => random.of(['True', 'False']);
  switch (name) {
    case 'configurable_test_state':
      return [
        `result: ${flag()}`,
        `changes: ${flag()}`,
        ...(random.below(3) === 0 ? ['comment: said'] : []),
      ];
    case 'show_notification':
      return [`text: ${random.of(['hello', '1.0', '"a: b"', 'yes'])}`];
    default:
      return random.below(6) === 0 ? [`name: ${random.of(['n1', 'n2', '7', '1.50'])}`] : [];
  }
}

function requisite(random: Random): string {
  const kind = random.below(4) === 0 ? random.of(turned) : random.of(requisites);
  const items = Array.from({ length: 1 + random.below(2) }, () => reference(random));
  return `${kind}: ${random.below(15) === 0 ? reference(random) : `[${items.join(', ')}]`}`;
}

function reference(random: Random): string {
  const id = random.of([...ids, 'a1', 'n1', 'gone']);
  switch (random.below(12)) {
    case 0:
      return id;
    case 1:
      return `{id: ${id}}`;
    case 2:
      return `{sls: ${random.of(['o.web', 'site', 'web'])}}`;
    case 3:
      return `{test: '${random.of(['*', 'a*', '[ab]'])}'}`;
    case 4:
      return `{name: ${id}}`;
    default:
      return `{test: ${id}}`;
  }
}

function option(random: Random): string {
  return random.of([
    'failhard: True',
    'order: 1',
    'order: last',
    'order: first',
    'order: -1',
    'order: 2.5',
    'order: "3"',
    'reload_modules: True',
    'check_cmd_timeout: 3',
    'comment: commented',
    'test: True',
    'nonsense: {a: 1}',
    'retry: {attempts: 2, interval: 0}',
    'retry: False',
    'umask: 022',
    'parallel: False',
  ]);
}

function extras(random: Random): string {
  const id = random.of(ids);
  return random.of([
    `extend:\n  ${id}:\n    test:\n      - require: [{test: ${random.of(ids)}}]\n`,
    `extend:\n  ${id}:\n    test:\n      - name: extended\n`,
    `extend:\n  gone:\n    test: []\n`,
    `exclude: [{id: ${id}}]\n`,
    `exclude: [${id}]\n`,
    'exclude: [{sls: web}]\n',
    `${id}x: [test.nop]\n`,
    `${id}y:\n  test.nop: x\n`,
    `${id}z:\n  test: [nop, nop]\n`,
    `${id}v:\n  test.nop: []\n  test.succeed_without_changes: []\n`,
    `${id}w:\n  test.unknown: []\n`,
    `${id}u:\n  nope.nothing: []\n`,
  ]);
}
