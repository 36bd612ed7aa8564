/** The master's own keys: their passphrases, and what vouches for them. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createMaster, MasterError, resolveMasterConfig } from '../../master/index.ts';
import {
  createMemoryTransport,
  isWireMap,
  parsePrivateKey,
  rsaSign,
  unpackWire,
} from '../../minion-protocol/index.ts';
import { createMemoryStore } from '../../store/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import {
  directories,
  layOutVectorMaster,
  RECORDED_AT,
  startVectorMaster,
  type VectorMasterOptions,
} from '../helpers/vector-master.ts';
import { base64, cases, object, pem, text, vectorFile } from '../helpers/vectors.ts';

test('key_pass is for master.pem, signing_key_pass for the key that signs it', async (t) => {
  const directory = temporaryDirectory(t);
  const master = createMaster({
    config: resolveMasterConfig({
      ...directories(directory),
      masterSignPubkey: true,
      keyPass: 'one',
      signingKeyPass: 'two',
    }),
    store: createMemoryStore(),
    transports: [createMemoryTransport().master],
  });
  t.teardown(() => master.close());
  await master.start();
  const read = (name: string): string =>
    readFileSync(path.join(directory, 'pki', `${name}.pem`), 'utf8');
  t.notThrows(() => parsePrivateKey(read('master'), 'one'));
  t.notThrows(() => parsePrivateKey(read('master_sign'), 'two'));
});

const recorded = cases(vectorFile('auth'), 'cases').find(
  ({ name }) => name === 'v3 master_sign_pubkey',
);
const recordedSignature = text(object(recorded?.reply_inner_decoded).pub_sig);
const signaturesAreUsed = { masterSignPubkey: true, masterUsePubkeySignature: true };

/** What a master finds at its start: its own pair, and what else is written into `pki_dir`. */
async function layOut(
  t: ExecutionContext,
  files: Readonly<Record<string, string>>,
): Promise<Pick<VectorMasterOptions, 'directory' | 'store'>> {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore({ now: () => RECORDED_AT });
  await layOutVectorMaster(directories(directory), store);
  const inPki = (name: string): string => path.join(directory, 'pki', name);
  for (const half of ['pem', 'pub']) rmSync(inPki(`master_sign.${half}`));
  for (const [name, content] of Object.entries(files)) writeFileSync(inPki(name), content);
  return { directory, store };
}

for (const [what, publicHalf] of [
  ['the public half of the key that signed is there', true],
  ['nothing of that key is there', false],
] as const) {
  test(`minions get the recorded signature that was made beforehand, where ${what}`, async (t) => {
    const place = await layOut(t, {
      'own.sig': recordedSignature,
      ...(publicHalf ? { 'master_sign.pub': pem('master_sign').publicPem } : {}),
    });
    const config = { ...signaturesAreUsed, masterPubkeySignature: 'own.sig' };
    const { ask } = await startVectorMaster(t, { ...place, config });
    const reply = unpackWire(await ask(base64(recorded?.request_b64)));
    const load = isWireMap(reply) && reply.load instanceof Uint8Array ? reply.load : undefined;
    t.like(load && unpackWire(load), { pub_sig: recordedSignature });
    t.false(existsSync(path.join(place.directory ?? '', 'pki', 'master_sign.pem')));
  });
}

for (const [what, files] of [
  ['is missing', {}],
  [
    'is of the text with its last line feed',
    { master_pubkey_signature: signedRaw(), 'master_sign.pub': pem('master_sign').publicPem },
  ],
  [
    'is of another key',
    { master_pubkey_signature: recordedSignature, 'master_sign.pub': pem('minion').publicPem },
  ],
] as const) {
  test(`a signature that ${what} ends the start`, async (t) => {
    const place = await layOut(t, files);
    await t.throwsAsync(startVectorMaster(t, { ...place, config: signaturesAreUsed }), {
      instanceOf: MasterError,
      code: 'ERR_OWN_KEY',
    });
  });
}

/** As Salt's own `salt-key --gen-signature` signs a file that ends with a line feed. */
function signedRaw(): string {
  const key = parsePrivateKey(pem('master_sign').privatePem);
  const raw = Buffer.from(`${pem('master').publicPem.trim()}\n`);
  return `${rsaSign(key, raw, 'PKCS1v15-SHA1').toString('base64')}\n`;
}
