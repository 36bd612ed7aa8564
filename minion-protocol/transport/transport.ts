/**
 * What the protocol asks of a transport. A transport moves packed bytes and knows nothing of
 * loads: ZeroMQ, TCP, WebSocket and the in-memory pair all fit behind these two interfaces.
 */

import { createHash } from 'node:crypto';
import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** The sender of a request, as far as its connection tells. */
export interface Peer {
  /** Remote address without port; through a relay `NETWORK/ADDRESS` or `instance:PROJECT/INSTANCE`. */
  readonly address: string;
  /** Salt's name of the transport that it came over. */
  readonly transport: string;
  /** The real publish port of that transport, as a sign-in must be told [WIRE 4.1]. */
  readonly publishPort: number;
  /**
   * Says that a request from this connection has been verified as `minionId`'s. The transport may
   * then trust the connection with more, and can end it by {@link MasterTransport.disconnect}.
   */
  identify(minionId: string): void;
}

/** A request's time of being worked on, which others wait for. */
export interface RequestSlot {
  /** Lets others go on: the request waits for something, or may take long. May be called twice. */
  release(): void;
}

/**
 * Answers one request: exactly one answer each. If the promise rejects, the transport closes the
 * connection without one, {@link ConnectionLimits.unansweredMs} later.
 * The bytes of `request` belong to the handler, the bytes it gives belong to the transport.
 */
export type RequestHandler = (
  request: Uint8Array,
  peer: Peer,
  turn: RequestSlot,
) => Uint8Array | Promise<Uint8Array>;

/**
 * Verifies what a minion says of itself on its publish connection [WIRE 4.2, "Presence"]: a packed
 * envelope. Calls {@link Peer.identify} if it is true, and never rejects.
 */
export type AnnouncementHandler = (envelope: Uint8Array, peer: Peer) => Promise<void>;

/** A packed publication envelope on its way to subscribers. */
export interface OutgoingPublication {
  /** The packed envelope; shared between all subscribers, never changed afterwards. */
  readonly envelope: Uint8Array;
  /**
   * Ids that the target resolved to, for transports that can choose (ZeroMQ with `zmq_filtering`:
   * one message per id; TCP: not to connections that are known to be other minions').
   * `null`: everybody; an empty list: nobody.
   */
  readonly minionIds: readonly string[] | null;
  /**
   * Subscribers that come within this time, milliseconds, get it too, before anything that is
   * published later. Default 0.
   */
  readonly replayMs?: number;
}

/** What became of a publication on one transport, at the moment of sending. */
export interface PublishOutcome {
  /** Subscribers that it was queued for. */
  readonly queued: number;
  /** Subscribers that were passed over because their queue is full. */
  readonly skipped: number;
}

/** A publish connection. */
export interface SubscriberInfo {
  readonly address: string;
  /** Milliseconds since 1970. */
  readonly connectedAt: number;
  /** Topics as subscribed; `''` stands for everything. */
  readonly topics: readonly string[];
  /** Whose connection it is, as far as minions have announced themselves over it and proved it. */
  readonly minionIds: readonly string[];
  readonly queuedBytes: number;
}

/** The real ports, as minions must be told (WIRE 4.1). */
export interface BoundPorts {
  readonly requestPort: number;
  readonly publishPort: number;
  /** Those for relays. Minions are told the other ones, at which relays listen for them. */
  readonly relay?: Pick<BoundPorts, 'requestPort' | 'publishPort'>;
}

/** The master's end. */
export interface MasterTransport {
  /** Salt's name of the transport: `zeromq`, `tcp`, `ws`; `memory` for the in-memory pair. */
  readonly name: string;
  /**
   * Binds both ports.
   * @param announce for transports whose minions announce themselves; default: nobody is believed
   * @throws TransportError ERR_LISTEN, ERR_TLS
   */
  listen(handler: RequestHandler, announce?: AnnouncementHandler): Promise<BoundPorts>;
  /** Queues without waiting: a slow subscriber never delays the others. */
  publish(publication: OutgoingPublication): PublishOutcome;
  /** Ends the connections known to be this minion's (its key is no longer good). */
  disconnect(minionId: string): void;
  subscribers(): readonly SubscriberInfo[];
  /** How often each kind of misbehaviour ended a connection, by reason. */
  refusals(): Readonly<Record<string, number>>;
  /**
   * Looks now whether the files of TLS were renewed; it does so by itself as well, within a minute.
   * Absent where there is no TLS.
   * @returns the certificates that are in force anew
   * @throws TransportError ERR_TLS, and the system's error: the former ones stay in force
   */
  renewCertificate?(): Promise<readonly string[]>;
  /**
   * Stops accepting, lets requests that are being answered finish (at most `graceMs`, default
   * 5000) and closes every connection. May be called twice.
   */
  close(graceMs?: number): Promise<void>;
}

/** The minion's end. */
export interface MinionTransport {
  /**
   * Sends one request and resolves with its answer.
   * Requests made while one waits for its answer are sent after it.
   * @throws TransportError ERR_TIMEOUT when no answer came in `timeoutMs` from this call;
   *   ERR_CONNECT for an address that is none; ERR_CLOSED after `close()`
   */
  request(body: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
  /**
   * Opens the publish connection. `topics: null` subscribes to everything. Resolves when the
   * subscription has been handed to the transport; reconnects by itself afterwards.
   */
  subscribe(
    publishPort: number,
    topics: readonly string[] | null,
    onPublication: (envelope: Uint8Array) => void,
  ): Promise<void>;
  close(): Promise<void>;
}

export const transportErrors = {
  ERR_LISTEN: {
    meaning: 'A port could not be bound.',
    action:
      'Stop whatever holds the port (another master?), or set interface, ret_port or publish_port.',
    retry: true,
  },
  ERR_TLS: {
    meaning: 'A certificate, key or list of ciphers for TLS cannot be read or used.',
    action: 'Correct keyfile, certfile, ca_certs and ciphers of the ssl option.',
  },
  ERR_CONNECT: {
    meaning: 'The address of the master is no address, or nobody listens there.',
    action: 'Check the host and the port of the master.',
    retry: true,
  },
  ERR_TIMEOUT: {
    meaning: 'No answer came in time; whether the request arrived is not known.',
    action: 'Check that the master runs and is reachable, then ask again.',
    retry: true,
  },
  ERR_CLOSED: {
    meaning: 'This transport was closed, or is used before it listens.',
    action: 'Make a new one.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Codes of {@link TransportError}. */
export type TransportErrorCode = keyof typeof transportErrors;

/** A transport could not do what was asked. `cause` is what the system or ZeroMQ said. */
export class TransportError extends SaltbridgeError<TransportErrorCode> {}

/** `host:port`, with brackets around an IPv6 address. */
export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** What every filtering minion and syndic subscribes to. */
export const BROADCAST_TOPIC = 'broadcast';
/** What a filtering syndic subscribes to besides. */
export const SYNDIC_TOPIC = 'syndic';

/** A minion's own topic: the lower-case hex SHA-1 of its id in UTF-8. */
export function minionTopic(minionId: string): string {
  return createHash('sha1').update(minionId, 'utf8').digest('hex');
}
