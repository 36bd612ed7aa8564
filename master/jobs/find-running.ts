import type { WireValue } from '../../minion-protocol/index.ts';
import type { JobDispatcher } from './dispatcher.ts';
import type { JobReturn } from './job.ts';

/** Which of these minions answer `saltutil.find_job` with more than an empty map. */
export async function findRunning(
  dispatcher: Pick<JobDispatcher, 'publishUnkept'>,
  jid: string,
  minions: readonly string[],
  gatherMs: number,
  end: AbortSignal,
): Promise<Set<string>> {
  const running = new Set<string>();
  let missing = minions.length;
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const timer = setTimeout(finish, gatherMs);
  end.addEventListener('abort', finish, { once: true });
  const note = (result: JobReturn): void => {
    if (isRunningJob(result.return)) running.add(result.minion);
    missing -= 1;
    if (missing === 0) finish();
  };
  let stopListening = (): void => {};
  try {
    stopListening = await dispatcher.publishUnkept(minions, 'saltutil.find_job', [jid], note);
    await finished;
  } finally {
    stopListening();
    clearTimeout(timer);
    end.removeEventListener('abort', finish);
  }
  return running;
}

function isRunningJob(value: WireValue): boolean {
  if (value === null || typeof value !== 'object') return false;
  return value instanceof Map ? value.size > 0 : Object.keys(value).length > 0;
}
