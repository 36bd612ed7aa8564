import type { JobCache } from './job-cache.ts';

/** A job id that no job has: the clock may have gone back since an earlier run of the master. */
export async function freshJid(
  nextJid: () => string,
  jobs: Pick<JobCache, 'find'>,
): Promise<string> {
  for (;;) {
    const jid = nextJid();
    if ((await jobs.find(jid)) === undefined) return jid;
  }
}
