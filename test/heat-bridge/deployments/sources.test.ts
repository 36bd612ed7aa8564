/** Answers with the metadata of a server, which are read in steps. */
import test from 'ava';
import { AnswerReadings } from '#guests/deployments/answer-readings.ts';
import { StackLogins } from '#guests/deployments/logins.ts';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { metadataUpdates } from '#guests/deployments/metadata-hooks.ts';
import { type ReadResult, readServer, type SourceDeps } from '#guests/deployments/sources.ts';
import { type ReadingStep, readingSteps } from '#runtime';

const maxBytes = 1_048_576;
const open = new AbortController().signal;

/** Reads a server whose metadata source returns a text. */
function read(text: string, deps: Partial<SourceDeps> = {}): Promise<ReadResult> {
  const readings = new AnswerReadings();
  return readServer(
    {
      stack: 'demo',
      serverId: 'web',
      collect: { request: { metadata_url: 'https://swift/' } },
      login: undefined,
    },
    {
      ask: async () => ({ kind: 'answer', status: 200, body: text, headers: {} }),
      logins: new StackLogins(),
      maxBytes,
      inSteps: (work) => readings.run('a', open, work),
      now: Date.now,
      ...deps,
    },
  );
}

/** Returns the steps in which work reads JSON. */
async function stepsOf(work: () => Promise<unknown>): Promise<readonly ReadingStep[]> {
  const steps: ReadingStep[] = [];
  const note = (step: unknown): void => {
    if (typeof step === 'object' && step !== null)
      steps.push({ characters: 0, values: 0, ...step });
  };
  readingSteps.subscribe(note);
  await work();
  readingSteps.unsubscribe(note);
  return steps;
}

test.serial('metadata of a server are read in steps', async (t) => {
  const text = JSON.stringify({ a: Array.from({ length: 40_000 }, () => [1, 'two']) });
  t.is((await read(`{"a": 1}`)).kind, 'metadata');
  const steps = await stepsOf(async () => {
    t.like(await read(text), { kind: 'failed', reason: 'the response has more than 52428 values' });
  });
  t.true(steps.length > 20);
  t.true(steps.every(({ values }) => values <= 1_000));
});

test.serial('an answer that is already known is not read again', async (t) => {
  const text = JSON.stringify({ a: 'x'.repeat(100_000) });
  const result = await read(text);
  if (result.kind !== 'metadata') return t.fail();
  const steps = await stepsOf(async () => {
    t.deepEqual(await read(text, { known: result.answer }), { kind: 'unchanged' });
  });
  t.deepEqual(steps, []);
  t.is((await read(`${text} `, { known: result.answer })).kind, 'metadata');
});

test('metadata have the same maps and numbers as before', async (t) => {
  const result = await read('{"a": {"b": 1}, "__proto__": {"c": 2}}');
  if (result.kind !== 'metadata') return t.fail();
  t.deepEqual(result.metadata.values, JSON.parse('{"a": {"b": 1}, "__proto__": {"c": 2}}'));
  t.like(await read('{"a": 1'), { kind: 'failed', reason: 'the response is not JSON' });
});

test('one owner has a limited number of answers that are read or wait', async (t) => {
  const readings = new AnswerReadings();
  const large = function* (): Generator<ReadingStep, string, void> {
    yield { characters: 0, values: 1_000_000 };
    return 'read';
  };
  const closing = new AbortController();
  const run = (owner: string): ReturnType<typeof readings.run> =>
    readings.run(owner, closing.signal, large());
  const first = await Promise.all(Array.from({ length: 8 }, () => run('a')));
  t.true(first.every(({ ok }) => ok));
  // The places stay in use for a time that corresponds to the work.
  const waiting = Array.from({ length: 64 }, () => run('a'));
  const refused = await run('a');
  t.regex(refused.ok ? '' : refused.reason, /too many answers .* retry later/);
  t.like(await run('b'), { ok: true, value: 'read' });
  closing.abort();
  for (const it of await Promise.all(waiting)) t.like(it, { ok: false });
});

test('hooks that watch too many values together never run', (t) => {
  const site = Array.from({ length: 30_000 }, () => 1);
  const hooks = Object.fromEntries(
    Array.from({ length: 5 }, (_, at) => [
      `h${at}`,
      { triggers: 'post.add', path: `Metadata${'.a'.repeat(at)}`, action: 'x' },
    ]),
  );
  const metadata = { 'saltbridge:cfn-hup': hooks, a: { a: { a: { a: site } } } };
  const parsed = parseServerMetadata(metadata);
  if (!parsed.ok) return t.fail(parsed.problem);
  const { deployments, warnings } = metadataUpdates(parsed.metadata.values, []);
  t.deepEqual(
    deployments.map(({ name }) => name),
    ['h0', 'h1', 'h2'],
  );
  t.is(warnings.length, 2);
  t.regex(
    warnings[0] ?? '',
    /"h3": the hook never runs: all hooks together watch more than 100000 values/,
  );
});
