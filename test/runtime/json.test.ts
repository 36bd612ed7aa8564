/** JSON with integers beyond 2^53, read in steps that are counted. */
import test from 'ava';
import fc from 'fast-check';
import {
  JsonError,
  maxReadingStep,
  parseJson,
  type ReadingStep,
  readingSteps,
  readJson,
  readJsonInSteps,
  StepScheduler,
  writeJson,
} from '../../runtime/index.ts';

/** Reads all of a text. @returns each step that it took */
function stepsOf(text: string): ReadingStep[] {
  const steps: ReadingStep[] = [];
  try {
    for (const step of readJsonInSteps(text)) steps.push(step);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
  }
  return steps;
}

test('what JSON can say is read as the engine reads it', (t) => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom(undefined, 0, 2), (text, indent) => {
      const value: unknown = JSON.parse(text);
      const laidOut = JSON.stringify(value, null, indent);
      t.is(writeJson(readJson(laidOut)), JSON.stringify(value));
    }),
    { numRuns: 500 },
  );
});

test('what is no JSON is refused as the engine refuses it', (t) => {
  const texts = ['', ' ', '{', '[1,]', '{"a"}', '{"a":}', '{,}', '[1 2]', '01', '1.', '.5', '+1'];
  const more = ['"', '"\\"', '"\\x"', '"\t"', 'nul', 'truex', '[]]', '{"a":1,}', "{'a':1}", '-'];
  for (const text of [...texts, ...more, '1e', 'NaN', '"a" "b"', '\u00a0 1']) {
    t.throws(() => JSON.parse(text), undefined, text);
    const error = t.throws(() => readJson(text), { instanceOf: JsonError }, text);
    t.is(error?.reason, 'syntax', text);
  }
});

test('integers keep every digit, in both directions', (t) => {
  const text = '{"a":9223372036854775807,"b":[-9007199254740993],"c":18446744073709551615,"d":1}';
  const value = { a: 2n ** 63n - 1n, b: [-(2n ** 53n) - 1n], c: 2n ** 64n - 1n, d: 1 };
  t.deepEqual({ ...Object(readJson(text)) }, value);
  t.deepEqual({ ...Object(parseJson(text)) }, value);
  t.is(writeJson(value), text);
  t.deepEqual(JSON.parse(writeJson({ text: '12345678901234567890' })), {
    text: '12345678901234567890',
  });
});

test('what callers send has integers of 64 bits, finite numbers and Unicode', (t) => {
  const beyond = [
    '18446744073709551616',
    '-9223372036854775809',
    '9'.repeat(400),
    '1e999',
    '"\\ud800"',
  ];
  for (const text of beyond) {
    const error = t.throws(() => readJson(text, { isStrict: true }), { instanceOf: JsonError });
    t.is(error?.reason, 'value', text);
  }
  for (const text of ['18446744073709551615', '-9223372036854775808', '"\\ud83d\\ude00"']) {
    t.notThrows(() => readJson(text, { isStrict: true }), text);
  }
});

test('values and levels are counted while a text is read', (t) => {
  const reasonOf = (text: string, options: object): string | undefined =>
    t.throws(() => readJson(text, options), { instanceOf: JsonError })?.reason;
  t.is(reasonOf('[1,2,3', { maxValues: 3 }), 'limit');
  t.is(reasonOf('[[[', { maxDepth: 2 }), 'limit');
  t.is(reasonOf('['.repeat(1_000_000), {}), 'limit');
  t.deepEqual(readJson('[1,[2],{"a":3}]', { maxValues: 6, maxDepth: 2 }), [1, [2], { a: 3 }]);
});

test('long strings are read in parts, and come out whole', (t) => {
  for (const unit of ['x', '\\', '"', '\ud83d\ude00', '\u0000', 'a\\"', '\n\u2028']) {
    for (const length of [65_535, 65_536, 65_537, 200_001]) {
      const value = 'é'.repeat(length % 7) + unit.repeat(length / unit.length);
      t.true(readJson(JSON.stringify([value]))?.toString() === value, `${unit} ${length}`);
      const escaped = value.replace(/./gs, (it) => {
        return `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`;
      });
      t.true(readJson(`"${escaped}"`) === value, `escaped ${unit} ${length}`);
    }
  }
});

test('no step works on more than its bound, whatever the text', (t) => {
  const size = 1_000_000;
  const texts = [
    `[${'1,'.repeat(size)}1]`,
    `[${'[],'.repeat(size)}1]`,
    `{${Array.from({ length: 100_000 }, (_, index) => `"k${index}":1`).join(',')}}`,
    `{${Array.from({ length: 20 }, (_, index) => `"${index}${'k'.repeat(65_000)}":1`).join(',')}}`,
    `[${' '.repeat(size)}]`,
    `"${'x'.repeat(size)}"`,
    `"${'\\\\'.repeat(size)}"`,
    `"${'\\"'.repeat(size)}"`,
    `"${'\\"'.repeat(size)}`,
    `"${'\\u0041'.repeat(size)}"`,
    `[${'9'.repeat(size)}]`,
    `[${'1e1,'.repeat(size)}`,
    '['.repeat(size),
    '{"a":'.repeat(size),
  ];
  for (const text of texts) {
    const steps = stepsOf(text);
    const largest = (name: keyof ReadingStep): number =>
      Math.max(0, ...steps.map((it) => it[name]));
    t.true(largest('characters') <= maxReadingStep.characters, text.slice(0, 20));
    t.true(largest('values') <= maxReadingStep.values, text.slice(0, 20));
  }
  t.true(stepsOf(texts[0] ?? '').length >= 1000);
});

test('a text keeps its copies of short strings only', (t) => {
  const text = `["${'short text '.repeat(3)}","${'x'.repeat(100_000)}"]`;
  t.deepEqual(readJson(text), JSON.parse(text));
});

test('works of many steps take turns, one step for each turn of the event loop', async (t) => {
  const scheduler = new StepScheduler();
  const order: string[] = [];
  function* work(name: string): Generator<ReadingStep, string, void> {
    for (let step = 0; step < 5; step += 1) {
      order.push(name);
      yield { characters: 1, values: 1 };
    }
    return name;
  }
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const told: unknown[] = [];
  const listen = (step: unknown): unknown => told.push(step);
  readingSteps.subscribe(listen);
  const names = await Promise.all(['a', 'b'].map((name) => scheduler.run(work(name))));
  isOver = true;
  readingSteps.unsubscribe(listen);
  t.deepEqual(names, ['a', 'b']);
  t.is(order.join(''), 'aabbababab');
  t.true(turns >= 6);
  t.is(told.filter((step) => Object(step).characters === 1).length, 10);
});

test('work that fails fails for whoever waits for it, and nobody else', async (t) => {
  const scheduler = new StepScheduler();
  const long = `[${'1,'.repeat(10_000)}1]`;
  const good = scheduler.run(readJsonInSteps(long));
  const bad = scheduler.run(readJsonInSteps(`${long}x`));
  await t.throwsAsync(bad, { instanceOf: JsonError });
  t.is(Object(await good).length, 10_001);
});
