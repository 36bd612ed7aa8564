/** JSON with integers beyond 2^53, parsed in counted steps. */
import assert from 'node:assert/strict';
import test from 'ava';
import fc from 'fast-check';
import {
  JsonError,
  type JsonForm,
  type JsonOf,
  type JsonOptions,
  parseJson,
  type ReadingStep,
  readingSteps,
  readJsonInSteps,
  readJson as readWhole,
  StepScheduler,
  textInSteps,
  writeJson,
  writeJsonInSteps,
} from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';
import { tries } from '../helpers/effort.ts';

/**
 * Parses a text in slices. Blanks make it long enough. The result of `JSON.parse` must be the same.
 */
function readJson(text: string, options: JsonOptions = {}): JsonOf<never> {
  const steps = readJsonInSteps(`${text}${' '.repeat(20_000)}`, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done !== true) continue;
    assert.deepEqual(readWhole(text, options), value);
    return value;
  }
}

/**
 * Parses a text completely.
 * @returns the steps
 */
function stepsOf(text: string): ReadingStep[] {
  const steps: ReadingStep[] = [];
  try {
    for (const step of readJsonInSteps(text)) steps.push(step);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
  }
  return steps;
}

test('valid JSON is parsed like by the engine', (t) => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom(undefined, 0, 2), (text, indent) => {
      const value: unknown = JSON.parse(text);
      const laidOut = JSON.stringify(value, null, indent);
      t.is(writeJson(readJson(laidOut)), JSON.stringify(value));
    }),
    tries(125),
  );
});

test('a key named __proto__ is an ordinary key', (t) => {
  const map = Object(readJson('{"__proto__":{"a":9007199254740993},"b":{"__proto__":1}}'));
  t.is(Object.getPrototypeOf(map), null);
  t.deepEqual(Object.keys(map), ['__proto__', 'b']);
  t.is(Object.getPrototypeOf(Object.values(map)[0]), null);
  t.is(writeJson(map), '{"__proto__":{"a":9007199254740993},"b":{"__proto__":1}}');
});

test('invalid JSON is refused like by the engine', (t) => {
  const texts = ['', ' ', '{', '[1,]', '{"a"}', '{"a":}', '{,}', '[1 2]', '01', '1.', '.5', '+1'];
  const more = ['"', '"\\"', '"\\x"', '"\t"', 'nul', 'truex', '[]]', '{"a":1,}', "{'a':1}", '-'];
  for (const text of [...texts, ...more, '1e', 'NaN', '"a" "b"', '\u00a0 1']) {
    t.throws(() => JSON.parse(text), undefined, text);
    const error = t.throws(() => readJson(text), { instanceOf: JsonError }, text);
    t.is(error?.reason, 'syntax', text);
    t.is(t.throws(() => readWhole(text), { instanceOf: JsonError }, text)?.reason, 'syntax', text);
  }
});

test('integers keep every digit in both directions', (t) => {
  const text = '{"a":9223372036854775807,"b":[-9007199254740993],"c":18446744073709551615,"d":1}';
  const value = { a: 2n ** 63n - 1n, b: [-(2n ** 53n) - 1n], c: 2n ** 64n - 1n, d: 1 };
  t.deepEqual({ ...Object(readJson(text)) }, value);
  t.deepEqual({ ...Object(parseJson(text)) }, value);
  t.is(writeJson(value), text);
  t.deepEqual(JSON.parse(writeJson({ text: '12345678901234567890' })), {
    text: '12345678901234567890',
  });
});

test('an integer beyond 64 bits of a caller becomes its decimal text', (t) => {
  for (const text of ['18446744073709551616', '-9223372036854775809', '9'.repeat(400)]) {
    t.is(readJson(text, { isStrict: true }), text);
    t.is(readWhole(text, { isStrict: true }), text);
    const map = `{"a": [${text}], "b": 1}`;
    t.deepEqual({ ...Object(readJson(map, { isStrict: true })) }, { a: [text], b: 1 });
    t.deepEqual({ ...Object(readWhole(map, { isStrict: true })) }, { a: [text], b: 1 });
  }
});

test('callers can send only finite numbers and Unicode', (t) => {
  const beyond = ['1e999', '"\\ud800"'];
  for (const text of beyond) {
    const error = t.throws(() => readJson(text, { isStrict: true }), { instanceOf: JsonError });
    t.is(error?.reason, 'value', text);
    const whole = t.throws(() => readWhole(text, { isStrict: true }), { instanceOf: JsonError });
    t.is(whole?.reason, 'value', text);
  }
  for (const text of ['18446744073709551615', '-9223372036854775808', '"\\ud83d\\ude00"']) {
    t.notThrows(() => readJson(text, { isStrict: true }), text);
  }
});

test('values and levels are counted while a text is read', (t) => {
  const reasonOf = (text: string, options: object): string | undefined =>
    t.throws(() => readJson(text, options), { instanceOf: JsonError })?.reason;
  t.is(reasonOf('[1,2,3', { maxValues: 3 }), 'limit');
  t.is(reasonOf('[[[1', { maxDepth: 2 }), 'limit');
  const isWhole = (text: string, options: object): string | undefined =>
    t.throws(() => readWhole(text, options), { instanceOf: JsonError })?.reason;
  t.is(isWhole('[1,2,3]', { maxValues: 3 }), 'limit');
  t.is(isWhole('[[[1]]]', { maxDepth: 2 }), 'limit');
  t.is(reasonOf('['.repeat(1_000_000), {}), 'limit');
  t.deepEqual(readJson('[1,[2],{"a":3}]', { maxValues: 6, maxDepth: 2 }), [1, [2], { a: 3 }]);
});

