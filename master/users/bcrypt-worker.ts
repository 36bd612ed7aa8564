/** Worker thread that compares passwords with bcrypt. */

import { parentPort } from 'node:worker_threads';
import { compareSync } from 'bcryptjs';

/** Password, and the bcrypt digest to compare it with. */
export interface BcryptTask {
  readonly password: string;
  readonly kept: string;
}

parentPort?.on('message', ({ password, kept }: BcryptTask) => {
  parentPort?.postMessage(compareSync(password, kept));
});
parentPort?.postMessage('ready');
