/** Generates invalid bodies, and some that are almost valid. */
import type { Random } from './random.ts';

const types = [
  'application/json',
  'application/json; charset=utf-8',
  'text/plain;charset=UTF-8',
  'application/x-www-form-urlencoded',
  'application/x-yaml',
  'text/yaml',
] as const;

const functions = [
  'test.arg',
  'jobs.list_jobs',
  'nope.nope',
  'a',
  '',
  'key.list_all',
  '__proto__',
] as const;
const clients = [
  'local',
  'local_async',
  'local_batch',
  'local_subset',
  'runner',
  'wheel',
  'ssh',
  '',
] as const;
const targetTypes = [
  'glob',
  'list',
  'compound',
  'nodegroup',
  'pcre',
  'grain',
  'telepathy',
  '',
] as const;
const names = [
  'client',
  'fun',
  'tgt',
  'tgt_type',
  'arg',
  'kwarg',
  'token',
  'username',
  'batch',
  'mid',
  'timeout',
  'jid',
  'target',
  'params',
  'ticket',
  'id',
  '__proto__',
  'constructor',
  '$map',
  '$bytes',
] as const;
const texts = [
  '*',
  'web1',
  'E@(a|b)',
  '(',
  'N@x',
  'a=b',
  'a={x: 1}',
  '\u0000',
  '\ud83d\ude00',
  'é',
  '%',
  '&x',
  '!!python/object',
  '0x',
  '1e999',
  '~',
] as const;

/** Returns a body with its content type. */
export function bodyOf(random: Random): { readonly type: string; readonly bytes: Buffer } {
  const type = random.of(types);
  const bytes = Buffer.from(damaged(random, textOf(random, type)));
  if (random.below(20) === 0 && bytes.length > 0) bytes[random.below(bytes.length)] = 0xff;
  return { type, bytes };
}

function textOf(random: Random, type: string): string {
  if (random.below(100) === 0) return large(random);
  const value = random.below(2) === 0 ? command(random) : randomValue(random, 4);
  if (type.includes('yaml')) return random.below(3) === 0 ? yaml(random) : JSON.stringify(value);
  if (type.includes('form')) return form(random);
  return JSON.stringify(random.below(2) === 0 ? [value] : value);
}

function command(random: Random): Record<string, unknown> {
  const low: Record<string, unknown> = {
    client: random.of(clients),
    fun: random.of(functions),
    tgt: random.of(texts),
    tgt_type: random.of(targetTypes),
    arg: [randomValue(random, 2)],
    timeout: 0.05,
  };
  for (let count = random.below(3); count > 0; count -= 1) {
    low[random.of(names)] = randomValue(random, 3);
  }
  if (random.below(4) === 0) delete low[random.of(names)];
  return low;
}

function randomValue(random: Random, depth: number): unknown {
  const kind = random.below(depth === 0 ? 5 : 7);
  if (kind === 0) return random.of([null, true, false]);
  if (kind === 1) return random.of([0, -1, 2 ** 53, 1e308, 0.1, -0]);
  if (kind < 5) return random.of(texts).repeat(random.below(3));
  const items = Array.from({ length: random.below(4) }, () => randomValue(random, depth - 1));
  if (kind === 5) return items;
  return Object.fromEntries(items.map((item) => [random.of(names), item]));
}

function yaml(random: Random): string {
  const lines = [
    'a: 1',
    '- x',
    '? a',
    'b: &x [1]',
    'c: *x',
    '<<: {a: 1}',
    '{a: b, a: c}',
    'd: !!int x',
    '  e: |',
    '   text',
    '--- ',
    '%YAML 1.1',
    '"\\u00',
    "'",
    '\t- x',
    'n: 99999999999999999999999',
  ] as const;
  return Array.from({ length: 1 + random.below(12) }, () => random.of(lines)).join('\n');
}

function form(random: Random): string {
  const field = (): string => {
    return `${random.of(names)}${random.of(['=', '', '==', '[]='])}${encodeURIComponent(random.of(texts))}`;
  };
  return Array.from({ length: random.below(12) }, field).join('&');
}

/** Returns a text that is expensive to parse. */
function large(random: Random): string {
  const size = 1 + random.below(60_000);
  const units = [
    '[',
    '{"a":',
    '1,',
    '"\\"',
    '\\',
    'a: b: c\n',
    '- ',
    'k=v&',
    '%41',
    '&a ',
    '[],',
    ' ',
    '\n',
    '#\n',
    '{a: 1}, ',
  ] as const;
  const open = random.of(['', '[', '{', '"', 'a=', "'"]);
  return `${open}${random.of(units).repeat(size)}`;
}

function damaged(random: Random, text: string): string {
  const at = random.below(text.length + 1);
  switch (random.below(6)) {
    case 0:
      return text.slice(0, at);
    case 1:
      return `${text.slice(0, at)}${random.of(texts)}${text.slice(at)}`;
    case 2:
      return text + text;
    default:
      return text;
  }
}
