/** Filters of Salt, with the results of Salt 3007.13. */

import test from 'ava';
import { parseYaml, TemplateError } from '#template';
import { renderText } from '../helpers/jinja.ts';

const results: readonly (readonly [string, string])[] = [
  ['{{ {"a": "é"} | json }}', '{"a": "é"}'],
  ['{{ {"a": "é"} | tojson }}', '{"a": "\\u00e9"}'],
  ['{{ {"a": "é\\u007f\\u2028"} | json(indent=2) }}', '{\n  "a": "é "\n}'],
  ["{{ '!!binary aGk=' | load_yaml }}", 'hi'],
  ["{{ 'a: !!binary aGk=' | load_yaml }}", "{'a': 'hi'}"],
  ["{{ 'fe80::1' | ipwrap }}", '[fe80::1]'],
  ["{{ ['fe80::1','10.0.0.1','x'] | ipwrap }}", "['[fe80::1]', '10.0.0.1', 'x']"],
  ['{{ 5 | ipwrap }}', '5'],
  ["{{ '00:11:22:33:44:55' | mac_str_to_bytes }}", "b'\\x00\\x11\"3DU'"],
  ["{{ '001122334455' | mac_str_to_bytes }}", "b'\\x00\\x11\"3DU'"],
  ["{{ ['é', {'a': 'b'}, ['c']] | json_encode_list }}", "[b'\\xc3\\xa9', {b'a': b'b'}, [b'c']]"],
  ["{{ {'a': ['é', 1]} | json_encode_dict }}", "{b'a': [b'\\xc3\\xa9', 1]}"],
  [
    "{{ ['é', 1, none, true, [1], {'a':1.0}] | json_decode_list }}",
    "[b'\\xc3\\xa9', 1, None, True, [1], {b'a': 1.0}]",
  ],
  ["{{ {'a': 'x', 'b': [1, 'é']} | json_decode_dict }}", "{b'a': b'x', b'b': [1, b'\\xc3\\xa9']}"],
  ["{{ [3,2,1] | random_shuffle(seed='s') }}", '[2, 3, 1]'],
  ["{{ range(20)|list | random_sample(5, seed='abc') }}", '[7, 14, 8, 9, 15]'],
  ["{{ range(200)|list | random_sample(5, seed='abc') }}", '[181, 56, 175, 115, 68]'],
  ["{{ 'abc' | random_shuffle(seed='x') }}", "['b', 'c', 'a']"],
  [
    "{{ range(100)|list|random_sample(100, seed='q') }}",
    '[97, 39, 31, 91, 50, 64, 10, 33, 85, 9, 1, 98, 23, 55, 45, 30, 80, 92, 60, 53, 68, 13, 40, 58, 0, 77, 36, 32, 54, 43, 46, 6, 35, 95, 18, 78, 19, 93, 20, 72, 26, 61, 81, 15, 44, 22, 73, 21, 89, 17, 63, 49, 27, 86, 57, 70, 51, 25, 94, 83, 42, 37, 62, 3, 74, 67, 66, 7, 2, 59, 16, 71, 76, 28, 75, 99, 48, 12, 84, 96, 38, 41, 24, 8, 88, 82, 47, 5, 56, 4, 11, 65, 69, 79, 52, 14, 90, 34, 29, 87]',
  ],
  ["{{ {'a':1} | set_dict_key_value('b:c', 2) }}", "{'a': 1, 'b': {'c': 2}}"],
  ["{{ {'a':{'b':[1]}} | append_dict_key_value('a:b', 2) }}", "{'a': {'b': [1, 2]}}"],
  ["{{ {'a':{'b':[1]}} | extend_dict_key_value('a:b', [2,3]) }}", "{'a': {'b': [1, 2, 3]}}"],
  [
    "{{ {'a':{'b':{'x':1}}} | update_dict_key_value('a:b', {'y':2}) }}",
    "{'a': {'b': {'x': 1, 'y': 2}}}",
  ],
  ["{{ '127.0.0.1' | ipwrap }}", '127.0.0.1'],
  ['{{ none | ipwrap }}', 'None'],
  [
    "{{ ['a','b','c','d','e','f','g']|random_shuffle(seed='web1') }}",
    "['g', 'd', 'e', 'b', 'f', 'a', 'c']",
  ],
  [
    "{{ range(5000)|list|random_sample(30, seed='é') }}",
    '[652, 4524, 2564, 2906, 74, 1224, 1167, 3401, 4110, 324, 3270, 3182, 4551, 724, 307, 3992, 2603, 1014, 1539, 2966, 3741, 3905, 1086, 588, 1190, 4396, 3303, 3291, 404, 4408]',
  ],
  ["{{ {'a':1}|set_dict_key_value('a:b',1) }}", "{'a': {'b': 1}}"],
  ["{{ {}|append_dict_key_value('x', 1) }}", "{'x': [1]}"],
  [
    "{{ {'a':{'b':{'c':1}}}|set_dict_key_value('a/b/d',1, '/') }}",
    "{'a': {'b': {'c': 1, 'd': 1}}}",
  ],
  ["{{ ('fe80::1','x')|ipwrap }}", "['[fe80::1]', 'x']"],
  ["{{ '[fe80::1]'|ipwrap }}", '[fe80::1]'],
  ["{{ 'FE80:0:0::1'|ipwrap }}", '[fe80::1]'],
  ["{{ 'fe80::1%eth0'|ipwrap }}", '[fe80::1%eth0]'],
  ["{{ {'a': 1} | json_decode_dict | yaml(False) }}", '? !!binary |\n  YQ==\n: 1'],
  ["{{ {'a': 1} | json_decode_dict | yaml }}", '{? !!binary "YQ==\\n" : 1}'],
  [
    "{{ [{'a': {'b': 'c'}}] | json_decode_list | yaml(False) }}",
    '- ? !!binary |\n    YQ==\n  : ? !!binary |\n      Yg==\n    : !!binary |\n      Yw==',
  ],
  ["{{ {'': 1} | json_decode_dict | yaml }}", '{!!binary "": 1}'],
  ["{{ {'': 1} | yaml }}", "{'': 1}"],
  [
    "{{ {'a' * 128: 1} | yaml(False) }}",
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1',
  ],
  [
    "{{ {'a' * 129: 1} | yaml(False) }}",
    '? aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n: 1',
  ],
  [
    "{{ ['\\u0007' ~ ' word' * 30] | yaml(False) }}",
    '- "\\a word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word"',
  ],
  [
    "{{ {'a': ['b'], 'k': 'x'} | json_decode_dict | dict_to_sls_yaml_params }}",
    '- ? !!binary |\n    YQ==\n  : - !!binary |\n      Yg==\n- ? !!binary |\n    aw==\n  : !!binary |\n    eA==',
  ],
];

