import test from 'ava';
import { parseArgument } from '../../../master/arguments/arguments.ts';
import { parseYaml } from '../../../master/arguments/yaml.ts';

function nested(open: string, close: string, depth: number): string {
  return open.repeat(depth) + close.repeat(depth);
}

test('what is nested deeply is read up to 64 levels', (t) => {
  t.notThrows(() => parseYaml(nested('[', ']', 64)));
  t.notThrows(() => parseYaml(`- ["${'['.repeat(100)}"]`));
  for (const text of [
    nested('[', ']', 65),
    nested('{a: ', '}', 65),
    '- '.repeat(65),
    '? '.repeat(65),
    Array.from({ length: 66 }, (_, level) => `${' '.repeat(level)}a:`).join('\n'),
    Array.from({ length: 66 }, (_, level) => `${' '.repeat(level)}-`).join('\n'),
  ]) {
    t.throws(() => parseYaml(text), { instanceOf: SyntaxError, message: /too deeply/ });
  }
});

test('a text that would end the process is an argument like any other', (t) => {
  for (const text of ['['.repeat(100_000), '{a: '.repeat(50_000), '- '.repeat(100_000)]) {
    t.is(parseArgument(text), text);
  }
});
