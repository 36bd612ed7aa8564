import test from 'ava';
import fc from 'fast-check';
import { type Decision, decide } from '../../acl/index.ts';

const jid = '20240102030405678000';

function signal(id: string, tag: string, publishedJids: readonly string[] = []): Decision {
  return decide({
    subject: { kind: 'minion', id },
    action: 'signal',
    resource: { tag, wasPublishedToSubject: (asked) => publishedJids.includes(asked) },
  });
}

for (const tag of [
  'salt/minion/web1/start',
  'minion_start',
  'minion_ping',
  '_salt_error',
  'salt/beacon/web1/inotify//etc/hosts',
]) {
  test(`a minion may emit its own ${tag}`, (t) => {
    t.is(signal('web1', tag).effect, 'allow');
  });
}

for (const tag of [
  'salt/minion/web2/start',
  'salt/minion/web1/start/',
  'salt/beacon/web2/load',
  'salt/beacon/web1/',
  'salt/beacon/web1',
  'salt/auth',
  'salt/key',
  'key',
  'salt/run/20240102030405678000/new',
  'salt/wheel/20240102030405678000/ret',
  `salt/job/${jid}/ret/web1`,
  `salt/job/${jid}/new`,
  'salt/presence/change',
  'resource/refresh/web1',
  'Salt/minion/web1/start',
  'salt//minion/web1/start',
  'minion_start\n\nsalt/auth',
  '',
  'my/site/tag',
]) {
  test(`a minion may not emit ${JSON.stringify(tag)}`, (t) => {
    t.is(signal('web1', tag, [jid]).effect, 'deny');
  });
}

test('progress is permitted only to the minion that the job was published to', (t) => {
  t.is(signal('web1', `salt/job/${jid}/prog/web1/0`, [jid]).effect, 'allow');
  t.is(signal('web1', `salt/job/${jid}/prog/web1/0`).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/prog/web2/0`, [jid]).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/prog/web1/x`, [jid]).effect, 'deny');
});

test('the start of a job is permitted only to the minion that it was published to', (t) => {
  t.is(signal('web1', `salt/job/${jid}/start/web1`, [jid]).rule, 'own-job-start');
  t.is(signal('web1', `salt/job/${jid}_4711/start/web1`, [`${jid}_4711`]).effect, 'allow');
  t.is(signal('web1', `salt/job/${jid}/start/web1`).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/start/web2`, [jid]).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/start/`, [jid]).effect, 'deny');
});

test('beacon tags may hold control characters for nobody', (t) => {
  const decision = signal('web1', 'salt/beacon/web1/x\nsalt/auth');
  t.is(decision.effect, 'deny');
  t.is(decision.rule, 'well-formed-tag');
});

test('a tag that does not contain the sender is never permitted beyond the three plain ones', (t) => {
  const plain = ['minion_start', 'minion_ping', '_salt_error'];
  const anyTag = fc.string({ unit: 'binary', maxLength: 60 });
  const property = fc.property(anyTag, (tag) => {
    fc.pre(!tag.includes('a-very-particular-id') && !plain.includes(tag));
    return signal('a-very-particular-id', tag, [jid]).effect === 'deny';
  });
  t.notThrows(() => fc.assert(property));
});

function returning(id: string, fun: string | string[], minions: string[] | undefined): Decision {
  return decide({
    subject: { kind: 'minion', id },
    action: 'return',
    resource: {
      jid,
      fun,
      job: minions === undefined ? undefined : { minions: new Set(minions), fun: 'test.ping' },
    },
  });
}

test('a return is permitted for a job that was published to the sender', (t) => {
  t.is(returning('web1', 'test.ping', ['web1', 'web2']).effect, 'allow');
});

test('a return is denied for a job of others, an unknown job and another function', (t) => {
  t.is(returning('web1', 'test.ping', ['web2']).rule, 'addressee-only');
  t.is(returning('web1', 'test.ping', undefined).rule, 'known-job');
  t.is(returning('web1', 'test.pong', ['web1']).rule, 'published-function');
  t.is(returning('web1', ['test.ping', 'cmd.run'], ['web1']).rule, 'published-function');
});

test('a self-made job needs no publication', (t) => {
  const decision = decide({
    subject: { kind: 'minion', id: 'web1' },
    action: 'return',
    resource: { jid: 'req', fun: 'state.apply', job: undefined },
  });
  t.is(decision.effect, 'allow');
});
