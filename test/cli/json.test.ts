import test from 'ava';
import fc from 'fast-check';
import { formatJson } from '../../cli/output/json.ts';
import { fromJson } from '../../master/arguments/json-values.ts';
import { WireDateTime, WireExtension } from '../../minion-protocol/index.ts';
import { readCases } from './fixture.ts';

interface JsonCase {
  readonly value: unknown;
  readonly pretty: string;
  readonly compact: string;
}

const cases = readCases<JsonCase>('json.json');

/** What we escape and Python does not: the same document, safe to print. */
function withEscapes(json: string): string {
  return json.replace(
    /[\x85\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

test('values are written with an indent as Salt writes them', (t) => {
  t.true(cases.length >= 70);
  t.deepEqual(
    cases.map(({ value }) => formatJson(fromJson(value), { indent: 4 })),
    cases.map(({ pretty }) => withEscapes(pretty)),
  );
});

test('values are written on one line as Salt writes them', (t) => {
  t.deepEqual(
    cases.map(({ value }) => formatJson(fromJson(value))),
    cases.map(({ compact }) => withEscapes(compact)),
  );
});

test('keys that are bytes, dates and extensions keep their content', (t) => {
  const value = new Map([
    [new Uint8Array([0x6b, 0xff]), new WireDateTime('2024-01-02T03:04:05.000000')],
  ]);
  t.is(formatJson(value), '{"b\'k\\\\xff\'": "2024-01-02T03:04:05.000000"}');
  t.is(formatJson(new WireExtension(5, new Uint8Array([1]))), '[5, "b\'\\\\x01\'"]');
});

test('what is printed is the same document and has no control characters', (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 }), fc.nat(8), (value, indent) => {
      const text = formatJson(fromJson(value), { indent });
      t.notRegex(text, /(?!\n)[\p{Cc}\u2028-\u202e\u2066-\u2069]/u);
      t.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('text that would steer a terminal is written as escapes', (t) => {
  t.is(formatJson('\x1b[31m\x9b\x7f\u202e'), '"\\u001b[31m\\u009b\\u007f\\u202e"');
});
