/** Worker thread that generates key pairs. It blocks neither the main thread nor libuv's pool. */

import { parentPort } from 'node:worker_threads';
import { generateKeyPairSync } from '#minion-protocol/rsa-keys.ts';

parentPort?.on('message', (bits: number) => parentPort?.postMessage(generateKeyPairSync(bits)));
parentPort?.postMessage('ready');
