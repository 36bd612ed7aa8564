/** Recorded broken requests: the same words as Salt's master, each counted. */
import test from 'ava';
import { openSendReply, packWire } from '../../../minion-protocol/index.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { aesKey } from '../../helpers/vector-requests.ts';
import { base64, cases, type JsonObject, keys, text, vectorFile } from '../../helpers/vectors.ts';

/** The time stamps in these requests are those of the day of recording. */
const recordedAt = 1_795_236_606_000;

const vectors = cases(vectorFile('errors'), 'cases');

/** Cases that Salt answers otherwise, with our answer and why it differs. */
const different = new Map<unknown, Buffer>([
  // `boom` and `weird` were made for the recording; the clear functions are `_auth` and `ping`.
  ['handler raises', packWire({})],
  ['handler gives unknown reply kind', packWire({})],
  // An empty map has no nonce, and version 2 cannot do without [THREATS M-16].
  ['prefix missing in crypticle gives empty map', packWire('bad load')],
]);

/** Their function, made for the recording, gave back the load: an unknown one gives an empty map. */
const served: ReadonlySet<unknown> = new Set(['aes v2 no tok is fine', 'aes v2 tok but no id']);

test('answers recorded broken requests with the words of Salt', async (t) => {
  const { ask, clock } = await startVectorMaster(t, { config: { requestServerTtl: 60 } });
  clock.now = recordedAt;
  for (const vector of vectors.filter(({ name }) => !served.has(name))) {
    const expected = different.get(vector.name) ?? base64(vector.reply_b64);
    t.deepEqual(await ask(base64(vector.request_b64)), expected, text(vector.name));
  }
});

test('counts each recorded broken request once, and no good one', async (t) => {
  const { ask, clock, counters } = await startVectorMaster(t, { config: { requestServerTtl: 60 } });
  clock.now = recordedAt;
  for (const vector of vectors.filter(({ name }) => !served.has(name))) {
    const before = total(await counters());
    await ask(base64(vector.request_b64));
    const counted = total(await counters()) - before;
    t.is(counted, vector.name === 'clear ping echoes' ? 0 : 1, text(vector.name));
  }
});

test('takes requests of protocol 2 without a token, or with one and no id, as Salt does', async (t) => {
  const { ask, clock } = await startVectorMaster(t);
  clock.now = recordedAt;
  for (const vector of vectors.filter(({ name }) => served.has(name))) {
    t.deepEqual(await openAnswer(ask, vector), Object.create(null), text(vector.name));
  }
});

async function openAnswer(
  ask: (request: Uint8Array) => Promise<Buffer>,
  vector: JsonObject,
): Promise<unknown> {
  const reply = await ask(base64(vector.request_b64));
  return openSendReply(reply, { key: aesKey, version: 2, nonce: keys.nonce });
}

function total(counters: Readonly<Record<string, number>>): number {
  return Object.values(counters).reduce((sum, count) => sum + count, 0);
}
