/**
 * Enrolment with given key pairs and by grains, imports of minions, and the end of an enrolment.
 */

import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createMinionIdentity, MinionSession } from '#minion-protocol/minion/session.ts';
import { waitMs, within } from '../../helpers/deadline.ts';
import { pem } from '../../helpers/vectors.ts';
import { fingerOf, type PairName, type Stage, showGrain, signIn, startStage } from './stage.ts';

const machine = { id: 'web-1', project: 'p1' };

/** Sends a return for a job as the minion with this key. */
async function returnFor(stage: Stage, jid: string, pair: PairName): Promise<void> {
  const step = await signIn(stage, pair, {});
  if (step.state !== 'accepted') throw new Error(`signed in: ${step.state}`);
  const session = new MinionSession(createMinionIdentity('web-1', 3, pem(pair).privatePem), step);
  const load = { cmd: '_return', id: 'web-1', jid, fun: 'test.ping', return: true, retcode: 0 };
  const { bytes, nonce } = session.seal({ ...load, success: true });
  session.openReply(await stage.dial('web-1').request(bytes, waitMs), nonce);
}

test('a given pair is accepted before the machine exists, and its private half is not stored', async (t) => {
  const stage = await startStage(t, { prepared_keys: 1 });
  const { userData, enrolment } = await stage.bridge.enroll.create({
    ...machine,
    by: 'keys',
    format: 'shell',
  });
  const key = await stage.key('web-1');
  t.like(key, { state: 'accepted', protocol: 3, fingerprint: enrolment.fingerprint });
  const [, secret = ''] = /BEGIN RSA PRIVATE KEY-----\n(\S+)\n/.exec(userData) ?? [];
  t.true(secret.length > 60);
  const kept = readdirSync(stage.directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'latin1'));
  for await (const { value } of stage.store.list([]))
    kept.push(Buffer.from(value).toString('latin1'));
  t.false(kept.some((text) => text.includes(secret)));
});

test('a ticket in a grain admits the key shown with it, and a second key invalidates both', async (t) => {
  const stage = await startStage(t, { grain: true });
  const { ticket } = await stage.bridge.enroll.create({ ...machine, by: 'grain' });
  t.is(await showGrain(stage, `${ticket}A`, 'minion'), 'pending');
  t.is(await showGrain(stage, ticket, 'minion'), 'accepted');
  t.is(await showGrain(stage, ticket, 'minion'), 'accepted');
  const alarm = stage.next('saltbridge/bridge/enroll/alarm');
  t.is(await showGrain(stage, ticket, 'other_minion'), 'refused');
  await within('the alarm', alarm);
  t.is((await stage.key('web-1'))?.state, 'rejected');
  t.is(await showGrain(stage, ticket, 'minion'), 'refused');
});

test('a ticket for a claim is ignored as a grain', async (t) => {
  const stage = await startStage(t, { grain: true });
  const { ticket } = await stage.bridge.enroll.create(machine);
  t.is(await showGrain(stage, ticket, 'minion'), 'pending');
});

test('known keys and fingerprints are imported, all or none', async (t) => {
  const stage = await startStage(t);
  const { enroll } = stage.bridge;
  const known = [
    { id: 'web-1', project: 'p', publicKey: pem('minion').publicPem },
    { id: 'web-2', project: 'p', fingerprint: fingerOf('other_minion') },
  ];
  const broken = [...known, { id: 'web-3', project: 'p', publicKey: 'no key' }];
  await t.throwsAsync(enroll.import(broken), { code: 'ERR_ENROLL_ARGS', message: /^entry 3/ });
  t.deepEqual(await stage.master.keys.list(), []);
  t.is((await enroll.import(known)).length, 2);
  await within('the first', stage.minion('web-1', 'minion').start());
  await within('the second', stage.minion('web-2', 'other_minion').start());
  const again = enroll.import(known);
  await t.throwsAsync(again, { code: 'ERR_ENROLL_TAKEN', message: /^entry 1/ });
});

