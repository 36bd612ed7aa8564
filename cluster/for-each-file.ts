import { Semaphore } from '#runtime';
import { clusterLimits } from './limits.ts';

/**
 * Processes many files, several at a time. Resolves when all have finished.
 * @throws the error of the first file that failed
 */
export async function forEachFile<T>(
  files: Iterable<T>,
  work: (file: T) => Promise<void>,
): Promise<void> {
  const limit = new Semaphore(clusterLimits.filesAtOnce);
  const ends = await Promise.allSettled(Array.from(files, (file) => limit.run(() => work(file))));
  const failed = ends.find((it) => it.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
