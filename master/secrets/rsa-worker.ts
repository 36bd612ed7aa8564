/** The worker thread's side of the pool: takes a task, answers with its result. */
import { parentPort } from 'node:worker_threads';
import { performRsa, type RsaTask } from './rsa-work.ts';

parentPort?.on('message', ({ id, task }: { id: number; task: RsaTask }) => {
  try {
    parentPort?.postMessage({ id, result: performRsa(task) });
  } catch (error) {
    parentPort?.postMessage({ id, error });
  }
});
