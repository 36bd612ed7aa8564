/** YAML that libyaml and the `yaml` package parse differently, with the results of Salt 3007.13. */

import test from 'ava';
import { parseYaml, TemplateError } from '#template';
import { renderText } from '../helpers/jinja.ts';

const values: readonly (readonly [string, unknown])[] = [
  ['\ufeff- 1\n', [1]],
  ['\ufeffa', 'a'],
  ['- ! 12\n- ! yes\n', [12, true]],
  ['? \n: b\n', new Map([[null, 'b']])],
  ['{: a}', new Map([[null, 'a']])],
  ['!!omap {a: 1}', new Map([['a', 1]])],
  ['"\\U0001F600"', '\u{1f600}'],
  ['"\\\\ud83d"', '\\ud83d'],
  ['- |1\n  \ttab\n', [' \ttab\n']],
  ['a: [1]#c', new Map([['a', [1]]])],
  ['a: [[#b\n 1]]', new Map([['a', [[1]]]])],
  [
    'a: "x"#c\nb: 1',
    new Map<string, unknown>([
      ['a', 'x'],
      ['b', 1],
    ]),
  ],
  [
    '{a: 1,#c\nb: 2}',
    new Map([
      ['a', 1],
      ['b', 2],
    ]),
  ],
  ['a: |#c\n  x', new Map([['a', 'x']])],
  ['"a"#c: 1', 'a'],
  ['a:#c', 'a:#c'],
  ['- &x-1_ a', ['a']],
];

for (const [text, value] of values) {
  test(`${JSON.stringify(text)} has the value that it has under Salt`, (t) => {
    t.deepEqual(parseYaml(text, { name: 'x' }), value);
  });
}

const refused: readonly (readonly [string, RegExp])[] = [
  ['a: &x#c 1', /while scanning an anchor/],
  ['a: &x.y 1', /while scanning an anchor/],
  ['a: "x"#c\n  y', /./],
  ['- &a 1\n- &a 2\n', /found duplicate anchor/],
  ['"\\ud83d\\ude00"', /found invalid Unicode character escape code/],
  ['a: "x\\\\\\ud83d"', /found invalid Unicode character escape code/],
  ['|\n  \ttab\n', /found a tab character where an indentation space is expected/],
  ['a:\n  - >\n\n    \ttab\n', /found a tab character/],
  ['!!omap [a: 1, b: 2]', /expected a mapping node, but found sequence/],
  [': a\n', /did not find expected key/],
  ['a: 1\n: b\n', /did not find expected key/],
  ['[a:]', /found unexpected ':'/],
  ['{a:}', /found unexpected ':'/],
  ['[:a,]', /found unexpected ':'/],
  ['{key: ?a}', /found '\?' at the begin of a value/],
  ['[?]', /did not find expected ','/],
  ['[text, ?]', /did not find expected ','/],
  ["{'a': ??}", /found '\?' at the begin of a value/],
  ['>\ntext', /did not find expected <document start>/],
  ['|-\n\ntext', /did not find expected <document start>/],
  ['%a\n---\n', /found unknown directive name/],
  ['%yaml 1.1\n---\na', /found unknown directive name/],
  ['%\n---\na', /could not find expected directive name/],
  ['%YAML 2.0\n---\na', /found incompatible YAML document/],
  ['%YAML 1.1\n%YAML 1.1\n---\na', /found duplicate %YAML directive/],
  ['%TAG !e! x\n%TAG !e! y\n---\na', /found duplicate %TAG directive/],
  ['%TAG !e x\n---\na', /did not find expected '!'/],
  ['%TAG !e! é\n---\na', /did not find expected whitespace or line break/],
  ['a: 1\n...\n%FOO\n', /found unknown directive name/],
  ['a: 1\n...\n%YAML 1.1\n', /did not find expected <document start>/],
];

for (const [text, message] of refused) {
  test(`${JSON.stringify(text)} is refused, as it is under Salt`, (t) => {
    t.throws(() => parseYaml(text, { name: 'x' }), { instanceOf: TemplateError, message });
  });
}

const templates: readonly (readonly [string, string])[] = [
  ["{{ 'text' | base64_decode }}", "b'\\xb5\\xecm'"],
  ["{{ 'aG k=' | base64_decode }}", 'hi'],
  ["{{ 'aGk==x' | base64_decode }}", 'hi'],
  ["{{ 15000000 | strftime('%Y') }}", '1970'],
  ["{{ {'a': 1} | zip_longest([1, 2]) | ipv6 }}", 'None'],
  ["{{ ['a'] | zip(['::1']) | ipaddr }}", 'None'],
  ["{{ missing | check_whitelist_blacklist(whitelist=['t*']) }}", 'False'],
  ["{{ 'x' % 'y'.encode('utf-8') }}", 'x'],
  ["{{ ['a', '::1'] | select | ipv6 }}", "['::1']"],
];

for (const [template, result] of templates) {
  test(`${template} gives what it gives under Salt`, (t) => {
    t.is(renderText(template), result);
  });
}

for (const template of [
  "{{ '10.0.0.1' | base64_decode }}",
  "{{ 'aGk' | base64_decode }}",
  '{% if 1.5 | compress([1]) %}{% endif %}',
  "{{ '' | strftime }}",
  '{{ 12345678901234567890 | strftime }}',
]) {
  test(`${template} fails, as it does under Salt`, (t) => {
    t.throws(() => renderText(template), { instanceOf: TemplateError });
  });
}
