import { parseReturnLoad, type WireMap } from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import type { ReturnKeeper } from '../jobs/returns.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { Throttle } from '../limits/throttle.ts';
import type { Meter } from '../metrics/meter.ts';
import { type Handler, send, sendLater, Unanswered } from './request.ts';
import { requestMark } from './request-mark.ts';
import type { SignatureCheck } from './signature-check.ts';

/** What the handler of `_return` needs. */
export interface ReturnHandlerOptions {
  readonly keeper: ReturnKeeper;
  readonly signatures: SignatureCheck;
  readonly counters: RequestCounters;
  readonly meter: Meter;
  /** Meters returns that are repeated or refused; the first one to a job counts against nothing. */
  readonly requestRate: Throttle;
  /** Largest return that is kept, bytes as sent (`return_bytes`). */
  readonly maxBytes: number;
}

/**
 * `_return`: the result of a job [WIRE 9.4]. Minions take any answer for an acknowledgement, so
 * there is none for a return that could not be kept: without it they send again, three times in
 * all (`return_retry_tries`).
 */
export function returnHandler(options: ReturnHandlerOptions): Handler {
  return async (request) => {
    const { minionId, load, bytes } = request;
    const parsed = parseReturnLoad(bytes > options.maxBytes ? withoutValue(load, options) : load);
    if (minionId === undefined || !parsed.ok) {
      options.counters.count('malformed-return');
      return send(null);
    }
    const isPermitted = options.signatures.permits(request);
    if (isPermitted !== true && !(await isPermitted)) return send(false);
    const markOf = (): string => requestMark(request);
    const outcome = await options.keeper.take(minionId, parsed.value, markOf).catch(notKept);
    if (outcome === 'stored' || outcome === 'told') {
      options.meter.countReturn();
      return send(null);
    }
    options.counters.count(
      outcome === 'repeated' ? 'repeated-return' : `return-${outcome.refused}`,
    );
    const isNext = options.requestRate.pass(minionId);
    if (isNext === false) throw new Unanswered('too-many-waiting');
    return sendLater(outcome === 'repeated' ? null : false, isNext);
  };
}

function notKept(cause: unknown): never {
  if (cause instanceof StoreError) throw new Unanswered('return-not-kept', { cause });
  throw cause;
}

/** In place of a value that is too large: the job says so, instead of waiting in vain. */
function withoutValue(load: WireMap, { maxBytes, counters }: ReturnHandlerOptions): WireMap {
  counters.count('return-bytes');
  const text = `The return is too large: more than ${maxBytes} bytes (return_bytes).`;
  return { ...load, return: text, retcode: 1, success: false, out: 'nested' };
}