test('an enrolment expires with its pending key if its machine does not arrive in time', async (t) => {
  const stage = await startStage(t);
  const { enroll } = stage.bridge;
  const unused = await enroll.create({ ...machine, lifetimeSeconds: 60 });
  const given = await enroll.create({ ...machine, id: 'web-2', by: 'keys', lifetimeSeconds: 60 });
  const failing = [unused, given].map(({ enrolment }) => enroll.signedIn(enrolment.number));
  stage.clock.now += 60_000;
  for (const one of failing) {
    await t.throwsAsync(within('its end', one), {
      code: 'ERR_ENROLL_FAILED',
      message: /before it expired|before the deadline/,
    });
  }
  t.deepEqual(await stage.master.keys.list(), []);
});

test('an accepted machine can sign in later after an outage of the master', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create({
    ...machine,
    lifetimeSeconds: 60,
  });
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  await stage.master.close();
  const { directory, store } = stage;
  const startAt = stage.clock.now + 86_400_000;
  const next = await startStage(t, {}, { directory, store, startAt });
  const left = (await next.bridge.enroll.show(enrolment.number)).deadline ?? 0;
  t.is(left, startAt + 600_000);
});

test('a retired machine leaves nothing to a later owner of its id', async (t) => {
  const stage = await startStage(t);
  const { enroll } = stage.bridge;
  await enroll.import([{ ...machine, instance: 'i-1', publicKey: pem('minion').publicPem }]);
  const first = stage.minion('web-1', 'minion', { grains: { role: 'old' } });
  await within('the first owner', first.start());
  await first.stop();
  const { jid } = await stage.master.jobs.publish({ tgt: 'web-1', fun: 'test.ping' });
  await stage.bridge.handles.add({
    alias: 'ready',
    minions: ['web-1', 'web-2'],
    signal: { url: 'https://receiver.example/hook', key: `whsec_${'A'.repeat(44)}` },
  });
  const retired: string[] = [];
  enroll.onRetire((id) => {
    retired.push(id);
  });
  await enroll.retire({ instance: 'i-1' });
  t.deepEqual(retired, ['web-1']);
  t.is(await stage.key('web-1'), undefined);
  t.deepEqual((await stage.bridge.handles.show('ready')).minions, ['web-2']);
  for (const prefix of [['pins'], ['secrets', 'sessions', 'web-1'], ['facts', 'web-1']]) {
    for await (const { key } of stage.store.list(prefix)) t.fail(key.join('/'));
  }
  await enroll.import([{ ...machine, publicKey: pem('other_minion').publicPem }]);
  await returnFor(stage, jid, 'other_minion');
  t.deepEqual((await stage.master.jobs.show(jid)).returns, []);
  const { jid: own } = await stage.master.jobs.publish({ tgt: 'web-1', fun: 'test.ping' });
  await returnFor(stage, own, 'other_minion');
  t.is((await stage.master.jobs.show(own)).returns.length, 1);
  await t.throwsAsync(enroll.retire({ instance: 'i-1' }), { code: 'ERR_ENROLL_UNKNOWN' });
});

test('a key that ends with its machine is retired at that time', async (t) => {
  const stage = await startStage(t);
  const { enroll } = stage.bridge;
  const expires = stage.clock.now + 60_000;
  const [one] = await enroll.import([{ ...machine, publicKey: pem('minion').publicPem, expires }]);
  await within('the sign-in', stage.minion('web-1').start());
  await within('its note', enroll.signedIn(one?.number ?? ''));
  const retired = stage.next('saltbridge/bridge/enroll/retired');
  stage.clock.now += 60_000;
  await within('its end', retired);
  t.is(await stage.key('web-1'), undefined);
});

// The enrolment of a minion ends when its key is deleted by any interface.

