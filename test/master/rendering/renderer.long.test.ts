/**
 * Rendering on the main thread and on a worker thread: results are equal, and other work is not
 * delayed.
 */
import type { ExecutionContext } from 'ava';
import test from 'ava';
import {
  makeNotes,
  type Notes,
  type PillarTask,
  type ReactionTask,
} from '#salt/render/render-task.ts';
import {
  type Imports,
  ParsedFileCache,
  Renderer,
  type RendererOptions,
} from '#salt/render/renderer.ts';
import { type SourceFile, toSourceFile } from '#salt/render/source-file.ts';
import { Float, TemplateError } from '#template';

const whitespace = { trimBlocks: false, lstripBlocks: false };

const pillarTask: PillarTask = {
  kind: 'pillar',
  id: 'web1',
  saltenv: 'base',
  sls: 'web',
  defaults: new Map<string, Float | ReadonlyMap<string, Float>>([
    ['whole', new Float(2)],
    ['nested', new Map([['f', new Float(3)]])],
  ]),
  pillar: new Map([['below', new Map([['x', 1]])]]),
  raisesOnMissing: true,
  mergeLists: false,
  asked: [],
  answers: new Map(),
  nodegroups: { webs: 'L@web1' },
  now: Date.UTC(2024, 1, 3),
  limits: { steps: 50_000 },
  grains: { id: 'web1', os: 'Debian', tags: ['a', 'b'], big: 2 ** 40, load: new Float(2) },
  opts: { id: 'web1', saltenv: undefined },
  masterOptions: { id: 'master1' },
  ...whitespace,
};

const reactionTask: ReactionTask = {
  kind: 'reaction',
  tag: 'my/tag',
  data: { id: 'web1', data: { text: "x'\n- y: {{ 1 }}", list: ['a: b', 1], f: new Float(3) } },
  secret: 'abc123',
  limits: { steps: 50_000 },
  grains: { id: 'master1' },
  opts: { id: 'master1' },
  masterOptions: { id: 'master1' },
  ...whitespace,
};

const importable: Readonly<Record<string, string>> = {
  'map.jinja': "{% from 'deep.jinja' import n with context %}{% set m = n ~ grains.os %}",
  'deep.jinja': '{% set n = 7 %}',
  'broken.jinja': '\n{{ nothing.at.all }}',
};

const templates: readonly string[] = [
  'a: {{ grains.os }} {{ grains.get("none", 1) }} {{ 7 / 2 }} {{ whole }} {{ nested.f + 0 }}',
  '{% for key, value in grains.items() %}{{ key }}={{ value }}\n{% endfor %}',
  "{% from 'map.jinja' import m with context %}{{ m }} {{ tplfile }} {{ slspath }} {{ sls }}",
  "{% include 'missing.jinja' ignore missing %}{{ salt['match.list']('web1') }}",
  "{{ salt['grains.filter_by']({'Debian': {'p': 1}}, 'os') }} {{ salt['match.compound']('G@os:Deb*') }}",
  "{{ salt['pillar.get']('below:x') }} {{ pillar }} {{ opts.id }} {{ none | strftime('%Y-%m') }}",
  "{{ salt['pillar.get']('nowhere') }}",
  'x\n{{ nothing }}',
  "\n\n{% include 'broken.jinja' %}",
  "\n{% include 'missing.jinja' %}",
  '{% if %}',
  "{{ salt['cmd.run']('id') }}",
  '\n{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}',
  '{{ none.x }} {{ [] + 1 }}',
];

function makeRenderer(t: ExecutionContext, options: RendererOptions = {}): Renderer {
  const renderer = new Renderer(options);
  t.teardown(() => renderer.close());
  return renderer;
}

function sourceOf(text: string, path = 'web/a.sls'): SourceFile {
  return toSourceFile({ path, digest: text, text }, whitespace);
}

function makeImports(): Imports {
  const known = new Map<string, SourceFile | undefined>();
  return {
    known,
    read: async (path) => {
      const text = importable[path];
      known.set(path, text === undefined ? undefined : sourceOf(text, path));
    },
  };
}

/** Returns a template that is too long for the main thread. */
function long(template: string): string {
  return `${template}{# ${'x'.repeat(20_000)} #}`;
}

async function outcomeOf(
  renderer: Renderer,
  template: string,
  task: PillarTask | ReactionTask,
): Promise<{ readonly notes: Notes; readonly result: unknown }> {
  const notes = makeNotes();
  try {
    const rendered = await renderer.render(sourceOf(template), task, makeImports(), notes);
    return { notes, result: rendered };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { code, message, place, kind, detail } = error;
    return { notes, result: { code, message, place, kind, detail } };
  }
}

const shared = new Renderer({ threads: 1 });
test.after.always(() => shared.close());

for (const template of templates) {
  test(`a worker thread renders the same as the main thread: ${JSON.stringify(template)}`, async (t) => {
    const here = await outcomeOf(shared, template, pillarTask);
    const there = await outcomeOf(shared, long(template), pillarTask);
    t.deepEqual(there, here);
  });
}

test('a worker thread gets an event as a value', async (t) => {
  const renderer = shared;
  const template =
    '{{ data.data.text }} {{ data.data.list }} {{ data.data.f }} {{ tag }} {{ grains.id }}';
  const here = await outcomeOf(renderer, template, reactionTask);
  t.deepEqual(await outcomeOf(renderer, long(template), reactionTask), here);
  t.like(here.result, { marked: ["x'\n- y: {{ 1 }}", 'a: b'] });
});

