import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as SecureServer } from 'node:tls';
import { addressOwner } from './address-owner.ts';
import { httpLimits } from './http-limits.ts';
import { intercept } from './intercept.ts';
import { MessageTurns } from './message-turns.ts';
import { readInTurns } from './sliced-reading.ts';
import { limitSmallParts } from './small-parts.ts';

/** Cost of a part of a body. A request costs 1. */
const costOfPart = 1 / 16;
const maxUnanswered = httpLimits.unansweredRequests.perOwner ?? 0;

/**
 * Maximum number of listeners for one event of a response. Node.js logs a warning above it. The
 * default of Node.js, 10, is too low, because the limits, the framework and the streams all add
 * listeners. Their number does not grow, so that warning would be wrong.
 */
const usualListeners = 20;

/** Limits the requests of each connection before they are processed. */
export class RequestAdmission {
  readonly #turns = new MessageTurns(httpLimits.work);
  /** Number of requests that the parser has read; a part of a body counts as a fraction. */
  #read = 0;
  /** Number of unanswered requests of each connection. */
  readonly #unanswered = new WeakMap<Socket, number>();

  /**
   * Applies the limits to each request of a server. Node.js itself answers requests without a host
   * and with an unknown expectation, any number of them in one turn. Here they end the connection.
   */
  protect(server: Server): void {
    Object.assign(server, { requireHostHeader: false });
    server.on('checkExpectation', ({ socket }: IncomingMessage) => {
      this.#read += 1;
      refuse(socket, '417 Expectation Failed', 'the header "expect" has an unknown value');
    });
    intercept(server, 'request', (proceed, request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#read += 1;
      // The HTTP parser still emits the requests that it has already read.
      if (socket.destroyed) return;
      if (request.httpVersion === '1.1' && request.headers.host === undefined)
        refuse(socket, '400 Bad Request', 'the header "host" is missing');
      else if (this.admit(request, response)) proceed();
    });
    server.on(server instanceof SecureServer ? 'secureConnection' : 'connection', (socket) => {
      const owner = addressOwner(socket.remoteAddress ?? 'local');
      readInTurns(socket, { turns: this.#turns, owner, spent: () => this.#read });
    });
  }

  /**
   * Counts a request until it is answered, and the parts of its body. If its connection has too
   * many unanswered requests, ends the connection and returns `false`. The request must then not be
   * processed. The HTTP parser may still emit requests that it has already read.
   */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const count = this.#unanswered.get(socket) ?? 0;
    if (socket.destroyed || count >= maxUnanswered) {
      socket.destroy();
      return false;
    }
    response.setMaxListeners(usualListeners);
    this.#unanswered.set(socket, count + 1);
    response.once('close', () => {
      this.#unanswered.set(socket, (this.#unanswered.get(socket) ?? 0) - 1);
    });
    const refuseParts = (error: Error): void => {
      if (count === 0 && !response.headersSent) refuse(socket, '400 Bad Request', error.message);
      else socket.destroy();
    };
    limitSmallParts(request, refuseParts, () => {
      this.#read += costOfPart;
    });
    return true;
  }
}

/** Sends a response without a request that a handler could answer, and ends the connection. */
function refuse(socket: Socket, status: string, reason: string): void {
  // The HTTP parser may still emit requests that it has already read.
  if (socket.destroyed) return;
  const head = `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: text/plain\r\n`;
  socket.write(`${head}content-length: ${reason.length + 1}\r\n\r\n${reason}\n`);
  socket.destroy();
}
