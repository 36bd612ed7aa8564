/**
 * Recorded pillar requests: answered under a new key, signed and bound to the request. What the
 * requests leave behind, and the event `minion/refresh/<id>`, is in targeting/facts-from-minions.
 */
import test from 'ava';
import { deny } from '../../../acl/index.ts';
import type { PillarRequest } from '../../../master/index.ts';
import {
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  isWireMap,
  openPrivateReply,
  parsePrivateKey,
  parsePublicKey,
  unpackWire,
  type WireMap,
  type WireValue,
} from '../../../minion-protocol/index.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, byVersion, recorded, versionOf } from '../../helpers/vector-requests.ts';
import {
  base64,
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const vectors = cases(vectorFile('pillar'), 'cases');

for (const [version, group] of byVersion(vectors)) {
  test(`a recorded pillar request of protocol ${version} is answered with its pillar`, async (t) => {
    for (const vector of group) {
      const expected = pillarOf(vector);
      const { ask } = await startVectorMaster(t, { pillar: async () => expected });
      const reply = await ask(base64(vector.request_b64));
      const outer = unpackWire(reply);
      t.deepEqual(isWireMap(outer) ? Object.keys(outer).sort() : [], ['key', 'pillar']);
      t.is(canonicalWire(openPillar(vector, reply)), canonicalWire(expected), text(vector.name));
    }
  });
}

test('a pillar of the command line lies over the answer, and is kept nowhere', async (t) => {
  const pillar = async () => ({ a: { x: 1, y: 1 }, tier: 'front' });
  const { ask, master } = await startVectorMaster(t, { pillar });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const pillar_override = { a: { y: 2 }, tier: 'core' };
  const reply = await ask(altered(vector, { load: { pillar_override } }));
  const merged = { a: { x: 1, y: 2 }, tier: 'core' };
  t.is(canonicalWire(openPillar(vector, reply)), canonicalWire(merged));
  const { return: kept } = await master.runners.run({ fun: 'cache.pillar' });
  t.deepEqual(JSON.parse(JSON.stringify(kept)), { [keys.minionId]: await pillar() });
});

test('which environments of pillar minions may ask for can be ruled', async (t) => {
  const production = deny('production', {
    subject: { minion: '*', except: ['prod-*'] },
    action: 'pillar',
    resource: { environment: 'prod*' },
  });
  const { ask, master } = await startVectorMaster(t, {
    pillar: async () => ({ a: 1 }),
    config: { acl: { rules: [production] } },
  });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const get = async (load: WireMap): Promise<WireValue> =>
    openPillar(vector, await ask(altered(vector, { load })));
  const reason = 'No rule lets this minion have pillar of the environment prod.';
  t.deepEqual(await get({ pillarenv: 'prod' }), { _errors: [reason] });
  t.deepEqual(await get({ pillarenv: null, saltenv: 'prod' }), { _errors: [reason] });
  t.deepEqual(await get({ pillarenv: 'dev', saltenv: 'prod' }), { a: 1 });
  t.deepEqual(await get({ pillarenv: null, saltenv: null }), { a: 1 });
  const subject = { kind: 'minion', id: 'prod-1' } as const;
  const explained = await master.acl.explain({ subject, action: 'pillar', resource: 'prod' });
  t.is(explained.decision.effect, 'allow');
});

test('a pillar is made from the verified id, the grains and the environments', async (t) => {
  const asked: PillarRequest[] = [];
  const pillar = async (request: PillarRequest): Promise<WireMap> => {
    asked.push(request);
    return {};
  };
  const { ask } = await startVectorMaster(t, { pillar });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  await ask(
    altered(vector, {
      load: {
        grains: { id: 'other', os: 'Debian' },
        saltenv: 'dev',
        pillar_override: { role: 'admin' },
        ext_pillar: 'cmd_yaml',
        clean_cache: true,
      },
    }),
  );
  const [request] = asked;
  t.deepEqual(
    { ...request },
    {
      id: keys.minionId,
      grains: { id: keys.minionId, os: 'Debian' },
      saltenv: 'dev',
      pillarenv: undefined,
    },
  );
});

test('a pillar that cannot be made is an error in the reply, never part of a pillar', async (t) => {
  const { ask } = await startVectorMaster(t, {
    pillar: async () => {
      throw new Error('no pillar today');
    },
  });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const reply = openPillar(vector, await ask(base64(vector.request_b64)));
  t.deepEqual(isWireMap(reply) ? Object.keys(reply) : [], ['_errors']);
  t.false(JSON.stringify(reply).includes('today'));
});

test('grains that are too large are named in the pillar, and no provider sees them', async (t) => {
  let asked = 0;
  const { ask, counters } = await startVectorMaster(t, {
    pillar: async () => ({ asked: ++asked }),
    config: { limits: { grainsBytes: 4096 } },
  });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const grains = { id: keys.minionId, big: 'x'.repeat(5000) };
  const reply = openPillar(vector, await ask(altered(vector, { load: { grains } })));
  t.deepEqual(isWireMap(reply) ? Object.keys(reply) : [], ['_errors']);
  t.is((await counters())['grains-bytes'], 1);
  t.is(asked, 0);
});

test('a pillar is encrypted to the accepted key, whatever key is in the request', async (t) => {
  const { ask } = await startVectorMaster(t, { pillar: async () => ({ role: 'web' }) });
  const vector = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const reply = await ask(altered(vector, { load: { pub: pem('other_minion').publicPem } }));
  t.throws(() => openPillar(vector, reply, 'other_minion'), { code: 'ERR_DECRYPT' });
  t.is(canonicalWire(openPillar(vector, reply)), canonicalWire({ role: 'web' }));
});

function pillarOf(vector: JsonObject): WireMap {
  const content = toWireValue(
    versionOf(vector) < 2 ? vector.reply_private : object(vector.reply_private_data_decoded).pillar,
  );
  if (!(content instanceof Map)) throw new TypeError('the recorded pillar is no map');
  // Its one key that is not text cannot be asked of a provider.
  return Object.fromEntries([...content].filter(([key]) => typeof key === 'string'));
}

function openPillar(vector: JsonObject, reply: Uint8Array, owner = 'minion'): WireValue {
  const { enc_algo: encAlgo, sig_algo: sigAlgo } = vector;
  if (!isEncryptionAlgorithm(encAlgo) || !isSigningAlgorithm(sigAlgo)) throw new TypeError();
  return openPrivateReply(reply, {
    version: versionOf(vector),
    nonce: keys.nonce,
    minionKey: parsePrivateKey(pem(owner).privatePem),
    masterKey: parsePublicKey(pem('master').publicPem),
    encAlgo,
    sigAlgo,
  });
}
