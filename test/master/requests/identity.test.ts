/** Nobody speaks as another minion: identity is the key's that opened the envelope [THREATS M-01]. */
import test, { type ExecutionContext } from 'ava';
import {
  type CrypticleKey,
  minionToken,
  parseKeyString,
  parsePrivateKey,
  x931Sign,
} from '../../../minion-protocol/index.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import {
  type Alteration,
  aesKey,
  altered,
  freshNonce,
  openReply,
  recorded,
} from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const startEventV2 = recorded('minion_event', 'start event v2');
const victim = 'victim';
const victimSession: CrypticleKey = parseKeyString(keys.ephemeral);
const otherToken = minionToken(parsePrivateKey(pem('other_minion').privatePem));

/** Both minions are accepted and have a session. */
async function startWithVictim(t: ExecutionContext): Promise<VectorMaster> {
  return await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: victim, publicPem: pem('other_minion').publicPem },
    ],
  });
}

interface Attack {
  readonly title: string;
  readonly reason: string;
  readonly alteration: Alteration;
}

const attacks: readonly Attack[] = [
  { title: 'another id inside', reason: 'ERR_BAD_ID', alteration: { load: { id: victim } } },
  { title: 'no id inside', reason: 'ERR_BAD_ID', alteration: { load: { id: undefined } } },
  { title: 'a list as id', reason: 'ERR_BAD_ID', alteration: { load: { id: [keys.minionId] } } },
  {
    title: 'another id outside, with a key of its own',
    reason: 'no-session',
    alteration: { envelope: { id: victim } },
  },
  {
    title: 'an unknown id outside and inside',
    reason: 'no-session',
    alteration: { envelope: { id: 'nobody' }, load: { id: 'nobody' } },
  },
  { title: 'no id outside', reason: 'ERR_BAD_ID', alteration: { envelope: { id: undefined } } },
  {
    title: 'the key that all minions share',
    reason: 'ERR_BAD_HMAC',
    alteration: { key: aesKey },
  },
  { title: 'no token', reason: 'ERR_TOKEN', alteration: { load: { tok: undefined } } },
  { title: 'null as token', reason: 'ERR_TOKEN', alteration: { load: { tok: null } } },
  { title: 'a list as token', reason: 'ERR_TOKEN', alteration: { load: { tok: [1, 2] } } },
  { title: 'a number as token', reason: 'ERR_TOKEN', alteration: { load: { tok: 7 } } },
  {
    title: 'a token of 1,025 bytes',
    reason: 'ERR_TOKEN',
    alteration: { load: { tok: new Uint8Array(1025).fill(255) } },
  },
  {
    title: 'a garbled token',
    reason: 'token',
    alteration: { load: { tok: new Uint8Array(256).fill(90) } },
  },
  { title: 'an empty token', reason: 'token', alteration: { load: { tok: '' } } },
  { title: "another minion's token", reason: 'token', alteration: { load: { tok: otherToken } } },
  {
    title: 'a token over another text',
    reason: 'token',
    alteration: {
      load: { tok: x931Sign(parsePrivateKey(pem('minion').privatePem), Buffer.from('tlas')) },
    },
  },
];

test('no variant of somebody else is heard, and each is counted by its reason', async (t) => {
  const master = await startWithVictim(t);
  for (const { title, reason, alteration } of attacks) {
    t.is(await refusedAs(master, altered(startEvent, alteration)), reason, title);
  }
  await isHeard(t, master);
});

test("another minion's session key opens nothing under one's own id", async (t) => {
  const master = await startWithVictim(t);
  t.is(await refusedAs(master, altered(startEvent, { key: victimSession })), 'ERR_BAD_HMAC');
});

test('a request of protocol 2 with an id must have the token of that id, if it has one', async (t) => {
  const master = await startWithVictim(t);
  for (const load of [{ tok: otherToken }, { id: victim }, { tok: new Uint8Array(256) }]) {
    t.is(await refusedAs(master, altered(startEventV2, { load })), 'token');
  }
  const nobody = altered(startEventV2, { load: { id: 'nobody', tok: undefined } });
  t.is(await refusedAs(master, nobody), 'not-accepted');
});

test('a minion that proved protocol 3 is not heard below it, also after a restart', async (t) => {
  const first = await startVectorMaster(t);
  t.is(openReply(startEventV2, await first.ask(altered(startEventV2, {}))), null);
  await isHeard(t, first);
  t.is(await refusedAs(first, altered(startEventV2, {})), 'version');
  t.is(await refusedAs(first, altered(startEventV2, { load: { tok: undefined } })), 'version');
  await first.master.close();
  const second = await startVectorMaster(t, first);
  t.is(await refusedAs(second, altered(startEventV2, {})), 'version');
  await second.master.keys.unpin(keys.minionId);
  const nonce = freshNonce();
  const reply = await second.ask(altered(startEventV2, { load: { nonce } }));
  t.is(openReply(startEventV2, reply, nonce), null);
});

test('a sign-in proves no version: nobody can pin another minion', async (t) => {
  const master = await startVectorMaster(t);
  const signIn = recorded('auth', 'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)');
  await master.ask(Buffer.from(String(signIn.request_b64), 'base64'));
  const reply = await master.ask(altered(startEventV2, {}));
  t.is(openReply(startEventV2, reply), null);
});

test('below the pin a sign-in is refused with the words of Salt', async (t) => {
  const master = await startVectorMaster(t);
  await isHeard(t, master);
  const signIn = recorded('auth', 'v2 accepted, first contact (no token)');
  t.is(await refusedAs(master, Buffer.from(String(signIn.request_b64), 'base64')), 'auth-version');
});

test('a file request without an id pins nobody and is answered', async (t) => {
  const master = await startVectorMaster(t);
  await isHeard(t, master);
  const request = recorded('aes_functions', '_file_hash v2');
  t.is(openReply(request, await master.ask(altered(request, {}))), '');
});

test('an event of protocol 2 without a token is refused as older masters refuse it', async (t) => {
  const master = await startWithVictim(t);
  const nonce = freshNonce();
  const before = (await master.counters()).unproven ?? 0;
  const events = await master.eventsDuring(async () => {
    const request = altered(startEventV2, { load: { nonce, tok: undefined } });
    t.deepEqual({ ...Object(openReply(startEventV2, await master.ask(request), nonce)) }, {});
  });
  t.deepEqual(events, []);
  t.is((await master.counters()).unproven, before + 1);
});
