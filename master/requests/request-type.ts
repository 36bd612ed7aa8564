/** Request types: one entry declares everything about a request that minions send. */

import type { WireMap } from '#minion-protocol';
import { type Handler, type Reply, send, type VerifiedRequest } from '../auth/index.ts';

/** Verified request whose id is proven by the minion's own key. */
export interface ProvenRequest extends VerifiedRequest {
  readonly minionId: string;
}

/** Properties of a request type for the request channel. */
interface RequestNature {
  /**
   * Effect of the request. `once`: it must have its effect only once; the channel answers a
   * repetition with the first reply. `write`: the handler recognises repetitions, or they are
   * harmless.
   */
  readonly kind: 'read' | 'write' | 'once';
  /**
   * Rate limit applied before the handler runs. `requests`: the minion's `requests_per_second`.
   * `own`: none, because the handler applies its own.
   */
  readonly rate: 'requests' | 'own';
  /**
   * Whether the connection handles its next request only after this one. This preserves the order
   * of requests that are only stored. Default: false.
   */
  readonly isBrief?: boolean;
}

/** Functions that read and handle the load of a request. */
interface LoadReading<R, L> {
  /** Rejects a request before its load is read, for instance because of its size. */
  readonly refuse?: (request: R) => Reply | undefined;
  /** Returns the typed load, or `undefined` if it is malformed. */
  readonly load: (load: WireMap, request: R) => L | undefined;
  /** Returns the reply to a malformed load. Default: an empty map. */
  readonly malformed?: (request: R) => Reply;
  readonly handle: (request: R, load: L) => Reply | Promise<Reply>;
}

/** Options of {@link defineRequestType} for requests that need a token. */
export interface ProvenRequestOptions<L> extends RequestNature, LoadReading<ProvenRequest, L> {
  /**
   * Whether requests without the minion's token are rejected. Minions of protocols 0 to 2 send the
   * token with some loads only [WIRE 9.1]. Without this check, any holder of the shared key could
   * act for another minion.
   */
  readonly needsToken: true;
}

/** Options of {@link defineRequestType} for requests that minions also send without a token. */
export interface OpenRequestOptions<L> extends RequestNature, LoadReading<VerifiedRequest, L> {
  readonly needsToken: false;
}

/** Entry of the table of request types, created by {@link defineRequestType}. */
export interface RequestType extends Required<RequestNature> {
  readonly needsToken: boolean;
  readonly handler: Handler;
}

/** Request types by the `cmd` of requests. */
export type RequestTypes = Readonly<Record<string, RequestType>>;

/** Defines a request type. */
export function defineRequestType<L>(
  options: ProvenRequestOptions<L> | OpenRequestOptions<L>,
): RequestType {
  const { kind, rate, isBrief = false, needsToken } = options;
  return { kind, rate, isBrief, needsToken, handler: handlerOf(options) };
}

function handlerOf<L>(options: ProvenRequestOptions<L> | OpenRequestOptions<L>): Handler {
  if (!options.needsToken) return readingHandler(options);
  const handle = readingHandler(options);
  return (request) => (hasId(request) ? handle(request) : send({}));
}

function readingHandler<R extends VerifiedRequest, L>({
  refuse,
  load: read,
  malformed,
  handle,
}: LoadReading<R, L>): (request: R) => Reply | Promise<Reply> {
  return (request) => {
    const refusal = refuse?.(request);
    if (refusal !== undefined) return refusal;
    const load = read(request.load, request);
    if (load === undefined) return malformed?.(request) ?? send({});
    return handle(request, load);
  };
}

/** Narrows the type. The channel has already rejected requests without a token. */
function hasId(request: VerifiedRequest): request is ProvenRequest {
  return request.minionId !== undefined;
}

/** Accepts any load unchanged. */
export function anyLoad(load: WireMap): WireMap {
  return load;
}
