/**
 * Interfaces between the protocol and its transports. A transport moves packed bytes and does not
 * interpret them. ZeroMQ, TCP, WebSocket and the in-memory pair implement these two interfaces.
 */

import { hash } from 'node:crypto';
import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Sender of a request, as identified by its connection. */
export interface Peer {
  /**
   * Remote address without port. Through a relay it is `NETWORK/ADDRESS` or
   * `instance:PROJECT/INSTANCE`.
   */
  readonly address: string;
  /** Salt's name of the transport. */
  readonly transport: string;
  /**
   * Number of the publish port that the transport has bound. The reply to a sign-in contains it
   * [WIRE 4.1].
   */
  readonly publishPort: number;
  /**
   * Marks the connection as used by `minionId`, after a request of this minion was verified. The
   * transport may then relax its limits for the connection, and {@link MasterTransport.disconnect}
   * can end it.
   */
  identify(minionId: string): void;
  /**
   * Counts a refused request, for example one that cannot be decrypted. The transport ends a
   * connection with too many of them.
   */
  noteRefusal(): void;
}

/**
 * Slot for processing a request. The number of slots is limited, and other requests wait for one.
 */
export interface RequestSlot {
  /**
   * Releases the slot for other requests, although this request has not ended. Used if this request
   * must wait for something, or may take long. May be called twice.
   */
  release(): void;
}

/**
 * Handles one request and returns exactly one reply. If the promise rejects, the transport sends no
 * reply and closes the connection after {@link ConnectionLimits.unansweredMs}. The handler owns the
 * bytes of `request`, and the transport owns the returned bytes.
 */
export type RequestHandler = (
  request: Uint8Array,
  peer: Peer,
  turn: RequestSlot,
) => Uint8Array | Promise<Uint8Array>;

/**
 * Verifies the packed announcement of a minion on its publish connection [WIRE 4.2, "Presence"].
 * Calls {@link Peer.identify} if it is valid. Never rejects.
 */
export type AnnouncementHandler = (envelope: Uint8Array, peer: Peer) => Promise<void>;

/** A packed publication to send to subscribers. */
export interface OutgoingPublication {
  /** The packed envelope. All subscribers share it, and it is never changed. */
  readonly envelope: Uint8Array;
  /**
   * Ids that the target matches, or `null` for all minions. An empty list stands for no minion.
   * ZeroMQ with `zmq_filtering` sends one message per id. TCP skips connections that are known to
   * belong to minions outside the list. A minion outside the list that nevertheless receives the
   * publication ignores it.
   */
  readonly minionIds: readonly string[] | null;
  /**
   * Time for which transports store the publication for new subscribers, in milliseconds. A new
   * subscriber receives the stored publications before any later one. Default: 0.
   */
  readonly replayMs?: number;
}

/** Result of sending a publication on one transport. */
export interface PublishOutcome {
  /** Number of subscribers with this publication in their queue. */
  readonly queued: number;
  /** Number of subscribers that were skipped because their queue is full. */
  readonly skipped: number;
}

/** A connection to the publish port. */
export interface SubscriberInfo {
  readonly address: string;
  /** Time of connecting, in milliseconds since 1970. */
  readonly connectedAt: number;
  /** Subscribed topics. `''` means everything. */
  readonly topics: readonly string[];
  /** Ids of the minions that announced themselves on this connection and were verified. */
  readonly minionIds: readonly string[];
  readonly queuedBytes: number;
}

/** The ports that were bound. Minions must be configured with them (WIRE 4.1). */
export interface BoundPorts {
  readonly requestPort: number;
  readonly publishPort: number;
  /** Ports of the master for relays. The relays listen on the port numbers that minions use. */
  readonly relay?: Pick<BoundPorts, 'requestPort' | 'publishPort'>;
}

/** The master's end of a transport. */
export interface MasterTransport {
  /** Salt's name of the transport: `zeromq`, `tcp` or `ws`. The in-memory pair uses `memory`. */
  readonly name: string;
  /**
   * Binds the request port and the publish port.
   * @param announce - for transports whose minions announce themselves; default: no announcement is
   * accepted
   * @throws TransportError ERR_LISTEN, ERR_TLS
   */
  listen(handler: RequestHandler, announce?: AnnouncementHandler): Promise<BoundPorts>;
  /** Queues a publication without waiting. A slow subscriber never delays the others. */
  publish(publication: OutgoingPublication): PublishOutcome;
  /**
   * Ends the connections that are known to belong to this minion. Called when the key of the minion
   * has become invalid.
   */
  disconnect(minionId: string): void;
  subscribers(): readonly SubscriberInfo[];
  /**
   * Returns the number of connections that were ended for a misbehaviour of the peer, by reason.
   */
  refusals(): Readonly<Record<string, number>>;
  /**
   * Checks immediately whether the TLS files have changed. Without this call, a change is noticed
   * within a minute. Absent without TLS.
   * @returns the certificates that were loaded again
   * @throws TransportError ERR_TLS, or the system's error; the previous files stay in use
   */
  renewCertificate?(): Promise<readonly string[]>;
  /**
   * Stops accepting connections, waits at most `graceMs` (default 5,000) for requests in progress
   * and closes every connection. May be called twice.
   */
  close(graceMs?: number): Promise<void>;
}

/** The minion's end of a transport. */
export interface MinionTransport {
  /**
   * Sends a request and resolves with its reply. Only one request is sent at a time; the others
   * wait.
   * @throws TransportError ERR_TIMEOUT if no reply arrived within `timeoutMs` from this call;
   * ERR_CONNECT for an invalid address; ERR_CLOSED after `close()`
   */
  request(body: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
  /**
   * Opens the publish connection. `topics: null` subscribes to everything. Resolves when the
   * subscription has been passed to the transport, which reconnects by itself afterwards.
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
    meaning: 'The master cannot listen on a port.',
    action:
      'Stop the other process that uses the port, or set interface, ret_port or publish_port.',
    retry: true,
  },
  ERR_TLS: {
    meaning: 'A certificate, key or list of ciphers for TLS cannot be read or used.',
    action: 'Correct keyfile, certfile, ca_certs and ciphers of the ssl option.',
  },
  ERR_CONNECT: {
    meaning: 'The address of the master is invalid, or nothing listens there.',
    action: 'Check the host and the port of the master.',
    retry: true,
  },
  ERR_TIMEOUT: {
    meaning: 'No reply arrived in time. The master may or may not have received the request.',
    action: 'Check that the master is running and reachable, then repeat the request.',
    retry: true,
  },
  ERR_CLOSED: {
    meaning: 'The transport was closed, or it was used before it was listening.',
    action: 'Create a new transport.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Codes of {@link TransportError}. */
export type TransportErrorCode = keyof typeof transportErrors;

/** Error of a transport. `cause` is the error of the system or of ZeroMQ. */
export class TransportError extends SaltbridgeError<TransportErrorCode> {}

/** Returns `host:port`, with brackets around an IPv6 address. */
export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Topic that every filtering minion and syndic subscribes to. */
export const BROADCAST_TOPIC = 'broadcast';
/** Additional topic that a filtering syndic subscribes to. */
export const SYNDIC_TOPIC = 'syndic';

/** Returns a minion's own topic: the lower-case hex SHA-1 of its id in UTF-8. */
export function minionTopic(minionId: string): string {
  return hash('sha1', minionId);
}
