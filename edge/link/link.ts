/**
 * Interface of the connection between a site and its centre. A site opens one connection to the
 * centre. Both sides send requests over it and reply to requests.
 */

import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';

/** Classes of requests, in the order in which waiting requests are sent. */
export const linkClasses = ['alarm', 'order', 'signal', 'return', 'fact'] as const;

export type LinkClass = (typeof linkClasses)[number];

/** Declaration of a kind of request: its sender, class and schemas. */
export interface LinkMessage<P extends TSchema = TSchema, R extends TSchema = TSchema> {
  /** Unique name, such as `log.append`. */
  readonly name: string;
  readonly sender: 'site' | 'centre';
  readonly class: LinkClass;
  readonly params: P;
  readonly reply: R;
  /** Maximum size of the request, in bytes of MessagePack. Default: 65,536. */
  readonly maxBytes?: number;
}

/** Declares a kind of request. */
export function defineMessage<P extends TSchema, R extends TSchema>(
  message: LinkMessage<P, R>,
): LinkMessage<P, R> {
  return message;
}

/** Handles a request of one kind. An `EdgeError` that it throws reaches the sender. */
export type LinkHandler<P extends TSchema, R extends TSchema, From> = (
  params: Static<P>,
  from: From,
) => Promise<Static<R>>;

/** Sends requests over a connection. */
export interface LinkCaller {
  /**
   * Sends a request and returns the reply.
   * @throws EdgeError ERR_SITE_LINK if the connection is lost before the reply, and the errors of
   * the handler
   */
  call<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    params: Static<P>,
    signal?: AbortSignal,
  ): Promise<Static<R>>;
}

/** State of the connection of a site. */
export interface LinkState {
  readonly isConnected: boolean;
  /** Time of the last successful exchange, in milliseconds since 1970, or `undefined`. */
  readonly lastContactAt: number | undefined;
  /** Clock of the centre minus clock of the site at the last contact, in milliseconds. */
  readonly clockDifferenceMs: number | undefined;
}

/** Side of the site. The connection is opened in `start` and reopened with a growing delay. */
export interface SiteLink extends LinkCaller {
  readonly state: LinkState;
  /** Registers the handler of a kind of request of the centre. Call it before `start`. */
  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, void>,
  ): void;
  /** Calls the listener each time the connection is opened or lost. */
  onChange(listener: (state: LinkState) => void): void;
  /**
   * Reads a part of a bundle with an HTTP GET.
   * @param path below the edge routes of the centre, such as `/packs/<id>/0`
   * @param maxBytes the stream fails with ERR_BUNDLE_CONTENT when it exceeds this size
   * @throws EdgeError ERR_SITE_LINK
   */
  get(path: string, maxBytes: number, signal?: AbortSignal): Promise<Readable>;
}

/** Side of the centre. */
export interface CentreLinks {
  /** Registers the handler of a kind of request of sites. Call it before sites connect. */
  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, { readonly site: string }>,
  ): void;
  /** Returns the connection of a site, or `undefined` if it is not connected to this process. */
  callerOf(site: string): LinkCaller | undefined;
  /** Calls the listener each time a site connects. */
  onConnected(listener: (site: string, caller: LinkCaller) => void): void;
}
