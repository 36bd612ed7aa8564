/** Waits for responses to outgoing HTTP requests. */

import type { ClientRequest, IncomingMessage } from 'node:http';

/** Error for a server that switched to another protocol instead of responding. */
class SwitchedProtocolError extends Error {
  readonly code = 'EPROTO';

  constructor() {
    super('the server switched to another protocol instead of responding');
  }
}

/**
 * Returns the response to a request. Rejects with the error of the request, or if the server
 * switches to another protocol (status 101). Node.js itself reports no error for the status 101, so
 * that a caller without this function would wait forever.
 */
export function awaitResponse(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('upgrade', (_response, socket) => {
      socket.destroy();
      reject(new SwitchedProtocolError());
    });
    // Further errors are ignored, for example those of a socket that the caller destroys.
    outgoing.on('error', reject);
  });
}
