/** The hybrid logical clock, with any course of the wall clock. */

import test from 'ava';
import fc from 'fast-check';
import { compareTimes, HybridClock } from '#edge/facts/hlc.ts';

test('times grow with each call, whatever the wall clock does', (t) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 1e6 }), { minLength: 2 }), (clock) => {
      let now = 0;
      const hybrid = new HybridClock(() => now);
      let before = hybrid.next();
      for (const ms of clock) {
        now = ms;
        const next = hybrid.next();
        if (compareTimes(next, before) <= 0 || next.ms < ms) return false;
        before = next;
      }
      return true;
    }),
  );
  t.pass();
});

// EDGE-C6 of docs/consistency.md
test('a received time is followed by a later one, unless it is too far ahead', (t) => {
  const times = fc.record({
    now: fc.integer({ min: 0, max: 1e6 }),
    ms: fc.integer({ min: 0, max: 2e6 }),
    count: fc.integer({ min: 0, max: 100 }),
  });
  fc.assert(
    fc.property(fc.array(times), (received) => {
      let now = 0;
      const hybrid = new HybridClock(() => now);
      let highest = 0;
      for (const { now: at, ms, count } of received) {
        now = at;
        highest = Math.max(highest, now);
        const last = hybrid.last;
        const isTaken = hybrid.receive({ ms, count }, 1000);
        if (isTaken !== ms <= now + 1000) return false;
        if (!isTaken && compareTimes(hybrid.last, last) !== 0) return false;
        if (isTaken && compareTimes(hybrid.next(), { ms, count }) <= 0) return false;
        // No received time can move the clock further than the bound.
        if (hybrid.last.ms > highest + 1001) return false;
      }
      return true;
    }),
  );
  t.pass();
});

test('a clock with a floor continues after it, and reset returns to the wall clock', (t) => {
  const hybrid = new HybridClock(() => 1000, { ms: 90_000, count: 7 });
  t.deepEqual(hybrid.next(), { ms: 90_000, count: 8 });
  hybrid.reset();
  t.deepEqual(hybrid.next(), { ms: 1000, count: 1 });
});

test('a full counter advances the milliseconds', (t) => {
  const hybrid = new HybridClock(() => 5, { ms: 5, count: 0xffff });
  t.deepEqual(hybrid.next(), { ms: 6, count: 0 });
});
