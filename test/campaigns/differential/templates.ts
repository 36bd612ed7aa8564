/**
 * Generates random Jinja templates with the filters, tests and statements that are common in files
 * of sites.
 */

import type { Random } from '../random.ts';

/** Files that templates import and include. */
export const templateFiles: Readonly<Record<string, string>> = {
  'macros.jinja':
    "{% macro hi(name, mark='!') %}hi {{ name }}{{ mark }}{% endmacro %}" +
    '{% macro wrap() %}[{{ caller() }}]{% endmacro %}{% set exported = {"a": [1, 2.0]} %}',
  'part.jinja': '<{{ grains.os }}|{{ local | default("none") }}>\n',
  'map.jinja':
    "{% set map = salt_map | default({'Debian': {'pkg': 'apache2'}}, true) %}{% set n = 5 %}\n",
  'data.yaml': 'a: 1\nb: [x, 1.0]\nc: {d: y}\n',
  'data.json': '{"a": 1, "b": [1.0, "é"]}\n',
};

/** Grains of the minion for which templates are rendered. */
export const templateGrains: Readonly<Record<string, unknown>> = {
  id: 'web1.example.org',
  os: 'Debian',
  osmajorrelease: 12,
  osrelease: '12.5',
  ipv4: ['127.0.0.1', '192.0.2.7'],
  mem_total: 7957,
  roles: ['web', 'db'],
  disks: [],
  pythonversion: [3, 11, 2, 'final', 0],
  locale_info: { defaultlanguage: 'en_GB', detectedencoding: 'UTF-8' },
  num: 1.5,
  none: null,
  virtual: true,
};

const atoms = [
  '1',
  '0',
  '-3',
  '2.5',
  '1.0',
  '1e3',
  '12345678901234567890',
  "'text'",
  "'Hello World'",
  "''",
  "'a,b,c'",
  "'é<&>'",
  "'10.0.0.1'",
  "'fe80::1/64'",
  "'192.168.1.0/24'",
  "'a\\nb\\n'",
  "'  pad '",
  "'3.10'",
  "'yes'",
  'true',
  'false',
  'none',
  '[]',
  '{}',
  '[3, 1, 2]',
  "['b', 'A', 'a']",
  '[1, 1.0, true]',
  "{'a': 1, 'b': [1, 2]}",
  "{'b': {'c': none}, 'a': 2}",
  '[[1, 2], [3]]',
  '(1, 2)',
  "[{'n': 'x', 'v': 2}, {'n': 'y', 'v': 1}]",
  'grains.os',
  'grains.roles',
  "grains['osmajorrelease']",
  'grains.mem_total',
  'grains.missing',
  'grains.locale_info',
  "grains.get('id')",
  "grains.get('nope', 'd')",
  'grains.num',
  'undefined_name',
  'range(4)',
  'loop_var',
  "'2024-01-05'",
  "'%d items'",
  "'key: [1, y]'",
  '\'{"a": [1.0]}\'',
] as const;

