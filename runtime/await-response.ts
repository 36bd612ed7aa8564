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
    let response: IncomingMessage | undefined;
    outgoing.once('response', (begun) => {
      response = begun;
      // The caller gets the response only later. Another listener, such as one that measures
      // traffic, must not make it flow before.
      begun.pause();
      resolve(begun);
    });
    outgoing.once('upgrade', (_response, socket) => {
      socket.destroy();
      reject(new SwitchedProtocolError());
    });
    // After the response has begun, its reader gets the error.
    outgoing.on('error', (error) => {
      if (response === undefined) reject(error);
      else response.destroy(error);
    });
  });
}
