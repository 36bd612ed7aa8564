/** What a deleted key could do ends with it; the shared key is replaced, at most once a minute. */
import test, { type ExecutionContext } from 'ava';
import type { KeyLifecycle, MasterExtension } from '../../../master/index.ts';
import {
  isWireMap,
  parsePrivateKey,
  rsaDecrypt,
  unpackWire,
  wireBytes,
} from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { within } from '../../helpers/deadline.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { base64, keys, pem } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const fileRequest = recorded('aes_functions', '_file_hash v2');
const signIn = recorded('auth', 'v0 accepted, first contact (no token)');

const many = ['minion', 'other_minion', 'minion2', 'master_sign'].map((name, index) => ({
  directory: 'minions' as const,
  id: index === 0 ? keys.minionId : `m${index}`,
  publicPem: pem(name).publicPem,
}));

test('a deleted key has no session, no pin, and no shared key any more', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  await isHeard(t, master);
  const rotated = nextRotation(master);
  await master.master.keys.delete({ match: 'vecminion' });
  t.is(
    await refusedAs(master, altered(startEvent, { load: { nonce: freshNonce() } })),
    'no-session',
  );
  await within('the rotation', rotated);
  t.is(await refusedAs(master, altered(fileRequest, {})), 'ERR_BAD_HMAC');
  const rows: string[] = [];
  for await (const { key } of master.store.list(['secrets', 'sessions'])) rows.push(key.join('/'));
  for await (const { key } of master.store.list(['pins'])) rows.push(key.join('/'));
  t.deepEqual(rows, []);
});

test('what a key leaves behind ends at once, so that the next one of the id keeps what it is given', async (t) => {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const store = createMemoryStore();
  const write = store.write.bind(store);
  store.write = async (operations) => {
    const endsSession = operations.some(
      (it) => it.op === 'delete' && it.key.join('/').startsWith('secrets/sessions'),
    );
    if (endsSession) await gate;
    return write(operations);
  };
  let admission: KeyLifecycle | undefined;
  const extension: MasterExtension = {
    name: 'admits',
    open: async (host) => {
      ({ admission } = host);
      return { close: async () => {} };
    },
  };
  const { master } = await startVectorMaster(t, {
    keys: many,
    store,
    extensions: [extension],
  });
  await master.keys.delete({ match: 'm1' });
  await admission?.admit({ id: 'm1', publicKey: pem('minion2').publicPem, protocol: 3 });
  open();
  await admission?.exclusive('m1', async () => admission?.quarantine('m2'));
  t.is((await master.keys.list()).find(({ id }) => id === 'm1')?.protocol, 3);
});

test('a later owner of the id gets a key of its own', async (t) => {
  const master = await startVectorMaster(t, { config: { autoAccept: true } });
  t.is(await sessionGiven(t, master), keys.session);
  await master.master.keys.delete({ match: '*' });
  t.not(await sessionGiven(t, master), keys.session);
});

test('a rotation that was put off is made up for by the next start', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  const first = nextRotation(master);
  await master.master.keys.delete({ match: 'm1' });
  await within('the first rotation', first);
  const shared = await sharedKey(t, master);
  await master.master.keys.delete({ match: 'm2' });
  t.is(await sharedKey(t, master), shared);
  await master.master.close();
  const next = await startVectorMaster(t, master);
  t.not(await sharedKey(t, next), shared);
});

test('a deletion long after the last rotation rotates at once', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  for (const match of ['m1', 'm2']) {
    const rotated = nextRotation(master);
    await master.master.keys.delete({ match });
    await t.notThrowsAsync(within(`the rotation for ${match}`, rotated));
    master.clock.now += 60_000;
  }
});

test('a pending key that is deleted costs no rotation', async (t) => {
  const [first, ...others] = many;
  const pending = others.map((key) => ({ ...key, directory: 'minions_pre' as const }));
  const master = await startVectorMaster(t, {
    keys: first === undefined ? [] : [first, ...pending],
  });
  const record = await master.store.get(['secrets', 'publish-key']);
  await master.master.keys.delete({ match: 'm*' });
  // By the end of a sign-in, the deletion of an accepted key would have retired the shared one.
  await sharedKey(t, master);
  t.deepEqual(await master.store.get(['secrets', 'publish-key']), record);
});

function nextRotation({ master }: VectorMaster): Promise<unknown> {
  const events = master.events.subscribe({ match: 'key' });
  return events[Symbol.asyncIterator]().next();
}

/** The shared key that the vectors' minion is given when it signs in. */
function sharedKey(t: ExecutionContext, master: VectorMaster): Promise<string> {
  return keyGiven(t, master, 'aes');
}

function sessionGiven(t: ExecutionContext, master: VectorMaster): Promise<string> {
  return keyGiven(t, master, 'session');
}

async function keyGiven(t: ExecutionContext, { ask }: VectorMaster, name: string): Promise<string> {
  const reply = unpackWire(await ask(base64(signIn.request_b64)));
  const bytes = isWireMap(reply) ? wireBytes(reply[name]) : undefined;
  if (bytes === undefined) return t.fail(`no ${name}`);
  return rsaDecrypt(parsePrivateKey(pem('minion').privatePem), bytes, 'OAEP-SHA1').toString(
    'latin1',
  );
}
