/** The worker thread's side of the pool: takes tasks, answers with their results. */

import { parentPort } from 'node:worker_threads';
import { type RsaAnswer, type RsaOrder, RsaWork } from './rsa-pool.ts';

/** Answers that are sent together: few enough that the first does not wait long for the last. */
const together = 4;

const work = new RsaWork();

parentPort?.on('message', (orders: readonly RsaOrder[]) => {
  for (let start = 0; start < orders.length; start += together) {
    parentPort?.postMessage(orders.slice(start, start + together).map(handleTask));
  }
});

function handleTask({ id, task }: RsaOrder): RsaAnswer {
  try {
    return { id, result: work.perform(task) };
  } catch (error) {
    return { id, error };
  }
}