const filters = [
  'upper',
  'lower',
  'title',
  'capitalize',
  'trim',
  'length',
  'count',
  'first',
  'last',
  'list',
  'sort',
  'sort(reverse=true)',
  'unique',
  'reverse',
  'join',
  "join(',')",
  'int',
  'int(7)',
  'float',
  'round',
  'round(1)',
  "round(0, 'floor')",
  'abs',
  'string',
  'e',
  'escape',
  'safe',
  'replace("a", "b")',
  "default('d')",
  "default('d', true)",
  'd',
  'json',
  'tojson',
  'yaml',
  'yaml(false)',
  'yaml_encode',
  'yaml_dquote',
  'yaml_squote',
  'python',
  'pprint',
  'load_yaml',
  'load_json',
  'dictsort',
  'items',
  'batch(2)',
  'slice(2)',
  'sum',
  'max',
  'min',
  "map('upper')",
  "map(attribute='n')",
  "selectattr('v')",
  "rejectattr('v', 'equalto', 1)",
  "select('odd')",
  "reject('none')",
  "groupby('v')",
  'indent',
  'indent(2)',
  'indent(2, true)',
  'wordcount',
  'wordwrap(5)',
  'center(9)',
  'truncate(5)',
  'truncate(5, true, "")',
  'urlencode',
  'striptags',
  'filesizeformat',
  'format(3)',
  'xmlattr',
  'forceescape',
  'attr("a")',
  'batch(3, 0)',
  'to_bool',
  'quote',
  'regex_escape',
  "regex_search('(a)')",
  "regex_match('([a-z]+)')",
  "regex_replace('a', 'x')",
  'uuid',
  'md5',
  'sha1',
  'sha256',
  'sha512',
  'hmac("k", "x")',
  'base64_encode',
  'base64_decode',
  'strftime',
  "strftime('%Y')",
  'sequence',
  'is_list',
  'is_iter',
  'is_hex',
  'is_ip',
  'is_ipv4',
  'is_ipv6',
  'ipaddr',
  'ipv4',
  'ipv6',
  'network_hosts',
  'network_size',
  'ip_host',
  'ipwrap',
  'avg',
  'union([9])',
  'difference([1])',
  'intersect([1])',
  'symmetric_difference([1])',
  'flatten',
  'flatten(levels=1)',
  'combinations(2)',
  'permutations(2)',
  'zip([1, 2])',
  'zip_longest([1, 2], fillvalue=0)',
  'product([1])',
  'compress([1, 0])',
  'contains("a")',
  'exactly_n_true(1)',
  'exactly_one_true',
  'at_least_one',
  'to_num',
  'to_entities',
  'substring_in_list(["a"])',
  'check_whitelist_blacklist(whitelist=["t*"])',
  'dict_to_sls_yaml_params',
  'tojson(indent=2)',
  'json(indent=2)',
  'json(sort_keys=false)',
  'traverse("a")',
  'traverse("b:c", "z")',
  'json_decode_list',
  'json_decode_dict',
  'unescape',
  'mysql_to_dict',
  'human_to_bytes',
  'str_to_num',
  'path_join("x")',
  'which',
  'date_format',
  'yaml_squote',
  'extend_dict_key_value("a", [1])',
  'set_dict_key_value("a:b", 2)',
  'bool',
  'raise',
  'get_uid',
  'method_call("upper")',
  'ifelse("a", "b")',
  'type',
] as const;

const tests = [
  'defined',
  'undefined',
  'none',
  'string',
  'number',
  'integer',
  'float',
  'boolean',
  'mapping',
  'sequence',
  'iterable',
  'list',
  'odd',
  'even',
  'divisibleby(2)',
  'lower',
  'upper',
  'sameas(none)',
  'equalto(1)',
  'eq("text")',
  'gt(1)',
  'in([1, 2])',
  'match("t.*")',
  'search("e")',
  'is_ip',
  'callable',
  'escaped',
  'true',
  'false',
  'ne(1)',
  'lt(3)',
  'dict',
  'filter',
  'equal(1)',
] as const;

const operators = [
  '+',
  '-',
  '*',
  '/',
  '//',
  '%',
  '~',
  '==',
  '!=',
  '<',
  '>',
  '<=',
  '>=',
  'and',
  'or',
  'in',
  'not in',
] as const;

const methods = [
  '.upper()',
  '.split(",")',
  '.split()',
  '.strip()',
  '.startswith("t")',
  '.replace("t", "x")',
  '.items()',
  '.keys()|list',
  '.values()|list',
  '.get("a")',
  '[0]',
  '[-1]',
  '[1:]',
  '[::-1]',
  "['a']",
  '.a',
  '.format(1)',
  '.join(["x", "y"])',
  '.splitlines()',
  '.count("a")',
  '.index("a")',
  '.find("o")',
  '.rsplit(".", 1)',
  '.partition(".")',
  '.zfill(5)',
  '.title()',
  '.isdigit()',
  '.encode("utf-8")',
  '.append(4)',
  '.update({"z": 1})',
  '.pop()',
  '.copy()',
  '.endswith("d")',
  '.lstrip("te")',
  '.rjust(8)',
] as const;

/** Generates one template. */
export function template(random: Random): string {
  const count = 1 + random.below(2);
  const text = Array.from({ length: count }, () => part(random, 0)).join(
    random.of(['', ' ', '\n', '\n\n', 'text ']),
  );
  return text + random.of(['', '', '\n', '\n\n', '  ']);
}

