/** Rules that several policies share: when they are compiled, and what is separate. */

import test from 'ava';
import {
  allow,
  createPolicy,
  type Decision,
  decide,
  deny,
  type MinionTest,
  type Policy,
  type PolicyEnvironment,
  type PolicyRule,
} from '#acl';
import { policySyntax } from '#config';

/** Environment of a master whose targets match the given minions. */
function world(known: readonly string[], dialect = '{}') {
  const targets: string[] = [];
  const environment: PolicyEnvironment = {
    ...policySyntax,
    dialect,
    target: (tgt): MinionTest => {
      targets.push(tgt);
      if (tgt === 'N@group' && dialect === '{}') throw new SyntaxError('unknown nodegroup group');
      const isKnown = (id: string): boolean => known.includes(id);
      return { isEntitled: isKnown, claims: isKnown, mayMean: isKnown };
    },
    pillarOf: () => undefined,
    now: () => 0,
  };
  return { environment, targets };
}

function frozen(rule: PolicyRule): PolicyRule {
  for (const part of [rule.subject, rule.resource, rule]) Object.freeze(part);
  return rule;
}

function ask(policy: Policy, user: string, minion: string): Decision {
  const call = { fun: 'test.ping', args: [], kwargs: new Map<string, string>() };
  return decide(
    {
      subject: { kind: 'user', name: user, groups: [] },
      action: 'publish',
      resource: { calls: [call], minions: [minion] },
    },
    policy,
  );
}

function within(target: string, more: object = {}): PolicyRule {
  return frozen(
    allow('ping', {
      subject: { user: 'fred' },
      action: 'publish',
      resource: { fun: 'test.*', within: target },
      ...more,
    }),
  );
}

test('an accepted rule is compiled when a decision needs it', (t) => {
  const rules = [within('web*')];
  createPolicy(rules, world([]).environment);
  const { environment, targets } = world(['web1']);
  const policy = createPolicy(rules, environment);
  t.deepEqual(targets, []);
  t.is(ask(policy, 'ann', 'web1').effect, 'deny');
  t.deepEqual(targets, []);
  t.is(ask(policy, 'fred', 'web1').effect, 'allow');
  t.is(ask(policy, 'fred', 'db1').effect, 'deny');
  t.deepEqual(targets, ['web*']);
});

test('policies that share a rule use the facts and counts of their own masters', (t) => {
  const rules = [
    within('G@role:web', { rate: '1/minute' }),
    frozen(
      deny('old', {
        subject: { minion: 'web*', grain: 'os:old' },
        action: 'mine',
        resource: { fun: '*' },
      }),
    ),
    frozen(allow('mine', { subject: { minion: '*' }, action: 'mine', resource: { fun: '*' } })),
  ];
  // The first policy compiles its rules at once. Only later policies share their subjects.
  createPolicy(rules, world(['db1']).environment);
  const [one, other] = [['web1'], ['web2']].map((known) => {
    return createPolicy(rules, world(known).environment);
  });
  if (one === undefined || other === undefined) throw new Error('no policies');
  t.is(ask(one, 'fred', 'web1').effect, 'allow');
  t.is(ask(one, 'fred', 'web1').effect, 'deny', 'the rate is used up');
  t.is(ask(other, 'fred', 'web1').effect, 'deny');
  t.is(ask(other, 'fred', 'web2').effect, 'allow');
  const mine = (policy: Policy, id: string): string =>
    decide(
      { subject: { kind: 'minion', id }, action: 'mine', resource: { fun: 'x', owner: id } },
      policy,
    ).rule;
  t.deepEqual([mine(one, 'web1'), mine(one, 'web2')], ['old', 'mine']);
  t.deepEqual([mine(other, 'web1'), mine(other, 'web2')], ['mine', 'old']);
});

test('a rule that one dialect accepts is examined again in another', (t) => {
  const rules = [
    frozen(
      // A policy compiles rules for all users at once, whether or not they were accepted before.
      deny('never', {
        subject: { user: 'fred' },
        action: 'publish',
        resource: { fun: '*', within: 'N@group' },
      }),
    ),
  ];
  createPolicy(rules, world([], '{"group":"web*"}').environment);
  const refused = { code: 'ERR_POLICY_PATTERN', message: /unknown nodegroup/ };
  t.throws(() => createPolicy(rules, world([]).environment), refused);
});

test('a rule that can still change is examined each time', (t) => {
  const rule = allow('ping', {
    subject: { user: 'fred' },
    action: 'publish',
    resource: { fun: 'test.*', within: 'web*' },
  });
  createPolicy([rule], world([]).environment);
  const { environment, targets } = world([]);
  createPolicy([rule], environment);
  t.deepEqual(targets, ['web*']);
});
