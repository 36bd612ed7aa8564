/** Which files the reactor reads, and what becomes of those that it cannot use. */
import path from 'node:path';
import test from 'ava';
import type { ReactionEvent } from '../../../master/reactor/reaction-planner.ts';
import { planFiles } from './plan-files.ts';

const event: ReactionEvent = {
  tag: 'salt/auth',
  sender: undefined,
  data: undefined,
  body: { id: 'web1' },
};
const ping = (tgt: string): string => `ping_${tgt}:\n  local.test.ping: [{tgt: ${tgt}}]\n`;

test('a glob means all the files that are there, in their order', async (t) => {
  const { directory, plan } = await planFiles(t, { 'b.sls': ping('b'), 'a.sls': ping('a') });
  const { calls } = await plan(path.join(directory, '*.sls'), event);
  t.deepEqual(
    calls.map((call) => (call.kind === 'run' ? call.target.tgt : '')),
    ['a', 'b'],
  );
});

test('files come from the file server too, and import from there', async (t) => {
  const { plan } = await planFiles(t, {});
  for (const reference of ['salt://reactor/served.sls', 'salt://reactor/served.sls?saltenv=base']) {
    t.like((await plan(reference, event)).calls, [{ target: { tgt: 'web1' } }]);
  }
  t.like(await plan('salt://reactor/other.sls', event), { refused: [{ reason: 'no-file' }] });
  t.like(await plan('salt://../etc/passwd', event), { refused: [{ reason: 'no-file' }] });
});

test('keys and the store are never read', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'hidden/a.sls': ping('a'),
    'link.sls': { link: 'hidden/a.sls' },
  });
  for (const name of ['hidden/a.sls', 'link.sls']) {
    const { calls, refused } = await plan(path.join(directory, name), event);
    t.deepEqual(calls, []);
    t.is(refused[0]?.reason, 'no-file');
  }
});

test('a file that is broken harms no other', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'a.sls': '{{ nothing }}\n',
    'b.sls': ping('b'),
    'c.sls': '#!py\ndef run(): pass\n',
  });
  const { calls, refused } = await plan(path.join(directory, '*.sls'), event);
  t.is(calls.length, 1);
  t.deepEqual(
    refused.map(({ reason }) => reason),
    ['render', 'render'],
  );
  t.regex(refused[0]?.why ?? '', /a\.sls, line 1$/);
});

test('a template that does not end stops at its limit', async (t) => {
  const { directory, plan } = await planFiles(
    t,
    { 'a.sls': '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}' },
    { steps: 10_000 },
  );
  t.like(await plan(path.join(directory, 'a.sls'), event), { refused: [{ reason: 'render' }] });
});

test('caller is refused, and what else the file says is done', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'a.sls': `here:\n  caller.cmd.run:\n    - args: [{cmd: uptime}]\n${ping('a')}`,
  });
  const { calls, refused } = await plan(path.join(directory, 'a.sls'), event);
  t.is(calls.length, 1);
  t.is(refused[0]?.reason, 'caller');
});

test('what a reaction has run in the master leads to no other', async (t) => {
  const { directory, plan } = await planFiles(t, { 'a.sls': ping('a') });
  const tag = 'salt/run/20260102030405678901/ret';
  const told = (user: string, sender?: string): ReactionEvent => ({
    ...event,
    tag,
    sender,
    body: { user },
  });
  const place = path.join(directory, 'a.sls');
  t.is((await plan(place, told('reaction:/srv/a.sls'))).calls.length, 0);
  t.is((await plan(place, told('root'))).calls.length, 1);
  t.is((await plan(place, told('reaction:/srv/a.sls', 'web1'))).calls.length, 1);
});
