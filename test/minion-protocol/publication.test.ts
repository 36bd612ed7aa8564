import test from 'ava';
import { parseKeyString } from '../../minion-protocol/crypticle.ts';
import type { PublicationLoad } from '../../minion-protocol/loads.ts';
import {
  isWireMap,
  packWire,
  unpackWire,
  type WireMap,
  wireBytes,
} from '../../minion-protocol/payload.ts';
import { buildPublication, openPublication } from '../../minion-protocol/publication.ts';
import { isSigningAlgorithm, parsePrivateKey, parsePublicKey } from '../../minion-protocol/rsa.ts';
import { firstMessageWith } from '../helpers/first-message.ts';
import {
  base64,
  canonical,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const key = parseKeyString(keys.aes);
const masterKey = parsePrivateKey(pem('master').privatePem);
const masterPublic = parsePublicKey(pem('master').publicPem);

/** The last frame of the first ZeroMQ message; the frame before it, if any, is the topic. */
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
    const load = openPublication(bytes, { key, masterPublic, requireSignature: isSigned });
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

const load: PublicationLoad = { fun: 'test.ping', arg: [], tgt: '*', jid: '20240102030405678901' };
const strict = { key, masterPublic, requireSignature: true };
const badSignature = { code: 'ERR_BAD_SIGNATURE' };

test('a minion that requires signatures refuses what has none, or another master made', (t) => {
  const unsigned = buildPublication(load, { key, serial: 1 });
  t.throws(() => openPublication(unsigned, strict), badSignature);
  const foreign = parsePrivateKey(pem('minion').privatePem);
  const forged = buildPublication(load, { key, serial: 1, masterKey: foreign });
  t.throws(() => openPublication(forged, strict), badSignature);
  t.notThrows(() => openPublication(forged, { key }));
  const signed = buildPublication(load, { key, serial: 1, masterKey });
  t.notThrows(() => openPublication(signed, strict));
  t.throws(() => openPublication(signed, { key, requireSignature: true }), badSignature);
});

test('a signature needs the name of its algorithm', (t) => {
  const signed = unpackWire(buildPublication(load, { key, serial: 1, masterKey }));
  if (!isWireMap(signed)) return t.fail();
  const { sig_algo: _name, ...without } = signed;
  t.throws(() => openPublication(packWire(without), strict), badSignature);
  t.throws(
    () => openPublication(packWire({ ...without, sig_algo: 'toString' }), strict),
    badSignature,
  );
});

test('what is no encrypted envelope is no publication', (t) => {
  for (const value of [
    null,
    {},
    { enc: 'clear', load: { fun: 'x' } },
    { enc: 'aes' },
    { enc: 'aes', load: 1 },
  ]) {
    t.throws(() => openPublication(packWire(value), { key }), { code: 'ERR_BAD_ENVELOPE' });
  }
});

test('a publication under another key is a wrong HMAC, which makes a minion sign in again', (t) => {
  const bytes = buildPublication(load, { key, serial: 1 });
  const other = parseKeyString(keys.session);
  t.throws(() => openPublication(bytes, { key: other }), { code: 'ERR_BAD_HMAC' });
});

test('only enc, load, sig and sig_algo are readable on the way', (t) => {
  const outer = unpackWire(
    buildPublication({ ...load, arg: ['planted secret'] }, { key, serial: 1, masterKey }),
  );
  t.deepEqual(Object.keys(outer ?? {}), ['enc', 'load', 'sig_algo', 'sig']);
  t.false(packWire(outer).includes('planted secret'));
});
