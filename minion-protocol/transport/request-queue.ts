import type { Budget } from '#runtime';
import type { ConcurrencyLimiter } from './concurrency-limiter.ts';
import type { StreamConnection } from './stream-connection.ts';
import type { Peer, RequestHandler, RequestSlot } from './transport.ts';
import type { EncodedMessage } from './write-queue.ts';

/** Handler and limits for a request port. */
export interface RequestService {
  readonly handler: RequestHandler;
  /** Salt's name of the transport. */
  readonly transport: string;
  /**
   * Returns the number of the publish port that the master has bound. If the configured number is
   * 0, the operating system selects a free port.
   */
  readonly publishPort: () => number;
  /** Maximum number of requests of one connection in progress. */
  readonly maxInFlight: number;
  /**
   * Maximum total size of the requests that one connection has in progress, in bytes. A single
   * request may be larger.
   */
  readonly maxBytesInFlight: number;
  /** Limit for requests in progress, which all connections share. */
  readonly limiter: ConcurrencyLimiter;
  /** Bytes of replies that wait for sending, by minion, or by address if no minion is known. */
  readonly unread: Budget;
}

/** Encoding and order of replies. `Route` is the data with which a transport addresses a reply. */
export interface AnswerForm<Route> {
  readonly encode: (route: Route, answer: Uint8Array) => EncodedMessage;
  /**
   * Whether replies are sent in the order of the requests. Otherwise they are sent as soon as they
   * are ready.
   */
  readonly isOrdered: boolean;
}

interface WaitingRequest<Route> {
  readonly route: Route;
  readonly body: Uint8Array;
}

/**
 * Reply that is not sent yet. It does not contain the request, because a request that gets no reply
 * keeps its place until its connection ends.
 */
interface PendingAnswer {
  /** Size of the request, in bytes. */
  readonly bytes: number;
  message: EncodedMessage | undefined;
}

/** Passes requests to the handler concurrently and sends its replies to the connection. */
export class RequestQueue<Route> {
  readonly #connection: StreamConnection;
  readonly #service: RequestService;
  readonly #form: AnswerForm<Route>;
  readonly #peer: Peer;
  #waiting: WaitingRequest<Route>[] = [];
  #pending: PendingAnswer[] = [];
  #pendingBytes = 0;
  #unanswered = 0;
  /** Size of the replies that wait for an earlier reply, in bytes. */
  #readyBytes = 0;
  /** Bytes that this connection has taken from {@link RequestService.unread}, and their owner. */
  #unread = { owner: '', bytes: 0 };
  #isFinishing = false;
  #isClosed = false;

  constructor(connection: StreamConnection, service: RequestService, form: AnswerForm<Route>) {
    this.#connection = connection;
    this.#service = service;
    this.#form = form;
    this.#peer = peerOf(connection, service);
  }

  /** Queues a request. It is processed when the connection gets a slot. */
  take(route: Route, body: Uint8Array): void {
    this.#connection.guarded.requestDone();
    this.#waiting.push({ route, body });
    this.startRequests();
  }

  /** Starts waiting requests, if the limits permit. */
  startRequests(): void {
    while (!this.#isFull() && this.#waiting.length > 0) {
      if (!this.#service.limiter.tryAcquire(this)) break;
      const request = this.#waiting.shift();
      if (request === undefined) break;
      const pending = { bytes: request.body.length, message: undefined };
      this.#pending.push(pending);
      this.#pendingBytes += pending.bytes;
      this.#answer(request, pending);
    }
    this.#connection.pauseReading(this.#isFull() || this.#waiting.length > 0);
  }

  onWritten(): void {
    this.#countUnread();
    // Call this even if no request waits, because a large reply may have stopped reading.
    this.startRequests();
  }

  onClosed(): void {
    this.#service.limiter.cancel(this);
    this.#service.unread.release(this.#unread.owner, this.#unread.bytes);
    this.#isClosed = true;
    this.#waiting = [];
    this.#pending = [];
    this.#readyBytes = 0;
  }

  finish(): void {
    this.#isFinishing = true;
    this.#service.limiter.cancel(this);
    this.#waiting = [];
    this.#endIfIdle();
  }

  #isFull(): boolean {
    return (
      this.#pending.length >= this.#service.maxInFlight ||
      this.#pendingBytes >= this.#service.maxBytesInFlight ||
      this.#connection.queue.isClogged
    );
  }

