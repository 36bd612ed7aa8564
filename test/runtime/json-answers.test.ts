import test from 'ava';
import fc from 'fast-check';
import { parseJson, type ReadingStep, readingSteps, readJsonAnswer, writeJson } from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';

// Serial, because it watches the steps of this process.
test.serial('a response is read in steps, and responses take turns', async (t) => {
  const steps: ReadingStep[] = [];
  const note = (step: unknown): unknown => steps.push(step as ReadingStep); // as it is published
  readingSteps.subscribe(note);
  t.teardown(() => readingSteps.unsubscribe(note));
  const done: string[] = [];
  const read = async (name: string, text: string): Promise<void> => {
    t.truthy(await readJsonAnswer(text));
    done.push(name);
  };
  await Promise.all([
    read('large', `[${'[],'.repeat(100_000)}1]`),
    read('small', `[${'[],'.repeat(10_000)}1]`),
  ]);
  t.deepEqual(done, ['small', 'large']);
  t.true(steps.length > 100, `${steps.length} steps`);
  t.true(Math.max(...steps.map(({ values }) => values)) <= maxReadingStep.values);
});

test('a response with any JSON is read exactly', async (t) => {
  const json = fc.jsonValue({ maxDepth: 5 }).map((value) => JSON.stringify(value));
  await fc.assert(
    fc.asyncProperty(json, fc.nat(40_000), async (text, blanks) => {
      // Texts of other lengths are read in steps.
      const read = await readJsonAnswer(text + ' '.repeat(blanks));
      t.is(writeJson(read), writeJson(parseJson(text)));
    }),
  );
  t.is(await readJsonAnswer('12345678901234567890'), 12_345_678_901_234_567_890n);
});

test('a response that is not JSON, or nested too deeply, has no value', async (t) => {
  for (const text of ['', '{', '<html>', '['.repeat(300), '['.repeat(1_000_000)]) {
    t.is(await readJsonAnswer(text), undefined, text.slice(0, 20));
  }
});
