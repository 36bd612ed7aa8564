import { parseReturnLoad } from '../../minion-protocol/index.ts';
import type { ReturnKeeper } from '../jobs/returns.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { delay } from '../limits/delay.ts';
import type { TokenBuckets } from '../limits/token-bucket.ts';
import { type Handler, send } from './request.ts';

/** What the handler of `_return` needs. */
export interface ReturnHandlerOptions {
  readonly keeper: ReturnKeeper;
  readonly counters: RequestCounters;
  /** Meters returns that are repeated or refused; the first one to a job counts against nothing. */
  readonly requestRate: TokenBuckets;
}

/** `_return`: the result of a job [WIRE 9.4]. Minions ignore the answer, but it must come. */
export function returnHandler(options: ReturnHandlerOptions): Handler {
  return async ({ minionId, load }) => {
    const parsed = parseReturnLoad(load);
    if (minionId === undefined || !parsed.ok) {
      options.counters.count('malformed-return');
      return send(null);
    }
    const outcome = await options.keeper.take(minionId, parsed.value);
    if (outcome === 'stored' || outcome === 'told') return send(null);
    options.counters.count(
      outcome === 'repeated' ? 'repeated-return' : `return-${outcome.refused}`,
    );
    await delay(options.requestRate.take(minionId));
    return send(outcome === 'repeated' ? null : false);
  };
}
