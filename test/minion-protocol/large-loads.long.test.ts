/** Reading of large loads: their heads without unpacking, and the rest in slices. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import test from 'ava';
import fc from 'fast-check';
import { readLoadHead } from '#master/requests/load-head.ts';
import {
  decryptPackedInSlices,
  generateKeyString,
  loadLimits,
  openValue,
  type PayloadLimits,
  ProtocolError,
  packLocal,
  packWire,
  parseKeyString,
  sealValue,
  unpackAndCount,
  unpackWire,
  unpackWireInSlices,
  verifyCrypticleInSlices,
  type WireValue,
} from '#minion-protocol';
import { sealPackedInSlices } from '#minion-protocol/crypt.ts';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import { tries } from '../helpers/effort.ts';
import { slicesOf } from '../helpers/slices.ts';

const badPayload = { instanceOf: ProtocolError, code: 'ERR_BAD_PAYLOAD' };
const overLimit = { instanceOf: ProtocolError, code: 'ERR_PAYLOAD_LIMIT' };
const most = loadLimits.maxElements;

const anyValue = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, 1.5, 2n ** 63n, -(2n ** 40n)),
    fc.integer(),
    fc.string({ maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie('any'), { maxLength: 20 }),
    fc.dictionary(fc.string(), tie('any'), { maxKeys: 20, noNullPrototype: true }),
    fc
      .array(fc.tuple(fc.oneof(fc.integer(), fc.string()), tie('any')), { maxLength: 5 })
      .map((entries) => new Map(entries)),
  ),
})).any;

function packed(value: unknown): Buffer {
  return packWire(value as WireValue); // arbitrary values of the property, all of which fit
}

function inSlices(bytes: Uint8Array, limits: PayloadLimits = loadLimits): Promise<WireValue> {
  return unpackWireInSlices(bytes, limits, new WorkBudget(unlimitedSteps, 'test'));
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const keyed = (count: number): Map<string, number> =>
  new Map(numbers(count).map((index) => [`k${index}`, index]));

test('a value that is read in slices equals the value that is read at once', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyValue, async (value) => {
      const bytes = packed(value);
      t.deepEqual(await inSlices(bytes), unpackWire(bytes));
      await t.throwsAsync(inSlices(bytes.subarray(0, -1)), badPayload);
      await t.throwsAsync(inSlices(Buffer.concat([bytes, Buffer.of(0)])), badPayload);
    }),
    tries(200),
  );
});

test('reading in slices has the limits of reading at once', async (t) => {
  const nested = (depth: number): Buffer =>
    Buffer.concat([Buffer.alloc(depth, 0x91), Buffer.from([0xc0])]);
  await t.notThrowsAsync(inSlices(nested(64)));
  await t.throwsAsync(inSlices(nested(65)), overLimit);
  await t.throwsAsync(inSlices(packed(numbers(11)), { ...loadLimits, maxElements: 10 }), overLimit);
  await t.throwsAsync(inSlices(packed('long'), { ...loadLimits, maxBytes: 4 }), overLimit);
  await t.throwsAsync(inSlices(Buffer.from([0x81, 0x80, 0xc0])), badPayload);
});

const large: readonly (readonly [title: string, value: WireValue])[] = [
  ['a list', numbers(200_000)],
  ['a map', keyed(200_000)],
  ['many maps', Array.from({ length: 100_000 }, () => ({ a: 1 }))],
  ['a list as the key of a map', new Map([[numbers(200_000), 1]])],
  ['texts', Array.from({ length: 300 }, () => 'x'.repeat(10_000))],
];

for (const [title, value] of large) {
  test(`a large value is read in slices: ${title}`, async (t) => {
    const bytes = packed(value);
    const slices = await slicesOf(() => inSlices(bytes));
    t.true(slices.length >= 3, String(slices.length));
    t.true(Math.max(...slices) < 1.2 * maxSliceSteps, String(Math.max(...slices)));
  });
}

test('a map with more than 20,000 entries is read in slices as a Map, in its order', async (t) => {
  t.false((await inSlices(packed(keyed(20_000)))) instanceof Map);
  const read = await inSlices(packed(keyed(20_001)));
  t.true(isDeepStrictEqual(read, keyed(20_001)));
});

test('a constant has few elements', (t) => {
  const constant = (count: number): Buffer => {
    const pair = packLocal(['name', numbers(count)]);
    const head = Buffer.from([0xc9, 0, 0, 0, 0, 79]);
    head.writeUInt32BE(pair.length, 1);
    return Buffer.concat([head, pair]);
  };
  t.deepEqual(unpackWire(constant(900)), numbers(900));
  t.throws(() => unpackWire(constant(1000)), overLimit);
  const load = Buffer.concat([Buffer.from([0x82]), packWire('x'), constant(900)]);
  const whole = Buffer.concat([load, packWire('cmd'), packWire('ping')]);
  t.deepEqual(readLoadHead(whole, most), {
    fields: Object.assign(Object.create(null), { cmd: 'ping' }),
    elements: unpackAndCount(whole, loadLimits).elements,
  });
});

test('the head of a load has its identifying fields and the number of its elements', (t) => {
  const load = fc.record({
    cmd: fc.string({ maxLength: 20 }),
    id: fc.oneof(fc.string({ maxLength: 20 }), fc.integer(), fc.constant(null)),
    tok: fc.uint8Array({ maxLength: 300 }),
    cmds: anyValue,
    i: anyValue,
    data: anyValue,
  });
  fc.assert(
    fc.property(load, fc.boolean(), ({ cmd, id, tok, ...rest }, isLocal) => {
      const value = { ...rest, cmd, id, tok } as WireValue;
      const bytes = isLocal ? packLocal(value) : packed(value);
      const { value: whole, elements } = unpackAndCount(bytes, loadLimits);
      const { cmd: readCmd, id: readId, tok: readTok } = Object(whole);
      const head = readLoadHead(bytes, most);
      t.deepEqual({ ...head.fields }, { cmd: readCmd, id: readId, tok: readTok });
      t.is(head.elements, elements);
      t.throws(() => readLoadHead(bytes, elements - 1), overLimit);
      t.throws(() => readLoadHead(bytes.subarray(0, -1), most), badPayload);
    }),
    tries(200),
  );
});

test('the head has the last value of a field that occurs twice, like the load', (t) => {
  const field = (value: string): Buffer => Buffer.concat([packWire('cmd'), packWire(value)]);
  const twice = Buffer.concat([Buffer.from([0x82]), field('ping'), field('_return')]);
  t.is(readLoadHead(twice, most).fields.cmd, '_return');
  t.like(unpackWire(twice), { cmd: '_return' });
});

test('a head is refused if the load has too many fields, and long fields become null', (t) => {
  t.notThrows(() => readLoadHead(packed(keyed(1000)), most));
  t.throws(() => readLoadHead(packed(keyed(1001)), most), overLimit);
  t.is(readLoadHead(packed({ id: 'x'.repeat(3000) }), most).fields.id, null);
  t.throws(() => readLoadHead(packed([]), most), { code: 'ERR_BAD_LOAD' });
});

test('reading a head stops at the limit of elements', (t) => {
  const wide = Buffer.from([0x81, 0xa1, 0x61, 0xdd, 0xff, 0xff, 0xff, 0xff]);
  t.throws(() => readLoadHead(wide, most), overLimit);
});

test.serial('a long message is encrypted in slices, while its key encrypts others', async (t) => {
  const key = parseKeyString(generateKeyString());
  const value = { text: 'x'.repeat(3_000_000) };
  let sealed: Uint8Array | undefined;
  const others: Uint8Array[] = [];
  const slices = await slicesOf(async () => {
    const budget = new WorkBudget(unlimitedSteps, 'test');
    const sealing = sealPackedInSlices(key, [packWire(value)], budget).then((blob) => {
      sealed = blob;
    });
    while (sealed === undefined) {
      others.push(sealValue(key, others.length));
      await nextTurn();
    }
    await sealing;
  });
  t.true(slices.length >= 4 && others.length >= 4, `${slices.length}, ${others.length}`);
  t.deepEqual(openValue(key, sealed ?? Buffer.alloc(0)), value);
  t.deepEqual(
    others.map((blob) => openValue(key, blob)),
    others.keys().toArray(),
  );
});

test('a long message is verified and decrypted in slices', async (t) => {
  const key = parseKeyString(generateKeyString());
  const value = { text: 'x'.repeat(3_000_000) };
  const blob = sealValue(key, value);
  const budget = (): WorkBudget => new WorkBudget(unlimitedSteps, 'test');
  const verification = await slicesOf(() => verifyCrypticleInSlices(key, blob, budget()));
  t.true(verification.length >= 4, String(verification.length));
  let plaintext: Uint8Array | undefined;
  const decryption = await slicesOf(async () => {
    plaintext = await decryptPackedInSlices(key, blob, budget());
  });
  t.true(decryption.length >= 4, String(decryption.length));
  t.deepEqual(plaintext, packWire(value));
  for (const at of [0, 1_000_000, blob.length - 1]) {
    const wrong = Buffer.from(blob);
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    await t.throwsAsync(verifyCrypticleInSlices(key, wrong, budget()), { code: 'ERR_BAD_HMAC' });
  }
});
