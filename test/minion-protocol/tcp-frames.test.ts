import test from 'ava';
import fc from 'fast-check';
import { packLocal, packWire, unpackWire } from '../../minion-protocol/payload.ts';
import {
  encodePublicationFrame,
  encodeReplyFrame,
  endOfValue,
  type TcpEvent,
  TcpFrameDecoder,
} from '../../minion-protocol/tcp-frames.ts';
import { tcpVector, tcpVectors } from '../helpers/stream-masters.ts';
import {
  base64,
  canonicalWire,
  number,
  object,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const mebibyte = 1024 * 1024;

for (const vector of tcpVectors) {
  for (const form of ['frame_b64', 'frame_old_spec_b64'] as const) {
    test(`${form} of "${text(vector.name)}" has the recorded head and body`, (t) => {
      const [event, ...more] = new TcpFrameDecoder(mebibyte).push(base64(vector[form]));
      if (event?.type !== 'frame') return t.fail('no frame');
      t.deepEqual(more, []);
      t.is(canonicalWire(unpackWire(event.head)), canonicalWire(toWireValue(vector.head)));
      t.is(canonicalWire(unpackWire(event.body)), canonicalWire(toWireValue(vector.body)));
    });
  }
}

const stream = object(vectorFile('tcp_frames').stream);
const bytes = base64(stream.bytes_b64);
const whole = new TcpFrameDecoder(mebibyte).push(bytes);

test('a recorded stream is cut where its frames end', (t) => {
  t.is(whole.length, number(stream.frames));
  t.is(
    endOfValue(bytes, 0, { maxBytes: mebibyte, maxDepth: 9, maxElements: 99 }),
    number(stream.first_frame_length),
  );
});

test('however a stream is cut, the frames are the same', (t) => {
  const cuts = fc.array(fc.nat({ max: bytes.length }), { maxLength: 40 });
  fc.assert(
    fc.property(cuts, (places) => {
      const decoder = new TcpFrameDecoder(mebibyte);
      const events: TcpEvent[] = [];
      const edges = [0, ...places.sort((left, right) => left - right), bytes.length];
      for (const [index, edge] of edges.entries()) {
        events.push(...decoder.push(Buffer.from(bytes.subarray(edge, edges[index + 1] ?? edge))));
      }
      t.deepEqual(plain(events), plain(whole));
      t.false(decoder.isMidMessage);
      t.is(decoder.heldBytes, 0);
    }),
    { numRuns: 300 },
  );
});

test('the scanner finds the end of whatever the packers write', (t) => {
  const value = fc.letrec<{ any: unknown }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, 1.5, 2n ** 63n, -(2n ** 40n)),
      fc.integer(),
      fc.string({ maxLength: 300 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.array(tie('any'), { maxLength: 20 }),
      fc.dictionary(fc.string(), tie('any'), { maxKeys: 20, noNullPrototype: true }),
    ),
  })).any;
  const limits = { maxBytes: mebibyte, maxDepth: 64, maxElements: 100_000 };
  fc.assert(
    fc.property(value, (any) => {
      for (const pack of [packWire, packLocal]) {
        const packed = pack(any as Parameters<typeof packWire>[0]);
        const followed = Buffer.concat([packed, Buffer.of(0xc1)]);
        if (endOfValue(followed, 0, limits) !== packed.length) return false;
        if (endOfValue(packed.subarray(0, -1), 0, limits) !== undefined) return false;
      }
      return true;
    }),
  );
  t.pass();
});

const breaches: ReadonlyArray<readonly [string, string, string]> = [
  ['a reserved byte', 'c1', 'bad-payload'],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n').toString('hex'), 'bad-frame'],
  ['a text in place of a frame', 'a26f6b', 'bad-frame'],
  ['a map without a body', '81a46865616480', 'bad-frame'],
  ['a map with more than head and body', '83a46865616480a4626f647901a17801', 'bad-frame'],
  ['the head twice', '82a46865616480a46865616480', 'bad-frame'],
  ['a head that is no map', '82a46865616401a4626f647901', 'bad-frame'],
  ['a key that cannot be read', '82c7004f80a4626f647901', 'bad-frame'],
  ['a promise of gigabytes', '82a46865616480a4626f6479c6ffffffff', 'message-too-large'],
  ['a list of billions', '82a46865616480a4626f6479ddffffffff', 'too-many-elements'],
  ['a map of billions', 'dfffffffff', 'too-many-elements'],
  ['nesting without end', '91'.repeat(5000), 'too-deep'],
];

for (const [title, hex, reason] of breaches) {
  test(`${title} is refused, and nothing is read after it`, (t) => {
    const decoder = new TcpFrameDecoder(mebibyte);
    t.deepEqual(decoder.push(Buffer.from(hex, 'hex')), [{ type: 'breach', reason }]);
    t.deepEqual(decoder.push(base64(tcpVector('refusal').frame_b64)), []);
    t.is(decoder.heldBytes, 0);
  });
}

test('a body up to the limit is taken, a larger one refused by its head', (t) => {
  const frame = Buffer.concat(encodePublicationFrame(new Uint8Array(5000)));
  t.is(new TcpFrameDecoder(5000).push(frame)[0]?.type, 'frame');
  const refused = new TcpFrameDecoder(3000).push(frame.subarray(0, 20));
  t.deepEqual(refused, [{ type: 'breach', reason: 'message-too-large' }]);
});

test('memory follows what has arrived, not what was promised', (t) => {
  const decoder = new TcpFrameDecoder(16 * mebibyte);
  const frame = Buffer.concat(encodePublicationFrame(new Uint8Array(10_000_000)));
  decoder.push(frame.subarray(0, 100));
  t.true(decoder.heldBytes < 1024);
  decoder.push(frame.subarray(100, 1_000_000));
  t.true(decoder.heldBytes < 1_100_000);
  t.is(decoder.push(frame.subarray(1_000_000))[0]?.type, 'frame');
});

test('a reply and a publication are written as Salt writes them', (t) => {
  const reply = tcpVector('reply to it');
  const head = packLocal(toWireValue(reply.head));
  const body = packLocal(toWireValue(reply.body));
  t.deepEqual(Buffer.concat(encodeReplyFrame(head, body)), base64(reply.frame_b64));
  const publication = tcpVector('publication');
  const envelope = toWireValue(publication.body);
  if (!(envelope instanceof Uint8Array)) return t.fail('no envelope');
  t.deepEqual(Buffer.concat(encodePublicationFrame(envelope)), base64(publication.frame_b64));
});

test('20,000 mutated frames are frames or breaches, and nothing else', (t) => {
  const frames = tcpVectors.map((vector) => base64(vector.frame_b64));
  const edit = fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.uint8Array({ maxLength: 5 }));
  fc.assert(
    fc.property(fc.constantFrom(...frames), fc.array(edit, { maxLength: 6 }), (frame, edits) => {
      let bad = frame;
      for (const [place, cut, insert] of edits) {
        const at = place % (bad.length + 1);
        bad = Buffer.concat([bad.subarray(0, at), insert, bad.subarray(at + cut)]);
      }
      const kinds = new TcpFrameDecoder(mebibyte).push(bad).map(({ type }) => type);
      return kinds.every((type) => type === 'frame' || type === 'breach');
    }),
    { numRuns: 20_000, seed: 20_240_102 },
  );
  t.pass();
});

function plain(events: readonly TcpEvent[]): unknown {
  return events.map((event) =>
    event.type === 'frame'
      ? { ...event, head: Buffer.from(event.head), body: Buffer.from(event.body) }
      : event,
  );
}
