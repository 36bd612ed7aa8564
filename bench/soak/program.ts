/** The process of the soak's swarm: it keeps up the load and counts what becomes of it. */
import { setTimeout as pause } from 'node:timers/promises';
import { importKey } from '../swarm/keys.ts';
import { PublicationReader } from '../swarm/publications.ts';
import { SoakMinion } from './minion.ts';
import type { SoakOrder } from './orders.ts';
import { Tally } from './tally.ts';

/** How often what is due is sent, milliseconds. */
const tickMs = 10;
/** Where more requests wait than are due in this time, events are left out. */
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
 * Sends what is due since the start, so that the rate holds whatever the timer does; but does not
 * pile up what nobody has the time to answer.
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
      // By a stride, so that those next to each other do not go together.
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
