/**
 * Program with the soak's minions. It runs in a process of its own, produces the load and counts
 * the results.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { importKey } from '../swarm/keys.ts';
import { PublicationReader } from '../swarm/publications.ts';
import { SoakMinion } from './minion.ts';
import type { SoakOrder } from './orders.ts';
import { Tally } from './tally.ts';

/** Interval at which due requests are sent, in milliseconds. */
const tickMs = 10;
/**
 * If more requests are waiting for a reply than are due in this time, in seconds, due events are
 * left out.
 */
const secondsUnderWay = 5;

const tally = new Tally();
let minions: readonly SoakMinion[] = [];
let ticker: NodeJS.Timeout | undefined;

async function execute(order: SoakOrder): Promise<void> {
  switch (order.do) {
    case 'enlist': {
      const { ids, requestPort, publishPort } = order;
      const keys = order.keys.map(importKey);
      const swarm = {
        requestPort,
        publishPort,
        tally,
        publications: new PublicationReader(),
        fail,
      };
      minions = ids.flatMap((id, index) => {
        const key = keys[index % keys.length];
        return key === undefined ? [] : [new SoakMinion(id, key, swarm)];
      });
      return;
    }
    case 'start':
      await Promise.all(minions.map((minion) => minion.start()));
      return;
    case 'load':
      keepUp(order.eventsPerSecond, order.reconnectsPerSecond);
      return;
    case 'report':
      return;
    case 'rest':
      clearInterval(ticker);
      return;
    case 'drain': {
      const end = performance.now() + order.graceMs;
      while (tally.waiting > 0 && performance.now() < end) await pause(tickMs);
      return;
    }
  }
}

/**
 * Sends all requests that have become due since the start, so that delays of the timer do not
 * change the rate. If too many requests wait for a reply, events are left out.
 */
function keepUp(eventsPerSecond: number, reconnectsPerSecond: number): void {
  const startedAt = performance.now();
  let fired = 0;
  let reconnected = 0;
  ticker = setInterval(() => {
    const seconds = (performance.now() - startedAt) / 1000;
    for (; fired < seconds * eventsPerSecond; fired += 1) {
      if (tally.waiting > eventsPerSecond * secondsUnderWay) continue;
      minions[fired % minions.length]?.fire(fired).catch(fail);
    }
    for (; reconnected < seconds * reconnectsPerSecond; reconnected += 1) {
      // Minions are chosen with a stride, so that minions with consecutive indices do not reconnect
      // together.
      minions[(reconnected * 37) % minions.length]?.reconnect();
    }
  }, tickMs);
}

function fail(error: unknown): void {
  process.send?.({ failure: describe(error) });
}

function describe(error: unknown): string {
  return error instanceof Error ? String(error.stack) : String(error);
}

process.on('message', (order: SoakOrder) => {
  execute(order).then(
    () => process.send?.({ counts: tally.counts() }),
    (error: unknown) => process.send?.({ error: describe(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
