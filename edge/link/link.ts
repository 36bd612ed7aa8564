/**
 * Interface of the connection between a site and its centre. A site opens one connection to the
 * centre. Both sides send requests over it and reply to requests.
 */

import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';
import type { WireValue } from '#minion-protocol';
import { compileSchema, type SchemaCheck } from '#runtime';

/** Classes of requests, in the order in which waiting requests are sent. */
export const linkClasses = ['alarm', 'order', 'signal', 'return', 'fact'] as const;

export type LinkClass = (typeof linkClasses)[number];

/** Declaration of a kind of request. */
interface MessageDeclaration<P extends TSchema, R extends TSchema> {
  /** Unique name, such as `log.append`. */
  readonly name: string;
  readonly sender: 'site' | 'centre';
  readonly class: LinkClass;
  readonly params: P;
  readonly reply: R;
  /** Maximum size of the request, in bytes of MessagePack. Default: 65,536. */
  readonly maxBytes?: number;
  /**
   * Whether a site may send the request together with the first message of a handshake (hello). The
   * site may then send it over several connections, so repeating it must do no harm. Default:
   * `false`.
   */
  readonly isEarly?: boolean;
}

/** Declared kind of request, with compiled checks of its parameters and of its reply. */
export interface LinkMessage<P extends TSchema, R extends TSchema>
  extends MessageDeclaration<P, R> {
  readonly paramsCheck: SchemaCheck<P>;
  readonly replyCheck: SchemaCheck<R>;
}

/** Declares a kind of request. */
export function defineMessage<P extends TSchema, R extends TSchema>(
  declaration: MessageDeclaration<P, R>,
): LinkMessage<P, R> {
  return {
    ...declaration,
    paramsCheck: compileSchema(declaration.params),
    replyCheck: compileSchema(declaration.reply),
  };
}

/** Handler of one kind of request. If it throws an `EdgeError`, the sender receives this error. */
export type LinkHandler<P extends TSchema, R extends TSchema, From> = (
  params: Static<P>,
  from: From,
) => Promise<Static<R>>;

/** Sender of requests over a connection. */
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

/** Request that a site sends together with the first message of a handshake (hello). */
export interface EarlyRequest {
  /** Name of the request's message. The message must be declared with `isEarly`. */
  readonly name: string;
  readonly params: WireValue;
  /**
   * Called if the site uses the connection over which it sent this request. Not called if the site
   * chooses another connection.
   * @param reply - function that waits for the reply to this request
   */
  onUsed(reply: ReadReply): void;
}

/**
 * Waits for the reply to an early request: a request that the site sends together with the
 * handshake.
 */
export type ReadReply = <P extends TSchema, R extends TSchema>(
  message: LinkMessage<P, R>,
) => Promise<Static<R>>;

/**
 * Function that returns a request to send together with the first message of the handshake (hello).
 * Returns `undefined` if there is nothing to send.
 * @param maxBytes - maximum size of the frame of the request
 */
export type EarlySource = (maxBytes: number) => Promise<EarlyRequest | undefined>;

/**
 * Maximum number of early requests on a connection. A site sends early requests together with the
 * first message of the handshake (hello). Their ids begin at 0. All other requests have larger ids.
 */
export const maxEarlyRequests = 4;

/** Site that has sent a request to the centre. */
export interface SiteSender {
  readonly site: string;
  /** Whether the site sent the request together with the first message of the handshake (hello). */
  readonly isEarly: boolean;
}

/** State of the connection of a site. */
export interface LinkState {
  readonly isConnected: boolean;
  /** Time of the last successful exchange, in milliseconds since 1970, or `undefined`. */
  readonly lastContactAt: number | undefined;
  /** Clock of the centre minus clock of the site at the last contact, in milliseconds. */
  readonly clockDifferenceMs: number | undefined;
}

/**
 * Connection of a site to its centre. `start` opens it. If it ends, the site opens it again after
 * an increasing delay.
 */
export interface SiteLink extends LinkCaller {
  readonly state: LinkState;
  /**
   * Registers a function that returns an early request for each new connection. If the early
   * requests do not all fit into the first message of the handshake, functions that were registered
   * first take precedence. Call this method before `start`.
   */
  sendEarly(source: EarlySource): void;
  /**
   * Registers the handler for one kind of request from the centre. Call this method before `start`.
   */
  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, void>,
  ): void;
  /** Calls the listener each time the connection is opened or lost. */
  onChange(listener: (state: LinkState) => void): void;
  /** Ends the connection and opens it again, for example to use a new key. */
  reconnect(): void;
  /**
   * Reads a part of a pack with an HTTP GET.
   * @param path - the path below `/site/v1` at the centre, such as `/packs/<id>/0`
   * @throws EdgeError ERR_SITE_LINK
   */
  get(path: string, range: PartRange, signal?: AbortSignal): Promise<Readable>;
}

/** Range of bytes that a site reads from a part of a pack. */
export interface PartRange {
  /** Offset of the first byte to read. The site already has the bytes before it. */
  readonly from: number;
  /**
   * Maximum size of the whole part, in bytes, including the bytes that the site already has. If the
   * part is larger, the stream fails with ERR_BUNDLE_CONTENT.
   */
  readonly maxBytes: number;
}

/** Connections of a centre to its sites. */
export interface CentreLinks {
  /**
   * Registers the handler for one kind of request from sites. Call this method before sites
   * connect.
   */
  handle<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, SiteSender>,
  ): void;
  /**
   * Returns the object that sends requests to a site, or `undefined` if the site is not connected
   * to this process.
   */
  callerOf(site: string): LinkCaller | undefined;
  /** Whether a site is connected to any member of the cluster. */
  isConnected(site: string): boolean;
  /** Calls the listener each time a site connects to this process. */
  onConnected(listener: (site: string, caller: LinkCaller) => void): void;
  /**
   * Calls the listener when the connection of a site has ended and the site has not connected to
   * this process again.
   */
  onEnded(listener: (site: string) => void): void;
}
