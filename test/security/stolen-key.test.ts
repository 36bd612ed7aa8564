/** What somebody who holds the private key of one accepted minion can read, write and fire. */
import test, { type ExecutionContext } from 'ava';
import type { MasterEvent } from '../../master/index.ts';
import {
  isWireMap,
  openCrypticle,
  openPublication,
  packWire,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  rsaDecrypt,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '../../minion-protocol/index.ts';
import { runDoctor } from '../../ops/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { aesKey, freshNonce, recorded, token } from '../helpers/vector-requests.ts';
import { base64, pem } from '../helpers/vectors.ts';
import { listen } from './doors.ts';
import {
  type Actor,
  askAs,
  HOSTILE,
  type Load,
  oldRequest,
  openPillarOf,
  requestBy,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

const granted = 'infra/puppet/requested';
const config = {
  fileRecv: true,
  acl: { signals: [{ tag: granted, minions: HOSTILE }] },
};

/** Every request that a minion can make, with what it would be asked for. */
const requests: Readonly<Record<string, Load>> = {
  _pillar: { grains: { os: 'Debian' }, ver: '2' },
  _mine_delete: { fun: 'secret' },
  _mine_flush: {},
  _mine: { data: { fun: 'lie' } },
  _mine_get: { tgt: VICTIM, fun: 'secret' },
  _return: { jid: 'req', fun: 'test.ping', return: true, retcode: 0 },
  _minion_event: { tag: 'minion_start', data: {} },
  _file_recv: { path: ['x'], loc: 0, data: 'lie' },
  _serve_file: { path: '../canary', loc: 0, saltenv: 'base' },
  _file_hash: { path: '../canary', saltenv: 'base' },
  _file_hash_and_stat: { path: '../canary', saltenv: 'base' },
  _file_find: { path: '../canary', saltenv: 'base' },
  _file_list: { saltenv: 'base' },
  _file_list_emptydirs: { saltenv: 'base' },
  _dir_list: { saltenv: 'base' },
  _symlink_list: { saltenv: 'base' },
  _file_envs: {},
  _master_opts: {},
  _master_tops: { opts: { id: VICTIM } },
  _ext_nodes: { opts: { id: VICTIM } },
  minion_pub: { fun: 'test.ping', arg: [], tgt: VICTIM, ret: '' },
  minion_publish: { fun: 'test.ping', arg: [], tgt: VICTIM, ret: '' },
  minion_runner: { fun: 'jobs.list_jobs', arg: [] },
  pub_ret: { jid: '20200102030405678901' },
  revoke_auth: {},
  verify_minion: { token: 'x' },
};

/** The fields by which a load could name somebody else. */
const claims: readonly Load[] = [
  {},
  { minion_id: VICTIM, master_id: VICTIM, tgt: VICTIM },
  { grains: { id: VICTIM, role: 'database' } },
  { opts: { id: VICTIM }, path: [VICTIM, 'x'] },
];

/** The key's holder begins with nothing but the key: it signs in and gets what it needs. */
async function signIn(t: ExecutionContext, { door }: Site): Promise<Actor> {
  const vector = recorded('auth', 'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)');
  const answer = asMap(unpackWire(await door.ask(base64(vector.request_b64))));
  const load = asMap(unpackWire(wireBytes(answer.load) ?? Buffer.alloc(0)));
  const session = wireBytes(load.session);
  if (session === undefined) return t.fail('no session');
  const minionKey = parsePrivateKey(pem('minion').privatePem);
  const text = rsaDecrypt(minionKey, session, 'OAEP-SHA1').toString('latin1');
  return { id: HOSTILE, key: parseKeyString(text), token };
}

/** The victim's life: a pillar, a mine that is for itself alone, a job that it is yet to answer. */
async function liveAsVictim({ door, operator }: Site): Promise<string> {
  await door.ask(requestBy(victim, { cmd: '_pillar', grains: { os: 'Debian' }, ver: '2' }));
  const value = { __saltmine_acl__: 1, __data__: SECRET, allow_tgt: VICTIM };
  await askAs(victim, door, { cmd: '_mine', data: { secret: value, open: 'for all' } });
  for await (const update of operator.master.jobs.run({ tgt: VICTIM, fun: 'test.ping' })) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

test('with a stolen key one reads the own pillar, published files and what mines permit', async (t) => {
  const site = await startSite(t, 'zeromq', { config });
  await liveAsVictim(site);
  const thief = await signIn(t, site);
  for (const [cmd, load] of Object.entries(requests)) {
    for (const claim of claims) {
      const reply = await site.door.ask(requestBy(thief, { cmd, ...load, ...claim }));
      t.false(opened(reply, thief).includes(SECRET), cmd);
    }
  }
  const nonce = freshNonce();
  const asked = requestBy(thief, { cmd: '_pillar', grains: {}, ver: '2' }, nonce);
  const pillar = openPillarOf(HOSTILE, await site.door.ask(asked), nonce);
  t.deepEqual({ ...Object(pillar) }, { owner: HOSTILE });
  const file = { cmd: '_serve_file', path: 'published.txt', loc: 0, saltenv: 'base' };
  t.like(await askAs(thief, site.door, file), { data: 'for everybody' });
  const mine = { cmd: '_mine_get', tgt: '*', fun: 'open,secret' };
  const read = asMap(await askAs(thief, site.door, mine));
  t.deepEqual({ ...asMap(read.open ?? null) }, { [VICTIM]: 'for all' });
  t.is(read.secret, undefined);
});

test('with a stolen key one writes only under its own id, and fires only what it may', async (t) => {
  const site = await startSite(t, 'zeromq', { config });
  const jid = await liveAsVictim(site);
  const thief = await signIn(t, site);
  const fired: MasterEvent[] = [];
  const changes = await site.changesBy(async () => {
    const events = await site.operator.eventsDuring(async () => {
      for (const [cmd, load] of Object.entries(requests)) {
        for (const claim of claims) {
          await site.door.ask(requestBy(thief, { cmd, ...load, ...claim }));
          await site.door.ask(requestBy(thief, { cmd, ...load, ...claim, id: VICTIM }));
          await site.door.ask(requestBy({ ...thief, id: VICTIM }, { cmd, ...load, ...claim }));
          await site.door.ask(oldRequest({ cmd, ...load, ...claim, id: VICTIM, tok: undefined }));
          await site.door.ask(oldRequest({ cmd, ...load, ...claim, id: HOSTILE, tok: token }));
        }
      }
      const forged = { cmd: '_return', jid, fun: 'test.ping', return: 'lie' };
      await site.door.ask(requestBy(thief, forged));
    });
    fired.push(...events);
  });
  t.deepEqual(
    changes.filter((name) => !isOwn(name)),
    [],
  );
  t.false(changes.some((name) => name.includes(jid)));
  t.true(changes.includes(`mine/${HOSTILE}/fun`));
  for (const { tag, data } of fired) {
    t.is(data.id ?? HOSTILE, HOSTILE, tag);
    t.regex(tag, /^(minion_start|minion\/refresh\/vecminion|salt\/job\/\d{20}\/ret\/vecminion)$/);
  }
  t.true(fired.some(({ tag }) => tag === 'minion_start'));
  const signal = { cmd: '_minion_event', tag: granted, data: {} };
  const [event] = await site.operator.eventsDuring(() => askAs(thief, site.door, signal));
  t.is(event?.tag, granted);
  const stillOpen = await site.operator.master.jobs.show(jid);
  t.deepEqual(stillOpen.returns, []);
});

test('with a stolen key one reads every job, and cannot publish one', async (t) => {
  const site = await startSite(t, 'tcp', { config });
  const next = await listen(t, 'tcp', site.publishPort);
  const thief = await signIn(t, site);
  for (const cmd of ['minion_pub', 'minion_publish', 'publish']) {
    const load = { fun: 'test.ping', arg: [], tgt: '*', ret: '' };
    await site.door.ask(requestBy(thief, { cmd, ...load }));
  }
  for await (const _update of site.operator.master.jobs.run({ tgt: '*', fun: 'test.echo' })) break;
  const job = openPublication(packWire(await next()), {
    key: aesKey,
    masterPublic: parsePublicKey(pem('master').publicPem),
    requireSignature: true,
  });
  t.is(asMap(job).fun, 'test.echo', 'the first that was published is the one of the operator');
});

test('of an id that has not proved protocol 3, these stay forgeable, and the doctor names it', async (t) => {
  const site = await startSite(t, 'zeromq', { config, pins: { [VICTIM]: 2 } });
  const jid = await liveInOldProtocol(site);
  const forgeable: string[] = [];
  for (const [cmd, load] of Object.entries({
    ...requests,
    _return: { ...requests._return, jid },
  })) {
    let events: MasterEvent[] = [];
    const changes = await site.changesBy(async () => {
      const forged = oldRequest({ cmd, ...load, id: VICTIM, tok: undefined });
      events = await site.operator.eventsDuring(() => site.door.ask(forged));
    });
    if (changes.length > 0 || events.length > 0) forgeable.push(cmd);
  }
  t.deepEqual(forgeable.sort(), ['_pillar', '_return']);
  const directory = temporaryDirectory(t);
  const report = await runDoctor({ directory, openApi: async () => site.operator.master });
  const finding = report.findings.find(({ code }) => code === 'protocol-low');
  t.is(finding?.subject, VICTIM);
});

/** Names of what belongs to the holder of the key: its rows, its jobs, its folder. */
function isOwn(name: string): boolean {
  return name.split('/').includes(HOSTILE) || ownNames.has(name) || /^jobs\/\d{20}$/.test(name);
}

/** The folders on the way to what it pushed. */
const ownNames: ReadonlySet<string> = new Set(['cache', 'cache/minions']);

/** A victim whose minion is an old one: it has a job to answer. */
async function liveInOldProtocol({ operator }: Site): Promise<string> {
  for await (const update of operator.master.jobs.run({ tgt: VICTIM, fun: 'test.ping' })) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

/** All that an answer says to somebody with the session key; one for another key says nothing. */
function opened(reply: Uint8Array, { key }: Actor): Buffer {
  const value = unpackWire(reply);
  const blob = wireBytes(value) ?? (isWireMap(value) ? wireBytes(value.pillar) : undefined);
  if (blob === undefined) return Buffer.from(reply);
  try {
    return openCrypticle(key, blob);
  } catch {
    return Buffer.from(reply);
  }
}

function asMap(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}
