/**
 * The request socket: what ROUTER does for REQ and DEALER peers [WIRE 4.1].
 *
 *     request = *envelope empty body      answer = the same envelope, empty, answer
 *
 * REQ sends no envelope; a DEALER may send some frames, which come back with its answer.
 */
import { encodeMessage } from '../zmtp.ts';
import type { Peer, RequestHandler } from './transport.ts';
import { encoded } from './write-queue.ts';
import type { ZeromqConnection, ZeromqSession } from './zeromq-connection.ts';

/** As long as a routing id may be [RFC 23]. */
const MAX_ENVELOPE_FRAME_BYTES = 255;

export interface RequestSessionOptions {
  readonly handler: RequestHandler;
  /** Requests being answered at the same time, for this connection. */
  readonly maxInFlight: number;
  /** Bytes of the requests being answered; a single one may be larger. */
  readonly maxBytesInFlight: number;
}

interface WaitingRequest {
  /** The frames up to and including the empty one. */
  readonly envelope: readonly Uint8Array[];
  readonly body: Uint8Array;
}

interface PendingAnswer extends WaitingRequest {
  answer: Uint8Array | undefined;
}

/** Answers the requests of one connection: side by side, but the answers leave in order. */
export class RequestSession implements ZeromqSession {
  readonly #connection: ZeromqConnection;
  readonly #options: RequestSessionOptions;
  readonly #peer: Peer;
  #waiting: WaitingRequest[] = [];
  #pending: PendingAnswer[] = [];
  #pendingBytes = 0;
  #isFinishing = false;

  constructor(connection: ZeromqConnection, options: RequestSessionOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#peer = {
      address: connection.guarded.address,
      identify: (minionId) => connection.guarded.identify(minionId),
    };
  }

  onMessage(frames: readonly Uint8Array[]): void {
    const request = splitRequest(frames);
    if (request === undefined) {
      this.#connection.refuse('bad-request');
      return;
    }
    this.#connection.guarded.requestDone();
    this.#waiting.push(request);
    this.#startRequests();
  }

  onSubscription(): void {
    // The decoder lets no ROUTER peer subscribe.
  }

  onWritten(): void {
    if (this.#waiting.length > 0) this.#startRequests();
  }

  onClosed(): void {
    this.#waiting = [];
    this.#pending = [];
  }

  finish(): void {
    this.#isFinishing = true;
    this.#waiting = [];
    this.#endIfIdle();
  }

  #startRequests(): void {
    while (!this.#isFull()) {
      const request = this.#waiting.shift();
      if (request === undefined) break;
      const pending = { ...request, answer: undefined };
      this.#pending.push(pending);
      this.#pendingBytes += pending.body.length;
      void this.#answer(pending);
    }
    this.#connection.holdBack(this.#isFull());
  }

  #isFull(): boolean {
    return (
      this.#pending.length >= this.#options.maxInFlight ||
      this.#pendingBytes >= this.#options.maxBytesInFlight ||
      this.#connection.queue.isClogged
    );
  }

  async #answer(pending: PendingAnswer): Promise<void> {
    try {
      pending.answer = await this.#options.handler(pending.body, this.#peer);
    } catch {
      // There is no answer: to the peer it is as if the master had gone.
      this.#connection.refuse('unanswered');
      return;
    }
    this.#sendAnswers();
    this.#startRequests();
    this.#endIfIdle();
  }

  #sendAnswers(): void {
    for (let head = this.#pending[0]; head?.answer !== undefined; head = this.#pending[0]) {
      this.#pending.shift();
      this.#pendingBytes -= head.body.length;
      this.#connection.send(encoded(encodeMessage([...head.envelope, head.answer])));
    }
  }

  #endIfIdle(): void {
    if (this.#isFinishing && this.#pending.length === 0) this.#connection.endWhenWritten();
  }
}

/** `undefined` for what is no request: no empty frame, or not exactly one frame behind it. */
function splitRequest(frames: readonly Uint8Array[]): WaitingRequest | undefined {
  const empty = frames.findIndex((frame) => frame.length === 0);
  const body = frames[empty + 1];
  if (empty === -1 || body === undefined || frames.length !== empty + 2) return undefined;
  const envelope = frames.slice(0, empty + 1);
  return envelope.some((frame) => frame.length > MAX_ENVELOPE_FRAME_BYTES)
    ? undefined
    : { envelope, body };
}
