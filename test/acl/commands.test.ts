/** Rules about named commands. */
import test from 'ava';
import {
  allow,
  decide,
  deny,
  mayCallCommand,
  type PolicyRule,
  parseRule,
  type Question,
} from '../../acl/index.ts';
import { policyOf } from '../helpers/policies.ts';

const grant = allow('databases', {
  subject: { service: 'trove' },
  action: 'command',
  resource: { fun: 'mysql.*', within: 'db*', arguments: [{ kwargs: { name: 'app_*' } }] },
});

function ask(
  rules: readonly PolicyRule[],
  { fun = 'mysql.create-user', name = 'app_1', minion = 'db1', service = 'trove' } = {},
): string {
  const question: Question = {
    subject: { kind: 'service', name: service },
    action: 'command',
    resource: {
      call: { fun, args: [], kwargs: new Map([['name', name]]) },
      minions: [minion],
    },
  };
  const { effect, rule } = decide(question, policyOf(rules));
  return `${effect} ${rule}`;
}

test('a command is permitted by name, arguments and target together', (t) => {
  t.is(ask([grant]), 'allow databases');
  t.is(ask([grant], { fun: 'redis.flush' }), 'deny default-deny');
  t.is(ask([grant], { name: 'root' }), 'deny default-deny');
  t.is(ask([grant], { minion: 'web1' }), 'deny default-deny');
  t.is(ask([grant], { service: 'sahara' }), 'deny default-deny');
  t.is(ask([]), 'deny default-deny');
});

test('a right to publish a function is no right to a command of that name', (t) => {
  const publish = allow('jobs', {
    subject: { service: 'trove' },
    action: 'publish',
    resource: { fun: '*' },
  });
  t.is(ask([publish]), 'deny default-deny');
});

test('a rule in a file may say within', (t) => {
  const value = {
    subject: { service: 'trove' },
    action: 'command',
    resource: { fun: 'mysql.*', within: 'db*' },
  };
  t.is(ask([parseRule('file', value)]), 'allow file');
  t.is(ask([parseRule('file', value)], { minion: 'web1' }), 'deny default-deny');
});

test('a caller may call the commands that some rule permits and none denies outright', (t) => {
  const subject = { service: 'trove' };
  const denial = (name: string, more: object) =>
    deny(name, { subject, action: 'command', resource: { fun: 'mysql.drop', ...more } });
  const may = (fun: string, ...more: readonly PolicyRule[]): boolean =>
    mayCallCommand({ kind: 'service', name: 'trove' }, fun, policyOf([grant, ...more]));
  t.true(may('mysql.drop'));
  t.false(may('redis.flush'));
  t.false(may('mysql.drop', denial('never', {})));
  t.true(may('mysql.drop', denial('there', { within: 'db1' })));
  t.true(may('mysql.drop', denial('so', { arguments: [{ kwargs: { name: 'app_1' } }] })));
  t.false(mayCallCommand({ kind: 'service', name: 'sahara' }, 'mysql.drop', policyOf([grant])));
});
