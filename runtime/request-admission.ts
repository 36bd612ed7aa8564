import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { httpLimits } from './http-limits.ts';
import { intercept } from './intercept.ts';
import { limitSmallParts } from './small-parts.ts';

const maxUnanswered = httpLimits.unansweredRequests.perOwner ?? 0;

/**
 * Maximum number of listeners for one event of a response. Node.js logs a warning above it. The
 * default of Node.js, 10, is too low, because the limits, the framework and the streams all add
 * listeners. Their number does not grow, so that warning would be wrong.
 */
const usualListeners = 20;

/** Limits the requests of each connection before they are processed. */
export class RequestAdmission {
  /** Number of unanswered requests of each connection. */
  readonly #unanswered = new WeakMap<Socket, number>();

  /** Applies the limits to each request of a server. */
  protect(server: Server): void {
    intercept(server, 'request', (proceed, request: IncomingMessage, response: ServerResponse) => {
      if (this.admit(request, response)) proceed();
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
    limitSmallParts(request, (error) => {
      // The server itself answers requests that its parser rejects in this way.
      if (count === 0 && !response.headersSent) {
        const text = `${error.message}\n`;
        socket.write(
          `HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
        );
      }
      socket.destroy();
    });
    return true;
  }
}
