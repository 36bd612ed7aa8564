/** Whoever deletes the key of an enrolled minion ends its enrolment. */
import { rmSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { within } from '../../helpers/deadline.ts';
import { fingerOf, type Stage, showGrain, signIn, startStage } from './stage.ts';

const machine = { id: 'web-1', project: 'p1' };

/** Everybody who can delete a key. */
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
      t.like(over, { state: 'retired', reason: 'its key was deleted' });
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

test("what an operator accepts after an enrolment's end is there after the next start", async (t) => {
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

test('a claim that never came to a key leaves no pinned protocol to a later owner of the id', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  await stage.bridge.enroll.retire({ number: enrolment.number });
  t.is((await signIn(stage, 'other_minion', {}, 2)).state, 'pending');
});
