import { Semaphore } from '#runtime';

const filesAtATime = 16;

/**
 * Does the same with each of many files, several at a time. Resolves when none is under way.
 * @throws what the first one that failed did
 */
export async function forEachFile<T>(
  files: Iterable<T>,
  work: (file: T) => Promise<void>,
): Promise<void> {
  const limit = new Semaphore(filesAtATime);
  const ends = await Promise.allSettled(Array.from(files, (file) => limit.run(() => work(file))));
  const failed = ends.find((it) => it.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
