import test from 'ava';
import { benchSignalCrash } from '../bench/signals/crash.ts';
import { type Emitted, judge } from '../bench/signals/judge.ts';

test('a master killed while minions signal delivers all that it acknowledged, in order', async (t) => {
  t.timeout(180_000);
  const figures = await benchSignalCrash({
    kills: 3,
    seed: 20_261_121,
    minions: 10,
    signals: 100,
  });
  const none = { lost: 0, permittedLost: 0, otherIds: 0, outOfOrder: 0, dead: 0 };
  t.like(figures, { kills: 3, acknowledged: 100, ...none });
  t.true(figures.permitted > 50, `the audit log names ${figures.permitted} signals`);
  t.true(figures.harmed > 0, 'the endpoint harmed nothing');
});

/** Signals of one minion for one handle. Each was acknowledged before the next was sent. */
const sent: readonly Emitted[] = [1, 2, 3].map((number) => ({
  handle: 'h',
  minion: 'm',
  number,
  sentAt: number * 10,
  endedAt: number * 10 + 5,
  isAcknowledged: true,
}));

function arrived(...numbers: readonly number[]) {
  return numbers.map((number) => ({ handle: 'h', id: 'm', minion: 'm', number }));
}

test('the judge of signals reports lost, renamed and reordered signals', (t) => {
  const well = { lost: 0, permittedLost: 0, otherIds: 0, outOfOrder: 0 };
  t.deepEqual(judge(sent, arrived(1, 1, 2, 3, 3), []), well);
  t.deepEqual(judge(sent, arrived(1, 3), []), { ...well, lost: 1 });
  t.deepEqual(judge(sent, arrived(1, 3, 2), []), { ...well, outOfOrder: 1 });
  t.deepEqual(judge(sent, arrived(1, 2, 1, 3), []), { ...well, outOfOrder: 1 });
  const other = { handle: 'h', id: 'm2', minion: 'm', number: 2 };
  t.deepEqual(judge(sent, [...arrived(1), other, ...arrived(3)], []), { ...well, otherIds: 1 });
});

test('the judge of signals reports signals that the audit log permitted and no handle got', (t) => {
  const [first, second, third] = sent;
  if (first === undefined || second === undefined || third === undefined) return t.fail();
  // The second signal was never answered. Only the log contains it.
  const emitted = [first, { ...second, isAcknowledged: false }, third];
  const line = (at: number, minion = 'm') => ({ handle: 'h', minion, at });
  const lost = (at: number, minion?: string): number =>
    judge(emitted, arrived(1, 3), [line(at, minion)]).permittedLost;
  t.deepEqual([lost(10), lost(15), lost(32)], [0, 0, 0]);
  t.is(lost(22), 1);
  t.is(lost(17), 1, 'nothing was under way');
  t.is(lost(12, 'm2'), 1);
  t.is(judge(emitted, arrived(1, 3), []).lost, 0);
});
