/**
 * Program with the simulated minions. It runs in a process of its own, and the process of the
 * master sends it orders.
 */

import { errorMessage } from '#runtime';
import { acceptAll } from './accept.ts';
import { importKey, swarmId } from './keys.ts';
import { type Known, type SealedLoad, SwarmMinion } from './minion.ts';
import type { Order } from './orders.ts';
import { PublicationReader } from './publications.ts';
import { Dealer, subscribe } from './zmtp-client.ts';

const minions: SwarmMinion[] = [];
let dealers: Dealer[] = [];
let known: Known | undefined;
let sealedEvents: readonly [SwarmMinion, SealedLoad][] = [];
const publications = new PublicationReader();

async function carryOut(order: Order): Promise<void> {
  switch (order.do) {
    case 'accept':
      return acceptAll(order.pkiDir, order.count, order.keys);
    case 'enlist': {
      const keys = order.keys.map(importKey);
      dealers = Array.from({ length: order.connections }, () => new Dealer(order.requestPort));
      const first = order.first ?? 0;
      for (let index = first; index < first + order.count; index += 1) {
        const [key] = keys.slice(index % keys.length);
        const [dealer] = dealers.slice(index % dealers.length);
        if (key === undefined || dealer === undefined)
          throw new Error('send the orders for keys and connections first');
        minions.push(new SwarmMinion(swarmId(index), index, key, dealer));
      }
      return;
    }
    case 'sign-in':
      if (order.isAnew === true) for (const minion of minions) minion.forgetSession();
      // The shared data is fetched each time, because the publish key may have changed.
      known = await minions[0]?.signIn(undefined);
      await inParallel(order.concurrency, minions.length, async (index) => {
        await minions[index]?.signIn(known);
      });
      return;
    case 'subscribe':
      await inParallel(200, minions.length, async (index) => {
        const minion = minions[index];
        await subscribe(order.publishPort, (publication) => {
          minion?.obey(publication, publications).catch(fail);
        });
      });
      return;
    case 'seal-events':
      sealedEvents = Array.from({ length: order.count }, (_, index) => sealEvent(index));
      return;
    case 'events':
      await inParallel(order.concurrency, sealedEvents.length, async (index) => {
        const [minion, event] = sealedEvents[index] ?? [];
        if (event !== undefined) await minion?.send(event);
      });
      return;
    case 'files':
      await inParallel(order.count, order.count, async (index) => {
        await minions[index]?.fetchFile(order.path);
      });
      return;
    case 'file-lists':
      await inParallel(order.count, order.count, async (index) => {
        await minions[index]?.ask({ cmd: '_file_list', saltenv: 'base', prefix: '' });
      });
      return;
    case 'pillars':
      await inParallel(order.concurrency, order.count, async (index) => {
        await minions[index % minions.length]?.askPillar();
      });
      return;
  }
}

function sealEvent(index: number): [SwarmMinion, SealedLoad] {
  const minion = minions[index % minions.length];
  if (minion === undefined)
    throw new Error('no simulated minions are connected: send the order enlist first');
  const tag = `salt/beacon/${minion.id}/bench/${index}`;
  return [minion, minion.seal({ cmd: '_minion_event', tag, data: { index }, pretag: null })];
}

async function inParallel(
  concurrency: number,
  count: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, worker));
}

function fail(error: unknown): void {
  process.send?.({ error: errorMessage(error) });
}

process.on('message', (order: Order) => {
  const startedAt = performance.now();
  carryOut(order).then(
    () => process.send?.({ done: order.do, ms: performance.now() - startedAt }),
    fail,
  );
});
process.on('disconnect', () => process.exit(0));
