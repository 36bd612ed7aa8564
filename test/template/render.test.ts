import test from 'ava';
import {
  parseTemplate,
  type RenderOptions,
  renderJinja,
  TemplateError,
} from '../../template/index.ts';

function render(source: string, options: Partial<RenderOptions> = {}): string {
  return renderJinja(source, { name: 'web/init.sls', ...options });
}

function failure(source: string, options: Partial<RenderOptions> = {}): TemplateError | undefined {
  try {
    render(source, options);
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
  return undefined;
}

test('an undefined variable is named in Salt’s words, with file and line', (t) => {
  const error = failure('a: 1\nb: {{ missing.key }}\n');
  t.is(error?.code, 'ERR_TEMPLATE_UNDEFINED');
  t.is(error?.message, "Jinja variable 'missing' is undefined; file web/init.sls, line 2");
});

test('a syntax error has its line', (t) => {
  const error = failure('a\n\n{% for %}');
  t.is(error?.code, 'ERR_TEMPLATE_SYNTAX');
  t.deepEqual(error?.place, { file: 'web/init.sls', line: 3 });
});

test('an error inside of an imported macro has the place in its own file', (t) => {
  const loader = { load: () => 'x\n{% macro m() %}\n\n{{ 1 / 0 }}{% endmacro %}' };
  const error = failure("{% import 'lib.jinja' as lib %}\n{{ lib.m() }}", { loader });
  t.is(error?.kind, 'ZeroDivisionError');
  t.deepEqual(error?.place, { file: 'lib.jinja', line: 4 });
});

test('a file that is not there is named', (t) => {
  const error = failure("{% include 'no.jinja' %}");
  t.is(error?.code, 'ERR_TEMPLATE_NOT_FOUND');
  t.is(error?.detail, 'no.jinja');
});

test('text without places for values takes what is undefined, as in Python', (t) => {
  t.is(render("{{ 'a%%' % missing }}{{ 'b' % (true)[0] }}"), 'a%b');
  t.is(failure("{{ 'a' % 1 }}")?.kind, 'TypeError');
  t.is(failure("{{ 'a%s' % missing }}")?.kind, 'UndefinedError');
});

test('relative names stay inside of the tree', (t) => {
  const asked: string[] = [];
  const loader = { load: (name: string) => void asked.push(name) };
  failure("{% include './map.jinja' %}", { loader });
  failure("{% include '../other/map.jinja' %}", { loader });
  failure("{% include '../../etc/passwd' %}", { loader });
  failure("{% include 'a/../../../etc/passwd' %}", { loader });
  t.deepEqual(asked, ['web/map.jinja', 'other/map.jinja']);
});

test('what the loader throws ends the rendering as it is', (t) => {
  const reason = new Error('not read yet');
  const load = (): never => {
    throw reason;
  };
  t.is(
    t.throws(() => render("{% include 'a' %}", { loader: { load } })),
    reason,
  );
});

test('functions are found by both of their spellings, and no others', (t) => {
  const functions = { 'pillar.get': (args: readonly unknown[]) => `<${String(args[0])}>` };
  const source = "{{ salt['pillar.get']('a:b') }}{{ salt.pillar.get('c') }}";
  t.is(render(source, { functions }), '<a:b><c>');
  t.is(failure("{{ salt['cmd.run']('id') }}", { functions })?.code, 'ERR_TEMPLATE_UNDEFINED');
  t.is(failure("{{ salt.constructor('id') }}", { functions })?.code, 'ERR_TEMPLATE_UNDEFINED');
});

test('a function that refuses is Salt’s kind of error', (t) => {
  const functions = {
    'a.b': () => {
      throw new Error('refused');
    },
  };
  const error = failure("\n{{ salt['a.b']() }}", { functions });
  t.is(error?.code, 'ERR_TEMPLATE_FUNCTION');
  t.is(
    error?.message,
    'Problem running salt function in Jinja template: refused; file web/init.sls, line 2',
  );
});

test('values from outside are never read as templates', (t) => {
  const context = { grains: { evil: '{{ 1 + 1 }}{% include "x" %}' } };
  t.is(render('{{ grains.evil }}', { context }), '{{ 1 + 1 }}{% include "x" %}');
});

test('nothing of JavaScript can be reached', (t) => {
  const context = { text: 'a', dict: {}, list: [] };
  for (const path of [
    'constructor',
    '__proto__',
    'prototype',
    'toString',
    'valueOf',
    'length',
    'hasOwnProperty',
  ]) {
    for (const name of Object.keys(context)) {
      t.is(failure(`{{ ${name}.${path} }}`, { context })?.code, 'ERR_TEMPLATE_UNDEFINED', path);
      t.is(failure(`{{ ${name}['${path}'] }}`, { context })?.code, 'ERR_TEMPLATE_UNDEFINED', path);
    }
  }
  t.is(failure("{{ 'a'|constructor }}")?.code, 'ERR_TEMPLATE_SYNTAX');
  t.is(failure("{{ ''.__class__.__mro__ }}")?.kind, 'SecurityError');
});

test('a filter that is left out is refused by name', (t) => {
  const error = failure("{{ 'http://x'|http_query }}");
  t.is(error?.code, 'ERR_TEMPLATE_UNSUPPORTED');
  t.regex(error?.detail ?? '', /http_query/);
});

test('undefined values print nothing where the operator allows them', (t) => {
  t.is(render('[{{ missing }}]', { strict: false }), '[]');
});

test('a template that was read once renders any number of times', (t) => {
  const template = parseTemplate('{% set l = [] %}{% do l.append(n) %}{{ l }}', { name: 'x' });
  for (const n of [1, 2]) t.is(renderJinja(template, { name: 'x', context: { n } }), `[${n}]`);
});

test('blocks are trimmed as Salt’s options say', (t) => {
  const source = 'a\n  {% if true %}\n  b\n  {% endif %}\nc\n';
  t.is(render(source), 'a\n  \n  b\n  \nc\n');
  t.is(render(source, { trimBlocks: true, lstripBlocks: true }), 'a\n  b\nc\n');
});
