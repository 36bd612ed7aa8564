/** The worker thread that renders: one order at a time. */

import { parentPort } from 'node:worker_threads';
import { ReceivedFiles, handleTask } from './render-template.ts';
import type { RenderOrder } from './render-task.ts';

const files = new ReceivedFiles();

parentPort?.on('message', (order: RenderOrder) => {
  parentPort?.postMessage(handleTask(order, files));
});
parentPort?.postMessage('ready');
