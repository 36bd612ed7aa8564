import test from 'ava';
import { openValue, parseKeyString, sealValue } from '../../minion-protocol/crypticle.ts';
import {
  isWireMap,
  packWire,
  unpackWire,
  type WireMap,
  wireBytes,
} from '../../minion-protocol/payload.ts';
import {
  encodeClearReply,
  encodePrivateReply,
  encodeSendReply,
  openPrivateReply,
  openSendReply,
  type ProtocolVersion,
} from '../../minion-protocol/request.ts';
import {
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  parsePrivateKey,
  parsePublicKey,
} from '../../minion-protocol/rsa.ts';
import { firstMessageWith } from '../helpers/first-message.ts';
import {
  base64,
  canonical,
  cases,
  type Json,
  type JsonObject,
  keys,
  object,
  pem,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const { nonce } = keys;
const aes = parseKeyString(keys.aes);
const session = parseKeyString(keys.session);

function toVersion(version: Json | undefined): ProtocolVersion {
  return version === 2 || version === 3 ? version : 0;
}

for (const file of ['return', 'minion_event', 'aes_functions']) {
  for (const [index, vector] of cases(vectorFile(file), 'cases').entries()) {
    if (vector.reply_value === undefined || vector.reply_key === undefined) continue;
    test(`${file} reply ${index} (${vector.name ?? 'unnamed'}) is opened and made again`, (t) => {
      const bytes = base64(vector.reply_b64);
      const key = vector.reply_key === 'session_key_string' ? session : aes;
      const context = { version: toVersion(vector.version), nonce };
      const value = openSendReply(bytes, { ...context, key });
      t.is(canonical(value), canonical(toWireValue(vector.reply_value)));
      const blob = wireBytes(unpackWire(bytes));
      const first = firstMessageWith(key.text, blob?.subarray(0, 16) ?? Buffer.alloc(0));
      const { random } = first;
      const options = context.version === 0 ? { random } : { random, nonce };
      const sealed = sealValue(first.key, value, options);
      t.deepEqual(packWire(sealed), bytes);
      t.is(encodeSendReply(key, value, context).length, bytes.length);
    });
  }
}

function privateOptions(vector: JsonObject) {
  const { enc_algo: encAlgo, sig_algo: sigAlgo } = vector;
  if (!isEncryptionAlgorithm(encAlgo) || !isSigningAlgorithm(sigAlgo)) throw new Error('vector');
  return { version: toVersion(vector.version), nonce, encAlgo, sigAlgo };
}

const minionSide = {
  minionKey: parsePrivateKey(pem('minion').privatePem),
  masterKey: parsePublicKey(pem('master').publicPem),
};
const masterSide = {
  minionKey: parsePublicKey(pem('minion').publicPem),
  masterKey: parsePrivateKey(pem('master').privatePem),
};

function pillarOf(vector: JsonObject): Json | undefined {
  const decoded = vector.reply_private_data_decoded;
  return decoded === undefined ? vector.reply_private : object(decoded).pillar;
}

for (const vector of cases(vectorFile('pillar'), 'cases')) {
  const bytes = base64(vector.reply_b64);
  const pillar = toWireValue(pillarOf(vector));
  test(`the pillar reply "${vector.name}" is opened`, (t) => {
    const opened = openPrivateReply(bytes, { ...privateOptions(vector), ...minionSide });
    t.is(canonical(opened), canonical(pillar));
  });

  test(`the pillar reply "${vector.name}" is made with the same fields and sizes`, (t) => {
    const options = privateOptions(vector);
    const ours = encodePrivateReply({
      ...options,
      ...masterSide,
      pillar,
      keyString: keys.ephemeral,
    });
    t.is(ours.length, bytes.length);
    t.is(canonical(openPrivateReply(ours, { ...options, ...minionSide })), canonical(pillar));
    const [left, right] = [ours, bytes].map((reply) => Object.keys(unpackWire(reply) ?? {}));
    t.deepEqual(left, right);
  });
}

const signedVector = cases(vectorFile('pillar'), 'cases').find(({ version }) => version === 3);
const signed = signedVector ?? {};
const signedReply = base64(signed.reply_b64);
const opening = { ...privateOptions(signed), ...minionSide };

test('a pillar for another request is refused', (t) => {
  const attempt = () => openPrivateReply(signedReply, { ...opening, nonce: 'f'.repeat(32) });
  t.throws(attempt, { code: 'ERR_NONCE' });
});

test('a pillar that another master signed is refused', (t) => {
  const masterKey = parsePublicKey(pem('other_minion').publicPem);
  t.throws(() => openPrivateReply(signedReply, { ...opening, masterKey }), {
    code: 'ERR_BAD_SIGNATURE',
  });
});

test('a signed pillar under another one-time key is refused', (t) => {
  const options = {
    ...privateOptions(signed),
    ...masterSide,
    pillar: {},
    keyString: keys.ephemeral,
  };
  const first = unpackWire(encodePrivateReply(options));
  const second = unpackWire(encodePrivateReply(options));
  if (!isWireMap(first) || !isWireMap(second)) return t.fail();
  const mixed: WireMap = { key: first.key ?? null, pillar: second.pillar ?? null };
  t.throws(() => openPrivateReply(packWire(mixed), opening), { code: 'ERR_BAD_REPLY' });
});

test('a pillar for another minion does not decrypt', (t) => {
  const minionKey = parsePrivateKey(pem('minion2').privatePem);
  t.throws(() => openPrivateReply(signedReply, { ...opening, minionKey }), { code: 'ERR_DECRYPT' });
});

test('an answer without key or pillar is no pillar', (t) => {
  for (const reply of [null, {}, { error: 'bad load' }, { key: 'x' }, { key: 1, pillar: 'x' }]) {
    t.throws(() => openPrivateReply(packWire(reply), opening), { code: 'ERR_BAD_REPLY' });
  }
});

test('the text "bad load" is a wrong HMAC, which makes a minion sign in again', (t) => {
  const options = { version: 3, nonce, key: session } as const;
  t.throws(() => openSendReply(packWire('bad load'), options), { code: 'ERR_BAD_HMAC' });
  t.throws(() => openSendReply(packWire({}), options), { code: 'ERR_BAD_REPLY' });
});

test('an answer to another request is refused', (t) => {
  const reply = encodeSendReply(session, true, { version: 3, nonce: 'f'.repeat(32) });
  t.throws(() => openSendReply(reply, { version: 3, nonce, key: session }), { code: 'ERR_NONCE' });
});

test('replies of versions 2 and 3 are not made without a nonce', (t) => {
  t.throws(() => encodeSendReply(aes, null, { version: 2 }), { instanceOf: TypeError });
  const options = { ...privateOptions(signed), ...masterSide, pillar: {}, nonce: undefined };
  t.throws(() => encodePrivateReply(options), { instanceOf: TypeError });
});

test('file content can be read raw, as minions do', (t) => {
  const reply = encodeSendReply(aes, { data: 'text' }, { version: 0 });
  const value = openSendReply(reply, { version: 0, key: aes, raw: true });
  t.true(value instanceof Map);
});

test('every private reply has a key of its own', (t) => {
  const options = {
    ...privateOptions(signed),
    ...masterSide,
    version: 0,
    pillar: { a: 1 },
  } as const;
  const [first, second] = [encodePrivateReply(options), encodePrivateReply(options)].map(
    (reply) => {
      const map = unpackWire(reply);
      return isWireMap(map) ? wireBytes(map.pillar) : undefined;
    },
  );
  t.notDeepEqual(first?.subarray(16), second?.subarray(16));
});

test('a reply in the clear is the packed value', (t) => {
  t.deepEqual(encodeClearReply('bad load'), Buffer.from('a8626164206c6f6164', 'hex'));
});

test('a nonce in the plaintext is not taken for content', (t) => {
  const reply = encodeSendReply(aes, 1, { version: 2, nonce });
  const blob = wireBytes(unpackWire(reply));
  t.throws(() => openValue(aes, blob ?? Buffer.alloc(0)), { code: 'ERR_BAD_PAYLOAD' });
});
