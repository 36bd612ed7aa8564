import type { RawData, WebSocket } from 'ws';
import { EdgeError } from '../errors.ts';
import { maxHandshakeBytes } from './handshake.ts';
import { closeCodes } from './link-peer.ts';

/** Maximum number and size of the messages that a site sends before the centre has accepted it. */
const maxHeld = 8;
const maxHeldBytes = 16_384;

/** Received messages of a handshake. The other side may send only one message in advance. */
export class HandshakeMessages {
  readonly #socket: WebSocket;
  #waiting: { resolve(bytes: Buffer): void; reject(error: EdgeError): void } | undefined;
  #early: Buffer | undefined;
  /** Messages after the last message of the handshake. */
  #held: Buffer[] | undefined;
  #isLast = false;
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

  /**
   * Returns the last message. Messages that follow are held until {@link stop}.
   * @throws EdgeError ERR_SITE_LINK, ERR_SITE_MESSAGE
   */
  last(): Promise<Buffer> {
    this.#isLast = true;
    if (this.#early !== undefined) this.#held = [];
    return this.next();
  }

  /**
   * Removes the listeners from the socket. Returns the held messages.
   * @throws EdgeError ERR_SITE_MESSAGE if there were too many
   */
  stop(): readonly Buffer[] {
    this.#socket.off('message', this.#onMessage);
    this.#socket.off('close', this.#onClose);
    if (this.#ended?.code === 'ERR_SITE_MESSAGE') throw this.#ended;
    return this.#held ?? [];
  }

  readonly #onMessage = (data: RawData, isBinary: boolean): void => {
    if (this.#held !== undefined) {
      this.#hold(this.#held, data, isBinary);
      return;
    }
    const isValid = isBinary && Buffer.isBuffer(data) && data.length <= maxHandshakeBytes;
    if (!isValid || this.#early !== undefined) {
      const text = 'a message of the handshake is not binary, too large, or sent too early';
      this.#fail(new EdgeError('ERR_SITE_MESSAGE', text));
    } else if (this.#waiting === undefined) this.#early = data;
    else {
      if (this.#isLast) this.#held = [];
      this.#waiting.resolve(data);
      this.#waiting = undefined;
    }
  };

  #hold(held: Buffer[], data: RawData, isBinary: boolean): void {
    const bytes = held.reduce((sum, { length }) => sum + length, 0);
    if (isBinary && Buffer.isBuffer(data) && held.length < maxHeld) {
      held.push(data);
      if (bytes + data.length <= maxHeldBytes) return;
    }
    const text = 'the site sent too much before the centre had accepted it';
    this.#fail(new EdgeError('ERR_SITE_MESSAGE', text));
  }

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
