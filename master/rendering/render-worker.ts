/** The worker thread that renders: one order at a time. */
import { parentPort } from 'node:worker_threads';
import { carryOut, ReceivedFiles } from './carry-out.ts';
import type { Order } from './messages.ts';

const files = new ReceivedFiles();

parentPort?.on('message', (order: Order) => {
  parentPort?.postMessage(carryOut(order, files));
});
parentPort?.postMessage('ready');
