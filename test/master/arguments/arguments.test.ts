import test from 'ava';
import { parseArgument, parseArguments } from '../../../master/arguments/arguments.ts';
import { fromJson } from '../../../master/arguments/json-values.ts';
import { readCases } from '../../cli/fixture.ts';

interface ArgumentCase {
  readonly inputs: string[];
  readonly noParse: string[];
  readonly args: unknown[];
  readonly kwargs: [string, unknown][];
}

test('arguments are read as Salt reads them', (t) => {
  const cases = readCases<ArgumentCase>('arguments.json');
  const read = cases.map(({ inputs, noParse }) => {
    const { arg, kwarg } = parseArguments(inputs, noParse);
    return { inputs, noParse, args: [...arg], kwargs: Object.entries(kwarg) };
  });
  t.true(cases.length >= 250);
  const expected = cases.map(({ args, kwargs, ...rest }) => ({
    ...rest,
    args: args.map((value) => fromJson(value)),
    kwargs: kwargs.map(([name, value]) => [name, fromJson(value)]),
  }));
  t.deepEqual(read, expected);
});

test('a name that objects inherit is a keyword like any other', (t) => {
  const { kwarg } = parseArguments(['__proto__=1', 'constructor={toString: 2}']);
  t.deepEqual(Object.keys(kwarg), ['__proto__', 'constructor']);
  t.is(Object.getPrototypeOf(kwarg), null);
});

test('aliases that multiply are text', (t) => {
  const ten = (name: string) => `[${`*${name}, `.repeat(10)}]`;
  const laughs = `[&a [x], &b ${ten('a')}, &c ${ten('b')}, &d ${ten('c')}, ${ten('d')}]`;
  t.is(parseArgument(laughs), laughs);
});
