/** Another policy over what was decided. */
import test from 'ava';
import { allow, deny, type PolicyRule } from '../../../acl/index.ts';
import { replay } from '../../../master/users/learn.ts';
import { policyOf } from '../../helpers/policies.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { openJournal, signal } from './helpers.ts';

function rule(tag: string, schema?: unknown): Parameters<typeof allow<'signal'>>[1] {
  const resource = schema === undefined ? { tag } : { tag, schema };
  return { subject: { minion: '*' }, action: 'signal', resource };
}

const inForce = [allow('site', rule('site/*')), deny('not that', rule('site/secret'))];

test('every decision that would be another one is named, and no other', async (t) => {
  const { gate, recorder } = await openJournal(t, { policy: policyOf(inForce) });
  for (const tag of ['site/a', 'site/b', 'site/c', 'site/secret', 'new/x', 'salt/auth']) {
    gate.decide(signal('web1', tag, { tag }));
  }
  const next: PolicyRule[] = [
    allow('only a', rule('site/a')),
    allow('site', rule('site/c')),
    allow('new', rule('new/*')),
    deny('not that', rule('site/secret')),
  ];
  const report = replay(recorder.list(), policyOf(next), 0);
  t.deepEqual(
    report.changes.map(({ kind, recorded: { texts }, decision }) => [
      kind,
      texts[0],
      decision.rule,
    ]),
    [
      ['other-rule', 'site/a', 'only a'],
      ['denied', 'site/b', 'default-deny'],
      ['allowed', 'new/x', 'new'],
    ],
  );
  t.like(report, { decisions: 6, requests: 6, uncertain: 0 });
  t.deepEqual(replay(recorder.list(), policyOf(inForce), 0).changes, []);
});

test('a schema is asked with what was said, and one example that fails it is enough', async (t) => {
  const { gate, recorder } = await openJournal(t, { policy: policyOf(inForce) });
  gate.decide(signal('web1', 'site/a', { env: 'test' }));
  gate.decide(signal('web1', 'site/a', { env: 'test', more: 1 }));
  const schema = { type: 'object', maxProperties: 1 };
  const next = policyOf([allow('site', rule('site/*', schema))]);
  const report = replay(recorder.list(), next, 0);
  t.is(report.changes[0]?.kind, 'denied');
});

test('a running master replays against what its minions did, and uses up nothing', async (t) => {
  const signals = [{ tag: 'site/*', minions: '*', rate: '1/day' }];
  const master = await startVectorMaster(t, { config: { acl: { signals } } });
  const event = recorded('minion_event', 'start event v3');
  await master.ask(altered(event, { load: { tag: 'site/a', nonce: freshNonce() } }));
  const rules = [allow('once', { ...rule('site/a'), rate: '1/day' })];
  for (let round = 0; round < 3; round += 1) {
    const { changes } = await master.master.acl.replay({ rules });
    t.deepEqual(
      changes.map(({ kind }) => kind),
      ['other-rule'],
    );
  }
  const broken = [{ ...rules[0], resource: {} }] as never;
  await t.throwsAsync(master.master.acl.replay({ rules: broken }), { code: 'ERR_POLICY_FORM' });
  await master.master.acl.forget();
  t.is((await master.master.acl.replay({ rules })).decisions, 0);
});