/** All interfaces for deleting a key. */
const ways: Readonly<Record<string, (stage: Stage) => unknown>> = {
  'the command line or a program': ({ master }) => master.keys.delete({ match: 'web-1' }),
  'the wheel': ({ master }) => master.wheel.run({ fun: 'key.delete', kwarg: { match: 'web-*' } }),
  'the wheel, by its folder': ({ master }) =>
    master.wheel.run({ fun: 'key.delete_dict', kwarg: { match: { minions: ['web-1'] } } }),
  'salt-key, in the PKI directory': ({ directory }) =>
    rmSync(path.join(directory, 'pki', 'minions', 'web-1')),
};

async function enrolByGrain(
  t: ExecutionContext,
  version: 2 | 3,
): Promise<{ readonly stage: Stage; readonly ticket: string; readonly number: string }> {
  const stage = await startStage(t, { grain: true });
  const request = { ...machine, by: 'grain', protocol: version === 2 ? 0 : 3 } as const;
  const { ticket, enrolment } = await stage.bridge.enroll.create(request);
  t.is(await showGrain(stage, ticket, 'minion', version), 'accepted');
  return { stage, ticket, number: enrolment.number };
}

for (const [who, deleteKey] of Object.entries(ways)) {
  for (const version of [2, 3] as const) {
    test(`a key that ${who} deletes is not accepted again, in protocol ${version}`, async (t) => {
      const { stage, ticket, number } = await enrolByGrain(t, version);
      const retired = stage.next('saltbridge/bridge/enroll/retired');
      await deleteKey(stage);
      await within('its end', retired);
      t.is(await showGrain(stage, ticket, 'minion', version), 'pending');
      t.is(await showGrain(stage, 'any text', 'minion', version), 'pending');
      const over = await stage.bridge.enroll.show(number);
      t.like(over, { state: 'retired', reason: 'an operator deleted the key of the minion' });
    });
  }
}

test('a claimed key that is deleted before its first proven request is not accepted again', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  t.is((await signIn(stage, 'minion', {})).state, 'accepted');
  await stage.master.keys.delete({ match: 'web-1' });
  t.is((await signIn(stage, 'minion', {})).state, 'pending');
  t.is((await stage.bridge.enroll.show(enrolment.number)).state, 'retired');
});

test('a key that is deleted while no master runs is not accepted again', async (t) => {
  const { stage, ticket, number } = await enrolByGrain(t, 3);
  await stage.master.close();
  const { directory, store } = stage;
  rmSync(path.join(directory, 'pki', 'minions', 'web-1'));
  const next = await startStage(t, { grain: true }, { directory, store });
  t.is((await next.bridge.enroll.show(number)).state, 'retired');
  t.is(await showGrain(next, ticket, 'minion'), 'pending');
});

test('a key that an operator rejects ends its enrolment and stays rejected', async (t) => {
  const { stage, ticket, number } = await enrolByGrain(t, 3);
  const retired = stage.next('saltbridge/bridge/enroll/retired');
  await stage.master.keys.reject({ match: 'web-1', include: ['accepted'] });
  await within('its end', retired);
  t.is((await stage.key('web-1'))?.state, 'rejected');
  t.is((await stage.bridge.enroll.show(number)).state, 'retired');
  await stage.master.keys.delete({ match: 'web-1' });
  t.is(await showGrain(stage, ticket, 'minion'), 'pending');
});

test('a key that an operator accepts after the end of an enrolment survives a restart', async (t) => {
  const { stage, number } = await enrolByGrain(t, 3);
  await stage.bridge.enroll.retire({ number });
  t.is((await signIn(stage, 'minion', {})).state, 'pending');
  await stage.master.keys.accept({ match: 'web-1' });
  await stage.bridge.enroll.retire({ number });
  await stage.master.close();
  const { directory, store } = stage;
  const next = await startStage(t, { grain: true }, { directory, store });
  t.is((await next.key('web-1'))?.state, 'accepted');
});

test('a claim without a key leaves no pinned protocol to a later owner of the id', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  await stage.bridge.enroll.retire({ number: enrolment.number });
  t.is((await signIn(stage, 'other_minion', {}, 2)).state, 'pending');
});
