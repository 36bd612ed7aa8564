/** Templates as the real jinja2 renders them, recorded and live [fixtures/template/record.py]. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { Float, renderJinja, TemplateError } from '../../template/index.ts';

interface Recording {
  readonly context: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, string>>;
  readonly cases: readonly (readonly [string, string | { readonly error: string }])[];
}

const fixtures = new URL('../../../test/fixtures/template/', import.meta.url);
const program = new URL('record.py', fixtures).pathname;
const python = '/usr/bin/python3';

test('recorded templates give the text or the kind of error that Salt gives', (t) => {
  const recording: Recording = JSON.parse(readFileSync(new URL('jinja.json', fixtures), 'utf8'));
  t.true(recording.cases.length > 4000);
  compare(t, recording);
});

const testLive = hasJinja() ? test : test.skip;
testLive('fresh templates give the text or the kind of error that jinja2 gives', (t) => {
  const seed = process.env.JINJA_SEED ?? '935532';
  t.log(`seed ${seed}`);
  const output = execFileSync(python, ['-W', 'ignore', program, '--live', seed, '150'], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONHASHSEED: '1' },
    maxBuffer: 2 ** 26,
    timeout: 40_000,
  });
  const recording: Recording = JSON.parse(output);
  compare(t, { ...recording, cases: recording.cases.filter(([, want]) => isStable(want)) });
});

/** Addresses of objects differ from process to process. */
function isStable(want: string | { readonly error: string }): boolean {
  return typeof want !== 'string' || !want.includes(' at 0x');
}

function compare(t: ExecutionContext, { context, files, cases }: Recording): void {
  const different = cases.flatMap(([template, want]) => {
    const got = render(template, context, files);
    const wanted = typeof want === 'string' ? want : want.error;
    return got === wanted ? [] : [{ template, wanted, got }];
  });
  t.deepEqual(different.slice(0, 5), []);
}

/** JSON cannot say 4.0, nor an int of this size. */
function render(
  template: string,
  context: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, string>>,
): string {
  const special = { whole: new Float(4), big: 12345678901234567890n };
  try {
    return renderJinja(template, {
      name: '<template>',
      context: { ...structuredClone(context), ...special },
      loader: { load: (name) => files[name] },
    });
  } catch (error) {
    if (error instanceof TemplateError) return error.kind;
    throw error;
  }
}

function hasJinja(): boolean {
  if (!existsSync(python)) return false;
  try {
    execFileSync(python, ['-c', 'import jinja2'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
