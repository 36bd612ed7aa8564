/** What a running master does by another configuration. */
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { deny, PolicyError } from '../../acl/index.ts';
import {
  createMaster,
  MasterError,
  type MasterOptions,
  resolveMasterConfig,
  type TargetPlan,
} from '../../master/index.ts';
import { unpackWire } from '../../minion-protocol/index.ts';
import { connectMinion, otherKey } from '../helpers/connected-minion.ts';
import { until } from '../helpers/deadline.ts';
import {
  directories,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { base64, cases, keys, text, vectorFile } from '../helpers/vectors.ts';

interface Running extends VectorMaster {
  /** Reloads with these options besides those that it was started with. */
  reload(options: Partial<MasterOptions>): Promise<unknown>;
}

async function start(t: ExecutionContext, options: VectorMasterOptions = {}): Promise<Running> {
  const running = await startVectorMaster(t, options);
  const { directory, master } = running;
  const base = { ...directories(directory), ...options.config };
  return {
    ...running,
    reload: (more) => master.reload(resolveMasterConfig({ ...base, ...more })),
  };
}

function signIn(name: string): Buffer {
  const vector = cases(vectorFile('auth'), 'cases').find((one) => text(one.name) === name);
  return base64(vector?.request_b64);
}

async function stateOf({ master }: VectorMaster, id: string = keys.minionId): Promise<unknown> {
  return (await master.keys.list()).find((key) => key.id === id)?.state;
}

test('auto_accept decides the next sign-in', async (t) => {
  const running = await start(t, { keys: [] });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'pending');
  await running.reload({ autoAccept: true });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'accepted');
});

test('another autosign_file is read before the reload is over', async (t) => {
  const running = await start(t, { keys: [] });
  const autosignFile = path.join(running.directory, 'autosign.conf');
  writeFileSync(autosignFile, `${keys.minionId}\n`, { mode: 0o600 });
  await running.reload({ autosignFile });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'accepted');
});

test('open_mode takes another key for a known id', async (t) => {
  const running = await start(t);
  const other = signIn('v0 accepted id, different key (denied)');
  await running.reload({ openMode: true, confirmOpenMode: true, authEvents: false });
  const events = await running.eventsDuring(() => running.ask(other));
  t.is(await stateOf(running), 'accepted');
  t.false(events.some(({ tag }) => tag === 'salt/auth'));
});

test('max_minions counts those that are connected already', async (t) => {
  const running = await start(t, {
    config: { requestServerTtl: 0 },
    keys: [otherKey('a'), otherKey('b')],
  });
  await connectMinion(t, running, 'a');
  await connectMinion(t, running, 'b');
  await running.reload({ maxMinions: 1 });
  const reply = await running.ask(signIn('v0 pending, new key'));
  t.deepEqual(unpackWire(reply), { enc: 'clear', load: { ret: 'full' } });
});

test('pending_keys bounds keys from now on', async (t) => {
  const running = await start(t, { keys: [{ ...otherKey('a'), directory: 'minions_pre' }] });
  await running.reload({ limits: { pendingKeys: 1 } });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), undefined);
  await running.reload({ limits: { pendingKeys: 0 } });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'pending');
});

test('nodegroups mean what they are now', async (t) => {
  const running = await start(t);
  const plan = (): Promise<TargetPlan> =>
    running.master.jobs.plan({ tgt: 'mine', tgtType: 'nodegroup' });
  await t.throwsAsync(plan, { code: 'ERR_NODEGROUP_UNKNOWN' });
  await running.reload({ nodegroups: { mine: `L@${keys.minionId}` } });
  t.is((await plan()).minions.length, 1);
});

test('the rules are taken over as a whole, or not at all', async (t) => {
  const running = await start(t, { config: { acl: { signals: [{ tag: 'my/*', minions: '*' }] } } });
  const event = recorded('minion_event', 'start event v3');
  const isFired = async (tag: string): Promise<boolean> => {
    const load = { nonce: freshNonce(), tag };
    return (await running.eventsDuring(() => running.ask(altered(event, { load })))).length === 1;
  };
  const rule = { subject: { nodegroup: 'mine' }, action: 'signal' } as const;
  const rules = [deny('not that', { ...rule, resource: { tag: 'my/tag' } })];
  const nodegroups = { mine: `L@${keys.minionId}` };
  t.true(await isFired('my/tag'));
  const broken = {
    ...resolveMasterConfig(directories(running.directory)),
    acl: { ...resolveMasterConfig().acl, rules },
  };
  await t.throwsAsync(running.master.reload(broken), { instanceOf: PolicyError });
  t.true(await isFired('my/tag'));
  await running.reload({ acl: { signals: [{ tag: 'my/*', minions: '*' }], rules }, nodegroups });
  t.false(await isFired('my/tag'));
  t.true(await isFired('my/other'));
});

test('the limits of events hold for the next event', async (t) => {
  const running = await start(t);
  const event = recorded('minion_event', 'start event v3');
  const fire = (): Promise<Buffer> =>
    running.ask(altered(event, { load: { nonce: freshNonce() } }));
  t.is((await running.eventsDuring(fire)).length, 1);
  await running.reload({ limits: { eventBytes: 1024, eventsPerSecond: 1, burst: 1 } });
  await fire();
  await fire();
  t.is((await running.counters())['event-rate'], 1);
  await running.ask(altered(event, { load: { nonce: freshNonce(), data: 'x'.repeat(1024) } }));
  t.is((await running.counters())['event-bytes'], 1);
});

test('allow_minion_key_revoke holds for the next request', async (t) => {
  const running = await start(t);
  const revocation = recorded('aes_functions', 'revoke_auth disabled v3');
  const request = (): Buffer => altered(revocation, { load: { nonce: freshNonce() } });
  await running.ask(request());
  t.is(await stateOf(running), 'accepted');
  await running.reload({ allowMinionKeyRevoke: true });
  // The connection ends with the key, so that no answer comes.
  const minion = running.dial(keys.minionId);
  const unanswered = t.throwsAsync(minion.request(request(), 45_000), { code: 'ERR_CLOSED' });
  const file = path.join(running.directory, 'pki', 'minions', keys.minionId);
  await until('the key to go', () => !existsSync(file));
  await minion.close();
  await unanswered;
});

test('a master that does not run reloads nothing', async (t) => {
  const config = resolveMasterConfig();
  const master = createMaster({ config });
  await t.throwsAsync(master.reload(config), {
    instanceOf: MasterError,
    code: 'ERR_MASTER_STOPPED',
  });
});
