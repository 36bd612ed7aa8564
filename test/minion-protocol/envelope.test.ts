import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import {
  type CrypticleKey,
  checkLoad,
  cleanKeyText,
  decodeEnvelope,
  encodePackedReply,
  generateKeyPair,
  generateKeyString,
  isEncryptionAlgorithm,
  isNewMinionId,
  isSigningAlgorithm,
  isValidMinionId,
  isWireMap,
  keyFingerprint,
  openValue,
  ProtocolError,
  type ProtocolVersion,
  type PublicationLoad,
  packWire,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  publicationEnvelope,
  type RequestEnvelope,
  rsaSign,
  rsaVerify,
  type SealedEnvelope,
  type SigningAlgorithm,
  sealValue,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { openCrypticle, sealCrypticle } from '#minion-protocol/crypt.ts';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { protocolErrors } from '#minion-protocol/errors.ts';
import { HmacKey } from '#minion-protocol/hmac-key.ts';
import { openPublication } from '#minion-protocol/publication.ts';
import { RandomPool } from '#minion-protocol/random-pool.ts';
import { encodePrivateReply, openPrivateReply, openSendReply } from '#minion-protocol/reply.ts';
import { type CheckedLoad, isNonce } from '#minion-protocol/request.ts';
import { rsaDecrypt, rsaEncrypt } from '#minion-protocol/rsa.ts';
import { SerialGuard } from '#minion-protocol/serial-guard.ts';
import { isMinionToken, minionToken, x931Recover, x931Sign } from '#minion-protocol/x931.ts';
import { tries } from '../helpers/effort.ts';
import { firstMessageWith } from '../helpers/first-message.ts';
import { rsaPair } from '../helpers/rsa-keys.ts';
import {
  base64,
  canonical,
  cases,
  hex,
  type Json,
  type JsonObject,
  keys,
  object,
  pem,
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
  test(`sealing "${vector.name}" gives Salt's bytes`, (t) => {
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

test('a serial that does not increase makes the message an empty map, and is not returned', (t) => {
  const sequence = object(vectors.serial_sequence);
  const guard = new SerialGuard();
  const blobs = sequence.blobs_hex;
  t.true(Array.isArray(blobs));
  const results = Array.isArray(blobs)
    ? blobs.map((blob) => guard.admit(openValue(key, hex(blob))))
    : [];
  t.is(canonical(results), canonical(toWireValue(sequence.results_with_one_decoder)));
});

test('a serial that is not an integer makes the message an empty map; a missing serial has no effect', (t) => {
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

test('bad padding is detectable only for holders of the signing key', (t) => {
  const cipher = createCipheriv('aes-192-cbc', aesKey, Buffer.alloc(16)).setAutoPadding(false);
  const unpadded = Buffer.concat([
    Buffer.alloc(16),
    cipher.update(Buffer.alloc(32)),
    cipher.final(),
  ]);
  t.throws(() => openCrypticle(key, signed(unpadded)), { code: 'ERR_BAD_PADDING' });
  t.throws(() => openCrypticle(key, Buffer.concat([unpadded, Buffer.alloc(32)])), badHmac);
});

test('each holder of the key can read consecutive messages, which have different IVs', (t) => {
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
  fc.assert(property, tries(50));
});

test('a large message is sealed in slices, with the same result', (t) => {
  for (const size of [32_767, 32_768, 32_769, 100_000]) {
    const plaintext = Buffer.alloc(size, 7);
    const blob = sealCrypticle(key, plaintext);
    t.deepEqual(openCrypticle(parseKeyString(keys.aes), blob), plaintext);
    t.deepEqual(blob, signed(blob.subarray(0, -32)));
  }
});

test('after a signed message that does not decrypt, the next message can be read', (t) => {
  const receiver = parseKeyString(keys.aes);
  const next = sealCrypticle(key, Buffer.from('next'));
  for (const size of [0, 1, 8, 16, 17, 31, 33, 47]) {
    t.throws(() => openCrypticle(receiver, signed(Buffer.alloc(size, 9))), {
      code: 'ERR_BAD_PADDING',
    });
    t.is(openCrypticle(receiver, next).toString(), 'next', String(size));
  }
});

test('signed content that is not ciphertext is refused', (t) => {
  for (const size of [0, 8, 16, 17, 33]) {
    const attempt = () => openCrypticle(key, signed(Buffer.alloc(size)));
    t.throws(attempt, { instanceOf: ProtocolError, code: 'ERR_BAD_PADDING' }, String(size));
  }
});

test('limits apply inside the encryption', (t) => {
  const bomb = sealCrypticle(
    key,
    Buffer.concat([Buffer.from('pickle::'), Buffer.alloc(1000, 0x91)]),
  );
  t.throws(() => openValue(key, bomb), { code: 'ERR_PAYLOAD_LIMIT' });
});

test('text in raw values stays bytes', (t) => {
  const value = openValue(key, sealValue(key, ['abc']), { raw: true });
  t.deepEqual(value, [new Uint8Array(Buffer.from('abc'))]);
});

test('a new key string can be parsed, and contains the given bytes', (t) => {
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

test('sealed data opens unchanged', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (plaintext) =>
      openCrypticle(key, sealCrypticle(key, plaintext)).equals(plaintext),
    ),
  );
  t.pass();
});

const rsaVectors = vectorFile('rsa');

for (const [index, vector] of cases(rsaVectors, 'x931').entries()) {
  const pair = pem(text(vector.key));
  const title = `X9.31 vector ${index} (${vector.key}, mirrored: ${vector.n_minus_used})`;
  test(`signing ${title} gives Salt's bytes`, (t) => {
    const signature = x931Sign(parsePrivateKey(pair.privatePem), hex(vector.message_hex));
    t.deepEqual(signature, hex(vector.signature_hex));
  });
  test(`${title} is recovered`, (t) => {
    const publicKey = parsePublicKey(pair.publicPem);
    t.deepEqual(x931Recover(publicKey, hex(vector.signature_hex)), hex(vector.message_hex));
    t.deepEqual(x931Recover(publicKey, hex(vector.plain_power_hex)), hex(vector.message_hex));
  });
}

for (const [index, vector] of cases(rsaVectors, 'oaep').entries()) {
  test(`OAEP vector ${index} (${vector.algorithm}) is decrypted`, (t) => {
    const { algorithm } = vector;
    const key = parsePrivateKey(pem(text(vector.key)).privatePem);
    if (!isEncryptionAlgorithm(algorithm)) return t.fail();
    t.deepEqual(rsaDecrypt(key, hex(vector.ciphertext_hex), algorithm), hex(vector.plaintext_hex));
    const other = algorithm === 'OAEP-SHA1' ? 'OAEP-SHA224' : 'OAEP-SHA1';
    t.throws(() => rsaDecrypt(key, hex(vector.ciphertext_hex), other), { code: 'ERR_DECRYPT' });
  });
}

for (const [index, vector] of cases(rsaVectors, 'signatures').entries()) {
  test(`signature vector ${index} (${vector.algorithm}) is made and verified`, (t) => {
    const { algorithm } = vector;
    const pair = pem(text(vector.key));
    const [message, signature] = [hex(vector.message_hex), hex(vector.signature_hex)];
    if (!isSigningAlgorithm(algorithm)) return t.fail();
    t.deepEqual(rsaSign(parsePrivateKey(pair.privatePem), message, algorithm), signature);
    const key = parsePublicKey(pair.publicPem);
    t.true(rsaVerify(key, message, signature, algorithm));
    t.false(rsaVerify(key, Buffer.from('another'), signature, algorithm));
    t.false(rsaVerify(key, message, signature.subarray(1), algorithm));
    t.false(rsaVerify(key, message, Buffer.alloc(0), algorithm));
  });
}

test('every release creates the same token for the vector minion', (t) => {
  const pair = pem('minion');
  const { versions } = vectorFile('minion_auth_requests');
  for (const release of Object.values(object(versions))) {
    const tok = base64(object(release).tok_b64);
    t.deepEqual(minionToken(parsePrivateKey(pair.privatePem)), tok);
    t.true(isMinionToken(parsePublicKey(pair.publicPem), tok));
    t.false(isMinionToken(parsePublicKey(pem('minion2').publicPem), tok));
  }
});

test('the signature of a different text is not a token', (t) => {
  const pair = pem('minion');
  const signature = x931Sign(parsePrivateKey(pair.privatePem), Buffer.from('sale'));
  t.false(isMinionToken(parsePublicKey(pair.publicPem), signature));
});

test('an invalid X9.31 signature decrypts to nothing', (t) => {
  const key = parsePublicKey(pem('minion').publicPem);
  for (const bytes of [Buffer.alloc(0), Buffer.alloc(255, 1), Buffer.alloc(257, 1)]) {
    t.is(x931Recover(key, bytes), undefined);
  }
  t.is(x931Recover(key, Buffer.alloc(256, 0xff)), undefined, 'larger than the modulus');
  t.is(x931Recover(key, Buffer.alloc(256, 0x01)), undefined, 'no padding');
  t.is(x931Recover(key, Buffer.alloc(256)), undefined, 'zero');
});

test('a message without space for padding is signed, and a longer one is refused', (t) => {
  const pair = pem('minion');
  const full = Buffer.alloc(254, 7);
  const signature = x931Sign(parsePrivateKey(pair.privatePem), full);
  t.deepEqual(x931Recover(parsePublicKey(pair.publicPem), signature), full);
  t.throws(() => x931Sign(parsePrivateKey(pair.privatePem), Buffer.alloc(255)), {
    instanceOf: RangeError,
  });
});

test('encrypted data decrypts unchanged', (t) => {
  const pair = pem('minion');
  for (const algorithm of ['OAEP-SHA1', 'OAEP-SHA224'] as const) {
    const secret = rsaEncrypt(parsePublicKey(pair.publicPem), Buffer.from('secret'), algorithm);
    const plain = rsaDecrypt(parsePrivateKey(pair.privatePem), secret, algorithm);
    t.is(plain.toString(), 'secret');
  }
});

test('only the four algorithm names are accepted, and names of methods are refused', (t) => {
  for (const name of [
    'toString',
    '__proto__',
    'OAEP-SHA512',
    'oaep-sha1',
    '',
    null,
    1,
    undefined,
  ]) {
    t.false(isEncryptionAlgorithm(name));
    t.false(isSigningAlgorithm(name));
  }
  t.false(isEncryptionAlgorithm('PKCS1v15-SHA1'));
  t.false(isSigningAlgorithm('OAEP-SHA1'));
});

const badKey = { instanceOf: ProtocolError, code: 'ERR_BAD_KEY' };
const { publicPem, privatePem } = pem('minion');

for (const [index, vector] of cases(vectorFile('fingerprints'), 'cases').entries()) {
  test(`fingerprint vector ${index} (${vector.hash_type} of ${vector.key}) matches Salt's`, (t) => {
    const key =
      vector.file_b64 === undefined
        ? pem(text(vector.key)).publicPem
        : base64(vector.file_b64).toString();
    for (const form of [key, cleanKeyText(key), key.replaceAll('\n', '\r\n'), `\n\n${key}\n`]) {
      t.is(keyFingerprint(form, text(vector.hash_type)), text(vector.fingerprint));
    }
  });
}

test('the default fingerprint is sha256, and an unknown hash type is refused', (t) => {
  t.is(keyFingerprint(publicPem), keyFingerprint(publicPem, 'sha256'));
  t.throws(() => keyFingerprint(publicPem, 'shake256'), { instanceOf: TypeError });
});

test('a private key has a fingerprint, too', (t) => {
  t.is(keyFingerprint(privatePem).length, 95);
});

test('normalized key text has no surrounding white space and no carriage returns', (t) => {
  t.is(cleanKeyText(` \r\n${publicPem.replaceAll('\n', '\r\n')}\n `), publicPem.trimEnd());
  t.is(cleanKeyText(publicPem.replaceAll('\n', '\r')), publicPem.trimEnd());
});

test('public keys are parsed in both forms, with any line ends', (t) => {
  const key = parsePublicKey(publicPem);
  const pkcs1 = key.export({ type: 'pkcs1', format: 'pem' }).toString();
  for (const form of [cleanKeyText(publicPem), publicPem.replaceAll('\n', '\r\n'), pkcs1]) {
    t.true(parsePublicKey(form).equals(key));
  }
});

test('private keys are parsed in both forms', (t) => {
  const key = parsePrivateKey(privatePem);
  const pkcs8 = key.export({ type: 'pkcs8', format: 'pem' }).toString();
  t.true(parsePrivateKey(pkcs8).equals(key));
});

test('an encrypted private key needs its passphrase', (t) => {
  const cipher = { type: 'pkcs8', format: 'pem', cipher: 'aes-128-cbc', passphrase: 'p' } as const;
  const encrypted = parsePrivateKey(privatePem).export(cipher).toString();
  t.true(parsePrivateKey(encrypted, 'p').equals(parsePrivateKey(privatePem)));
  t.throws(() => parsePrivateKey(encrypted), badKey);
  t.throws(() => parsePrivateKey(encrypted, 'q'), badKey);
});

function toPublicPem(n: Buffer, e: Buffer): string {
  const jwk = { kty: 'RSA', n: n.toString('base64url'), e: e.toString('base64url') };
  return createPublicKey({ key: jwk, format: 'jwk' })
    .export({ type: 'spki', format: 'pem' })
    .toString();
}

function oddModulus(bits: number): Buffer {
  return Buffer.alloc(bits / 8, 0xc5);
}

const exponent = Buffer.from([1, 0, 1]);

test('the constructed key that the next tests vary is accepted', (t) => {
  t.notThrows(() => parsePublicKey(toPublicPem(oddModulus(2048), exponent)));
  t.notThrows(() => parsePublicKey(toPublicPem(oddModulus(8192), exponent)));
});

const refusals: Record<string, string> = {
  'a modulus of 2040 bits': toPublicPem(oddModulus(2040), exponent),
  'a modulus of 8200 bits': toPublicPem(oddModulus(8200), exponent),
  'an even modulus': toPublicPem(Buffer.alloc(256, 0xc4), exponent),
  'the exponent 1': toPublicPem(oddModulus(2048), Buffer.from([1])),
  'the exponent 3': toPublicPem(oddModulus(2048), Buffer.from([3])),
  'an even exponent': toPublicPem(oddModulus(2048), Buffer.from([1, 0, 2])),
  'a giant exponent': toPublicPem(oddModulus(2048), Buffer.alloc(32, 0xc5)),
  'an elliptic curve': generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .publicKey.export({ type: 'spki', format: 'pem' })
    .toString(),
  'a restricted use': generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
    .publicKey.export({ type: 'spki', format: 'pem' })
    .toString(),
  'a private key': privatePem,
  'two keys': publicPem + publicPem,
  'text in front': `x${publicPem}`,
  'text behind': `${publicPem}x`,
  'mismatched lines': publicPem.replace('END PUBLIC', 'END RSA PUBLIC'),
  'no text': '',
  'a certificate label': publicPem.replaceAll('PUBLIC KEY', 'CERTIFICATE'),
  'a long text': publicPem + '\n'.repeat(16 * 1024),
};

for (const [what, candidate] of Object.entries(refusals)) {
  test(`a public key with ${what} is refused`, (t) => {
    t.throws(() => parsePublicKey(candidate), badKey);
  });
}

test('extra bytes after the key inside the PEM block are refused', (t) => {
  const der = parsePublicKey(publicPem).export({ type: 'spki', format: 'der' });
  const longer = Buffer.concat([der, Buffer.from([5, 0])]).toString('base64');
  const form = `-----BEGIN PUBLIC KEY-----\n${longer}\n-----END PUBLIC KEY-----`;
  t.throws(() => parsePublicKey(form), badKey);
});

test('private keys are checked like public ones', (t) => {
  const small = createPrivateKey(rsaPair(0, 1024).privatePem);
  const curve = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  for (const key of [small, curve]) {
    const form = key.export({ type: 'pkcs8', format: 'pem' }).toString();
    t.throws(() => parsePrivateKey(form), badKey);
  }
  t.throws(() => parsePrivateKey('x'.repeat(16 * 1024 + 1)), badKey);
});

test('a generated pair has the form of the files that Salt writes', async (t) => {
  const pair = await generateKeyPair(2048);
  t.regex(pair.privatePem, /^-----BEGIN RSA PRIVATE KEY-----\n/);
  t.regex(pair.publicPem, /^-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/]{64}\n)+/);
  t.true(pair.publicPem.endsWith('-----END PUBLIC KEY-----\n'));
  const privateKey = parsePrivateKey(pair.privatePem);
  t.true(createPublicKey(privateKey).equals(parsePublicKey(pair.publicPem)));
});

test('too small and too large key sizes are refused before any computation', async (t) => {
  for (const bits of [1024, 2047, 16_384, Number.NaN]) {
    await t.throwsAsync(generateKeyPair(bits), { instanceOf: RangeError });
  }
});

function macOf(key: HmacKey, bytes: Uint8Array): Buffer {
  const target = Buffer.alloc(34, 0xee);
  key.write(bytes, target, 1);
  if (target[0] !== 0xee || target[33] !== 0xee) throw new Error('written beyond its place');
  return target.subarray(1, 33);
}

function expected(key: Uint8Array, bytes: Uint8Array): Buffer {
  return createHmac('sha256', key).update(bytes).digest();
}

test('an HMAC equals that of OpenSSL for any key and message', (t) => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const property = fc.property(fc.uint8Array({ maxLength: 64 }), bytes, bytes, (raw, one, two) => {
    const key = new HmacKey(raw);
    t.deepEqual(macOf(key, one), expected(raw, one));
    t.deepEqual(macOf(key, two), expected(raw, two), 'and the one before has left nothing');
    const both = expected(raw, Buffer.concat([one, two]));
    t.deepEqual(key.begin().update(one).update(two).digest(), both);
  });
  fc.assert(property);
});

test('long messages have the HMAC of OpenSSL', (t) => {
  const raw = Buffer.alloc(32, 3);
  const key = new HmacKey(raw);
  for (const size of [4095, 4096, 4097, 1_000_000]) {
    const message = Buffer.alloc(size, 5);
    t.deepEqual(macOf(key, message), expected(raw, message), String(size));
  }
});

test('a key longer than the hash block is refused', (t) => {
  t.throws(() => new HmacKey(Buffer.alloc(65)), { instanceOf: RangeError });
});

test('a pool never returns the same bytes twice, even across its pages', (t) => {
  const pool = new RandomPool();
  const seen = new Set<string>();
  for (let count = 0; count < 1000; count += 1) seen.add(pool.take(16).toString('hex'));
  t.is(seen.size, 1000);
});

test('returned random bytes do not change when more are taken', (t) => {
  const pool = new RandomPool();
  const first = pool.take(16);
  const before = first.toString('hex');
  for (let count = 0; count < 1000; count += 1) pool.take(24);
  t.is(first.toString('hex'), before);
  t.is(pool.take(24).length, 24);
});

const noTtl = { nowSeconds: 0, ttlSeconds: 0 };
const aes = parseKeyString(keys.aes);
const session = parseKeyString(keys.session);
const minionKey = parsePublicKey(pem('minion').publicPem);

/** Checks a request like a master, up to its handler. Returns Salt's reply if it is rejected. */
function refusalOf(bytes: Buffer, options = noTtl): WireValue | undefined {
  const decoded = decodeEnvelope(bytes);
  if (!decoded.ok) return decoded.reply;
  const { envelope } = decoded;
  let load: WireValue;
  try {
    load = loadOf(envelope);
  } catch {
    return 'bad load';
  }
  const checked = checkLoad(envelope, load, options);
  if (!checked.ok) return checked.reply;
  const { tok, id } = checked.request;
  if (tok === undefined || id === undefined) return undefined;
  return isMinionToken(minionKey, tok) ? undefined : 'bad load';
}

function loadOf(envelope: RequestEnvelope): WireValue {
  if (envelope.enc === 'clear') return envelope.load;
  return openValue(envelope.version === 3 ? session : aes, envelope.load);
}

/**
 * Cases that Salt's channel accepts. A handler rejects or answers them, so this file has nothing to
 * reject.
 */
const passing = new Set([
  'handler raises',
  'handler gives unknown reply kind',
  'clear ping echoes',
  'aes v2 no tok is fine',
  'aes v2 tok but no id',
]);

for (const vector of cases(vectorFile('errors'), 'cases')) {
  const name = text(vector.name);
  // Salt answers this request. Without a nonce, our reply could not be bound to it [THREATS G-04].
  if (name === 'prefix missing in crypticle gives empty map') continue;
  const expired = name.includes('request_server_ttl');
  const options = expired ? { nowSeconds: Date.UTC(2099, 0) / 1000, ttlSeconds: 60 } : noTtl;
  test(`a request that is "${name}" is ${passing.has(name) ? 'accepted' : 'answered as Salt does'}`, (t) => {
    const reply = refusalOf(base64(vector.request_b64), options);
    if (passing.has(name)) t.is(reply, undefined);
    else t.deepEqual(packWire(reply ?? null), base64(vector.reply_b64));
  });
}

test('bytes that are not MessagePack get a map as the reply', (t) => {
  const decoded = decodeEnvelope(Buffer.from([0xc1]));
  t.like(decoded, { ok: false, code: 'ERR_BAD_PAYLOAD' });
  t.is(canonical(decoded.ok ? null : decoded.reply), canonical({ msg: 'bad load' }));
});

function code(bytes: Uint8Array): string {
  const decoded = decodeEnvelope(bytes);
  return decoded.ok ? 'ok' : decoded.code;
}

const clear = { enc: 'clear', load: { cmd: 'ping' } };

test('versions 0 to 3 are accepted, and a missing version means 0', (t) => {
  for (const version of [0, 1, 2, 3]) t.is(code(packWire({ ...clear, version })), 'ok');
  const decoded = decodeEnvelope(packWire(clear));
  t.is(decoded.ok ? decoded.envelope.version : undefined, 0);
});

test('any other value of the version is refused', (t) => {
  for (const version of [4, -1, 1.5, '2', null, true, 2n ** 60n, [2], {}]) {
    t.is(code(packWire({ ...clear, version })), 'ERR_BAD_ENVELOPE');
  }
});

test('an envelope with a duplicate key or a key that is not text is refused', (t) => {
  const twice = Buffer.from('83a3656e63a5636c656172a46c6f616480a46c6f616480', 'hex');
  t.is(code(twice), 'ERR_BAD_PAYLOAD');
  const mixed = new Map<WireValue, WireValue>([...Object.entries(clear), [1, 2]]);
  t.is(code(packWire(mixed)), 'ERR_BAD_PAYLOAD');
  t.is(code(packWire({ enc: 'clear', load: new Map([[1, 2]]) })), 'ERR_BAD_PAYLOAD');
});

test('a clear request has limited depth and at most 1 MiB; an encrypted request may be larger', (t) => {
  let deep: WireValue = null;
  for (let level = 0; level < 8; level += 1) deep = [deep];
  t.is(code(packWire({ enc: 'clear', load: { deep } })), 'ERR_PAYLOAD_LIMIT');
  const large = Buffer.alloc(1024 * 1024, 0xff);
  t.is(code(packWire({ enc: 'clear', load: { large } })), 'ERR_PAYLOAD_LIMIT');
  t.is(code(packWire({ enc: 'aes', load: large })), 'ok');
  t.is(
    code(packWire({ enc: 'aes', load: Buffer.alloc(17 * 1024 * 1024, 0xff) })),
    'ERR_PAYLOAD_LIMIT',
  );
});

test('an envelope has at most 2,000 values, and an encrypted load may have more', (t) => {
  const values = (count: number): WireValue[] => Array.from({ length: count }, () => 1);
  t.is(code(packWire({ enc: 'clear', load: { values: values(1_900) } })), 'ok');
  t.is(code(packWire({ enc: 'clear', load: { values: values(2_000) } })), 'ERR_PAYLOAD_LIMIT');
  t.is(code(packWire({ enc: 'aes', load: values(2_000) })), 'ERR_PAYLOAD_LIMIT');
  t.is(code(packWire({ enc: 'aes', load: packWire(values(90_000)) })), 'ok');
});

test('an unknown enc and fields of wrong types are refused', (t) => {
  const load = Buffer.alloc(64, 0xff);
  const wrong: WireMap[] = [
    { enc: 'pub', load },
    { enc: null, load },
    { enc: 'aes', load: {} },
    { enc: 'aes' },
    { enc: 'aes', load, enc_algo: 1 },
    { enc: 'aes', load, sig_algo: 'x'.repeat(65) },
  ];
  for (const message of wrong) t.is(code(packWire(message)), 'ERR_BAD_ENVELOPE');
});

test('an encrypted load that was decoded as text is converted back to its bytes', (t) => {
  const decoded = decodeEnvelope(packWire({ enc: 'aes', load: 'žluť' }));
  const load = decoded.ok && decoded.envelope.enc === 'aes' ? decoded.envelope.load : undefined;
  t.deepEqual(load && Buffer.from(load), Buffer.from('žluť'));
});

const ids: Record<string, boolean> = {
  web1: true,
  'WEB 1.example.org': true,
  'a..b': true,
  žluť: true,
  '...': true,
  '': false,
  '.': false,
  '..': false,
  'a/b': false,
  'a\\b': false,
  'a\0b': false,
  'a\nb': false,
  'a\u0085b': false,
  '\ud800': false,
};

for (const [id, valid] of Object.entries(ids)) {
  test(`the id ${JSON.stringify(id)} is ${valid ? 'valid' : 'refused'}`, (t) => {
    t.is(isValidMinionId(id), valid);
  });
}

test('an id has at most 255 bytes and is text', (t) => {
  t.true(isValidMinionId('ž'.repeat(127)));
  t.false(isValidMinionId('ž'.repeat(128)));
  for (const id of [null, undefined, 5, ['a'], new Uint8Array(1)]) t.false(isValidMinionId(id));
});

test('a nonce consists of exactly 32 lower-case hex digits', (t) => {
  t.true(isNonce(keys.nonce));
  const wrong = [
    '',
    keys.nonce.slice(1),
    `${keys.nonce}0`,
    `${keys.nonce}\n`,
    'A'.repeat(32),
    null,
    1,
  ];
  for (const nonce of wrong) t.false(isNonce(nonce));
});

const envelope: SealedEnvelope = {
  enc: 'aes',
  version: 3,
  id: 'web1',
  encAlgo: 'OAEP-SHA1',
  sigAlgo: 'PKCS1v15-SHA1',
  load: new Uint8Array(),
};
const load: WireMap = {
  cmd: 'x',
  id: 'web1',
  nonce: keys.nonce,
  ts: 1000,
  tok: Buffer.alloc(256, 255),
};
const window = { nowSeconds: 1300, ttlSeconds: 300 };

function checkCode(checked: CheckedLoad): string {
  return checked.ok ? 'ok' : checked.code;
}

test('a handler receives neither token nor nonce', (t) => {
  const checked = checkLoad(envelope, load, window);
  if (!checked.ok) return t.fail();
  t.is(canonical(checked.request.load), canonical({ cmd: 'x', id: 'web1', ts: 1000 }));
  t.like(checked.request, { cmd: 'x', id: 'web1', nonce: keys.nonce });
  t.is(checked.request.tok?.length, 256);
});

test('a time stamp may differ from the clock by the window in both directions, and must be valid', (t) => {
  const codes = (ts: WireValue) => checkCode(checkLoad(envelope, { ...load, ts }, window));
  t.deepEqual([1000, 1600].map(codes), ['ok', 'ok']);
  for (const ts of [999, 1601, '1300', 1300.5, null, 2n ** 60n]) t.is(codes(ts), 'ERR_EXPIRED');
  const { ts: _ts, ...without } = load;
  t.is(checkCode(checkLoad(envelope, without, window)), 'ERR_EXPIRED');
  t.is(checkCode(checkLoad(envelope, without, noTtl)), 'ok');
});

test('versions 2 and 3 require a valid nonce, versions 0 and 1 do not', (t) => {
  for (const nonce of ['', 'x', keys.nonce.toUpperCase(), keys.nonce.repeat(2), null, 5]) {
    for (const version of [2, 3] as const) {
      const checked = checkLoad({ ...envelope, version }, { ...load, nonce }, window);
      t.is(checkCode(checked), 'ERR_NONCE');
      t.is(checked.ok ? '' : checked.reply, 'bad load');
    }
    t.is(checkCode(checkLoad({ ...envelope, version: 0 }, { ...load, nonce }, window)), 'ok');
  }
});

test('in version 3 the load repeats the id of the envelope and contains a token', (t) => {
  t.is(checkCode(checkLoad(envelope, { ...load, id: 'web2' }, window)), 'ERR_BAD_ID');
  const { tok: _tok, ...without } = load;
  t.is(checkCode(checkLoad(envelope, without, window)), 'ERR_TOKEN');
  t.is(checkCode(checkLoad({ ...envelope, version: 2 }, without, window)), 'ok');
  for (const tok of [null, 5, [], Buffer.alloc(1025, 255)]) {
    t.is(checkCode(checkLoad(envelope, { ...load, tok }, window)), 'ERR_TOKEN');
    t.is(checkCode(checkLoad({ ...envelope, version: 0 }, { ...load, tok }, window)), 'ERR_TOKEN');
  }
});

test('a token that was decoded as text is converted to bytes', (t) => {
  const checked = checkLoad(envelope, { ...load, tok: 'abc' }, window);
  t.deepEqual(checked.ok ? checked.request.tok : undefined, Buffer.from('abc'));
});

test('an encrypted load that is not a map with text keys is refused', (t) => {
  for (const value of [null, 'text', [], new Map([[1, 2]]), Buffer.alloc(1)]) {
    const checked = checkLoad(envelope, value, window);
    t.like(checked, { ok: false, reply: 'payload and load must be a dict' });
  }
});

test('an id that is not text is named in the error only if it is a number', (t) => {
  const reply = (id: WireValue) => {
    const checked = checkLoad(envelope, { ...load, id }, window);
    return checked.ok ? undefined : checked.reply;
  };
  t.is(reply(7), 'bad load: id 7 is not a string');
  for (const id of [null, ['secret'], { a: 1 }, Buffer.from('ff', 'hex')])
    t.is(reply(id), 'bad load');
});

test('a request that its version cannot carry is not packed', (t) => {
  const base = { enc: 'aes', key: aes, load: {} } as const;
  t.throws(() => encodeRequest({ ...base, version: 2 }), { instanceOf: TypeError });
  t.throws(() => encodeRequest({ ...base, version: 3, nonce: keys.nonce }), {
    instanceOf: TypeError,
  });
});

for (const file of ['return', 'minion_event', 'pillar', 'aes_functions']) {
  for (const [index, vector] of cases(vectorFile(file), 'cases').entries()) {
    if (vector.request_b64 === undefined || vector.request_load === undefined) continue;
    test(`${file} request ${index} (${vector.name ?? 'unnamed'}) is opened, and packing it gives the same bytes`, (t) => {
      const bytes = base64(vector.request_b64);
      const decoded = decodeEnvelope(bytes);
      if (!decoded.ok || decoded.envelope.enc !== 'aes') return t.fail();
      const { version, load: blob } = decoded.envelope;
      const key = version === 3 ? session : aes;
      const opened = openValue(key, blob);
      t.is(canonical(opened), canonical(toWireValue(vector.request_load)));
      const first = firstMessageWith(key.text, blob.subarray(0, 16));
      t.deepEqual(sealValue(first.key, opened, { random: first.random }), Buffer.from(blob));
      t.is(refusalOf(bytes), undefined);
    });
  }
}

test('a minion packs the requests of the vectors to the recorded bytes', (t) => {
  const identity = (map: WireMap) => ({ id: String(map.id), ts: Number(map.ts), tok: map.tok });
  let compared = 0;
  for (const vector of cases(vectorFile('return'), 'cases')) {
    const bytes = base64(vector.request_b64);
    const decoded = decodeEnvelope(bytes);
    const map = toWireValue(vector.request_load);
    if (!decoded.ok || decoded.envelope.enc !== 'aes') return t.fail();
    const { version, load: blob, encAlgo, sigAlgo } = decoded.envelope;
    const { nonce, ts, tok, ...plain } = map as WireMap;
    const who = identity({ ...plain, ts: ts ?? 0, tok: tok ?? null });
    const packed = encodeRequest({
      enc: 'aes',
      version,
      ...firstMessageWith(version === 3 ? keys.session : keys.aes, blob.subarray(0, 16)),
      load: plain,
      ...(typeof nonce === 'string' ? { nonce } : {}),
      ...(who.tok instanceof Uint8Array
        ? { identity: { ...who, tok: who.tok }, encAlgo, sigAlgo }
        : {}),
    });
    // An object lists keys that look like indexes first. None of these loads has such keys.
    t.deepEqual(packed, bytes, text(vector.name));
    compared += 1;
  }
  t.true(compared > 10);
});

test('ids of new minions consist of letters and digits of any script and a few other characters', (t) => {
  const good = [
    'a',
    '7',
    'web-1.example.org',
    'Ž',
    'вэб-1',
    '机器01',
    '١٢',
    'a:b@c+d_e',
    'a'.repeat(128),
  ];
  for (const id of good) t.true(isNewMinionId(id), id);
  const bad = [
    ...[
      '',
      '.',
      '..',
      '*',
      'atk-*',
      '[a]',
      '{a,b}',
      'a?',
      'a b',
      ' a',
      'a\n',
      'a\t',
      'a/b',
      'a\\b',
    ],
    ...[
      '-a',
      '.a',
      '_a',
      ':a',
      '@a',
      '+a',
      'a..b',
      'a,b',
      'a;b',
      "a'b",
      'a"b',
      'a<b',
      'a|b',
      'a&b',
    ],
    ...['a\u200bb', 'a\u202eb', 'a\u2066b', 'a\ufeffb', 'a\u00adb', 'a\u3164b', 'a\ufe0fb', 'a\0b'],
    ...[
      'e\u0301',
      'a\u034fb',
      'a\u00a0b',
      'a\u2028b',
      '\ud800',
      '😀',
      'a'.repeat(129),
      'ž'.repeat(128),
    ],
  ];
  for (const id of bad) t.false(isNewMinionId(id), JSON.stringify(id));
});

test('an id that NFKC changes or that a compound target reads otherwise is refused', (t) => {
  const variants = ['\uff41tk-legit', '\u210cost', 'x\u00b2', '\ufb01le', '\u1d41a'];
  const compounds = ['I@a:b', 'G@os:Linux', 'G:@a', 'E@web', 'N@group', 'X@y', 'and', 'or', 'not'];
  for (const id of [...variants, ...compounds]) t.false(isNewMinionId(id), JSON.stringify(id));
  for (const id of ['a@b', 'web1@x', 'android', 'not-a-word', 'Host'])
    t.true(isNewMinionId(id), id);
});

const { nonce } = keys;
function toVersion(version: Json | undefined): ProtocolVersion {
  return version === 2 || version === 3 ? version : 0;
}

for (const file of ['return', 'minion_event', 'aes_functions']) {
  for (const [index, vector] of cases(vectorFile(file), 'cases').entries()) {
    if (vector.reply_value === undefined || vector.reply_key === undefined) continue;
    test(`${file} reply ${index} (${vector.name ?? 'unnamed'}) is opened, and built again identically`, (t) => {
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
      t.is(encodePackedReply(key, [packWire(value)], context).length, bytes.length);
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

  test(`the pillar reply "${vector.name}" is built with the same fields and sizes`, (t) => {
    const options = privateOptions(vector);
    const ours = encodePrivateReply({
      ...options,
      ...masterSide,
      packedPillar: packWire(pillar),
      keyString: keys.ephemeral,
    });
    t.is(ours.length, bytes.length);
    t.is(canonical(openPrivateReply(ours, { ...options, ...minionSide })), canonical(pillar));
    const [left, right] = [ours, bytes].map((reply) => Object.keys(unpackWire(reply) ?? {}));
    t.deepEqual(left, right);
  });
}

const signedVector = cases(vectorFile('pillar'), 'cases').find(({ version }) => version === 3);
const signedPillar = signedVector ?? {};
const signedReply = base64(signedPillar.reply_b64);
const opening = { ...privateOptions(signedPillar), ...minionSide };

test('a pillar for another request is refused', (t) => {
  const attempt = () => openPrivateReply(signedReply, { ...opening, nonce: 'f'.repeat(32) });
  t.throws(attempt, { code: 'ERR_NONCE' });
});

test('a pillar with the signature of another master is refused', (t) => {
  const masterKey = parsePublicKey(pem('other_minion').publicPem);
  t.throws(() => openPrivateReply(signedReply, { ...opening, masterKey }), {
    code: 'ERR_BAD_SIGNATURE',
  });
});

test('a signed pillar under another one-time key is refused', (t) => {
  const options = {
    ...privateOptions(signedPillar),
    ...masterSide,
    packedPillar: packWire({}),
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

test('a reply without key or pillar is not accepted as a pillar', (t) => {
  for (const reply of [null, {}, { error: 'bad load' }, { key: 'x' }, { key: 1, pillar: 'x' }]) {
    t.throws(() => openPrivateReply(packWire(reply), opening), { code: 'ERR_BAD_REPLY' });
  }
});

test('the reply "bad load" counts as a wrong HMAC and makes the minion sign in again', (t) => {
  const options = { version: 3, nonce, key: session } as const;
  t.throws(() => openSendReply(packWire('bad load'), options), { code: 'ERR_BAD_HMAC' });
  t.throws(() => openSendReply(packWire({}), options), { code: 'ERR_BAD_REPLY' });
});

test('a reply to another request is refused', (t) => {
  const reply = encodePackedReply(session, [packWire(true)], { version: 3, nonce: 'f'.repeat(32) });
  t.throws(() => openSendReply(reply, { version: 3, nonce, key: session }), { code: 'ERR_NONCE' });
});

test('replies of versions 2 and 3 cannot be built without a nonce', (t) => {
  t.throws(() => encodePackedReply(aes, [packWire(null)], { version: 2 }), {
    instanceOf: TypeError,
  });
  const options = {
    ...privateOptions(signedPillar),
    ...masterSide,
    packedPillar: packWire({}),
    nonce: undefined,
  };
  t.throws(() => encodePrivateReply(options), { instanceOf: TypeError });
});

test('file content can be read as raw bytes, as minions do', (t) => {
  const reply = encodePackedReply(aes, [packWire({ data: 'text' })], { version: 0 });
  const value = openSendReply(reply, { version: 0, key: aes, raw: true });
  t.true(value instanceof Map);
});

test('every private reply has its own key', (t) => {
  const options = {
    ...privateOptions(signedPillar),
    ...masterSide,
    version: 0,
    packedPillar: packWire({ a: 1 }),
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
  t.deepEqual(packWire('bad load'), Buffer.from('a8626164206c6f6164', 'hex'));
});

test('a nonce in the plaintext is not part of the content', (t) => {
  const reply = encodePackedReply(aes, [packWire(1)], { version: 2, nonce });
  const blob = wireBytes(unpackWire(reply));
  t.throws(() => openValue(aes, blob ?? Buffer.alloc(0)), { code: 'ERR_BAD_PAYLOAD' });
});

const masterKey = parsePrivateKey(pem('master').privatePem);
const masterPublic = parsePublicKey(pem('master').publicPem);

/** Returns the last frame of the first ZeroMQ message. A frame before it is the topic. */
function envelopeBytes(vector: JsonObject): Buffer {
  const messages = vector.zeromq_messages_b64;
  const frames = Array.isArray(messages) ? messages[0] : undefined;
  return base64(Array.isArray(frames) ? frames.at(-1) : undefined);
}

function isPublicationLoad(map: WireMap): map is PublicationLoad {
  return 'fun' in map && 'arg' in map && 'tgt' in map && 'jid' in map;
}

for (const vector of cases(vectorFile('publish'), 'cases')) {
  const bytes = envelopeBytes(vector);
  const isSigned = object(vector.envelope).sig !== undefined;
  const decrypted = toWireValue(vector.decrypted_load);

  test(`the publication "${vector.name}" is opened`, (t) => {
    const load = openPublication(bytes, { key: key, masterPublic, requireSignature: isSigned });
    t.is(canonical(load), canonical(decrypted));
  });

  test(`the publication "${vector.name}" is built to the same bytes`, (t) => {
    const { sig_algo: sigAlgo } = object(vector.envelope);
    const outer = unpackWire(bytes);
    const blob = isWireMap(outer) ? wireBytes(outer.load) : undefined;
    if (!isWireMap(decrypted) || !blob) return t.fail();
    const { serial, ...load } = decrypted;
    if (!isPublicationLoad(load)) return t.fail();
    const ours = buildPublication(load, {
      ...firstMessageWith(key.text, blob.subarray(0, 16)),
      serial: Number(serial),
      ...(isSigned ? { masterKey } : {}),
      ...(isSigningAlgorithm(sigAlgo) ? { sigAlgo } : {}),
    });
    t.deepEqual(ours, bytes);
  });
}

/** Encrypts, signs and packs a publication. */
function buildPublication(
  load: PublicationLoad,
  options: {
    readonly key: CrypticleKey;
    readonly serial: number;
    readonly masterKey?: KeyObject;
    readonly sigAlgo?: SigningAlgorithm;
    readonly random?: Uint8Array;
  },
): Buffer {
  const { key, serial, masterKey, sigAlgo = 'PKCS1v15-SHA1', random } = options;
  const blob = sealValue(key, { ...load, serial }, random === undefined ? {} : { random });
  const signature = masterKey && rsaSign(masterKey, blob, sigAlgo);
  return publicationEnvelope(blob, signature, sigAlgo);
}

const publicationLoad: PublicationLoad = {
  fun: 'test.ping',
  arg: [],
  tgt: '*',
  jid: '20240102030405678901',
};
const strict = { key: key, masterPublic, requireSignature: true };
const badSignature = { code: 'ERR_BAD_SIGNATURE' };

test('a minion that requires signatures refuses unsigned publications and those of other masters', (t) => {
  const unsigned = buildPublication(publicationLoad, { key: key, serial: 1 });
  t.throws(() => openPublication(unsigned, strict), badSignature);
  const foreign = parsePrivateKey(pem('minion').privatePem);
  const forged = buildPublication(publicationLoad, { key: key, serial: 1, masterKey: foreign });
  t.throws(() => openPublication(forged, strict), badSignature);
  t.notThrows(() => openPublication(forged, { key: key }));
  const signed = buildPublication(publicationLoad, { key: key, serial: 1, masterKey });
  t.notThrows(() => openPublication(signed, strict));
  t.throws(() => openPublication(signed, { key: key, requireSignature: true }), badSignature);
});

test('a signature requires the name of its algorithm', (t) => {
  const signed = unpackWire(buildPublication(publicationLoad, { key: key, serial: 1, masterKey }));
  if (!isWireMap(signed)) return t.fail();
  const { sig_algo: _name, ...without } = signed;
  t.throws(() => openPublication(packWire(without), strict), badSignature);
  t.throws(
    () => openPublication(packWire({ ...without, sig_algo: 'toString' }), strict),
    badSignature,
  );
});

test('a message that is not an encrypted envelope is not a publication', (t) => {
  for (const value of [
    null,
    {},
    { enc: 'clear', load: { fun: 'x' } },
    { enc: 'aes' },
    { enc: 'aes', load: 1 },
  ]) {
    t.throws(() => openPublication(packWire(value), { key: key }), { code: 'ERR_BAD_ENVELOPE' });
  }
});

test('a publication with another key counts as a wrong HMAC and makes the minion sign in again', (t) => {
  const bytes = buildPublication(publicationLoad, { key: key, serial: 1 });
  const other = parseKeyString(keys.session);
  t.throws(() => openPublication(bytes, { key: other }), { code: 'ERR_BAD_HMAC' });
});

test('only enc, load, sig and sig_algo are readable in transit', (t) => {
  const outer = unpackWire(
    buildPublication(
      { ...publicationLoad, arg: ['planted secret'] },
      { key: key, serial: 1, masterKey },
    ),
  );
  t.deepEqual(Object.keys(outer ?? {}), ['enc', 'load', 'sig_algo', 'sig']);
  t.false(packWire(outer).includes('planted secret'));
});

test('an error has its name, its code and its cause', (t) => {
  const cause = new Error('below');
  const error = new ProtocolError('ERR_NONCE', 'text', { cause });
  t.is(error.name, 'ProtocolError');
  t.is(error.code, 'ERR_NONCE');
  t.is(error.cause, cause);
  t.true(String(error).startsWith('ProtocolError: text'));
  t.false(Object.keys(error).includes('name'));
});

test('every code has its own meaning and remedy', (t) => {
  const entries = Object.values(protocolErrors);
  for (const { meaning, action } of entries) {
    t.regex(meaning, /^[A-Z].*\.$/);
    t.regex(action, /^[A-Z].*\.$/);
  }
  t.is(new Set(entries.map(({ meaning }) => meaning)).size, entries.length);
});
