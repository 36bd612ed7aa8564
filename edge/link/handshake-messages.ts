import type { RawData, WebSocket } from 'ws';
import { EdgeError } from '../errors.ts';
import { maxHandshakeBytes } from './handshake.ts';
import { closeCodes } from './link-peer.ts';

/** Received messages of a handshake. The other side may send only one message in advance. */
export class HandshakeMessages {
  readonly #socket: WebSocket;
  #waiting: { resolve(bytes: Buffer): void; reject(error: EdgeError): void } | undefined;
  #early: Buffer | undefined;
  #ended: EdgeError | undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', this.#onMessage);
    socket.on('close', this.#onClose);
    socket.on('error', ignore);
  }

  /** Whether the connection has ended. */
  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /**
   * Returns the next message.
   * @throws EdgeError ERR_SITE_LINK if the connection ends, ERR_SITE_MESSAGE if it is too large
   */
  next(): Promise<Buffer> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const early = this.#early;
    this.#early = undefined;
    if (early !== undefined) return Promise.resolve(early);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** Removes the listeners from the socket. */
  stop(): void {
    this.#socket.off('message', this.#onMessage);
    this.#socket.off('close', this.#onClose);
  }

  readonly #onMessage = (data: RawData, isBinary: boolean): void => {
    const isValid = isBinary && Buffer.isBuffer(data) && data.length <= maxHandshakeBytes;
    if (!isValid || this.#early !== undefined) {
      const text = 'a message of the handshake is not binary, too large, or sent too early';
      this.#fail(new EdgeError('ERR_SITE_MESSAGE', text));
    } else if (this.#waiting === undefined) this.#early = data;
    else {
      this.#waiting.resolve(data);
      this.#waiting = undefined;
    }
  };

  readonly #onClose = (code: number): void => {
    const isRefused = code === closeCodes.refused;
    const text = isRefused ? 'the centre refused this site' : 'the connection ended';
    this.#fail(new EdgeError(isRefused ? 'ERR_SITE_REFUSED' : 'ERR_SITE_LINK', text));
  };

  #fail(error: EdgeError): void {
    this.#ended ??= error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

function ignore(): void {}
