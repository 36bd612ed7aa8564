import test from 'ava';
import { decideKey, type KeyDecisionInput, type KeyTransition } from '#master/auth/key-decision.ts';
import {
  type AuthRequest,
  type ClearEnvelope,
  cleanKeyText,
  decodeEnvelope,
  isSigningAlgorithm,
  isWireMap,
  keyFingerprint,
  packWire,
  parseAuthRequest,
  parsePrivateKey,
  parsePublicKey,
  rsaVerify,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import {
  type AuthMaterial,
  aesKeySignature,
  buildAccepted,
  buildRefusal,
  masterPubkeySignature,
} from '#minion-protocol/auth-reply.ts';
import {
  createMinionHandshake,
  type HandshakeStep,
  type MinionHandshakeConfig,
} from '#minion-protocol/minion-handshake.ts';
import { rsaDecrypt, rsaEncrypt } from '#minion-protocol/rsa.ts';
import { rsaPair } from '../helpers/rsa-keys.ts';
import {
  base64,
  canonical,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const masterPrivate = parsePrivateKey(pem('master').privatePem);
const masterPublic = parsePublicKey(pem('master').publicPem);
const minionPrivate = parsePrivateKey(pem('minion').privatePem);

function clearEnvelope(bytes: Uint8Array): ClearEnvelope {
  const decoded = decodeEnvelope(bytes);
  if (!decoded.ok || decoded.envelope.enc !== 'clear') throw new Error('not a clear request');
  return decoded.envelope;
}

function authRequest(bytes: Uint8Array): AuthRequest {
  const parsed = parseAuthRequest(clearEnvelope(bytes));
  if (!parsed.ok) throw new Error(parsed.code);
  return parsed.request;
}

function material(vector: JsonObject, request: AuthRequest): AuthMaterial {
  const signs = object(vector.master_opts).master_sign_pubkey === true;
  const { publicPem } = pem('master');
  const signKey = () => parsePrivateKey(pem('master_sign').privatePem);
  return {
    masterPrivate,
    masterPublicPem: publicPem,
    publishPort: 4505,
    aes: keys.aes,
    session: keys.session,
    x931Sig: aesKeySignature(masterPrivate, keys.aes),
    ...(signs ? { pubSig: masterPubkeySignature(signKey(), publicPem, request.sigAlgo) } : {}),
  };
}

/** Returns the keys of an id before the request, as far as the recorded vector contains them. */
function keyState(vector: JsonObject, request: AuthRequest): KeyDecisionInput {
  const options = object(vector.master_opts);
  const isOther = /different key|open_mode/.test(text(vector.name));
  const stored = isOther ? pem('other_minion').publicPem : pem('minion').publicPem;
  const before = vector.key_state_before;
  return {
    accepted: before === 'minions' ? stored : undefined,
    pending: before === 'minions_pre' ? stored : undefined,
    rejected: before === 'minions_rejected',
    offered: request.pub,
    autosign: options.auto_accept === true,
    autoreject: false,
    openMode: options.open_mode === true,
  };
}

const directoriesAfter: Record<KeyTransition, (before: string[]) => string[]> = {
  none: (before) => before,
  'store-accepted': () => ['minions'],
  'store-pending': () => ['minions_pre'],
  'store-rejected': () => ['minions_rejected'],
  'store-denied': (before) => [...before, 'minions_denied'],
  'pending-to-accepted': () => ['minions'],
  'pending-to-rejected': () => ['minions_rejected'],
};

/** Returns the reply of the master, with the decisions of the recorded master. */
function answer(vector: JsonObject): Buffer {
  const parsed = parseAuthRequest(clearEnvelope(base64(vector.request_b64)));
  if (!parsed.ok) {
    return 'reply' in parsed ? parsed.reply : buildRefusal(parsed.refuse, false, masterPrivate);
  }
  const { request } = parsed;
  if (object(vector.master_opts).max_minions === 1) {
    return buildRefusal(request, 'full', masterPrivate);
  }
  const verdict = decideKey(keyState(vector, request));
  if (verdict.outcome !== 'accept') return buildRefusal(request, verdict.ret, masterPrivate);
  return buildAccepted(request, material(vector, request));
}

/** Decrypts random parts of a reply and replaces them. Removes the signature over them. */
function comparable(reply: WireValue, encAlgo: unknown): WireValue {
  if (!isWireMap(reply)) return reply;
  const inner = wireBytes(reply.load);
  if (inner !== undefined) return comparable(unpackWire(inner), encAlgo);
  const map: WireMap = { ...reply };
  for (const field of ['aes', 'session', 'token']) {
    const bytes = wireBytes(map[field]);
    const algorithm = encAlgo === 'OAEP-SHA224' ? 'OAEP-SHA224' : 'OAEP-SHA1';
    if (bytes) map[field] = rsaDecrypt(minionPrivate, bytes, algorithm).toString();
  }
  return map;
}

for (const vector of cases(vectorFile('auth'), 'cases')) {
  const name = text(vector.name);
  const load = object(object(vector.request_decoded).load);
  test(`sign-in "${name}" is answered as Salt does`, (t) => {
    const ours = answer(vector);
    const theirs = base64(vector.reply_b64);
    t.is(ours.length, theirs.length);
    const [left, right] = [ours, theirs].map((reply) =>
      packWire(comparable(unpackWire(reply), load.enc_algo)),
    );
    t.deepEqual(left, right, 'same fields in the same order');
    const outer = unpackWire(ours);
    if (!isWireMap(outer) || outer.enc !== 'clear' || outer.sig === undefined) return;
    const [signed, sig] = [wireBytes(outer.load), wireBytes(outer.sig)];
    const algorithm = load.sig_algo ?? 'PKCS1v15-SHA1';
    if (!signed || !sig || !isSigningAlgorithm(algorithm)) return t.fail();
    t.true(rsaVerify(masterPublic, signed, sig, algorithm));
  });

  const events = cases(vector, 'events');
  if (/max_minions|invalid id|unsupported/.test(name)) continue;
  test(`sign-in "${name}" changes the keys and fires the event as Salt does`, (t) => {
    const request = authRequest(base64(vector.request_b64));
    const verdict = decideKey(keyState(vector, request));
    const data = object(events[0]?.data);
    t.is(verdict.event.result, data.result === true);
    t.is(verdict.event.act, data.act as never);
    const before = vector.key_state_before === null ? [] : [text(vector.key_state_before)];
    const after = directoriesAfter[verdict.transition](before);
    t.deepEqual(after, vector.key_state_after as string[]);
  });
}

for (const [release, entry] of Object.entries(
  object(vectorFile('minion_auth_requests').versions),
)) {
  for (const vector of cases(object(entry), 'requests')) {
    test(`the sign-in of ${release}, ${vector.name}, is understood`, (t) => {
      const envelope = clearEnvelope(base64(vector.frame_b64));
      t.is(envelope.version, object(entry).protocol_version as never);
      const decoded = object(vector.decoded);
      t.is(canonical(envelope.load), canonical(toWireValue(decoded.load)));
      const request = authRequest(base64(vector.frame_b64));
      t.true(parsePublicKey(request.pub).equals(parsePublicKey(pem('minion').publicPem)));
      t.is(request.id, keys.minionId);
      t.is(request.nonce, envelope.version < 2 ? undefined : keys.nonce);
      if (request.token === undefined) return;
      t.is(rsaDecrypt(masterPrivate, request.token, request.encAlgo).toString(), keys.token);
      t.is(canonical(request.autosignGrains ?? null), canonical({ role: 'web', nope: null }));
    });
  }
}

const stored = pem('minion').publicPem;
const other = pem('other_minion').publicPem;
const key = { offered: stored, autosign: false, autoreject: false, openMode: false };
const verdicts: [string, KeyDecisionInput, string, KeyTransition, string | undefined][] = [
  ['an empty key', { ...key, offered: ' \n', openMode: true }, 'refuse', 'none', undefined],
  [
    'open mode over a rejected key',
    { ...key, rejected: true, openMode: true },
    'accept',
    'store-accepted',
    'accept',
  ],
  [
    'open mode with the accepted key',
    { ...key, accepted: stored, openMode: true },
    'accept',
    'none',
    'accept',
  ],
  ['a rejected id', { ...key, rejected: true, autosign: true }, 'refuse', 'none', undefined],
  [
    'autoreject of a new id',
    { ...key, autoreject: true, autosign: true },
    'reject',
    'store-rejected',
    'reject',
  ],
  [
    'autoreject of a pending id',
    { ...key, pending: stored, autoreject: true },
    'reject',
    'pending-to-rejected',
    'reject',
  ],
  [
    'autosign of a pending key',
    { ...key, pending: stored, autosign: true },
    'accept',
    'pending-to-accepted',
    'accept',
  ],
  [
    'autosign with another key pending',
    { ...key, pending: other, autosign: true },
    'denied',
    'store-denied',
    undefined,
  ],
  [
    'another key than the pending one',
    { ...key, pending: other },
    'denied',
    'store-denied',
    'denied',
  ],
  [
    'another key than the accepted one',
    { ...key, accepted: other, autosign: true },
    'denied',
    'store-denied',
    'denied',
  ],
  [
    'autoreject of an accepted id',
    { ...key, accepted: stored, autoreject: true },
    'accept',
    'none',
    'accept',
  ],
  [
    'the accepted key with other line ends',
    { ...key, accepted: stored.replaceAll('\n', '\r\n') },
    'accept',
    'none',
    'accept',
  ],
];

for (const [title, input, outcome, transition, act] of verdicts) {
  test(`${title}: ${outcome}, ${transition}`, (t) => {
    const verdict = decideKey(input);
    t.like(verdict, { outcome, transition });
    t.is(verdict.event.act, act as never);
    t.is(verdict.event.result, outcome === 'accept' || outcome === 'pend');
    t.is(verdict.ret, verdict.event.result);
  });
}

const load = { cmd: '_auth', id: 'web1', nonce: keys.nonce, pub: stored };
const parse = (fields: WireMap, version: 0 | 2 = 2) =>
  parseAuthRequest({ enc: 'clear', version, load: { ...load, ...fields } });

test('the master signs only nonces that match the grammar', (t) => {
  for (const nonce of ['', `${keys.nonce}0`, 'x'.repeat(32), { enc: 'aes' }, null]) {
    const parsed = parse({ nonce });
    t.false(parsed.ok);
    const reply = !parsed.ok && 'reply' in parsed ? parsed.reply : undefined;
    t.deepEqual(reply, packWire('bad load'));
  }
  const context = { version: 2, nonce: 'chosen', sigAlgo: 'PKCS1v15-SHA1' } as const;
  t.throws(() => buildRefusal(context, true, masterPrivate), { instanceOf: TypeError });
  t.throws(() => buildRefusal({ ...context, nonce: keys.nonce }, true), { instanceOf: TypeError });
});

test('a sign-in with missing, null, wrong or huge fields is refused', (t) => {
  const wrong: WireMap[] = [
    { id: null },
    { id: [] },
    { pub: null },
    { pub: '' },
    { pub: 'x'.repeat(16 * 1024 + 1) },
    { token: 5 },
    { token: Buffer.alloc(1025, 255) },
    { enc_algo: 1 },
    { sig_algo: 'x'.repeat(65) },
  ];
  for (const fields of wrong) t.like(parse(fields), { ok: false, code: 'ERR_BAD_LOAD' });
  t.like(parse({ enc_algo: 'toString' }), { ok: false, code: 'ERR_ALGORITHM' });
  t.like(parse({ sig_algo: '__proto__' }), { ok: false, code: 'ERR_ALGORITHM' });
  t.like(parse({ id: '../x' }), { ok: false, code: 'ERR_BAD_ID' });
  t.true(parse({ autosign_grains: 'x' }).ok);
  t.true(parse({ nonce: null }, 0).ok === false, 'a nonce that is no text, even where none counts');
});

test('the form of the reply does not reveal whether a token decrypts', (t) => {
  const parsed = parse({ token: Buffer.alloc(256, 0x11) });
  if (!parsed.ok) return t.fail();
  const { request } = parsed;
  const token = rsaEncrypt(masterPublic, Buffer.from(keys.token), 'OAEP-SHA1');
  const plain = material({ master_opts: {} }, request);
  const replies = [request, { ...request, token }].map((each) => buildAccepted(each, plain));
  t.is(replies[0]?.length, replies[1]?.length);
  const tokens = replies.map((reply) => {
    const map = comparable(unpackWire(reply), 'OAEP-SHA1');
    return isWireMap(map) ? map.token : undefined;
  });
  t.is(tokens[1], keys.token);
  t.not(tokens[0], keys.token);
  t.is(String(tokens[0]).length, keys.token.length);
});

test('a token that is too long for the minion key does not cause a failure', (t) => {
  const large = rsaPair(0, 3072);
  const token = rsaEncrypt(parsePublicKey(large.publicPem), Buffer.alloc(300, 1), 'OAEP-SHA1');
  const parsed = parse({ token });
  if (!parsed.ok) return t.fail();
  const ours = {
    ...material({ master_opts: {} }, parsed.request),
    masterPrivate: parsePrivateKey(large.privatePem),
    masterPublicPem: large.publicPem,
  };
  t.notThrows(() => buildAccepted(parsed.request, ours));
});

test('an accepted key that is not a valid RSA key is refused before any encryption', (t) => {
  const parsed = parse({ pub: 'not a key' });
  if (!parsed.ok) return t.fail();
  const attempt = () =>
    buildAccepted(parsed.request, material({ master_opts: {} }, parsed.request));
  t.throws(attempt, { code: 'ERR_BAD_KEY' });
});

type Version = MinionHandshakeConfig['version'];

const base: Omit<MinionHandshakeConfig, 'version'> = {
  id: keys.minionId,
  privateKey: parsePrivateKey(pem('minion').privatePem),
  publicPem: pem('minion').publicPem,
  token: keys.token,
  nonce: () => keys.nonce,
};

function configFor(vector: JsonObject, version: Version): MinionHandshakeConfig {
  const options = object(vector.minion_opts);
  const { publicPem } = pem('master');
  const finger =
    options.master_finger === '@master' ? keyFingerprint(publicPem) : options.master_finger;
  return {
    ...base,
    version,
    ...(vector.knows_master_key === true ? { masterPub: publicPem } : {}),
    ...(typeof finger === 'string' ? { masterFinger: finger } : {}),
    ...(options.verify_master_pubkey_sign === true
      ? { masterSignPub: parsePublicKey(pem('master_sign').publicPem) }
      : {}),
  };
}

/** Converts Salt's outcome of a handshake to our state. */
function expectedState(outcome: JsonObject): HandshakeStep['state'] {
  if (outcome.signed_in !== undefined) return 'accepted';
  if (outcome.returns === 'retry') return 'pending';
  if (outcome.returns === 'full') return 'full';
  if (outcome.exits_process_with === 77) return 'refused';
  return 'failed';
}

const newest: Record<Version, string> = { 0: '3003', 2: '3006.10', 3: '3008-dev' };

/** Cases that depend on an option of Salt's daemon outside the handshake. */
const daemonOptions = new Set(['rejected with rejected_retry']);
/**
 * Cases that Salt's oldest protocol treats as pending, because it accepts any map without
 * `pub_key`.
 */
const strictHere = new Set(['0 unsigned bad enc algo', '0 unsigned bad sig algo']);

for (const vector of cases(vectorFile('minion_reactions'), 'cases')) {
  const name = text(vector.case);
  if (daemonOptions.has(name)) continue;
  for (const version of [0, 2, 3] as const) {
    const outcome = cases(vector, 'outcomes').find(
      ({ versions }) => Array.isArray(versions) && versions.includes(newest[version]),
    );
    const expected = strictHere.has(`${version} ${name}`)
      ? 'failed'
      : expectedState(object(outcome?.outcome));
    test(`a version ${version} minion that gets "${name}" is ${expected}`, (t) => {
      const reply = object(object(vector.reply)[String(version)]);
      const handshake = createMinionHandshake(configFor(vector, version));
      handshake.request();
      const step = handshake.step(base64(reply.b64));
      t.is(step.state, expected, JSON.stringify(step));
      if (step.state !== 'accepted') return;
      t.is(step.aes, keys.aes);
      t.is(step.session, version === 3 ? keys.session : undefined);
      t.is(step.publishPort, 4505);
    });
  }
}

test('the code of a failure names the failed check', (t) => {
  const codes: Record<string, string> = {};
  for (const vector of cases(vectorFile('minion_reactions'), 'cases')) {
    const handshake = createMinionHandshake(configFor(vector, 3));
    handshake.request();
    const step = handshake.step(base64(object(object(vector.reply)['3']).b64));
    if (step.state === 'failed') codes[text(vector.case)] = step.code;
  }
  t.deepEqual(codes, {
    'accepted, known master, pub_key with trailing newline': 'ERR_MASTER_KEY',
    'different master key, known master': 'ERR_MASTER_KEY',
    'empty map': 'ERR_BAD_SIGNATURE',
    'master does not sign, minion verifies': 'ERR_MASTER_KEY',
    'master signs its key, minion does not verify': 'ERR_MASTER_KEY',
    'master_finger differs': 'ERR_MASTER_FINGER',
    'nonce wrong': 'ERR_NONCE',
    'outer signature wrong': 'ERR_BAD_SIGNATURE',
    'pending, outer signature wrong, known master': 'ERR_BAD_SIGNATURE',
    'session missing': 'ERR_BAD_REPLY',
    'sig (X9.31) missing': 'ERR_MASTER_KEY',
    'sig (X9.31) of another key': 'ERR_MASTER_KEY',
    'text bad load': 'ERR_BAD_REPLY',
    'token missing, known master': 'ERR_MASTER_KEY',
    'unsigned accepted reply': 'ERR_BAD_SIGNATURE',
    'unsigned bad enc algo': 'ERR_ALGORITHM',
    'unsigned bad sig algo': 'ERR_ALGORITHM',
    'unsigned pending reply': 'ERR_BAD_SIGNATURE',
    'wrong token': 'ERR_MASTER_KEY',
  });
});

for (const [release, entry] of Object.entries(
  object(vectorFile('minion_auth_requests').versions),
)) {
  for (const vector of cases(object(entry), 'requests')) {
    const frame = base64(vector.frame_b64);
    const decoded = object(object(vector.decoded).load);
    test(`a minion like ${release} sends the same fields (${vector.name})`, (t) => {
      const version = Number(object(entry).protocol_version);
      if (version !== 0 && version !== 2 && version !== 3) return t.fail();
      const request = createMinionHandshake({
        ...base,
        version,
        ...(decoded.enc_algo === undefined
          ? {}
          : { encAlgo: 'OAEP-SHA1', sigAlgo: 'PKCS1v15-SHA1' }),
        ...(decoded.token === undefined
          ? {}
          : { masterPub: pem('master').publicPem, autosignGrains: { role: 'web', nope: null } }),
      }).request();
      // Older releases send the content of their key file with its final line feed.
      const newline = text(decoded.pub) === cleanKeyText(text(decoded.pub)) ? 0 : 1;
      t.is(request.length, frame.length - newline);
      const [ours, theirs] = [decodeEnvelope(request), decodeEnvelope(frame)];
      t.deepEqual(fields(ours), fields(theirs));
    });
  }
}

function fields(decoded: ReturnType<typeof decodeEnvelope> | undefined): string[] {
  if (!decoded?.ok || decoded.envelope.enc !== 'clear') return [];
  return Object.keys(decoded.envelope.load);
}

test('every request has its own nonce', (t) => {
  const { nonce: _nonce, ...config } = base;
  const handshake = createMinionHandshake({ ...config, version: 3 });
  const nonces = [handshake.request(), handshake.request()].map((request) => {
    const decoded = decodeEnvelope(request);
    if (!decoded.ok || decoded.envelope.enc !== 'clear') return undefined;
    const parsed = parseAuthRequest(decoded.envelope);
    return parsed.ok ? parsed.request.nonce : undefined;
  });
  t.true(nonces.every((nonce) => nonce !== undefined));
  t.not(nonces[0], nonces[1]);
});

test('any reply that is not a map fails', (t) => {
  for (const reply of [Buffer.alloc(0), packWire(null), packWire([1]), packWire({ load: 1 })]) {
    for (const version of [0, 2, 3] as const) {
      const handshake = createMinionHandshake({ ...base, version });
      handshake.request();
      t.is(handshake.step(reply).state, 'failed');
    }
  }
});

test('at first contact a wrong fingerprint, signature or nonce leaves no key to store', (t) => {
  const vectors = cases(vectorFile('minion_reactions'), 'cases');
  const reply = (name: string) => {
    const vector = vectors.find((candidate) => candidate.case === name);
    return base64(object(object(vector?.reply)['3']).b64);
  };
  const stateAfter = (bytes: Buffer, more: Partial<MinionHandshakeConfig> = {}) => {
    const handshake = createMinionHandshake({ ...base, ...more, version: 3 });
    handshake.request();
    return handshake.step(bytes);
  };
  const good = reply('accepted, first contact');
  t.is(stateAfter(good).state, 'accepted');
  t.like(stateAfter(good, { masterFinger: '00:11' }), { code: 'ERR_MASTER_FINGER' });
  t.like(stateAfter(good, { nonce: () => 'f'.repeat(32) }), { code: 'ERR_NONCE' });
  t.like(stateAfter(reply('outer signature wrong')), { code: 'ERR_BAD_SIGNATURE' });
});
