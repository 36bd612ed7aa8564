/** Inputs of inline SLS: which calls are replaced, and the work of finding them. */
import test from 'ava';
import { slsWithInputs } from '#guests/deployments/inline-sls.ts';
import { examinedBy } from '../../helpers/examined.ts';

/** Returns SLS with inputs, without the lines that define them. */
function withInputs(sls: string, inputs: Readonly<Record<string, string>> = { a: 'x' }): string {
  const all = slsWithInputs(sls, { inputs, facts: {} });
  return all.startsWith('{%- set') ? all.slice(all.indexOf('\n') + 1) : all;
}

const read = "saltbridge_inputs['a']";

for (const [sls, expected] of [
  ["{{ salt.config.get('a') }}", `{{ ${read} }}`],
  ["{{{ salt.config.get('a') }}}", `{{{ ${read} }}}`],
  ["{% if salt['pillar.get']('a', 5) %}", `{% if ${read} %}`],
  ["{ {% {{ salt.config.get('a') %} }}", `{ {% {{ ${read} %} }}`],
  ["{{ '\\'' ~ salt.config.get('a') }}", `{{ '\\'' ~ ${read} }}`],
  ['{{ "\\\\" ~ salt.config.get("a") }}', `{{ "\\\\" ~ ${read} }}`],
  ["{{ '\\\n' ~ salt.config.get('a') }}", `{{ '\\\n' ~ ${read} }}`],
  ["{{ salt.x('b') ~ salt.config.get('a') }}", `{{ salt.x('b') ~ ${read} }}`],
  [
    "{{ salt.config.get('a') ~ \"b }} {{ salt.config.get('a') }}",
    `{{ ${read} ~ "b }} {{ ${read} }}`,
  ],
] as const) {
  test(`calls in Jinja code are replaced by inputs: ${JSON.stringify(sls)}`, (t) => {
    t.is(withInputs(sls), expected);
  });
}

for (const sls of [
  'a: {b: {c: d}} {{ e {% f',
  "{{ \"salt.pillar.get('b')\" ~ 'c\\'' }}",
  "{% salt.config.get('b') }}",
  '{{ "{}"',
]) {
  test(`SLS without inputs stays as it is: ${JSON.stringify(sls)}`, (t) => {
    t.is(withInputs(sls), sls);
  });
}

test('code after an unclosed text is not examined', (t) => {
  t.throws(() => withInputs("{{ \"x salt.config.get('a') }}"), {
    message: /config\.get cannot return the input a/,
  });
});

for (const [opening, closing] of [
  ['{', ''],
  ['{{', ' %}'],
  ['{%', ' }}'],
  ['{{{%', ''],
] as const) {
  test(`SLS of ${opening} without an end is examined in linear time`, (t) => {
    const sls = `${opening.repeat(20_000)}${closing}`;
    const examined = examinedBy(() => t.is(withInputs(sls), sls));
    t.true(examined <= 4 * sls.length, `${examined} characters`);
  });
}

test('calls that cannot return inputs are listed once, for any number of inputs', (t) => {
  const names = Array.from({ length: 100 }, (_, at) => [`n${at}`, 'x'] as const);
  const inputs = { ...Object.fromEntries(names), 'b(': 'x', 'c:d': 'x' };
  const sls = "config.get('x')\n".repeat(1_000);
  const examined = examinedBy(() => t.is(withInputs(sls, inputs), sls));
  t.true(examined <= 4 * sls.length, `${examined} characters`);
  for (const name of ["'b('", "'n99'", '"n7:x"', "'c:d'", "'c:d:e'"]) {
    t.throws(() => withInputs(`${sls} config.get(${name})`, inputs), {
      message: /config\.get cannot return the input/,
    });
  }
  for (const name of ["'n'", "'n99x'", "'x:n7'", "'c'", "'c:de'"]) {
    t.notThrows(() => withInputs(`${sls} config.get(${name})`, inputs));
  }
});
