/** A master that learns permits what a rule could permit, and nothing else. */
import { setImmediate } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { deny } from '../../../acl/index.ts';
import type { MasterOptions } from '../../../master/index.ts';
import { resolveMasterConfig } from '../../../master/index.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const id = keys.minionId;

async function start(t: ExecutionContext, acl: MasterOptions['acl']): Promise<VectorMaster> {
  return startVectorMaster(t, { config: { acl } });
}

async function isFired(master: VectorMaster, tag: string): Promise<boolean> {
  const request = altered(startEvent, { load: { tag, data: { ok: 1 }, nonce: freshNonce() } });
  return (await master.eventsDuring(() => master.ask(request))).some((event) => event.tag === tag);
}

test('a tag of nobody is fired while learning, and refused otherwise', async (t) => {
  t.true(await isFired(await start(t, { mode: 'learn' }), 'my/tag'));
  t.false(await isFired(await start(t, {}), 'my/tag'));
});

for (const tag of [
  'salt/auth',
  'salt/key',
  'salt/job/20240102030405678000/ret/web2',
  'salt/minion/web2/start',
  'salt/beacon/web2/load/',
  'salt/state_result/web2/x',
  'saltbridge/denied/web2',
  'minion/refresh/web2',
  '///',
  'two\nlines',
]) {
  test(`${JSON.stringify(tag)} is not to be had by learning`, async (t) => {
    const master = await start(t, { mode: 'learn' });
    t.false(await isFired(master, tag));
    t.is((await master.master.acl.learn()).rules.length, 0);
  });
}

test('a rule that denies holds while learning', async (t) => {
  const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'no/*' } } as const;
  const master = await start(t, { mode: 'learn', rules: [deny('not that', rule)] });
  t.false(await isFired(master, 'no/x'));
  t.true(await isFired(master, 'yes/x'));
});

test('what gives power over others is recorded while learning, and permitted only if named', async (t) => {
  const revocation = recorded('aes_functions', 'revoke_auth disabled v3');
  const request = (): Buffer => altered(revocation, { load: { nonce: freshNonce() } });
  const careful = await start(t, { mode: 'learn' });
  await careful.ask(request());
  t.is((await careful.master.keys.list())[0]?.id, id);
  t.is((await careful.master.acl.learn()).rules[0]?.rule.action, 'key');
  const bold = await start(t, { mode: 'learn', learnActions: ['key'] });
  const minion = bold.dial(id);
  // The connection ends with the key, so that no answer comes.
  const unanswered = t.throwsAsync(minion.request(request(), 45_000), { code: 'ERR_CLOSED' });
  const isGone = async (): Promise<boolean> => (await bold.master.keys.list()).length === 0;
  while (!(await isGone())) await setImmediate();
  await minion.close();
  await unanswered;
  t.deepEqual(await bold.master.keys.list(), []);
  t.false(await isFired(await start(t, { mode: 'learn', learnActions: ['key'] }), 'my/tag'));
});

test('a job that a minion asks for while learning is recorded with whom it meant', async (t) => {
  const options = recorded('aes_functions', '_master_opts v3');
  const master = await start(t, { mode: 'learn' });
  const nonce = freshNonce();
  const load = { cmd: 'minion_pub', nonce, id, tgt: '*', fun: 'test.ping', arg: [], ret: '' };
  const reply = await master.ask(altered(options, { load }));
  t.deepEqual({ ...Object(openReply(options, reply, nonce)) }, {});
  const [learned] = (await master.master.acl.learn()).rules;
  t.like(learned?.rule, { action: 'publish', resource: { within: `L@${id}` } });
});

test('what was learned, in force, permits the same without learning', async (t) => {
  const master = await start(t, { mode: 'learn' });
  t.is((await master.master.status()).aclMode, 'learn');
  t.true(await isFired(master, 'my/tag'));
  const rules = (await master.master.acl.learn()).rules.map(({ rule }) => rule);
  const config = resolveMasterConfig({ ...directories(master.directory), acl: { rules } });
  await master.master.reload(config);
  t.is((await master.master.status()).aclMode, 'enforce');
  t.true(await isFired(master, 'my/tag'));
  t.false(await isFired(master, 'my/other'));
});