test('a worker thread parses the same data as the main thread', async (t) => {
  const renderer = shared;
  const text = 'a: [2.0, 2.5, 0755, yes, null, 12345678901234567890]\nb: &x {1: 3.0}\nc: *x\n';
  const read = (source: string) =>
    renderer.read({ kind: 'read', format: 'yaml', text: source, name: 'a.sls' }, 'web1');
  const here = await read(text);
  t.deepEqual(await read(`${text}# ${'x'.repeat(20_000)}\n`), here);
  const broken = await t.throwsAsync(read(`a: 1\na: 2\n# ${'x'.repeat(20_000)}\n`), {
    instanceOf: TemplateError,
    code: 'ERR_YAML',
  });
  t.deepEqual(broken?.place, { file: 'a.sls', line: 2 });
});

const endless = '\n{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}';

test('integers of JSON beyond 2^53 are exact, and a mistake beside them has its line', async (t) => {
  const renderer = new Renderer();
  t.teardown(() => renderer.close());
  const read = (text: string) =>
    renderer.read({ kind: 'read', format: 'json', text, name: 'a.json' }, 'web1');
  const numbers = new Map<string, number | bigint>([
    ['small', 5],
    ['large', 9_223_372_036_854_775_807n],
  ]);
  t.deepEqual(await read('{"small": 5, "large": 9223372036854775807}'), numbers);
  const broken = '{"large": 9223372036854775807,\n"a" 1}';
  await t.throwsAsync(read(broken), { message: /invalid JSON; file a\.json, line 2/ });
});

test('a template that exceeds the main thread gets the full limits of a worker thread', async (t) => {
  const renderer = shared;
  const template = '{% for a in range(9000) %}{{ grains.os }}{% endfor %}';
  const { result } = await outcomeOf(renderer, template, pillarTask);
  t.like(result, { text: 'Debian'.repeat(9000) });
  t.like((await outcomeOf(renderer, endless, pillarTask)).result, {
    code: 'ERR_TEMPLATE_LIMIT',
    place: { file: 'web/a.sls', line: 2 },
  });
});

test('a template that moved to a worker thread is as cacheable as one rendered there', async (t) => {
  const busy = makeRenderer(t, { threads: 1, inlineMs: -1 });
  for (const template of ['{% for a in range(999) %}{{ a }}{% endfor %}', endless]) {
    const { notes, result } = await outcomeOf(busy, template, pillarTask);
    t.false(notes.isVolatile);
    t.deepEqual(result, (await outcomeOf(shared, long(template), pillarTask)).result);
  }
});

test('a thread that exceeds its time is ended, and waiting work is done', async (t) => {
  const renderer = makeRenderer(t, { threads: 1, deadlineMs: 1000 });
  const stuck = renderer.render(
    sourceOf(long(endless)),
    { ...pillarTask, limits: { steps: Number.POSITIVE_INFINITY } },
    makeImports(),
  );
  const next = outcomeOf(renderer, long('{{ grains.os }}'), pillarTask);
  await t.throwsAsync(stuck, { code: 'ERR_RENDER_GIVEN_UP' });
  t.like((await next).result, { text: 'Debian' });
});

test('only the rendering that uses too much memory fails', async (t) => {
  const renderer = makeRenderer(t, { threads: 1, memoryMb: 32 });
  const hoard =
    '{% set all = [] %}{% for a in range(9999) %}{% do all.append(range(9999) | list) %}{% endfor %}';
  const none = Number.POSITIVE_INFINITY;
  const limits = { steps: none, characters: none };
  const greedy = renderer.render(sourceOf(long(hoard)), { ...pillarTask, limits }, makeImports());
  await t.throwsAsync(greedy, { code: 'ERR_RENDER_GIVEN_UP' });
  t.like((await outcomeOf(renderer, long('{{ grains.os }}'), pillarTask)).result, {
    text: 'Debian',
  });
});

test('work over the limit of the queue is refused, and a closed renderer accepts none', async (t) => {
  const renderer = makeRenderer(t, { threads: 1, waiting: { perOwner: 1, total: 1 } });
  const render = (): Promise<unknown> =>
    renderer.render(sourceOf(long(endless)), pillarTask, makeImports());
  const first = render();
  const second = render();
  await t.throwsAsync(render(), { code: 'ERR_RENDER_GIVEN_UP' });
  await renderer.close();
  await t.throwsAsync(first, { code: 'ERR_MASTER_STOPPED' });
  await t.throwsAsync(second, { code: 'ERR_MASTER_STOPPED' });
  await t.throwsAsync(render(), { code: 'ERR_MASTER_STOPPED' });
});

test('a text that many request at once is parsed once', async (t) => {
  const renderer = makeRenderer(t);
  let count = 0;
  const kept = new ParsedFileCache({
    read: (task, owner) => {
      count += 1;
      return renderer.read(task, owner);
    },
  });
  const task = { kind: 'read', format: 'yaml', text: 'a: 1\n', name: 'a.sls' } as const;
  const all = await Promise.all(Array.from({ length: 500 }, () => kept.read(task, 'web1')));
  t.is(count, 1);
  t.is(new Set(all).size, 1);
});

test('data from a thread share the values that aliases of YAML share', async (t) => {
  const text = `a: &a {b: [1.0]}\nc: *a\n# ${'x'.repeat(20_000)}\n`;
  const data = await shared.read({ kind: 'read', format: 'yaml', text, name: 'a.sls' }, 'web1');
  const [first, second] = data instanceof Map ? data.values() : [];
  t.deepEqual(first, new Map([['b', [new Float(1)]]]));
  t.is(second, first);
});
