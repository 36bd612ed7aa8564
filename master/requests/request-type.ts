/** Request types: one row declares everything about a request that minions send. */

import type { WireMap } from '#minion-protocol';
import { type Handler, type Reply, send, type VerifiedRequest } from '../auth/index.ts';

/** A verified request whose id the minion's own key proves. */
export interface ProvenRequest extends VerifiedRequest {
  readonly minionId: string;
}

/** What the request channel does around the handler of a request type. */
interface RequestNature {
  /**
   * Effect of the request. `once`: it has an effect that a repetition must not have again; the
   * channel answers a repeated request with the reply to the first. A handler of the kind `write`
   * recognises repetitions by itself, or they do no harm.
   */
  readonly kind: 'read' | 'write' | 'once';
  /**
   * Limit that applies before the handler runs. `requests`: the `requests_per_second` of the minion.
   * `own`: none; the handler applies its own.
   */
  readonly rate: 'requests' | 'own';
  /**
   * Whether the connection handles its next request only when this one is done, which keeps the
   * order of requests that are only stored. Default: the next request does not wait.
   */
  readonly isBrief?: boolean;
}

/** How the load of a request is read. */
interface LoadReading<R, L> {
  /** Refuses a request before its load is read, for instance because of its size. */
  readonly refuse?: (request: R) => Reply | undefined;
  /** Returns the typed load, or `undefined` for a malformed one. */
  readonly load: (load: WireMap, request: R) => L | undefined;
  /** Replies to a malformed load. Default: an empty map. */
  readonly malformed?: (request: R) => Reply;
  readonly handle: (request: R, load: L) => Reply | Promise<Reply>;
}

/** Options of {@link defineRequestType} for requests that need a token. */
export interface ProvenRequestOptions<L> extends RequestNature, LoadReading<ProvenRequest, L> {
  /**
   * Whether a request without the minion's token is refused. Minions of protocols 0 to 2 put it
   * into some loads only [WIRE 9.1]; without it, any holder of the shared key could act for another
   * minion.
   */
  readonly needsToken: true;
}

/** Options of {@link defineRequestType} for requests that minions also send without a token. */
export interface OpenRequestOptions<L> extends RequestNature, LoadReading<VerifiedRequest, L> {
  readonly needsToken: false;
}

/** A row of the table of request types. Made by {@link defineRequestType}. */
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

/** The channel refuses requests without a token before their handler is called. */
function hasId(request: VerifiedRequest): request is ProvenRequest {
  return request.minionId !== undefined;
}

/** Takes every load as it is. */
export function anyLoad(load: WireMap): WireMap {
  return load;
}
