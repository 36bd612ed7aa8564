import test from 'ava';
import { formatNested } from '../../cli/output/nested.ts';
import { formatNoReturn } from '../../cli/output/outputters.ts';
import { terminalColors } from '../../cli/terminal.ts';
import { fromJson } from '../../master/arguments/json-values.ts';
import { WireDateTime, WireExtension } from '../../minion-protocol/index.ts';
import { readCases } from './fixture.ts';

interface NestedCase {
  readonly value: unknown;
  readonly plain: string;
  readonly color: string;
  readonly failed: string;
  readonly noReturn?: string;
  readonly noReturnColor?: string;
}

function silentMinion(value: unknown): [string, string] {
  const [[minion, reason] = ['', '']] = Object.entries(Object(value));
  return [minion, String(reason)];
}

const cases = readCases<NestedCase>('nested.json');

test('values are shown as Salt shows them', (t) => {
  t.true(cases.length >= 70);
  t.deepEqual(
    cases.map(({ value }) => formatNested(fromJson(value))),
    cases.map(({ plain }) => plain),
  );
});

test('colours are those of Salt', (t) => {
  t.deepEqual(
    cases.map(({ value }) => formatNested(fromJson(value), { colors: terminalColors })),
    cases.map(({ color }) => color),
  );
});

test('the structure of a failure is red as in Salt', (t) => {
  const options = { colors: terminalColors, isFailure: true };
  t.deepEqual(
    cases.map(({ value }) => formatNested(fromJson(value), options)),
    cases.map(({ failed }) => failed),
  );
});

test('a silent minion is shown as Salt shows it', (t) => {
  const recorded = cases.find(({ plain }) => plain.includes('did not return'));
  const [minion, reason] = silentMinion(recorded?.value);
  t.is(formatNoReturn(minion, reason), recorded?.noReturn?.trimEnd() ?? '');
  t.is(formatNoReturn(minion, reason, terminalColors), recorded?.noReturnColor?.trimEnd() ?? '');
});

test('dates and extensions, which Salt does not show, are shown as what they hold', (t) => {
  t.is(formatNested(new WireDateTime('2024-01-02T03:04:05.000006')), '2024-01-02T03:04:05.000006');
  t.is(formatNested([new WireExtension(5, Buffer.from('x'))]), '|_\n  - 5\n  - x');
});

test('control characters cannot reach the terminal', (t) => {
  const evil = '\x1b]0;title\x07 \x9b31m \x7f \u202e';
  const shown = formatNested({ [`id\n\t${evil}`]: evil });
  t.is(shown.split('\n').length, 2);
  t.is(
    shown,
    'id\\n\\t\\x1b]0;title\\x07 \\x9b31m \\x7f \\u202e:\n    ?]0;title\\x07 \\x9b31m \\x7f \\u202e',
  );
});

test('the id of a silent minion cannot reach the terminal', (t) => {
  t.is(formatNoReturn('m\x1b\n1', 'a\x1b\x07\nb'), 'm\\x1b\\n1:\n    a?\\x07\n    b');
});
