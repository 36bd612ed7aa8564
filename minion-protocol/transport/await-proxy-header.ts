import type { Socket } from 'node:net';
import { ProxyHeaderReader, type RelayedPeer } from '../proxy-header.ts';

/** Reason for which no header was read. */
export type ProxyHeaderFailure = 'relay-header' | 'relay-header-timeout';

/**
 * Reads the PROXY header of a connection.
 * @param headerMs - time until the header must be complete, in milliseconds
 * @param settle - called once, with the socket paused. It receives the peer from the header, or the
 * reason why no header was read. Bytes after the header are put back into the socket. It is not
 * called if the connection ends first
 */
export function awaitProxyHeader(
  socket: Socket,
  headerMs: number,
  settle: (result: RelayedPeer | ProxyHeaderFailure) => void,
): void {
  const header = new ProxyHeaderReader();
  const end = (): void => {
    clearTimeout(timer);
    socket.off('close', end);
    socket.off('data', onData);
    socket.pause();
  };
  const onData = (chunk: Uint8Array): void => {
    const result = header.push(chunk);
    if (result === 'incomplete') return;
    end();
    if (result === 'wrong') {
      settle('relay-header');
      return;
    }
    if (result.rest.length > 0) socket.unshift(result.rest);
    settle(result.peer);
  };
  const timer = setTimeout(() => {
    end();
    settle('relay-header-timeout');
  }, headerMs);
  socket.on('data', onData);
  socket.once('close', end);
}
