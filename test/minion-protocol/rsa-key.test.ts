import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import test from 'ava';
import { ProtocolError } from '../../minion-protocol/errors.ts';
import {
  cleanKeyText,
  generateKeyPair,
  keyFingerprint,
  parsePrivateKey,
  parsePublicKey,
} from '../../minion-protocol/rsa.ts';
import { base64, cases, pem, text, vectorFile } from '../helpers/vectors.ts';

const badKey = { instanceOf: ProtocolError, code: 'ERR_BAD_KEY' };
const { publicPem, privatePem } = pem('minion');

for (const [index, vector] of cases(vectorFile('fingerprints'), 'cases').entries()) {
  test(`fingerprint vector ${index} (${vector.hash_type} of ${vector.key}) is Salt's`, (t) => {
    const key =
      vector.file_b64 === undefined
        ? pem(text(vector.key)).publicPem
        : base64(vector.file_b64).toString();
    for (const form of [key, cleanKeyText(key), key.replaceAll('\n', '\r\n'), `\n\n${key}\n`]) {
      t.is(keyFingerprint(form, text(vector.hash_type)), text(vector.fingerprint));
    }
  });
}

test('a fingerprint is sha256 unless told otherwise, and an unknown hash type is refused', (t) => {
  t.is(keyFingerprint(publicPem), keyFingerprint(publicPem, 'sha256'));
  t.throws(() => keyFingerprint(publicPem, 'shake256'), { instanceOf: TypeError });
});

test('a private key has a fingerprint, too', (t) => {
  t.is(keyFingerprint(privatePem).length, 95);
});

test('clean key text has neither white space around it nor carriage returns', (t) => {
  t.is(cleanKeyText(` \r\n${publicPem.replaceAll('\n', '\r\n')}\n `), publicPem.trimEnd());
  t.is(cleanKeyText(publicPem.replaceAll('\n', '\r')), publicPem.trimEnd());
});

test('public keys are read in both forms, with any line ends', (t) => {
  const key = parsePublicKey(publicPem);
  const pkcs1 = key.export({ type: 'pkcs1', format: 'pem' }).toString();
  for (const form of [cleanKeyText(publicPem), publicPem.replaceAll('\n', '\r\n'), pkcs1]) {
    t.true(parsePublicKey(form).equals(key));
  }
});

test('private keys are read in both forms', (t) => {
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

test('the constructed key that the refusals below vary is itself accepted', (t) => {
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

test('bytes behind the key inside the PEM block are refused', (t) => {
  const der = parsePublicKey(publicPem).export({ type: 'spki', format: 'der' });
  const longer = Buffer.concat([der, Buffer.from([5, 0])]).toString('base64');
  const form = `-----BEGIN PUBLIC KEY-----\n${longer}\n-----END PUBLIC KEY-----`;
  t.throws(() => parsePublicKey(form), badKey);
});

test('private keys are judged like public ones', (t) => {
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey;
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

test('small and giant key sizes are refused before anything is computed', async (t) => {
  for (const bits of [1024, 2047, 16_384, Number.NaN]) {
    await t.throwsAsync(generateKeyPair(bits), { instanceOf: RangeError });
  }
});
