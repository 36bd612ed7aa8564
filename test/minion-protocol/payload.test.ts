import test from 'ava';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import {
  createJidSource,
  encodePackedReply,
  formatEventStamp,
  generateKeyString,
  isJid,
  isWireMap,
  jidTime,
  type MinionEventLoad,
  ProtocolError,
  packEvent,
  packLocal,
  packWire,
  parseKeyString,
  parseMinionEventLoad,
  parsePillarLoad,
  parseReturnLoad,
  unpackEvent,
  unpackLocal,
  unpackWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import type { ParsedLoad } from '#minion-protocol/loads.ts';
import { unpackRaw } from '#minion-protocol/payload.ts';
import { openSendReply } from '#minion-protocol/reply.ts';
import { packFileChunk } from '#salt/files/file-chunk.ts';
import { Float } from '#template/python/values.ts';
import { tries } from '../helpers/effort.ts';
import {
  base64,
  canonical,
  canonicalWire,
  cases,
  hex,
  number,
  object,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const scalar: fc.Arbitrary<WireValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'grapheme', minLength: 30, maxLength: 300 }),
  fc.uint8Array({ maxLength: 300 }),
  fc.constant(new WireDateTime('2024-01-02T03:04:05.678901')),
);

// Bytes and bigint are left out, because two different keys of these types may be equal on the
// wire.
const mapKey: fc.Arbitrary<WireValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.string(),
);

const value: fc.Arbitrary<WireValue> = fc.letrec<{ value: WireValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    scalar,
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(fc.string(), tie('value'), { noNullPrototype: true }),
    fc.array(fc.tuple(mapKey, tie('value')), { maxLength: 18 }).map((pairs) => new Map(pairs)),
  ),
})).value;

test('locally packed values are read back unchanged', (t) => {
  fc.assert(
    fc.property(
      value,
      (original) => canonical(unpackLocal(packLocal(original))) === canonical(original),
    ),
  );
  t.pass();
});

test('values packed for the wire are read back, except that text and bytes become the same', (t) => {
  fc.assert(
    fc.property(value, (original) => {
      const expected = canonicalWire(original);
      const packed = packWire(original);
      return (
        canonicalWire(unpackWire(packed)) === expected &&
        canonicalWire(unpackRaw(packed)) === expected
      );
    }),
  );
  t.pass();
});

test('a float without a fraction stays a float when it is read and packed again', (t) => {
  for (const text of ['cb3ff0000000000000', 'cb8000000000000000', '81cb40000000000000009101']) {
    const packed = Buffer.from(text, 'hex');
    t.deepEqual(packWire(unpackWire(packed)), packed);
    t.deepEqual(packLocal(unpackLocal(packed)), packed);
  }
  t.deepEqual(unpackWire(Buffer.from('ca3f800000', 'hex')), new Float(1));
});

test('text, lists, maps and 32-bit integers are packed like msgpackr packs them', (t) => {
  const plain = fc.letrec<{ value: WireValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      fc.array(tie('value'), { maxLength: 20 }),
    ),
  })).value;
  const packr = new Packr({ useRecords: false, variableMapSize: true });
  fc.assert(fc.property(plain, (original) => packLocal(original).equals(packr.pack(original))));
  t.pass();
});

test('the readers fail only with ProtocolError, for any bytes', (t) => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.array(fc.constantFrom(0x81, 0x91, 0xc7, 0xd4, 0x4f, 0xdf, 0xa1, 0, 255)).map(Buffer.from),
  );
  fc.assert(
    fc.property(bytes, (input) => {
      for (const unpack of [unpackWire, unpackLocal, unpackRaw]) {
        try {
          unpack(input);
        } catch (error) {
          if (!(error instanceof ProtocolError)) throw error;
        }
      }
    }),
    tries(500),
  );
  t.pass();
});

const vectors = vectorFile('msgpack');

for (const vector of cases(vectors, 'encode')) {
  const value = toWireValue(vector.value);
  test(`the wire form of "${vector.name}" has Salt's bytes`, (t) => {
    t.is(packWire(value).length, number(vector.wire_length));
    const expected = hex(vector.wire_hex ?? vector.wire_hex_prefix);
    t.deepEqual(packWire(value).subarray(0, expected.length), expected);
  });
  test(`the local form of "${vector.name}" has Salt's bytes`, (t) => {
    t.is(packLocal(value).length, number(vector.local_length));
    const expected = hex(vector.local_hex ?? vector.local_hex_prefix);
    t.deepEqual(packLocal(value).subarray(0, expected.length), expected);
  });
}

