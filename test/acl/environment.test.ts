/** The field `environment` of rules for jobs. */

import test from 'ava';
import { allow, decide, deny, type PolicyRule } from '#acl';
import { policyOf } from '../helpers/policies.ts';

const eve = { user: 'eve' } as const;
const subject = { kind: 'user', name: 'eve', groups: [] } as const;
const any = { subject: eve, action: 'publish', resource: { fun: '*' } } as const;
const inTest = { ...any, resource: { fun: '*', environment: 'test*' } } as const;

interface Asked {
  readonly fun: string;
  readonly args?: readonly string[];
  readonly saltenv?: string;
}

function may(rules: readonly PolicyRule[], { fun, args = [], saltenv }: Asked): boolean {
  const kwargs = new Map(saltenv === undefined ? [] : [['saltenv', saltenv]]);
  const resource = { calls: [{ fun, args, kwargs }], minions: ['web1'] };
  return decide({ subject, action: 'publish', resource }, policyOf(rules)).effect === 'allow';
}

/** Calls that name the given environment. */
function callsIn(name: string): readonly Asked[] {
  return [
    { fun: 'state.apply', args: ['app'], saltenv: name },
    { fun: 'cp.get_file', args: ['salt://x', '/tmp/x', name] },
    { fun: 'cp.list_master', args: [name] },
    { fun: 'saltutil.sync_all', args: [name] },
    { fun: 'cp.get_file', args: [`salt://x?saltenv=${name}`, '/tmp/x'] },
    { fun: 'my.function', args: [`['salt://x?saltenv=${name}', 'salt://y']`] },
  ];
}

test('a rule permits only the named environments, in whatever form a call names them', (t) => {
  const rules = [allow('test', inTest)];
  for (const name of ['test', 'test1']) {
    for (const call of callsIn(name)) t.true(may(rules, call), JSON.stringify(call));
  }
  for (const name of ['prod', 'test,prod', 'prod?saltenv=test', '']) {
    for (const call of callsIn(name)) t.false(may(rules, call), JSON.stringify(call));
  }
  t.true(may(rules, { fun: 'state.apply', args: ['app'] }));
  t.true(may(rules, { fun: 'test.echo', args: ['prod'] }));
  const two = ['salt://x?saltenv=test', '/tmp/x', 'prod'];
  t.false(may(rules, { fun: 'cp.get_file', args: two }));
});

test('a rule denies calls that name its environment, or none', (t) => {
  const rules = [deny('test', inTest), allow('all', any)];
  for (const call of callsIn('prod')) t.true(may(rules, call), JSON.stringify(call));
  for (const name of ['test', 'prod,test']) {
    for (const call of callsIn(name)) t.false(may(rules, call), JSON.stringify(call));
  }
  t.false(may(rules, { fun: 'state.apply', args: ['app'] }));
  const both = { fun: 'cp.get_file', args: ['salt://x?saltenv=test', '/tmp/x'], saltenv: 'prod' };
  t.false(may(rules, both));
});
