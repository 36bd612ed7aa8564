/** What became of a job at each minion that it was for, and, where nothing came, why. */
import type { JobRecord, JobReturn } from './job.ts';
import { isFailureCode } from './retcode.ts';

/** How a minion stands to a job. */
export type DeliveryState =
  /** It returned. */
  | 'answered'
  /** It returned, and says that it failed. */
  | 'failed'
  /** It said, when it was asked, that it is still at it. */
  | 'running'
  /** Somebody still waits for it. */
  | 'waiting'
  /** It had not come back from a restart of the master in time for the job. */
  | 'reconnecting'
  /** Nothing came, and nobody waits. */
  | 'silent';

/** Why nothing came, as far as a master can know. */
export type SilenceReason =
  /** Its key is not accepted, or no longer. */
  | 'key-not-accepted'
  /** Not heard since the start of this master. */
  | 'never-heard'
  /** Heard last before the job was published. */
  | 'not-heard-since'
  /** Some subscribers, perhaps this one, were passed over because their queue was full. */
  | 'queue-full'
  /** It was heard after the job was published, but returned nothing. */
  | 'no-return';

/** One minion's line in the ledger of a job. */
export interface Delivery {
  readonly minion: string;
  readonly state: DeliveryState;
  /** When its return was taken, milliseconds since 1970. */
  readonly receivedAt?: number;
  /** For silent ones. */
  readonly reason?: SilenceReason;
  /** When its last verified request came, milliseconds since 1970, for silent and reconnecting ones. */
  readonly lastHeardAt?: number;
}

/** What the rest of the master knows of minions. */
export interface MinionFacts {
  readonly isAccepted: (minionId: string) => boolean;
  /** Milliseconds since 1970; `undefined`: not since the start. */
  readonly lastHeardAt: (minionId: string) => number | undefined;
  /**
   * Whether it is away after a restart of the master, or came back too late for a job that was
   * published meanwhile.
   * @param publishedAt milliseconds since 1970
   */
  readonly isReconnecting: (minionId: string, publishedAt: number) => boolean;
}

/** What counts of a return. */
export type LedgerReturn = Pick<JobReturn, 'minion' | 'resource' | 'retcode' | 'receivedAt'>;

/** What is known of one job's returns. */
export interface JobProgress {
  readonly returns: readonly LedgerReturn[];
  /** Minions that are known to be at it. */
  readonly running: ReadonlySet<string>;
  /** Whether somebody waits for the minions that have not returned. */
  readonly isFollowed: boolean;
}

/** The ledger: a line for each minion that the job was for, in the order of the record. */
export function describeDeliveries(
  record: Pick<JobRecord, 'minions' | 'missing' | 'publishedAt' | 'skipped'>,
  progress: JobProgress,
  facts: MinionFacts,
): Delivery[] {
  const returns = decisiveReturns(progress.returns);
  return [...record.minions, ...record.missing].map((minion) => {
    const result = returns.get(minion);
    if (result !== undefined) {
      const state = isFailureCode(result.retcode) ? 'failed' : 'answered';
      return { minion, state, receivedAt: result.receivedAt };
    }
    if (progress.running.has(minion)) return { minion, state: 'running' };
    const isWaitedFor = progress.isFollowed && !record.missing.includes(minion);
    return isWaitedFor ? { minion, state: 'waiting' } : explainSilence(minion, record, facts);
  });
}

/** What counts of a return, without its value. */
export function forLedger({ minion, resource, retcode, receivedAt }: JobReturn): LedgerReturn {
  return { minion, retcode, receivedAt, ...(resource === undefined ? {} : { resource }) };
}

/** A minion's own return, or one of its resources; one that failed counts before others. */
function decisiveReturns(returns: readonly LedgerReturn[]): Map<string, LedgerReturn> {
  const decisive = new Map<string, LedgerReturn>();
  for (const result of returns) {
    const isOwn = result.resource === undefined;
    const known = decisive.get(result.minion);
    const hasFailed = known !== undefined && isFailureCode(known.retcode);
    if (known === undefined || isFailureCode(result.retcode) || (isOwn && !hasFailed)) {
      decisive.set(result.minion, result);
    }
  }
  return decisive;
}

function explainSilence(
  minion: string,
  { publishedAt, skipped = 0 }: Pick<JobRecord, 'publishedAt' | 'skipped'>,
  { isAccepted, lastHeardAt, isReconnecting }: MinionFacts,
): Delivery {
  const heardAt = lastHeardAt(minion);
  const heard = heardAt === undefined ? {} : { lastHeardAt: heardAt };
  const silent = (reason: SilenceReason): Delivery => ({
    minion,
    state: 'silent',
    reason,
    ...heard,
  });
  if (!isAccepted(minion)) return silent('key-not-accepted');
  if (isReconnecting(minion, publishedAt)) return { minion, state: 'reconnecting', ...heard };
  if (heardAt !== undefined && heardAt >= publishedAt) return silent('no-return');
  if (skipped > 0) return silent('queue-full');
  return silent(heardAt === undefined ? 'never-heard' : 'not-heard-since');
}
