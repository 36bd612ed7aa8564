/** Worker thread that renders templates and parses texts, one at a time. */

import { parentPort } from 'node:worker_threads';
import { handleTask, ReceivedFiles } from './handle-task.ts';
import type { RenderOrder } from './render-messages.ts';

const files = new ReceivedFiles();

parentPort?.on('message', (order: RenderOrder) => {
  parentPort?.postMessage(handleTask(order, files));
});
parentPort?.postMessage('ready');