/**
 * Makes values comparable: Salt drops the code of an unknown extension and keeps its bytes, and we
 * keep both.
 */
function comparable(value: WireValue, expected: WireValue): WireValue {
  if (!(value instanceof WireExtension)) return value;
  return typeof expected === 'string' ? Buffer.from(value.data).toString('utf8') : value.data;
}

for (const vector of cases(vectors, 'decode')) {
  const bytes = hex(vector.hex);
  const readers = { as_wire: unpackWire, as_wire_raw: unpackRaw, as_local: unpackLocal };
  for (const [field, unpack] of Object.entries(readers)) {
    test(`"${vector.name}" is read ${field} as Salt reads it`, (t) => {
      const expected = toWireValue(vector[field]);
      t.is(canonical(comparable(unpack(bytes), expected)), canonical(expected));
    });
  }
}

function map(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function accepted<Load>(parsed: ParsedLoad<Load>): Load {
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

for (const [index, vector] of cases(vectorFile('return'), 'cases').entries()) {
  test(`the return ${index} (${vector.name}) is accepted completely`, (t) => {
    const load = map(toWireValue(vector.request_load));
    t.is(canonical(accepted(parseReturnLoad(load))), canonical(load));
  });
}

function requestedTags(load: MinionEventLoad): string[] {
  if (load.form === 'single') return [load.tag];
  if (load.form === 'empty') return [];
  const { events, pretag } = load;
  return events.flatMap(({ tag }) => (pretag === undefined ? [tag] : [tag, `${pretag}/${tag}`]));
}

for (const [index, vector] of cases(vectorFile('minion_event'), 'cases').entries()) {
  test(`the event request ${index} (${vector.name}) yields the events that Salt fires`, (t) => {
    const load = map(toWireValue(vector.request_load));
    const parsed = accepted(parseMinionEventLoad(load));
    const fired = cases(vector, 'events_fired').map((event) => event.tag);
    // Events with forbidden tags are requested, but never fired.
    t.deepEqual(
      fired.filter((tag) => !requestedTags(parsed).includes(String(tag))),
      [],
    );
    if (parsed.form === 'single') t.deepEqual(fired, [parsed.tag]);
    if (parsed.form === 'empty') t.deepEqual(fired, []);
  });
}

for (const [index, vector] of cases(vectorFile('pillar'), 'cases').entries()) {
  test(`the pillar request ${index} (${vector.name}) is read`, (t) => {
    const parsed = accepted(parsePillarLoad(map(toWireValue(vector.request_load)), 5_000));
    const expected = object(vector.request_load);
    t.is(canonical(parsed.grains ?? null), canonical(toWireValue(expected.grains)));
    t.like(parsed, { id: 'vecminion', ver: '2', saltenv: undefined, clean_cache: false });
  });
}

for (const [release, steps] of Object.entries(object(vectorFile('startup_transcripts').versions))) {
  test(`every load that ${release} sends after its start is accepted`, (t) => {
    let seen = 0;
    for (const step of Array.isArray(steps) ? steps.map(object) : []) {
      if (step.step !== 'request' || step.load === undefined) continue;
      const load = map(toWireValue(step.load));
      const parse = {
        _return: parseReturnLoad,
        _minion_event: parseMinionEventLoad,
        _pillar: (load: WireMap) => parsePillarLoad(load, 5_000),
      }[String(load.cmd)];
      const parsed = parse?.(load);
      if (parsed === undefined) continue;
      t.true(parsed.ok, String(load.cmd));
      seen += 1;
    }
    t.true(seen >= 5);
  });
}

const returned: WireMap = { id: 'web1', jid: 'req', return: null };

test('a return requires an id, a jid and a value, and its fields have limits', (t) => {
  t.true(parseReturnLoad(returned).ok);
  const wrong: WireMap[] = [
    { ...returned, id: '../web1' },
    { ...returned, id: 5 },
    { ...returned, jid: '' },
    { ...returned, jid: '2'.repeat(65) },
    { ...returned, jid: { a: 1 } },
    { ...returned, fun: 5 },
    { ...returned, fun: [['nested']] },
    { ...returned, fun: Array.from({ length: 1001 }, () => 'f') },
    { ...returned, out: 'x'.repeat(1025) },
    { ...returned, user: {} },
    { id: 'web1', jid: 'req' },
  ];
  for (const load of wrong) t.false(parseReturnLoad(load).ok, JSON.stringify(Object.keys(load)));
});

test('an error names the field, but not its content', (t) => {
  const parsed = parseReturnLoad({ ...returned, jid: ['planted secret'] });
  t.false(parsed.ok);
  const reason = parsed.ok ? '' : parsed.reason;
  t.true(reason.startsWith('jid:'), reason);
  t.false(reason.includes('planted'));
});

test('an event request has limits for tags and events', (t) => {
  const event = { tag: 'a', data: {} };
  t.true(parseMinionEventLoad({ events: Array(1000).fill(event) }).ok);
  const wrong: WireMap[] = [
    { events: Array(1001).fill(event) },
    { events: [{ data: 1 }] },
    { events: ['a'] },
    { events: { tag: 'a' } },
    {
      events: [
        new Map<WireValue, WireValue>([
          ['tag', 'a'],
          [1, 2],
        ]),
      ],
    },
    { tag: 5 },
    { tag: 'x'.repeat(1025) },
    { tag: 'a', pretag: 7 },
  ];
  for (const load of wrong) t.false(parseMinionEventLoad(load).ok);
});

test('an event without data is its own data, and an empty request fires nothing', (t) => {
  const parsed = accepted(parseMinionEventLoad({ events: [{ tag: 'a', x: 1 }], pretag: null }));
  t.like(parsed, { form: 'batch', pretag: undefined });
  const data = parsed.form === 'batch' ? parsed.events[0]?.data : undefined;
  t.is(canonical(data ?? null), canonical({ tag: 'a', x: 1 }));
  t.like(accepted(parseMinionEventLoad({})), { form: 'empty' });
});

test('a pillar request ignores fields of the wrong type', (t) => {
  const grains = new Map<WireValue, WireValue>([
    ['os', 'Debian'],
    [1, 2],
  ]);
  const parsed = accepted(
    parsePillarLoad({ id: 'a/b', grains, pillar_override: 'x', ver: 2 }, 5_000),
  );
  t.like(parsed, { id: undefined, ver: undefined });
  t.is(canonical(parsed.grains ?? null), canonical({ os: 'Debian' }));
  t.is(canonical(parsed.pillar_override), canonical({}));
  t.false(parsePillarLoad({ id: 'a', saltenv: ['base'] }, 5_000).ok);
});

test('a long map in a pillar request is read up to one entry above the maximum', (t) => {
  let read = 0;
  class CountingMap extends Map<WireValue, WireValue> {
    override *[Symbol.iterator](): MapIterator<[WireValue, WireValue]> {
      for (const entry of this.entries()) {
        read += 1;
        yield entry;
      }
      return undefined;
    }
  }
  const long = new CountingMap(Array.from({ length: 1000 }, (_, at) => [`k${at}`, at]));
  const given = { grains: long, pillar_override: long, extra_minion_data: long, ext: long };
  const parsed = accepted(parsePillarLoad(given, 20));
  t.is(Object.keys(parsed.grains ?? {}).length, 21);
  t.is(Object.keys(parsed.pillar_override).length, 21);
  t.is(read, 63);
});

const eventVectors = vectorFile('ipc_events');
const frames = [...cases(eventVectors, 'pull_frames'), ...cases(eventVectors, 'pub_frames')];

for (const vector of frames) {
  const origin = vector.release ?? 'a master';
  test(`the event ${vector.tag} of ${origin} is read`, (t) => {
    const frame = unpackLocal(base64(vector.frame_b64));
    if (!isWireMap(frame) || !(frame.body instanceof Uint8Array)) return t.fail();
    t.deepEqual(Buffer.from(frame.body), base64(vector.body_b64));
    const event = unpackEvent(frame.body);
    t.is(event.tag, text(vector.tag));
    t.is(canonical(event.data), canonical(toWireValue(vector.data)));
  });
  test(`the event ${vector.tag} is written with the bytes of ${origin}`, (t) => {
    const body = packEvent(text(vector.tag), toWireValue(vector.data));
    t.deepEqual(body, base64(vector.body_b64));
    t.deepEqual(packLocal({ head: {}, body }), base64(vector.frame_b64));
  });
}

const badEvent = { instanceOf: ProtocolError, code: 'ERR_BAD_EVENT' };

test('a tag that contains the separator cannot be written', (t) => {
  for (const tag of ['', 'a\n\nb', 'a\n']) t.throws(() => packEvent(tag, {}), badEvent);
});

test('bytes without a tag are not an event', (t) => {
  for (const bytes of ['', 'tag', '\n\n', 'tag\n']) {
    t.throws(() => unpackEvent(Buffer.from(bytes)), badEvent);
  }
});

test('a stamp has microseconds and no time zone', (t) => {
  t.is(formatEventStamp(new Date('2024-01-02T03:04:05.678Z')), '2024-01-02T03:04:05.678000');
});

const sizes = [0, 1, 31, 32, 255, 65_535, 65_536, 1_048_576];

for (const size of sizes) {
  test(`a part of ${size} bytes is packed as the map that it contains`, (t) => {
    const data = Buffer.alloc(size, 0xff);
    for (const rest of [{ dest: 'a/b' }, { dest: 'a/b', gzip: 5 }]) {
      const packed = Buffer.concat(packFileChunk({ data, ...rest }));
      t.true(packed.equals(packWire({ data, ...rest })));
    }
  });
}

test('a reply that was packed before opens to the same value as one packed now', (t) => {
  const key = parseKeyString(generateKeyString());
  const context = { version: 3, nonce: 'a'.repeat(32) } as const;
  const value = { data: Buffer.alloc(100_003, 0xfe), dest: 'x' };
  const plain = openSendReply(encodePackedReply(key, [packWire(value)], context), {
    key,
    ...context,
  });
  const pieces = encodePackedReply(key, packFileChunk(value), context);
  t.deepEqual(openSendReply(pieces, { key, ...context }), plain);
});

const jidVectors = vectorFile('jid');

for (const vector of cases(jidVectors, 'is_jid')) {
  test(`${vector.value} is ${vector.result ? 'a jid' : 'not a jid'}`, (t) => {
    t.is(isJid(vector.value), vector.result === true);
  });
}

test('a jid has 20 digits and an optional suffix after an underscore', (t) => {
  for (const wrong of [
    '20240102030405678901_',
    '202401020304056789012',
    '20240102030405678901\n',
    20,
  ]) {
    t.false(isJid(wrong));
  }
});

for (const vector of cases(jidVectors, 'jid_to_time')) {
  test(`the time of ${vector.jid} is ${vector.text || 'unknown'}`, (t) => {
    const expected = vector.text === '' ? undefined : '2024-01-02T03:04:05.678Z';
    t.is(jidTime(text(vector.jid))?.toISOString(), expected);
  });
}

test('a jid that does not spell a time has no time', (t) => {
  for (const wrong of [
    'req',
    '20240230030405678901',
    '20241302030405678901',
    '99999999999999999999',
  ]) {
    t.is(jidTime(wrong), undefined);
  }
});

test('a jid is the UTC time in microseconds', (t) => {
  const next = createJidSource(() => Date.parse('2024-01-02T03:04:05.678Z'));
  t.is(next(), '20240102030405678000');
  t.is(next(), '20240102030405678001');
});

test('a jid is never issued twice, even if the clock goes backwards', (t) => {
  const times = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 50 });
  fc.assert(
    fc.property(times, (milliseconds) => {
      let index = 0;
      const next = createJidSource(() => milliseconds[index++] ?? 0);
      const jids = milliseconds.map(() => next());
      const rising = jids.every((jid, at) => at === 0 || jid > (jids[at - 1] ?? ''));
      return rising && jids.every(isJid);
    }),
  );
  t.pass();
});

test('more jids than microseconds in a millisecond continue in the next millisecond', (t) => {
  const next = createJidSource(() => Date.parse('2024-12-31T23:59:59.999Z'));
  const jids = Array.from({ length: 1001 }, next);
  t.is(jids.at(-1), '20250101000000000000');
});

test('a suffix follows an underscore', (t) => {
  const next = createJidSource(() => 0, '4711');
  t.is(next(), '19700101000000000001_4711');
});

test('values after a large text do not double the memory of the packed value', (t) => {
  const packed = packLocal({ text: 'x'.repeat(1_000_000), more: ['a', 1] });
  t.true(packed.buffer.byteLength < packed.length + 2000, String(packed.buffer.byteLength));
});
