/** The worker thread that renders: one order at a time. */

import { parentPort } from 'node:worker_threads';
import type { RenderOrder } from './render-task.ts';
import { handleTask, ReceivedFiles } from './render-template.ts';

const files = new ReceivedFiles();

parentPort?.on('message', (order: RenderOrder) => {
  parentPort?.postMessage(handleTask(order, files));
});
parentPort?.postMessage('ready');
