/** A worker thread with a master: starts with the options in `workerData`, ends at a message. */

import { parentPort, workerData } from 'node:worker_threads';
import { resolveMasterConfig } from '#config';
import { createMaster } from '#server';

const master = createMaster({ config: resolveMasterConfig(workerData) });
await master.start();
parentPort?.once('message', () => void master.close());
parentPort?.postMessage('ready');
