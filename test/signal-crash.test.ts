import test from 'ava';
import { benchSignalCrash } from '../bench/signals/crash.ts';
import { type Acknowledged, judge } from '../bench/signals/judge.ts';

test('a master killed while minions signal delivers all that it acknowledged, in order', async (t) => {
  t.timeout(180_000);
  const figures = await benchSignalCrash({
    kills: 3,
    seed: 20_261_121,
    minions: 10,
    signals: 100,
  });
  t.like(figures, { kills: 3, acknowledged: 100, lost: 0, otherIds: 0, outOfOrder: 0, dead: 0 });
  t.true(figures.harmed > 0, 'the endpoint harmed nothing');
});

/** Signals of one minion for one handle, each acknowledged before the next was sent. */
const sent: readonly Acknowledged[] = [1, 2, 3].map((number) => ({
  handle: 'h',
  minion: 'm',
  number,
  sentAt: number * 10,
  acknowledgedAt: number * 10 + 5,
}));

function arrived(...numbers: readonly number[]) {
  return numbers.map((number) => ({ handle: 'h', id: 'm', minion: 'm', number }));
}

test('the judge of signals tells what was lost, under another id, or out of order', (t) => {
  const well = { lost: 0, otherIds: 0, outOfOrder: 0 };
  t.deepEqual(judge(sent, arrived(1, 1, 2, 3, 3)), well);
  t.deepEqual(judge(sent, arrived(1, 3)), { ...well, lost: 1 });
  t.deepEqual(judge(sent, arrived(1, 3, 2)), { ...well, outOfOrder: 1 });
  t.deepEqual(judge(sent, arrived(1, 2, 1, 3)), { ...well, outOfOrder: 1 });
  const other = { handle: 'h', id: 'm2', minion: 'm', number: 2 };
  t.deepEqual(judge(sent, [...arrived(1), other, ...arrived(3)]), { ...well, otherIds: 1 });
});