test('a map of a long text has at most 32,768 members, however many maps and values there are', (t) => {
  const mapOf = (count: number): string =>
    `{${Array.from({ length: count }, (_, at) => `"k${at}":{}`).join()}}`;
  const largest = mapOf(32_768);
  t.is(Object.keys(Object(readJson(`[${largest},${largest}]`))[1]).length, 32_768);
  t.is(
    Object(readJson(`[${Array.from({ length: 70_000 }, () => '{"a":1}').join()}]`)).length,
    70_000,
  );
  const message = 'more than 32768 members of one map; divide the map';
  t.throws(() => readJson(mapOf(32_769)), { instanceOf: JsonError, message });
  t.throws(() => readJson(`[{"a":${mapOf(32_769)}}]`), { instanceOf: JsonError, message });
});

test('long strings are parsed in parts, with the complete result', (t) => {
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

test('no step exceeds its limit, for any text', (t) => {
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

test('a text retains only copies of short strings', (t) => {
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
  const steps: unknown[] = [];
  const listen = (step: unknown): unknown => steps.push(step);
  readingSteps.subscribe(listen);
  const names = await Promise.all(['a', 'b'].map((name) => scheduler.run(work(name))));
  isOver = true;
  readingSteps.unsubscribe(listen);
  t.deepEqual(names, ['a', 'b']);
  t.is(order.join(''), 'aabbababab');
  t.true(turns >= 6);
  t.is(steps.filter((step) => Object(step).characters === 1).length, 10);
});

test('work that fails rejects only its own promise', async (t) => {
  const scheduler = new StepScheduler();
  const long = `[${'1,'.repeat(10_000)}1]`;
  const good = scheduler.run(readJsonInSteps(long));
  const bad = scheduler.run(readJsonInSteps(`${long}x`));
  await t.throwsAsync(bad, { instanceOf: JsonError });
  t.is(Object(await good).length, 10_001);
});

const plainForm: JsonForm = {
  write: (value) => JSON.stringify(value),
  open: (value) => {
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (typeof value !== 'object' || value === null) return undefined;
    return { members: Object.entries(value) };
  },
  comma: ',',
  colon: ':',
};

/** Writes a value in steps. */
function written(value: unknown): { readonly text: string; readonly steps: ReadingStep[] } {
  const pieces: string[] = [];
  const steps = [...writeJsonInSteps(value, plainForm, (piece) => pieces.push(piece))];
  return { text: pieces.join(''), steps };
}

test("JSON written in steps equals the engine's, and no step exceeds its limit", (t) => {
  const long = '\u{1f600}"\\\u0001é'.repeat(30_000);
  const values: [value: unknown, least: number][] = [
    [Array(90_000).fill(1), 90],
    [Array.from({ length: 3000 }, (_, index) => ({ [`k${index}`]: [index, { a: 'x' }] })), 6],
    [{ a: [`x${long}`, long], [long]: { b: long } }, 10],
    ['\u0001'.repeat(1_000_000), 40],
    [Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, null])), 20],
    ['\ud800'.repeat(40_000), 2],
  ];
  for (const [value, least] of values) {
    const { text, steps } = written(value);
    t.true(text === JSON.stringify(value));
    t.true(steps.length >= least, `${steps.length} steps`);
    for (const { characters, values: count } of steps) {
      t.true(characters <= maxReadingStep.characters, `${characters} characters`);
      t.true(count <= maxReadingStep.values, `${count} values`);
    }
  }
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      t.is(written(value).text, JSON.stringify(value));
    }),
  );
});

/** Decodes bytes that arrive in parts. */
function decoded(chunks: readonly Buffer[]): { text: string | undefined; steps: ReadingStep[] } {
  const all = textInSteps(chunks);
  const steps: ReadingStep[] = [];
  for (;;) {
    const { done, value } = all.next();
    if (done === true) return { text: value, steps };
    steps.push(value);
  }
}

test('UTF-8 is decoded in steps, wherever its parts are divided', (t) => {
  const text = 'aé€\u{1f600}'.repeat(40_000);
  const bytes = Buffer.from(text);
  for (const size of [1000, 65_535, 65_536, 65_537, 65_539]) {
    const chunks: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
    const { text: found, steps } = decoded(chunks);
    t.true(found === text, String(size));
    t.true(steps.length >= 3, `${steps.length} steps`);
    for (const { characters } of steps) t.true(characters <= maxReadingStep.characters);
  }
  const before = Buffer.alloc(65_536, 'a');
  for (const wrong of [[0xc3], [0x80], [0xf0, 0x9f, 0x98], [0xc3, 0x28]].map(Buffer.from)) {
    for (const chunks of [[wrong], [before, wrong], [Buffer.concat([before, wrong]), before]]) {
      t.is(decoded(chunks).text, undefined);
    }
  }
});

test('a surrogate pair may be anywhere in a long string, and half a pair nowhere', (t) => {
  for (let before = 65_530; before <= 65_537; before += 1) {
    const long = `${'a'.repeat(before)}\u{1f600}\n${'b'.repeat(70_000)}`;
    const escaped = JSON.stringify(long).replace('\u{1f600}', '\\ud83d\\ude00');
    for (const text of [JSON.stringify(long), escaped]) {
      t.true(readJson(text, { isStrict: true }) === long, String(before));
    }
    const half = escaped.replace('\\ude00', '');
    t.is(
      t.throws(() => readJson(half, { isStrict: true }), { instanceOf: JsonError })?.reason,
      'value',
    );
  }
});
