/** bcrypt, as `htpasswd -B` writes it; in a thread of its own, because it is made to be slow. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

const form = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;

/** Beyond that a core would be held for seconds. */
const maxCost = 14;

/** Whether a password is kept in this form, and can be compared in a reasonable time. */
export function isBcrypt(kept: string): boolean {
  const cost = Number(form.exec(kept)?.[1]);
  return cost >= 4 && cost <= maxCost;
}

/** @param kept for which {@link isBcrypt} holds */
export async function fitsBcrypt(password: string, kept: string): Promise<boolean> {
  const workerData = { password, kept };
  const worker = new Worker(new URL('./bcrypt-worker.js', import.meta.url), { workerData });
  try {
    const [fits] = await once(worker, 'message');
    return fits === true;
  } finally {
    await worker.terminate();
  }
}