for (const [template, result] of results) {
  test(`${template} gives what it gives under Salt`, (t) => {
    t.is(renderText(template), result);
  });
}

const refused: readonly (readonly [string, RegExp])[] = [
  ["{{ '::1/64' | ipwrap }}", /does not appear to be an IPv4 or IPv6 address/],
  ["{{ 'x' | mac_str_to_bytes }}", /Invalid MAC address/],
  ["{{ 'a: !!binary /w==' | load_yaml }}", /'utf-8' codec can't decode/],
  ["{{ [1, 2] | random_sample(3, seed='q') }}", /Sample larger than population/],
  ['{{ [1, 2] | random_shuffle(seed=5) }}', /object supporting the buffer API required/],
  ['{{ [1, 2] | random_shuffle }}', /'random_shuffle' is not supported without seed=/],
];

for (const [template, message] of refused) {
  test(`${template} fails`, (t) => {
    t.throws(() => renderText(template), { instanceOf: TemplateError, message });
  });
}

/** Documents without a line break at the end, with the value that libyaml gives. */
const unfinished: readonly (readonly [string, unknown])[] = [
  ['a: |\n  x', 'x'],
  ['a: >\n  x\n  y', 'x y'],
  ['a: |+\n  x', 'x'],
  ['a: |-\n  x', 'x'],
  ['a: |\n  x\n', 'x\n'],
  ['a: |\n  x\n  ', 'x\n'],
  ['a: |\n  x\n   ', 'x\n '],
  ['a: |\r\n  x\r\n  y', 'x\ny'],
  ['a: |\n  x\n#c', 'x\n'],
  ['a: |\n  x  ', 'x  '],
  ['a: |\n  x\nb: |\n  x', 'x\n'],
];

for (const [index, [text, value]] of unfinished.entries()) {
  test(`unfinished block scalar ${index}: ${JSON.stringify(text)} has the line breaks of the text`, (t) => {
    const data = parseYaml(text, { name: 'x' });
    t.true(data instanceof Map);
    if (data instanceof Map) t.is(data.get('a'), value);
  });
}

test.serial('times are printed in local time, without leading zeros after %-', (t) => {
  const { TZ = '' } = process.env;
  t.teardown(() => {
    if (TZ === '') delete process.env.TZ;
    else process.env.TZ = TZ;
  });
  process.env.TZ = 'Asia/Tokyo';
  const now = new Date(Date.UTC(2024, 0, 5, 16, 30));
  const render = (source: string): string => renderText(source, { now: () => now });
  t.is(render("{{ None | strftime('%Y-%m-%d %H:%M') }}"), '2024-01-06 01:30');
  t.is(render("{{ None | strftime('%-d.%-m. %-H:%-M %-y %-%') }}"), '6.1. 1:30 24 %');
  t.is(render("{{ 1700000000 | strftime('%d %H:%M %s') }}"), '15 07:13 1700000000');
  t.is(render("{{ '2024-01-05' | strftime('%d %H') }}"), '05 00');
});
