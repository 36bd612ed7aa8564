import test from 'ava';
import { describeDeliveries, type MinionFacts } from '../../../master/jobs/follow-job.ts';

const publishedAt = 1000;
const record = { minions: ['m1'], missing: [], publishedAt };
const nobody = { returns: [], running: new Set<string>(), isFollowed: false };

function facts(lastHeardAt?: number, isAccepted = true, isReconnecting = false): MinionFacts {
  return {
    isAccepted: () => isAccepted,
    lastHeardAt: () => lastHeardAt,
    isReconnecting: () => isReconnecting,
  };
}

test('a return tells success or failure, by its retcode', (t) => {
  const states = [0, false, { 'test.ping': 0 }, 1, true, { 'test.ping': 0, 'cmd.run': 2 }].map(
    (retcode) => {
      const returns = [{ minion: 'm1', retcode, receivedAt: 2000 }];
      return describeDeliveries(record, { ...nobody, returns }, facts())[0]?.state;
    },
  );
  t.deepEqual(states, ['answered', 'answered', 'answered', 'failed', 'failed', 'failed']);
});

test('who says that it is at it is running, who is waited for is waiting', (t) => {
  const running = { ...nobody, running: new Set(['m1']), isFollowed: true };
  t.deepEqual(describeDeliveries(record, running, facts()), [{ minion: 'm1', state: 'running' }]);
  const followed = { ...nobody, isFollowed: true };
  t.deepEqual(describeDeliveries(record, followed, facts()), [{ minion: 'm1', state: 'waiting' }]);
});

test('a return counts more than what was said before it', (t) => {
  const returns = [{ minion: 'm1', retcode: 0, receivedAt: 2000 }];
  const progress = { returns, running: new Set(['m1']), isFollowed: true };
  const [line] = describeDeliveries(record, progress, facts());
  t.deepEqual(line, { minion: 'm1', state: 'answered', receivedAt: 2000 });
});

test('nobody waits for a name that has no key', (t) => {
  const missing = { minions: [], missing: ['m9'], publishedAt };
  const followed = { ...nobody, isFollowed: true };
  const [line] = describeDeliveries(missing, followed, facts(undefined, false));
  t.deepEqual(line, { minion: 'm9', state: 'silent', reason: 'key-not-accepted' });
});

test('who has not come back from a restart is reconnecting, unless its key is gone', (t) => {
  const state = (given: MinionFacts) => describeDeliveries(record, nobody, given)[0];
  const missed = facts(5000, true, true);
  t.deepEqual(state(missed), { minion: 'm1', state: 'reconnecting', lastHeardAt: 5000 });
  t.is(state(facts(5000, false, true))?.reason, 'key-not-accepted');
});

test('why nothing came: the first reason that is certain', (t) => {
  const reason = (given: MinionFacts, skipped = 0): unknown =>
    describeDeliveries({ ...record, skipped }, nobody, given)[0]?.reason;
  t.is(reason(facts(5000, false)), 'key-not-accepted');
  t.is(reason(facts(publishedAt), 3), 'no-return');
  t.is(reason(facts(publishedAt - 1), 3), 'queue-full');
  t.is(reason(facts(publishedAt - 1)), 'not-heard-since');
  t.is(reason(facts()), 'never-heard');
  t.is(reason(facts(), 1), 'queue-full');
});