  #answer({ route, body }: WaitingRequest<Route>, pending: PendingAnswer): void {
    const turn = new LimiterSlot(this.#service.limiter);
    let answer: Uint8Array | Promise<Uint8Array>;
    try {
      answer = this.#service.handler(body, this.#peer, turn);
    } catch {
      this.#leaveUnanswered(turn);
      return;
    }
    if (answer instanceof Promise) void this.#answerLater(route, pending, answer, turn);
    else this.#settle(route, pending, answer, turn);
  }

  async #answerLater(
    route: Route,
    pending: PendingAnswer,
    answer: Promise<Uint8Array>,
    turn: RequestSlot,
  ): Promise<void> {
    let bytes: Uint8Array;
    try {
      bytes = await answer;
    } catch {
      this.#leaveUnanswered(turn);
      return;
    }
    this.#settle(route, pending, bytes, turn);
    this.startRequests();
  }

  #settle(route: Route, pending: PendingAnswer, answer: Uint8Array, turn: RequestSlot): void {
    const message = this.#form.encode(route, answer);
    if (this.#mayKeep(message)) {
      pending.message = message;
      this.#readyBytes += message.bytes;
      this.#countUnread();
      this.#sendAnswers();
    } else {
      this.#connection.guarded.refuse('unread-replies');
    }
    turn.release();
    this.#endIfIdle();
  }

  #leaveUnanswered(turn: RequestSlot): void {
    turn.release();
    // The connection is closed later. The other requests of the peer are processed until then.
    this.#connection.guarded.leaveUnanswered();
    this.#unanswered += 1;
    this.#endIfIdle();
  }

  #sendAnswers(): void {
    const { isOrdered } = this.#form;
    for (let index = 0; index < this.#pending.length; ) {
      const pending = this.#pending[index];
      if (pending?.message === undefined) {
        if (isOrdered) return;
        index += 1;
        continue;
      }
      this.#pending.splice(index, 1);
      this.#pendingBytes -= pending.bytes;
      this.#readyBytes -= pending.message.bytes;
      this.#connection.send(pending.message);
      this.#countUnread();
    }
  }

  #owner(): string {
    const { firstMinion, limitKey } = this.#connection.guarded;
    return firstMinion === undefined ? `address ${limitKey}` : `minion ${firstMinion}`;
  }

  /** Whether the owner of the connection may have this reply waiting for sending. */
  #mayKeep({ bytes }: EncodedMessage): boolean {
    const { unread } = this.#service;
    const owner = this.#owner();
    return unread.heldBy(owner) === 0 || unread.hasPlace(owner, bytes);
  }

  /** Counts the bytes of all replies that wait for sending. */
  #countUnread(): void {
    // The last write may be reported after the end of the connection.
    if (this.#isClosed) return;
    const { unread } = this.#service;
    unread.release(this.#unread.owner, this.#unread.bytes);
    const bytes = this.#connection.queue.bytes + this.#readyBytes;
    this.#unread = { owner: this.#owner(), bytes };
    unread.take(this.#unread.owner, this.#unread.bytes);
  }

  #endIfIdle(): void {
    const isIdle = this.#pending.length === this.#unanswered;
    if (this.#isFinishing && isIdle) this.#connection.endWhenWritten();
  }
}

class LimiterSlot implements RequestSlot {
  #turns: ConcurrencyLimiter | undefined;

  constructor(turns: ConcurrencyLimiter) {
    this.#turns = turns;
  }

  release(): void {
    const turns = this.#turns;
    this.#turns = undefined;
    turns?.release();
  }
}

/** Returns the sender of a connection's requests. */
export function peerOf(
  { guarded }: StreamConnection,
  { transport, publishPort }: Pick<RequestService, 'transport' | 'publishPort'>,
): Peer {
  return {
    address: guarded.address,
    transport,
    publishPort: publishPort(),
    identify: (minionId) => guarded.identify(minionId),
    noteRefusal: () => guarded.noteRefusal(),
  };
}
