/** `peer`, `peer_run` and `mine_get`: who may have what. */
import test from 'ava';
import {
  type Call,
  type Decision,
  decide,
  type Grant,
  grantRules,
  type Policy,
  parseGrants,
} from '../../acl/index.ts';
import { rulesOf } from '../../master/config/policy-rules.ts';
import { resolveMasterConfig } from '../../master/index.ts';
import { compileWholePattern } from '../../minion-protocol/index.ts';
import { policyOf } from '../helpers/policies.ts';

function grants(value: unknown, mapKey: 'function' | 'target' = 'target'): Grant[] {
  return parseGrants(value, { compile: compileWholePattern, mapKey });
}

function granted(option: 'peer' | 'peer_run', value: unknown): Policy {
  const [action, mapKey] =
    option === 'peer' ? (['publish', 'target'] as const) : (['runner', 'function'] as const);
  return policyOf(grantRules(option, action, grants(value, mapKey)));
}

function call(fun: string, args: string[] = [], kwargs: Record<string, string> = {}): Call {
  return { fun, args, kwargs: new Map(Object.entries(kwargs)) };
}

function publish(
  peer: unknown,
  calls: readonly Call[],
  { id = 'web1', on = ['other1'] }: { id?: string; on?: readonly string[] } = {},
): Decision {
  return decide(
    {
      subject: { kind: 'minion', id },
      action: 'publish',
      resource: { calls, minions: on },
    },
    granted('peer', peer),
  );
}

test('a minion may publish nothing unless a rule says so', (t) => {
  t.is(publish({}, [call('test.ping')]).effect, 'deny');
  t.is(publish({ '.*': [] }, [call('test.ping')]).effect, 'deny');
  t.is(publish({ 'web.*': ['test.*'] }, [call('test.ping')]).effect, 'allow');
});

test('every function of a list must be permitted', (t) => {
  const peer = { 'web.*': ['test.*'] };
  t.is(publish(peer, [call('test.ping'), call('test.echo')]).effect, 'allow');
  t.is(publish(peer, [call('test.ping'), call('cmd.run')]).effect, 'deny');
  t.is(publish(peer, []).effect, 'deny');
});

test('expressions mean ids and functions as a whole', (t) => {
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping')]).effect, 'allow');
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping')], { id: 'web10' }).effect, 'deny');
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping_all')]).effect, 'deny');
  t.is(publish({ web1: ['a|test.ping'] }, [call('test.pings')]).effect, 'deny');
});

test('publish functions are never published, whatever the rules say', (t) => {
  const decision = publish({ '.*': ['.*'] }, [call('test.ping'), call('publish.publish')]);
  t.is(decision.effect, 'deny');
  t.is(decision.rule, 'no-publishing-of-publishing');
});

test('conditions on arguments hold for the place or the name that they are for', (t) => {
  const peer = {
    web1: [
      { 'L@db1': [{ 'service.restart': { args: ['nginx|redis'], kwargs: { no_block: null } } }] },
    ],
  };
  const allowed = { on: ['db1'] };
  const named = { no_block: 'True' };
  t.is(publish(peer, [call('service.restart', ['nginx'], named)], allowed).effect, 'allow');
  t.is(publish(peer, [call('service.restart', ['nginx'])], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', ['sshd'], named)], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', ['nginx2'], named)], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', [], named)], allowed).effect, 'deny');
});

test('a target in a rule limits whom the job may be for', (t) => {
  const peer = { web1: [{ 'db*': ['test.ping'] }] };
  t.is(publish(peer, [call('test.ping')], { on: ['db2'] }).effect, 'allow');
  t.is(publish(peer, [call('test.ping')]).effect, 'deny');
});

test('any one of several conditions is enough', (t) => {
  const peer_run = { web1: [{ 'jobs.lookup_jid': [{ args: ['1'] }, { args: ['2'] }] }] };
  const run = (text: string): string =>
    decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'runner',
        resource: { call: call('jobs.lookup_jid', [text]) },
      },
      granted('peer_run', peer_run),
    ).effect;
  t.deepEqual(['1', '2', '3'].map(run), ['allow', 'allow', 'deny']);
});

test('without mine_get every minion reads the mine; with it, only whom it names', (t) => {
  const read = (id: string, fun: string, mineGet?: Record<string, unknown>): string =>
    decide(
      { subject: { kind: 'minion', id }, action: 'mine', resource: { fun } },
      policyOf(rulesOf(resolveMasterConfig(mineGet === undefined ? {} : { mineGet }))),
    ).effect;
  t.is(read('web1', 'grains.items'), 'allow');
  const option = { 'web.*': ['network.*'] };
  t.is(read('web1', 'network.ip_addrs', option), 'allow');
  t.is(read('web1', 'grains.items', option), 'deny');
  t.is(read('db1', 'network.ip_addrs', option), 'deny');
  const conditional = { 'web.*': [{ 'network.*': [{ args: ['eth0'] }] }] };
  t.is(read('web1', 'network.ip_addrs', conditional), 'deny');
});

for (const [what, value] of Object.entries({
  'no map': ['.*'],
  'an expression that has an error': { '(': ['.*'] },
  lookaround: { '.*': ['(?!cmd).*'] },
  'two targets in one map': { '.*': [{ a: ['x'], b: ['y'] }] },
  'a function without its conditions': { '.*': [{ a: [{ 'x.y': [] }] }] },
  'an unknown kind of condition': { '.*': [{ a: [{ 'x.y': { arg: ['1'] } }] }] },
  'a number for a function': { '.*': [1] },
})) {
  test(`${what} is refused when rules are read`, (t) => {
    t.throws(() => grants(value), { instanceOf: SyntaxError });
  });
}