function part(random: Random, depth: number): string {
  if (depth > 2) return output(random);
  const [open, close] = random.of([
    ['{%', '%}'],
    ['{%-', '%}'],
    ['{%', '-%}'],
    ['{%-', '-%}'],
    ['{%+', '%}'],
  ]);
  const inner = (): string => part(random, depth + 1);
  const edge = random.of(['', '', '\n', ' ', '\n  ']);
  switch (random.below(14)) {
    case 0:
      return `${open} if ${condition(random)} ${close}${edge}${inner()}${edge}${open} else ${close}${inner()}${open} endif ${close}`;
    case 1:
      return `${open} for loop_var in ${expression(random, 1)} ${close}${edge}${random.of(['{{ loop.index }}:', '{{ loop_var }},', '{{ loop.last }}', ''])}${inner()}${open} endfor ${close}`;
    case 2:
      return `${open} set x = ${expression(random, 0)} ${close}${edge}{{ x }}`;
    case 3:
      return `${open} set x ${close}${inner()}${open} endset ${close}{{ x }}`;
    case 4:
      return `${open} macro m(a, b=${random.of(atoms)}) ${close}${edge}{{ a }}/{{ b }}${open} endmacro ${close}{{ m(${expression(random, 1)}) }}`;
    case 5:
      return `${open} from 'macros.jinja' import ${random.of(['hi', 'hi as greet', 'exported', 'hi, exported', 'nothing'])} ${close}{{ ${random.of(["hi('x')", "greet('y', mark='?')", 'exported', 'exported.a', 'hi'])} }}`;
    case 6:
      return `${open} import 'macros.jinja' as m ${random.of(['', 'with context', 'without context'])} ${close}{{ m.${random.of(["hi('x')", 'exported', 'nope'])} }}`;
    case 7:
      return `${open} include 'part.jinja' ${random.of(['', 'ignore missing', 'with context', 'without context'])} ${close}`;
    case 8:
      return `${open} import_${random.of(['yaml', 'json', 'text'])} '${random.of(['data.yaml', 'data.json', 'missing.yaml'])}' as d ${close}{{ d }}`;
    case 9:
      return `${open} call m2() ${close}x${open} endcall ${close}`.replace(
        'm2()',
        random.of(['wrap()', 'm.wrap()']),
      );
    case 10:
      return `${open} load_${random.of(['yaml', 'json', 'text'])} as d ${close}${edge}${random.of(['a: 1.0', '{"a": [1.0, null]}', 'x', '- 1\n- y', ''])}${edge}${open} endload ${close}{{ d }}`;
    case 11:
      return `${random.of(['{#', '{#-'])} note ${random.of(['#}', '-#}'])}${edge}${output(random)}`;
    default:
      return output(random);
  }
}

function output(random: Random): string {
  const [open, close] = random.of([
    ['{{', '}}'],
    ['{{', '}}'],
    ['{{-', '}}'],
    ['{{', '-}}'],
  ]);
  return `${random.of(['', 'k: ', '\n  - ', '"', ' '])}${open} ${expression(random, 0)} ${close}`;
}

function condition(random: Random): string {
  const negation = random.below(3) === 0 ? 'not ' : '';
  return random.below(2) === 0
    ? `${expression(random, 1)} is ${negation}${random.of(tests)}`
    : `${negation}${expression(random, 1)}`;
}

function expression(random: Random, depth: number): string {
  const chance = random.below(10);
  if (depth > 1 || chance < 3) return random.of(atoms);
  if (chance < 7) {
    const count = random.below(4) === 0 ? 2 : 1;
    const chain = Array.from({ length: count }, () => ` | ${random.of(filters)}`).join('');
    return `${expression(random, depth + 1)}${chain}`;
  }
  if (chance === 7) return `(${expression(random, depth + 1)})${random.of(methods)}`;
  if (chance === 8) {
    return `(${expression(random, depth + 1)} ${random.of(operators)} ${expression(random, depth + 1)})`;
  }
  return `(${random.of(atoms)} if ${condition(random)} else ${random.of(atoms)})`;
}
