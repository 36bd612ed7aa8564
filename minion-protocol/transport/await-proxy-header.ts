import type { Socket } from 'node:net';
import { ProxyHeaderReader, type RelayedPeer } from '../proxy-header.ts';

/** Why a connection has no header. */
export type ProxyHeaderFailure = 'relay-header' | 'relay-header-timeout';

/**
 * Reads the header of a connection, unless the connection ends before that.
 * @param headerMs from now to the end of the header, milliseconds
 * @param settle is called once; the socket is paused then, and has what comes behind the header
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
