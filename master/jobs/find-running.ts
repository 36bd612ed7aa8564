import type { WireValue } from '../../minion-protocol/index.ts';
import type { JobDispatcher } from './dispatcher.ts';
import type { JobReturn } from './job.ts';

/**
 * Which of these minions answer `saltutil.find_job` with more than an empty map. The round ends
 * when all do so, or after its time: who says that it runs no such job may have ended it just now,
 * with the return still on its way, or not have begun [salt/client/__init__.py get_iter_returns].
 */
export async function findRunning(
  dispatcher: Pick<JobDispatcher, 'publishUnkept'>,
  jid: string,
  minions: readonly string[],
  gatherMs: number,
  end: AbortSignal,
): Promise<Set<string>> {
  const running = new Set<string>();
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const timer = setTimeout(finish, gatherMs);
  end.addEventListener('abort', finish, { once: true });
  const note = (result: JobReturn): void => {
    if (isRunningJob(result.return)) running.add(result.minion);
    if (running.size === minions.length) finish();
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
