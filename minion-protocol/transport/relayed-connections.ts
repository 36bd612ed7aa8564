/**
 * Accepts connections that relays forward. A PROXY header contains the origin of each connection.
 */

import type { Socket } from 'node:net';
import { addressSet } from '#runtime';
import { relayedAddress } from '../proxy-header.ts';
import { awaitProxyHeader, type ProxyHeaderFailure } from './await-proxy-header.ts';
import { peerAddress } from './connection-guard.ts';
import { transportLimits } from './limits.ts';

/** Ports for relays, in addition to those of the transport. */
export interface RelayPortsOptions {
  /** Address to bind. Default: the transport's address. */
  readonly host?: string;
  /** Request port for relays. 0 selects a free port. */
  readonly requestPort: number;
  /** Publish port for relays. 0 selects a free port. */
  readonly publishPort: number;
  /** Addresses and networks of the relays. Connections from other addresses are closed. */
  readonly from: readonly string[];
  /** Time from connecting to the end of the header, in milliseconds. Default: 5,000. */
  readonly headerMs?: number;
  /**
   * Interval between PINGs to a ZeroMQ subscriber, in milliseconds. Default: 15,000. A PING is
   * omitted while messages to the subscriber are queued.
   */
  readonly pingMs?: number;
}

/**
 * Reason why a connection to a port for relays was closed before the master knew the address of the
 * client.
 */
export type RelayRefusal = ProxyHeaderFailure | 'relay-source' | 'relay-headers-awaited';

const { total: maxAwaited = 0 } = transportLimits.awaitedHeaders;

/** Reads the PROXY headers of connections from relays. */
export class RelayedConnections {
  readonly #from: ReturnType<typeof addressSet>;
  readonly #headerMs: number;
  readonly #onRefused: (reason: RelayRefusal) => void;
  readonly #awaited = new Set<Socket>();

  /** @throws TypeError if an entry of `from` is neither an address nor a network */
  constructor(
    { from, headerMs = 5000 }: RelayPortsOptions,
    onRefused: (reason: RelayRefusal) => void,
  ) {
    this.#from = addressSet(from);
    this.#headerMs = headerMs;
    this.#onRefused = onRefused;
  }

  /**
   * Reads the PROXY header of a connection. If the header is missing or not permitted, closes the
   * connection.
   * @param proceed - called with the source address from the header, unless the connection was
   * closed before. The function must add listeners to the socket, which then receive the bytes
   * after the header
   */
  take(socket: Socket, proceed: (address: string) => void): void {
    // A reset by the peer is not an error; 'close' follows.
    socket.on('error', () => {});
    const refusal = this.#refusalOf(socket);
    if (refusal !== undefined) {
      this.#refuse(socket, refusal);
      return;
    }
    this.#awaited.add(socket);
    socket.once('close', () => this.#awaited.delete(socket));
    awaitProxyHeader(socket, this.#headerMs, (result) => {
      this.#awaited.delete(socket);
      if (typeof result === 'string') {
        this.#refuse(socket, result);
        return;
      }
      proceed(relayedAddress(result));
      if (!socket.destroyed) socket.resume();
    });
  }

  /** Closes the connections whose header is incomplete. */
  close(): void {
    for (const socket of this.#awaited) socket.destroy();
  }

  #refusalOf(socket: Socket): RelayRefusal | undefined {
    const remote = peerAddress(socket);
    if (remote === undefined || !this.#from.has(remote)) return 'relay-source';
    return this.#awaited.size >= maxAwaited ? 'relay-headers-awaited' : undefined;
  }

  #refuse(socket: Socket, reason: RelayRefusal): void {
    this.#onRefused(reason);
    socket.destroy();
  }
}
