/** The thread that compares one password. */

import { parentPort, workerData } from 'node:worker_threads';
import { compareSync } from 'bcryptjs';

const { password, kept }: { readonly password: string; readonly kept: string } = workerData;
parentPort?.postMessage(compareSync(password, kept));
