import test from 'ava';
import { allow, type Decision, decide, type PolicyRule } from '../../acl/index.ts';
import { policyOf } from '../helpers/policies.ts';

/** As much as can be written: every tag that begins with one of these. */
const everything: PolicyRule[] = ['s*', 'm*', 'k*', 'n*', 'c*', '2*'].map((tag) =>
  allow('everything', {
    subject: { minion: '*', except: 'db1' },
    action: 'signal',
    resource: { tag },
  }),
);

function signal(id: string, tag: string, rules: readonly PolicyRule[]): Decision {
  return decide(
    {
      subject: { kind: 'minion', id },
      action: 'signal',
      resource: { tag, wasPublishedToSubject: () => false },
    },
    policyOf(rules),
  );
}

test('a grant permits its tag to its minions, and names itself', (t) => {
  const decision = signal('web1', 'my/site/tag', everything);
  t.is(decision.effect, 'allow');
  t.is(decision.rule, 'everything');
  t.is(signal('db1', 'my/site/tag', everything).rule, 'default-deny');
  t.is(signal('web1', 'my/site/tag', []).rule, 'default-deny');
});

for (const tag of [
  'salt/auth',
  'salt/key',
  'key',
  'salt/run/20240102030405678000/new',
  'salt/wheel/20240102030405678000/ret',
  'salt/job/20240102030405678000/ret/web1',
  'salt/job/20240102030405678000/prog/web1/0',
  '20240102030405678000',
  'new_job',
  'salt/presence/change',
  'salt/cloud/web1/destroyed',
  'salt/netapi/hook/deploy',
  'salt/minion/web2/start',
  'salt/beacon/web2/load',
  'minion/refresh/web2',
]) {
  test(`no grant lets a minion emit the master's ${tag}`, (t) => {
    t.is(signal('web1', tag, everything).rule, 'masters-own-tags');
  });
}

test('names that only begin like those of the master can be granted', (t) => {
  for (const tag of ['salt/keys', 'salt/jobs/x', 'clusters', 'salt/engines/docker_events/start']) {
    t.is(signal('web1', tag, everything).effect, 'allow', tag);
  }
});

test('results of states are granted to the minion that they are of', (t) => {
  t.is(signal('web1', 'salt/state_result/web1/nginx', everything).effect, 'allow');
  t.is(signal('web1', 'salt/state_result/web2/nginx', everything).rule, 'own-state-results');
});

test('a tag that is malformed is denied whatever is granted', (t) => {
  t.is(signal('web1', 'my/tag\n\nsalt/auth', everything).rule, 'well-formed-tag');
});
