/**
 * Definitions of request types. One definition contains everything about one kind of request that
 * minions send.
 */

import type { WireMap } from '#minion-protocol';
import { type Handler, type Reply, send, type VerifiedRequest } from '../auth/index.ts';
import { requestLimits } from './limits.ts';

/**
 * Verified request with a token that proves the minion id. The minion signed the token with its own
 * key.
 */
export interface ProvenRequest extends VerifiedRequest {
  readonly minionId: string;
}

/** Properties of a request type that the request channel uses. */
interface RequestNature {
  /**
   * Effect of the request. `read`: none. `write`: the handler recognises repeated requests, or they
   * are harmless. `once`: the effect must happen only once, so the channel answers a repeated
   * request with the first reply.
   */
  readonly kind: 'read' | 'write' | 'once';
  /**
   * Rate limit that the channel applies before it calls the handler. `requests`: the minion's
   * `requests_per_second`. `own`: none, because the handler itself applies a limit.
   */
  readonly rate: 'requests' | 'own';
  /**
   * Whether the connection waits for the end of this request before it processes its next one. Use
   * it for requests that take little time and whose order must be preserved. Default: false.
   */
  readonly isBrief?: boolean;
  /**
   * Maximum number of list elements and map entries of the load. Default: `requestElements` in
   * `limits.ts`.
   */
  readonly maxElements?: number;
  /**
   * Whether a large load of this type keeps its slot (`largeLoads` in `limits.ts`) until it is
   * handled. Otherwise it keeps the slot only until it is decrypted. Set it only for types whose rate
   * limit is `own`, and whose handlers do not wait for a rate limit or for another request, because
   * such a handler would keep the slot while it waits. Default: false.
   */
  readonly needsSlot?: boolean;
}

const usualElements = requestLimits.requestElements.perOwner ?? Infinity;

/** Functions that read and handle the load of a request. */
interface LoadReading<R, L> {
  /**
   * Checks a property of a request, for example its size, before its load is read. Returns the
   * reply if the request is rejected, and otherwise `undefined`. Default: no request is rejected.
   */
  readonly refuse?: (request: R) => Reply | undefined;
  /** Checks the load and returns it in typed form, or `undefined` if it is malformed. */
  readonly load: (load: WireMap, request: R) => L | undefined;
  /** Returns the reply to a malformed load. Default: an empty map. */
  readonly malformed?: (request: R) => Reply;
  readonly handle: (request: R, load: L) => Reply | Promise<Reply>;
}

/** Options of {@link defineRequestType} for requests that require a token. */
export interface ProvenRequestOptions<L> extends RequestNature, LoadReading<ProvenRequest, L> {
  /**
   * Whether requests without the minion's token are rejected. Minions of protocols 0 to 2 send the
   * token only with some loads [WIRE 9.1]. Without this check, any minion could act in the name of
   * another minion.
   */
  readonly needsToken: true;
}

/** Options of {@link defineRequestType} for requests that minions also send without a token. */
export interface OpenRequestOptions<L> extends RequestNature, LoadReading<VerifiedRequest, L> {
  readonly needsToken: false;
}

/** Entry in the table of request types. Create it with {@link defineRequestType}. */
export interface RequestType extends Required<RequestNature> {
  readonly needsToken: boolean;
  readonly handler: Handler;
}

/** Request types by the `cmd` of requests. */
export type RequestTypes = Readonly<Record<string, RequestType>>;

/**
 * Defines a request type. Its handler calls `refuse` and then `load`, which check the request. If
 * both accept the request, the handler calls `handle`.
 */
export function defineRequestType<L>(
  options: ProvenRequestOptions<L> | OpenRequestOptions<L>,
): RequestType {
  const { kind, rate, isBrief = false, needsSlot = false, needsToken } = options;
  const { maxElements = usualElements } = options;
  return { kind, rate, isBrief, maxElements, needsSlot, needsToken, handler: handlerOf(options) };
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

/**
 * Narrows the type of the request to one with a proven id. The token proves the id, and the channel
 * has already rejected requests without a token.
 */
function hasId(request: VerifiedRequest): request is ProvenRequest {
  return request.minionId !== undefined;
}

/** Accepts any load, and returns it unchanged. For request types that do not check their load. */
export function anyLoad(load: WireMap): WireMap {
  return load;
}
