import test from 'ava';
import fc from 'fast-check';
import {
  checkLoad,
  decodeEnvelope,
  isWireMap,
  openValue,
  ProtocolError,
  packWire,
  parseAuthRequest,
  parseKeyString,
  parseMinionEventLoad,
  parsePillarLoad,
  parsePrivateKey,
  parseReturnLoad,
  unpackEvent,
  type WireValue,
} from '#minion-protocol';
import { sealCrypticle } from '#minion-protocol/crypt.ts';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { tries } from '../helpers/effort.ts';
import { base64, cases, keys, pem, toWireValue, vectorFile } from '../helpers/vectors.ts';

const aes = parseKeyString(keys.aes);
const manyTries = tries(1000);

/** Generates messages with one to eight bytes changed, removed or inserted at any place. */
function mutated(messages: readonly Buffer[]): fc.Arbitrary<Buffer> {
  const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
  const edit = fc.record({
    place,
    remove: fc.nat({ max: 3 }),
    insert: fc.uint8Array({ maxLength: 5 }),
  });
  const edits = fc.array(edit, { minLength: 1, maxLength: 8 });
  return fc.tuple(fc.constantFrom(...messages), edits).map(([message, list]) => {
    let bytes = message;
    for (const { place: at, remove, insert } of list) {
      const start = Math.floor(at * bytes.length);
      bytes = Buffer.concat([bytes.subarray(0, start), insert, bytes.subarray(start + remove)]);
    }
    return bytes;
  });
}

function vectorRequests(file: string): Buffer[] {
  return cases(vectorFile(file), 'cases').flatMap(({ request_b64: request }) =>
    typeof request === 'string' ? [base64(request)] : [],
  );
}

/** Ignores a ProtocolError, which is a valid outcome. Any other error fails the test. */
function orProtocolError<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

function hear(bytes: Buffer): void {
  const decoded = decodeEnvelope(bytes);
  if (!decoded.ok) return;
  const { envelope } = decoded;
  if (envelope.enc === 'clear') parseAuthRequest(envelope);
  else orProtocolError(() => openValue(aes, envelope.load));
}

test('20,000 mutated requests are either accepted or refused', (t) => {
  const requests = ['auth', 'return', 'pillar', 'errors'].flatMap(vectorRequests);
  fc.assert(fc.property(mutated(requests), hear), manyTries);
  t.pass();
});

function hearLoad(load: WireValue): void {
  const envelope = {
    enc: 'aes',
    version: 2,
    id: undefined,
    encAlgo: '',
    sigAlgo: '',
    load: new Uint8Array(),
  } as const;
  const checked = checkLoad(envelope, load, { nowSeconds: 0, ttlSeconds: 0 });
  if (!checked.ok || !isWireMap(load)) return;
  const parsePillar = (given: typeof load) => parsePillarLoad(given, 5_000);
  for (const parse of [parseReturnLoad, parseMinionEventLoad, parsePillar]) {
    parse(checked.request.load);
  }
}

test('20,000 mutated loads inside the encryption are either accepted or refused', (t) => {
  const plaintexts = ['return', 'minion_event', 'pillar'].flatMap((file) =>
    cases(vectorFile(file), 'cases').flatMap(({ request_load: load }) =>
      load === undefined ? [] : [packWire(toWireValue(load))],
    ),
  );
  const property = fc.property(mutated(plaintexts), (packed) => {
    const blob = sealCrypticle(aes, Buffer.concat([Buffer.from('pickle::'), packed]));
    const load = orProtocolError(() => openValue(aes, blob));
    if (load !== undefined) hearLoad(load);
  });
  fc.assert(property, manyTries);
  t.pass();
});

test('20,000 mutated sign-in replies never make a minion accept or throw', (t) => {
  const config = {
    id: keys.minionId,
    version: 3,
    privateKey: parsePrivateKey(pem('minion').privatePem),
    publicPem: pem('minion').publicPem,
    token: keys.token,
    nonce: () => keys.nonce,
  } as const;
  const replies = cases(vectorFile('auth'), 'cases').map((vector) => base64(vector.reply_b64));
  const handshake = createMinionHandshake(config);
  handshake.request();
  fc.assert(
    fc.property(mutated(replies), (reply) => {
      const unchanged = replies.some((original) => original.equals(reply));
      return unchanged || handshake.step(reply).state !== 'accepted';
    }),
    manyTries,
  );
  t.pass();
});

test('20,000 mutated events are either read or refused', (t) => {
  const bodies = cases(vectorFile('ipc_events'), 'pull_frames').map((vector) =>
    base64(vector.body_b64),
  );
  fc.assert(
    fc.property(mutated(bodies), (body) => {
      orProtocolError(() => unpackEvent(body));
    }),
    manyTries,
  );
  t.pass();
});
