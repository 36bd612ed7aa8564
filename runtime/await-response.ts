/** Waits for responses to outgoing HTTP requests. */

import type { ClientRequest, IncomingMessage } from 'node:http';
import { httpLimits } from './http-limits.ts';
import { limitSmallParts } from './small-parts.ts';

const maxInterim = httpLimits.interimResponses.perOwner ?? 0;

/** Error for a server that switched to another protocol instead of responding. */
class SwitchedProtocolError extends Error {
  readonly code = 'EPROTO';

  constructor() {
    super('the server switched to another protocol instead of responding');
  }
}

/** Error for a server that sends interim responses, such as 103, instead of responding. */
class InterimResponsesError extends Error {
  readonly code = 'EPROTO';

  constructor() {
    super(`the server sent more than ${maxInterim} interim responses instead of responding`);
  }
}

/**
 * Returns the response to a request. Rejects with the error of the request, if the server switches
 * to another protocol (status 101), or if it sends too many interim responses. Node.js itself
 * reports no error for the status 101, so that a caller without this function would wait forever.
 * The response fails if its body arrives in too many small parts.
 */
export function awaitResponse(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let response: IncomingMessage | undefined;
    let interim = 0;
    outgoing.on('information', () => {
      interim += 1;
      if (interim === maxInterim + 1) outgoing.destroy(new InterimResponsesError());
    });
    outgoing.once('response', (begun) => {
      response = begun;
      limitSmallParts(begun, (error) => begun.destroy(error));
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
