import type { Logger } from 'pino';
import type { WireValue } from '#minion-protocol';
import { type Rate, TokenBuckets } from '#runtime';
import type { JobReturn } from '../api/index.ts';
import { trimValues } from '../events/index.ts';
import { jobLimits } from './limits.ts';

/** Text that replaces a value, as in Salt [salt/utils/dicttrim.py]. */
const trimmed = 'VALUE_TRIMMED';
/** Maximum size of a value that is stored even if the limit is exceeded, in bytes. */
const smallValue = 256;

/**
 * Limits the rate at which the returns of each user's jobs are stored, in bytes. The limit is
 * `returnBytes` of the job limits. `limitOwnerOf` returns the names under which users are counted.
 */
export class ReturnBytes {
  readonly #log: Pick<Logger, 'warn'> | undefined;
  readonly #buckets: TokenBuckets;
  readonly #logLines = new TokenBuckets(jobLimits.trimmedReturnLog);

  /**
   * @param log - log for warnings about trimmed returns. Default: they are not logged
   * @param rate - rate to use instead of that of `returnBytes`
   */
  constructor(log?: Pick<Logger, 'warn'>, rate?: Rate) {
    this.#log = log;
    this.#buckets = new TokenBuckets(jobLimits.returnBytes, undefined, rate);
  }

  /**
   * Converts a minion's return to the form in which it is stored. If the user has used up the
   * limit, replaces each large value in it by `VALUE_TRIMMED`.
   * @param owner - user of the job, or `undefined` if no limit applies
   */
  fit(owner: string | undefined, jid: string, result: JobReturn): JobReturn {
    if (owner === undefined || this.#buckets.has(owner)) return result;
    const kept = trimReturn(result);
    if (kept !== result && this.#logLines.tryTake(owner)) this.#warn(owner, jid);
    return kept;
  }

  /** Counts stored bytes towards the limit of a user. */
  note(owner: string | undefined, bytes: number): void {
    if (owner !== undefined) this.#buckets.take(owner, bytes);
  }

  /** Reverts {@link note} for a return that was not stored. */
  giveBack(owner: string | undefined, bytes: number): void {
    if (owner !== undefined) this.#buckets.give(owner, bytes);
  }

  #warn(owner: string, jid: string): void {
    this.#log?.warn(
      { owner, jid },
      'the returns of this user exceed the limit of stored bytes (jobs.returnBytes): large values are stored as VALUE_TRIMMED; events contain them',
    );
  }
}

/**
 * Returns the given return if all its values are small. Otherwise returns a copy in which the large
 * values are replaced.
 */
function trimReturn(result: JobReturn): JobReturn {
  const { fun, return: value, retcode, success, out } = result;
  const isFunSmall = isSmall(typeof fun === 'string' ? fun : [...fun]);
  const areSmall = [value, retcode, success, out ?? null].every(isSmall) && isFunSmall;
  if (areSmall) return result;
  return {
    ...result,
    fun: isFunSmall ? fun : trimmed,
    return: fitted(value),
    retcode: fitted(retcode),
    success: fitted(success),
    ...(out === undefined || isSmall(out) ? {} : { out: trimmed }),
  };
}

function isSmall(value: WireValue): boolean {
  return fitted(value) === value;
}

function fitted(value: WireValue): WireValue {
  return trimValues({ value }, smallValue).value ?? null;
}
