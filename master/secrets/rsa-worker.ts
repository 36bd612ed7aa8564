/** The worker thread's side of the pool: takes a task, answers with its result. */
import { parentPort } from 'node:worker_threads';
import { type RsaTask, RsaWork } from './rsa-work.ts';

const work = new RsaWork();

parentPort?.on('message', ({ id, task }: { id: number; task: RsaTask }) => {
  try {
    parentPort?.postMessage({ id, result: work.perform(task) });
  } catch (error) {
    parentPort?.postMessage({ id, error });
  }
});
