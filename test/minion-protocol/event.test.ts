import test from 'ava';
import { ProtocolError } from '../../minion-protocol/errors.ts';
import { formatEventStamp, packEvent, unpackEvent } from '../../minion-protocol/event.ts';
import { isWireMap, packLocal, unpackLocal } from '../../minion-protocol/payload.ts';
import { base64, canonical, cases, text, toWireValue, vectorFile } from '../helpers/vectors.ts';

const vectors = vectorFile('ipc_events');
const frames = [...cases(vectors, 'pull_frames'), ...cases(vectors, 'pub_frames')];

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
  test(`the event ${vector.tag} is written to the bytes of ${origin}`, (t) => {
    const body = packEvent(text(vector.tag), toWireValue(vector.data));
    t.deepEqual(body, base64(vector.body_b64));
    t.deepEqual(packLocal({ head: {}, body }), base64(vector.frame_b64));
  });
}

const badEvent = { instanceOf: ProtocolError, code: 'ERR_BAD_EVENT' };

test('a tag that would shift the separator cannot be written', (t) => {
  for (const tag of ['', 'a\n\nb', 'a\n']) t.throws(() => packEvent(tag, {}), badEvent);
});

test('bytes without a tag are no event', (t) => {
  for (const bytes of ['', 'tag', '\n\n', 'tag\n']) {
    t.throws(() => unpackEvent(Buffer.from(bytes)), badEvent);
  }
});

test('a stamp has microseconds and no zone', (t) => {
  t.is(formatEventStamp(new Date('2024-01-02T03:04:05.678Z')), '2024-01-02T03:04:05.678000');
});
