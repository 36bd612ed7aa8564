import type { LiveConfig } from '#config';
import { loadLimits, parseReturnLoad, type WireMap } from '#minion-protocol';
import type { Throttle } from '#runtime';
import { StoreError } from '#store';
import { DropConnectionError, type SignatureCheck, send, sendLater } from '../auth/index.ts';
import type { ReturnProcessor } from '../jobs/index.ts';
import type { Meter, RequestCounters } from '../metrics/index.ts';
import { requestDigest } from './request-digest.ts';
import { defineRequestType, type RequestType } from './request-type.ts';

export interface ReturnRequestOptions {
  readonly keeper: ReturnProcessor;
  readonly signatures: SignatureCheck;
  readonly counters: RequestCounters;
  readonly meter: Meter;
  /**
   * Rate limit for repeated and rejected returns. The first return of a minion for a job is not
   * limited.
   */
  readonly requestRate: Throttle;
  /**
   * Configuration. Only `return_bytes` is used: the maximum size of a request with a return, in
   * bytes.
   */
  readonly config: Pick<LiveConfig, 'current'>;
}

/**
 * Defines the request `_return`, with which a minion sends the result of a job [WIRE 9.4]. Minions
 * treat any reply as an acknowledgement. So if the master cannot store the return, it does not
 * reply. The minion then sends it again, up to three times (`return_retry_tries`).
 */
export function returnRequest(options: ReturnRequestOptions): RequestType {
  const { keeper, signatures, counters, meter, requestRate, config } = options;
  return defineRequestType({
    kind: 'write',
    needsToken: false,
    rate: 'own',
    isBrief: true,
    maxElements: loadLimits.maxElements,
    needsSlot: true,
    load: (load, { minionId, bytes }) => {
      const isTooLarge = bytes > config.current.limits.returnBytes;
      const parsed = parseReturnLoad(isTooLarge ? withoutValue(load, options) : load);
      if (minionId !== undefined && parsed.ok) return parsed.value;
      counters.count('malformed-return');
      return undefined;
    },
    malformed: () => send(null),
    handle: async (request, result) => {
      const { minionId = '' } = request;
      const isPermitted = signatures.permits(request);
      if (isPermitted !== true && !(await isPermitted)) return send(false);
      const markOf = (): string => requestDigest(request);
      const outcome = await keeper.take(minionId, result, markOf, request.bytes).catch(notKept);
      if (outcome === 'stored' || outcome === 'told') {
        meter.returns += 1;
        return send(null);
      }
      counters.count(outcome === 'repeated' ? 'repeated-return' : `return-${outcome.refused}`);
      const isNext = requestRate.pass(minionId);
      if (isNext === false) throw new DropConnectionError('too-many-waiting');
      return sendLater(outcome === 'repeated' ? null : false, isNext);
    },
  });
}

function notKept(cause: unknown): never {
  if (cause instanceof StoreError) throw new DropConnectionError('return-not-kept', { cause });
  throw cause;
}

/**
 * Replaces the value with a notice, and marks the return as failed. Called for returns that exceed
 * `return_bytes`. The job therefore still gets a return from the minion.
 */
function withoutValue(load: WireMap, { config, counters }: ReturnRequestOptions): WireMap {
  const maxBytes = config.current.limits.returnBytes;
  counters.count('return-bytes');
  const text = `The return is too large: more than ${maxBytes} bytes (return_bytes).`;
  return { ...load, return: text, retcode: 1, success: false, out: 'nested' };
}
