import type { RawData, WebSocket } from 'ws';
import { EdgeError } from '../errors.ts';
import { closeCodes } from './link-peer.ts';

/** Limits of the received messages of a handshake. */
export interface HandshakeLimits {
  /** Maximum size of a message, in bytes. */
  readonly maxBytes: number;
  /**
   * Maximum number of received messages that wait for a call of `next` or `last`. If more arrive,
   * the handshake fails.
   */
  readonly maxAdvance: number;
}

/** Queue of the received messages of a handshake. */
export class HandshakeMessages {
  readonly #socket: WebSocket;
  readonly #limits: HandshakeLimits;
  #waiting: { resolve(bytes: Buffer): void; reject(error: EdgeError): void } | undefined;
  /** Received messages that wait for a call of `next` or `last`, the earliest first. */
  readonly #early: Buffer[] = [];
  #ended: EdgeError | undefined;

  constructor(socket: WebSocket, limits: HandshakeLimits) {
    this.#socket = socket;
    this.#limits = limits;
    socket.on('message', this.#onMessage);
    socket.on('close', this.#onClose);
    socket.on('error', ignore);
  }

  /**
   * Waits for the next message of the handshake and returns it.
   * @throws EdgeError ERR_SITE_LINK if the connection ends, ERR_SITE_REFUSED if the centre refused
   * the site, ERR_SITE_MESSAGE if a message is not binary or too large, or if too many messages
   * arrive before they are read
   */
  next(): Promise<Buffer> {
    return new Promise((resolve, reject) => this.#take({ resolve, reject }));
  }

  /**
   * Waits for the last message of the handshake, removes the listeners from the socket, and calls
   * `use` with the message. The call is synchronous. If `use` adds its own listener to the socket,
   * this listener therefore misses no later message.
   * @throws the errors of {@link next}, and the errors of `use`
   */
  last<T>(use: (message: Buffer) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const take = (message: Buffer): void => {
        this.stop();
        try {
          resolve(use(message));
        } catch (error) {
          reject(error);
        }
      };
      this.#take({ resolve: take, reject });
    });
  }

  /**
   * Removes the listeners from the socket. Returns the received messages that `next` has not
   * returned yet.
   */
  stop(): readonly Buffer[] {
    this.#socket.off('message', this.#onMessage);
    this.#socket.off('close', this.#onClose);
    return this.#early;
  }

  #take(waiting: { resolve(bytes: Buffer): void; reject(error: EdgeError): void }): void {
    const early = this.#early.shift();
    if (early !== undefined) waiting.resolve(early);
    else if (this.#ended !== undefined) waiting.reject(this.#ended);
    else this.#waiting = waiting;
  }

  readonly #onMessage = (data: RawData, isBinary: boolean): void => {
    const { maxBytes, maxAdvance } = this.#limits;
    const isValid = isBinary && Buffer.isBuffer(data) && data.length <= maxBytes;
    if (!isValid || this.#early.length >= maxAdvance) {
      const text = 'a message of the handshake is not binary, too large, or sent too early';
      this.#early.length = 0;
      this.#fail(new EdgeError('ERR_SITE_MESSAGE', text));
      return;
    }
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#early.push(data);
    else waiting.resolve(data);
  };

  readonly #onClose = (code: number, reason: Uint8Array): void => {
    const isRefused = code === closeCodes.refused;
    const why = code === closeCodes.busy ? `: ${Buffer.from(reason).toString('latin1')}` : '';
    const text = isRefused ? 'the centre refused this site' : `the connection ended${why}`;
    this.#fail(new EdgeError(isRefused ? 'ERR_SITE_REFUSED' : 'ERR_SITE_LINK', text));
  };

  #fail(error: EdgeError): void {
    this.#ended ??= error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

function ignore(): void {}
