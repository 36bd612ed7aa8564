import test from 'ava';
import {
  isEncryptionAlgorithm,
  isMinionToken,
  isSigningAlgorithm,
  minionToken,
  parsePrivateKey,
  parsePublicKey,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  rsaVerify,
  x931Recover,
  x931Sign,
} from '../../minion-protocol/rsa.ts';
import { base64, cases, hex, object, pem, text, vectorFile } from '../helpers/vectors.ts';

const vectors = vectorFile('rsa');

for (const [index, vector] of cases(vectors, 'x931').entries()) {
  const pair = pem(text(vector.key));
  const title = `X9.31 vector ${index} (${vector.key}, mirrored: ${vector.n_minus_used})`;
  test(`${title} is signed to Salt's bytes`, (t) => {
    const signature = x931Sign(parsePrivateKey(pair.privatePem), hex(vector.message_hex));
    t.deepEqual(signature, hex(vector.signature_hex));
  });
  test(`${title} is recovered`, (t) => {
    const publicKey = parsePublicKey(pair.publicPem);
    t.deepEqual(x931Recover(publicKey, hex(vector.signature_hex)), hex(vector.message_hex));
    t.deepEqual(x931Recover(publicKey, hex(vector.plain_power_hex)), hex(vector.message_hex));
  });
}

for (const [index, vector] of cases(vectors, 'oaep').entries()) {
  test(`OAEP vector ${index} (${vector.algorithm}) is decrypted`, (t) => {
    const { algorithm } = vector;
    const key = parsePrivateKey(pem(text(vector.key)).privatePem);
    if (!isEncryptionAlgorithm(algorithm)) return t.fail();
    t.deepEqual(rsaDecrypt(key, hex(vector.ciphertext_hex), algorithm), hex(vector.plaintext_hex));
    const other = algorithm === 'OAEP-SHA1' ? 'OAEP-SHA224' : 'OAEP-SHA1';
    t.throws(() => rsaDecrypt(key, hex(vector.ciphertext_hex), other), { code: 'ERR_DECRYPT' });
  });
}

for (const [index, vector] of cases(vectors, 'signatures').entries()) {
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

test('every release made the same token of the vector minion', (t) => {
  const pair = pem('minion');
  const { versions } = vectorFile('minion_auth_requests');
  for (const release of Object.values(object(versions))) {
    const tok = base64(object(release).tok_b64);
    t.deepEqual(minionToken(parsePrivateKey(pair.privatePem)), tok);
    t.true(isMinionToken(parsePublicKey(pair.publicPem), tok));
    t.false(isMinionToken(parsePublicKey(pem('minion2').publicPem), tok));
  }
});

test('a signature of another text is no token', (t) => {
  const pair = pem('minion');
  const signature = x931Sign(parsePrivateKey(pair.privatePem), Buffer.from('sale'));
  t.false(isMinionToken(parsePublicKey(pair.publicPem), signature));
});

test('what is no X9.31 signature gives nothing', (t) => {
  const key = parsePublicKey(pem('minion').publicPem);
  for (const bytes of [Buffer.alloc(0), Buffer.alloc(255, 1), Buffer.alloc(257, 1)]) {
    t.is(x931Recover(key, bytes), undefined);
  }
  t.is(x931Recover(key, Buffer.alloc(256, 0xff)), undefined, 'larger than the modulus');
  t.is(x931Recover(key, Buffer.alloc(256, 0x01)), undefined, 'no padding');
  t.is(x931Recover(key, Buffer.alloc(256)), undefined, 'zero');
});

test('a message that leaves no room for filling is signed, a longer one refused', (t) => {
  const pair = pem('minion');
  const full = Buffer.alloc(254, 7);
  const signature = x931Sign(parsePrivateKey(pair.privatePem), full);
  t.deepEqual(x931Recover(parsePublicKey(pair.publicPem), signature), full);
  t.throws(() => x931Sign(parsePrivateKey(pair.privatePem), Buffer.alloc(255)), {
    instanceOf: RangeError,
  });
});

test('what was encrypted is decrypted', (t) => {
  const pair = pem('minion');
  for (const algorithm of ['OAEP-SHA1', 'OAEP-SHA224'] as const) {
    const secret = rsaEncrypt(parsePublicKey(pair.publicPem), Buffer.from('secret'), algorithm);
    const plain = rsaDecrypt(parsePrivateKey(pair.privatePem), secret, algorithm);
    t.is(plain.toString(), 'secret');
  }
});

test('only the four names are algorithms, and names of methods are not', (t) => {
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
