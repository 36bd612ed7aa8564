import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import {
  generateKeyString,
  openCrypticle,
  openValue,
  parseKeyString,
  SerialGuard,
  sealCrypticle,
  sealValue,
} from '../../minion-protocol/crypticle.ts';
import { ProtocolError } from '../../minion-protocol/errors.ts';
import { firstMessageWith } from '../helpers/first-message.ts';
import {
  canonical,
  cases,
  hex,
  keys,
  object,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const vectors = vectorFile('crypticle');
const key = parseKeyString(keys.aes);
const keyBytes = Buffer.from(keys.aes, 'base64');
const [aesKey, hmacKey] = [keyBytes.subarray(0, 24), keyBytes.subarray(24)];
const badHmac = { instanceOf: ProtocolError, code: 'ERR_BAD_HMAC' };

for (const vector of cases(vectors, 'cases')) {
  const nonce = vector.nonce === null ? {} : { nonce: text(vector.nonce) };
  const blob = hex(vector.blob_hex);
  test(`"${vector.name}" is sealed to Salt's bytes`, (t) => {
    const first = firstMessageWith(keys.aes, hex(vector.iv_hex));
    const options = { ...nonce, random: first.random };
    t.deepEqual(sealValue(first.key, toWireValue(vector.value), options), blob);
  });
  test(`"${vector.name}" is opened`, (t) => {
    t.deepEqual(openCrypticle(key, blob), hex(vector.plaintext_hex));
    t.is(canonical(openValue(key, blob, nonce)), canonical(toWireValue(vector.value)));
  });
}

const expectations: Record<string, string> = {
  'flipped ciphertext bit': 'ERR_BAD_HMAC',
  'truncated to 20 bytes': 'ERR_BAD_HMAC',
  'the text bad load': 'ERR_BAD_HMAC',
  'wrong key': 'ERR_BAD_HMAC',
  'nonce mismatch': 'ERR_NONCE',
};

for (const vector of cases(vectors, 'negative')) {
  const used = vector.key_string === undefined ? key : parseKeyString(text(vector.key_string));
  const nonce = vector.expected_nonce === undefined ? {} : { nonce: text(vector.expected_nonce) };
  const code = expectations[text(vector.name)];
  if (code === undefined) continue;
  test(`"${vector.name}" is refused`, (t) => {
    const attempt = () => openValue(used, hex(vector.blob_hex), nonce);
    t.throws(attempt, { instanceOf: ProtocolError, code });
  });
}

test('a plaintext without the prefix is an empty map', (t) => {
  const vector = cases(vectors, 'negative').find(({ name }) => name === 'prefix missing');
  t.deepEqual(Object.keys(openValue(key, hex(vector?.blob_hex)) ?? 'null'), []);
});

test('a serial that does not rise makes an empty map, and is never shown', (t) => {
  const sequence = object(vectors.serial_sequence);
  const guard = new SerialGuard();
  const blobs = sequence.blobs_hex;
  t.true(Array.isArray(blobs));
  const results = Array.isArray(blobs)
    ? blobs.map((blob) => guard.admit(openValue(key, hex(blob))))
    : [];
  t.is(canonical(results), canonical(toWireValue(sequence.results_with_one_decoder)));
});

test('a serial that is no integer makes an empty map, a missing one changes nothing', (t) => {
  const guard = new SerialGuard();
  t.is(canonical(guard.admit({ fun: 'f', serial: '7' })), canonical({}));
  t.is(canonical(guard.admit({ fun: 'f' })), canonical({ fun: 'f' }));
  t.is(guard.admit(null), null);
});

test('every changed bit and every cut of a blob is noticed by its HMAC', (t) => {
  const blob = sealValue(key, { cmd: 'ping' });
  for (let bit = 0; bit < blob.length * 8; bit += 1) {
    const changed = Buffer.from(blob);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    t.throws(() => openCrypticle(key, changed), badHmac);
  }
  for (let end = 0; end < blob.length; end += 1) {
    t.throws(() => openCrypticle(key, blob.subarray(0, end)), badHmac);
  }
});

function signed(content: Uint8Array): Buffer {
  const mac = createHmac('sha256', hmacKey).update(content).digest();
  return Buffer.concat([content, mac]);
}

test('bad padding shows only to somebody who could sign it', (t) => {
  const cipher = createCipheriv('aes-192-cbc', aesKey, Buffer.alloc(16)).setAutoPadding(false);
  const unpadded = Buffer.concat([
    Buffer.alloc(16),
    cipher.update(Buffer.alloc(32)),
    cipher.final(),
  ]);
  t.throws(() => openCrypticle(key, signed(unpadded)), { code: 'ERR_BAD_PADDING' });
  t.throws(() => openCrypticle(key, Buffer.concat([unpadded, Buffer.alloc(32)])), badHmac);
});

test('what is sealed one after another is read by anybody with the key, each with another IV', (t) => {
  const used = new Set<string>();
  const content = fc.uint8Array({ maxLength: 100 });
  const property = fc.property(fc.array(content, { minLength: 1, maxLength: 20 }), (contents) => {
    const sender = parseKeyString(keys.aes);
    for (const plaintext of contents) {
      const blob = sealCrypticle(sender, plaintext);
      const [iv, ciphertext] = [blob.subarray(0, 16), blob.subarray(16, -32)];
      const decipher = createDecipheriv('aes-192-cbc', aesKey, iv);
      const read = Buffer.concat([decipher.update(ciphertext), decipher.final()]);
      t.deepEqual(read, Buffer.from(plaintext));
      t.deepEqual(blob, signed(blob.subarray(0, -32)));
      t.false(used.has(iv.toString('hex')));
      used.add(iv.toString('hex'));
    }
  });
  fc.assert(property, { numRuns: 50 });
});

test('a large message is sealed in slices, and is the same', (t) => {
  for (const size of [32_767, 32_768, 32_769, 100_000]) {
    const plaintext = Buffer.alloc(size, 7);
    const blob = sealCrypticle(key, plaintext);
    t.deepEqual(openCrypticle(parseKeyString(keys.aes), blob), plaintext);
    t.deepEqual(blob, signed(blob.subarray(0, -32)));
  }
});

test('a signed message that does not decrypt leaves the next one readable', (t) => {
  const receiver = parseKeyString(keys.aes);
  const next = sealCrypticle(key, Buffer.from('next'));
  for (const size of [0, 1, 8, 16, 17, 31, 33, 47]) {
    t.throws(() => openCrypticle(receiver, signed(Buffer.alloc(size, 9))), {
      code: 'ERR_BAD_PADDING',
    });
    t.is(openCrypticle(receiver, next).toString(), 'next', String(size));
  }
});

test('signed content that is no ciphertext is refused', (t) => {
  for (const size of [0, 8, 16, 17, 33]) {
    const attempt = () => openCrypticle(key, signed(Buffer.alloc(size)));
    t.throws(attempt, { instanceOf: ProtocolError, code: 'ERR_BAD_PADDING' }, String(size));
  }
});

test('limits hold inside the encryption', (t) => {
  const bomb = sealCrypticle(
    key,
    Buffer.concat([Buffer.from('pickle::'), Buffer.alloc(1000, 0x91)]),
  );
  t.throws(() => openValue(key, bomb), { code: 'ERR_PAYLOAD_LIMIT' });
});

test('raw values keep their text as bytes', (t) => {
  const value = openValue(key, sealValue(key, ['abc']), { raw: true });
  t.deepEqual(value, [new Uint8Array(Buffer.from('abc'))]);
});

test('a new key string can be parsed, and is made of the bytes it is given', (t) => {
  t.is(
    generateKeyString((size) => Buffer.from(Array.from({ length: size }, (_, index) => index))),
    keys.aes,
  );
  t.not(generateKeyString(), generateKeyString());
});

test('key strings of another size or alphabet are refused', (t) => {
  const wrong = [
    '',
    keys.aes.slice(1),
    `${keys.aes}\n`,
    keys.aes.replace('A', '-'),
    `${keys.aes}A`,
  ];
  for (const candidate of wrong) {
    t.throws(() => parseKeyString(candidate), {
      instanceOf: ProtocolError,
      code: 'ERR_BAD_KEY_STRING',
    });
  }
});

test('what was sealed is opened as it was', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (plaintext) =>
      openCrypticle(key, sealCrypticle(key, plaintext)).equals(plaintext),
    ),
  );
  t.pass();
});
