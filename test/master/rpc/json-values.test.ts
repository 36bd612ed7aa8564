/** Values over the local socket: what goes in comes out. */
import test from 'ava';
import fc from 'fast-check';
import {
  fromJson,
  markedJson,
  readMarkedJson,
  writeMarkedJson,
} from '../../../master/arguments/json-values.ts';
import { WireDateTime, WireExtension, type WireValue } from '../../../minion-protocol/index.ts';
import { readJsonInSteps, StepScheduler } from '../../../runtime/index.ts';
import { canonical } from '../../helpers/vectors.ts';

const names = fc.oneof(
  fc.string(),
  fc.constantFrom('$bytes', '$int', '$map', '$ext', '__proto__', 'constructor'),
);

const { value: anyValue } = fc.letrec<{ value: WireValue; leaf: WireValue }>((tie) => ({
  leaf: fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: false }),
    fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
    fc.string({ unit: 'grapheme' }),
    fc.uint8Array().map((bytes) => new Uint8Array([255, ...bytes])),
    fc.constant(new WireDateTime('2024-01-02T03:04:05.678901')),
    fc.uint8Array().map((bytes) => new WireExtension(5, bytes)),
  ),
  value: fc.oneof(
    { maxDepth: 4 },
    tie('leaf'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(names, tie('value'), { maxKeys: 4 }),
    fc
      .array(fc.tuple(fc.integer(), tie('value')), { maxLength: 3, minLength: 1 })
      .map((pairs) => new Map<WireValue, WireValue>(pairs)),
  ),
}));

test('every value of the wire comes back from its JSON text as it was', async (t) => {
  const scheduler = new StepScheduler();
  await fc.assert(
    fc.asyncProperty(anyValue, async (value) => {
      const text = writeMarkedJson(value);
      t.is(canonical(readMarkedJson(text)), canonical(value));
      const read = await scheduler.run(readJsonInSteps(text, markedJson));
      t.is(canonical(read), canonical(value));
    }),
    { numRuns: 500 },
  );
});

test('a negative zero stays one', (t) => {
  t.true(Object.is(readMarkedJson(writeMarkedJson(-0)), -0));
});

test('names of the prototype are names like others', (t) => {
  const value = fromJson(JSON.parse('{"__proto__":{"admin":true},"a":1}'));
  t.is(Object.getPrototypeOf(value), null);
  t.false('admin' in Object(value));
});

test('a mark that does not hold what it should is refused', (t) => {
  for (const text of [
    '{"$bytes":7}',
    '{"$map":[1]}',
    '{"$int":"x"}',
    '{"$map":"a"}',
    '{"$ext":7}',
  ]) {
    t.throws(() => fromJson(JSON.parse(text)), undefined, text);
  }
});
