/**
 * Generates random YAML documents. Most are well-formed, and many contain syntax that parsers
 * interpret differently.
 */

import type { Random } from '../random.ts';

const plain = [
  'yes',
  'No',
  'on',
  'OFF',
  'y',
  'n',
  'Y',
  'true',
  'False',
  'TRUE',
  '~',
  'null',
  'Null',
  'NULL',
  'none',
  '0',
  '-1',
  '+7',
  '1.0',
  '-0.0',
  '1e3',
  '1.5e3',
  '1.5e+3',
  '1E+3',
  '.5',
  '5.',
  '1_000',
  '1_0.5',
  '0x1F',
  '0o17',
  '017',
  '08',
  '0b101',
  '1:30',
  '190:20:30',
  '190:20:30.15',
  '.inf',
  '-.INF',
  '.nan',
  '.NaN',
  '2001-12-14',
  '2001-12-14t21:59:43.10-05:00',
  '2001-12-14 21:59:43',
  '2001-13-40',
  '20180828195351562601',
  '9007199254740993',
  '-9223372036854775809',
  '1e400',
  '=',
  '<<',
  'a b',
  'a: b',
  'a #b',
  'a#b',
  '#b',
  '-',
  '- a',
  '-a',
  '?',
  '?a',
  ':',
  ':a',
  'a:',
  '@a',
  '`a',
  '%a',
  '!a',
  '&a',
  '*a',
  '|',
  '>',
  '{}',
  '[]',
  '[a',
  'é',
  'grüße',
  '\u{1f600}',
  '\u0085x',
  '\u00a0',
  'a\\nb',
  "it's",
  'C:\\temp',
  '0644',
  "'",
  '"',
  '{{ x }}',
  'a, b',
  '---',
  '...',
  '!!binary aGk=',
  '!!binary /w==',
  '!!str 5',
  '!!int "3"',
  '!!float 3',
  '!!bool yes',
  '!!null x',
  '!!set {a, b}',
  '!!omap [a: 1, b: 2]',
  '!!pairs [a: 1, a: 2]',
  '!!timestamp 2001-12-14',
  '!!python/tuple [1]',
  '!local x',
  '! 12',
] as const;

const quoted = [
  "''",
  '""',
  "'it''s'",
  '"a\\tb"',
  '"\\u00e9"',
  '"\\x41"',
  '"\\U0001F600"',
  '"a\\\n  b"',
  "'a\n\n  b'",
  '"\\/"',
  '"\\q"',
  "'1'",
  '"yes"',
  '"a\nb"',
  "'a # b'",
  '"\\ud83d\\ude00"',
  '"\\0"',
  '"\\_"',
] as const;

const keys = [
  'a',
  'b',
  'key',
  'long key',
  '1',
  '1.5',
  'true',
  'no',
  '~',
  "'q'",
  '"d"',
  'é',
  '2001-12-14',
  '<<',
  '? c',
] as const;

/** Generates one document. */
export function yamlDocument(random: Random): string {
  const newline = random.below(12) === 0 ? '\r\n' : '\n';
  const head =
    random.below(10) === 0
      ? random.of(['---\n', '%YAML 1.1\n---\n', '# comment\n', '\n', '--- # x\n', '\ufeff'])
      : '';
  const tail = random.of([
    '\n',
    '\n',
    '\n',
    '',
    '\n\n',
    '\n...\n',
    ' # end\n',
    '\n# end',
    '\n---\n',
    '\n   ',
  ]);
  const text = head + node(random, 0, 0) + tail;
  return newline === '\n' ? text : text.replaceAll('\n', newline);
}

const common = [
  'text',
  'two words',
  '1',
  '12',
  'y',
  'no',
  'True',
  '1.0',
  'a:b',
  'a-b',
  '/etc/x',
  '10.0.0.1',
  '0644',
] as const;

function scalar(random: Random): string {
  if (random.below(3) > 0) return random.of(common);
  return random.below(4) === 0 ? random.of(quoted) : random.of(plain);
}

/** Generates a node on lines of its own, indented. */
function node(random: Random, depth: number, indent: number): string {
  const kind = random.below(depth > 3 ? 2 : 8);
  const pad = ' '.repeat(indent);
  if (kind < 2) return pad + inline(random, depth);
  const count = 1 + random.below(4);
  const items = Array.from({ length: count }, () =>
    kind < 6 ? mapEntry(random, depth, indent) : listEntry(random, depth, indent),
  );
  const between = random.below(10) === 0 ? '\n\n' : random.below(12) === 0 ? '\n# between\n' : '\n';
  return items.join(between);
}

function mapEntry(random: Random, depth: number, indent: number): string {
  const pad = ' '.repeat(indent);
  const key = random.of(keys);
  const separator = random.below(20) === 0 ? random.of([':\t', ' : ', ':  ']) : ': ';
  return pad + key + separator.trimEnd() + value(random, depth, indent, separator);
}

function listEntry(random: Random, depth: number, indent: number): string {
  const pad = ' '.repeat(indent);
  if (depth < 3 && random.below(4) === 0) {
    return `${pad}- ${node(random, depth + 1, indent + 2).slice(indent + 2)}`;
  }
  return `${pad}-${value(random, depth, indent, ' ')}`;
}

/** Generates the text after a key or a dash. */
function value(random: Random, depth: number, indent: number, separator: string): string {
  const space = separator.endsWith(':') ? '' : separator.replace(':', '') || ' ';
  const property =
    random.below(12) === 0 ? `${random.of(['&x ', '&y ', '!!map ', '!!seq ', '!!str '])}` : '';
  switch (random.below(10)) {
    case 0:
      return `${space}${property}${block(random, indent)}`;
    case 1:
    case 2:
      return `${property === '' ? '' : ` ${property.trim()}`}\n${node(random, depth + 1, indent + 1 + random.below(3))}`;
    case 3:
      return random.below(2) === 0 ? '' : `${space}${random.of(['*x', '*y', '[*x, *y]'])}`;
    default:
      return `${space}${property}${inline(random, depth)}${random.below(12) === 0 ? ' # note' : ''}`;
  }
}

function inline(random: Random, depth: number): string {
  const kind = random.below(depth > 3 ? 6 : 9);
  if (kind < 6) return scalar(random);
  const count = random.below(4);
  const items = Array.from({ length: count }, () =>
    kind === 6 ? inline(random, depth + 1) : `${random.of(keys)}: ${inline(random, depth + 1)}`,
  );
  const inner =
    items.join(random.below(8) === 0 ? ',\n ' : ', ') + (random.below(10) === 0 ? ',' : '');
  return kind === 6 ? `[${inner}]` : `{${inner}}`;
}

function block(random: Random, indent: number): string {
  const style = random.of(['|', '>', '|', '>', '|-', '>-', '|+', '>+', '|2', '|1-', '> # note']);
  const pad = ' '.repeat(indent + (style.includes('1') ? 1 : 2));
  const lines = Array.from({ length: 1 + random.below(4) }, () =>
    random.of(['text', 'more text', '', '  deeper', '# no comment', 'a: b', 'é', '\ttab', 'end ']),
  );
  return `${style}\n${lines.map((line) => (line === '' ? '' : pad + line)).join('\n')}`;
}
