import type { GuardLimits } from '../../runtime/index.ts';

/** Bounds that a listener puts on its peers, whatever the transport [THREATS N-02, N-03]. */
export interface ConnectionLimits extends GuardLimits {
  /** From connecting to the end of the handshake, milliseconds. Default 30,000. */
  readonly handshakeMs: number;
  /**
   * From connecting to the first complete request on the request port, milliseconds, and one
   * second more for each 64 KiB that arrived. Default 30,000. Does not bind known addresses: their
   * ZeroMQ sockets reconnect after a restart of the master and then wait until they have to ask.
   */
  readonly firstRequestMs: number;
  /**
   * From the first byte of a message to its last, milliseconds, and one second more for each
   * 64 KiB that arrived. Default 30,000.
   */
  readonly messageMs: number;
  /** A peer that reads none of what waits for it is disconnected after this, milliseconds. Default 60,000. */
  readonly stallMs: number;
  /**
   * From a request that gets no answer to the end of its connection, milliseconds. Default 5,000:
   * minions over TCP and WebSocket send again as soon as their connection ends, and at once they
   * would use up their three tries. Over ZeroMQ they wait as long by themselves.
   */
  readonly unansweredMs: number;
  /** One request, all its frames together, bytes. Default 16 MiB. */
  readonly maxMessageBytes: number;
  /** Unfinished messages and subscriptions of all connections, bytes. Default 128 MiB. */
  readonly maxHeldBytes: number;
  /** The same for one address that is not known, bytes. Default 32 MiB. */
  readonly maxHeldBytesPerAddress: number;
  /** Connections in all, on both ports. Default 65,536. */
  readonly maxConnections: number;
  /** Connections of one address. Default 65,536: a fleet may be behind one. */
  readonly maxConnectionsPerAddress: number;
  /**
   * Connections of one address that is not known which have not finished handshake and first
   * request; the oldest is closed for a new one. Default 1,000.
   */
  readonly maxNewConnectionsPerAddress: number;
  /** Addresses remembered as known; the one heard longest ago is forgotten. Default 65,536. */
  readonly maxKnownAddresses: number;
  /** Requests of one connection that are being answered; no more are read. Default 64. */
  readonly maxRequestsInFlight: number;
  /**
   * Requests of all connections that are worked on at the same time, those that wait for something
   * not counted; no more are read. Default 256: what is under way is memory that each collection
   * goes over, and more of it was no quicker.
   */
  readonly maxTurns: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  handshakeMs: 30_000,
  firstRequestMs: 30_000,
  // protection: silent-for-ever
  messageMs: 30_000,
  stallMs: 60_000,
  unansweredMs: 5_000,
  maxMessageBytes: 16 * 1024 * 1024,
  maxHeldBytes: 128 * 1024 * 1024,
  maxHeldBytesPerAddress: 32 * 1024 * 1024,
  maxConnections: 65_536,
  maxConnectionsPerAddress: 65_536,
  maxNewConnectionsPerAddress: 1000,
  maxKnownAddresses: 65_536,
  maxRequestsInFlight: 64,
  maxTurns: 256,
};
