/** Time of the centre at a site, after the clock of the centre was wrong. */

import test from 'ava';
import { CentreTime } from '#edge/identity/centre-time.ts';
import { timeProblemOf } from '#edge/orders/order.ts';
import { dayMs, memoryRows } from './bundles/tuf-stage.ts';

const yearMs = 365 * dayMs;
const start = 100 * yearMs;

/** Site whose centre has signed a time that is a year ahead. */
async function stage() {
  const site = { now: start };
  const rows = memoryRows({ now: 0 });
  const open = (): Promise<CentreTime> => CentreTime.open(rows, () => site.now);
  const time = await open();
  await time.note(start + yearMs);
  return { site, open, time };
}

test('a site corrects the time of its centre when the centre and its own clock agree', async (t) => {
  const { site, open, time } = await stage();
  t.is(time.floor, start + yearMs);
  t.is((await open()).floor, start + yearMs, 'after a restart');
  t.true(await time.note(start + 1000));
  t.is(time.floor, start + 1000);
  t.is(time.correctedAt, start + 1000);
  const again = await open();
  t.is(again.floor, start + 1000);
  t.is(again.correctedAt, start + 1000);
  site.now = start + dayMs;
  t.false(await again.note(site.now));
  t.is((await open()).correctedAt, start + 1000, 'a later time keeps the correction');
});

test('a wrong clock of the site or of the centre alone does not set the time back', async (t) => {
  const { site, open, time } = await stage();
  // The clock of the site was right, and is set back by a year. The centre signs the right time.
  site.now = start;
  t.false(await time.note(start + yearMs + 1000));
  // Only the centre signs an earlier time.
  site.now = start + yearMs;
  t.false(await time.note(start));
  // Both are earlier, but they differ.
  site.now = start;
  t.false(await time.note(start + 2 * 3_600_000));
  t.false(await time.note(start - 2 * 3_600_000));
  // Members of a centre may differ by minutes.
  site.now = start + yearMs - 60_000;
  t.false(await time.note(site.now));
  t.is(time.floor, start + yearMs + 1000);
  t.is((await open()).correctedAt, 0);
});

test('after a correction a site refuses orders of which it may have deleted the record', (t) => {
  const order = (issuedAt: number, validMs = dayMs) => ({
    issuedAt,
    validUntil: issuedAt + validMs,
  });
  const times = { now: start + 1000, correctedAt: start };
  t.is(timeProblemOf(order(start), times), undefined);
  t.is(timeProblemOf(order(start - 1, 2 * dayMs), { now: start, correctedAt: 0 }), undefined);
  t.regex(timeProblemOf(order(start - 1), times) ?? '', /before .* corrected .* issue it again/);
  t.regex(timeProblemOf(order(start + yearMs), times) ?? '', /clock of the centre was ahead/);
  t.regex(timeProblemOf(order(start - 2 * dayMs), times) ?? '', /expired.*restart the master/);
  t.regex(timeProblemOf(order(2 ** 53 - 1, 0), times) ?? '', /ahead/);
});
