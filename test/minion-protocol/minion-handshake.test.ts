import test from 'ava';
import { parseAuthRequest } from '../../minion-protocol/master-handshake.ts';
import {
  createMinionHandshake,
  type HandshakeStep,
  type MinionHandshakeConfig,
} from '../../minion-protocol/minion-handshake.ts';
import { packWire } from '../../minion-protocol/payload.ts';
import { decodeEnvelope } from '../../minion-protocol/request.ts';
import {
  cleanKeyText,
  keyFingerprint,
  parsePrivateKey,
  parsePublicKey,
} from '../../minion-protocol/rsa.ts';
import {
  base64,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  text,
  vectorFile,
} from '../helpers/vectors.ts';

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

/** What Salt's outcome is called here. */
function expectedState(outcome: JsonObject): HandshakeStep['state'] {
  if (outcome.signed_in !== undefined) return 'accepted';
  if (outcome.returns === 'retry') return 'pending';
  if (outcome.returns === 'full') return 'full';
  if (outcome.exits_process_with === 77) return 'refused';
  return 'failed';
}

const newest: Record<Version, string> = { 0: '3003', 2: '3006.10', 3: '3008-dev' };

/** Not ours: an option of the daemon around the handshake. */
const daemonOptions = new Set(['rejected with rejected_retry']);
/** Salt's oldest protocol takes any map without `pub_key` for a pending reply. */
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

test('the code of a failure says which check was wrong', (t) => {
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
    test(`a minion like ${release} asks with the same fields (${vector.name})`, (t) => {
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
      // Older releases send the file of their key with its final line feed.
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

test('every request has a nonce of its own', (t) => {
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

test('answers that are no maps fail, whatever they are', (t) => {
  for (const reply of [Buffer.alloc(0), packWire(null), packWire([1]), packWire({ load: 1 })]) {
    for (const version of [0, 2, 3] as const) {
      const handshake = createMinionHandshake({ ...base, version });
      handshake.request();
      t.is(handshake.step(reply).state, 'failed');
    }
  }
});

test('at first contact a wrong finger, signature or nonce gives no key to store', (t) => {
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
