/** Connections that a relay passes on: each says in a PROXY header whose it is. */

import type { Socket } from 'node:net';
import { addressSet } from '#runtime';
import { relayedAddress } from '../proxy-header.ts';
import { awaitProxyHeader, type ProxyHeaderFailure } from './await-proxy-header.ts';
import { peerAddress } from './connection-guard.ts';

/** Ports for relays, besides those of the transport. */
export interface RelayPortsOptions {
  /** Address to bind. Default: that of the transport. */
  readonly host?: string;
  /** 0: any free one. */
  readonly requestPort: number;
  /** 0: any free one. */
  readonly publishPort: number;
  /** Addresses and networks of the relays; whoever has another one is disconnected. */
  readonly from: readonly string[];
  /** From connecting to the end of the header, milliseconds. Default 5,000. */
  readonly headerMs?: number;
  /** Silence before a subscriber is sent a PING (ZeroMQ), milliseconds. Default 15,000. */
  readonly pingMs?: number;
}

/** Why a connection was ended before it was anybody's. */
export type RelayRefusal = ProxyHeaderFailure | 'relay-source' | 'relay-headers-awaited';

/** Connections whose header has not come. */
const maxAwaited = 1000;

/** Takes the header off connections of relays. */
export class RelayedConnections {
  readonly #from: ReturnType<typeof addressSet>;
  readonly #headerMs: number;
  readonly #onRefused: (reason: RelayRefusal) => void;
  readonly #awaited = new Set<Socket>();

  /** @throws TypeError for a `from` that is no address and no network */
  constructor(
    { from, headerMs = 5000 }: RelayPortsOptions,
    onRefused: (reason: RelayRefusal) => void,
  ) {
    this.#from = addressSet(from);
    this.#headerMs = headerMs;
    this.#onRefused = onRefused;
  }

  /**
   * Reads the header of a connection.
   * @param proceed is called with the address of record, unless the connection was ended; what it
   *   attaches to the socket reads what comes behind the header
   */
  take(socket: Socket, proceed: (address: string) => void): void {
    // A reset is an ordinary way to go.
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

  /** Ends those that nobody knows yet whose they are. */
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
