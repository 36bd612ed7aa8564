/**
 * Connects a master and minions in one process, without sockets. Bytes are copied and arrive in a
 * later turn of the event loop.
 */

import { inMilliseconds } from '#runtime';
import { PublicationReplayBuffer } from './publication-replay.ts';
import { DEFAULT_SUBSCRIBER_QUEUE_LIMITS } from './subscriber-queue.ts';
import {
  type BoundPorts,
  BROADCAST_TOPIC,
  type MasterTransport,
  type MinionTransport,
  minionTopic,
  type OutgoingPublication,
  type PublishOutcome,
  type RequestHandler,
  type RequestSlot,
  type SubscriberInfo,
  TransportError,
} from './transport.ts';

const PORTS: BoundPorts = { requestPort: 4506, publishPort: 4505 };
const DEFAULT_ADDRESS = '127.0.0.1';

export interface MemoryTransportOptions {
  /**
   * Whether publications are delivered by topic, as in ZeroMQ with `zmq_filtering`. Default:
   * `false`; every minion receives all publications.
   */
  readonly filtering?: boolean;
}

/** Both ends of an in-memory transport. */
export interface MemoryTransport {
  readonly master: MasterTransport;
  /**
   * Returns the minion's end of a connection. {@link MasterTransport.disconnect} of `minionId`
   * discards the pending replies of this connection.
   * @param address - address that the master sees; default: `127.0.0.1`
   */
  dial(minionId: string, address?: string): MinionTransport;
}

/**
 * Creates a transport between a master and minions in the same process. It uses no ports, for
 * example in tests and in programs with an embedded minion.
 */
export function createMemoryTransport(options: MemoryTransportOptions = {}): MemoryTransport {
  const master = new MemoryMaster(options.filtering ?? false);
  return {
    master,
    dial: (minionId, address = DEFAULT_ADDRESS) => new MemoryMinion(master, minionId, address),
  };
}

/** A slot that is always free. Requests need no limit, because one process has few minions. */
const unlimitedSlot: RequestSlot = { release: () => {} };

class MemoryMaster implements MasterTransport {
  readonly name = 'memory';
  readonly #filtering: boolean;
  readonly #subscriptions = new Map<MemoryMinion, Subscription>();
  readonly #inFlight = new Set<InFlight>();
  readonly #held = new PublicationReplayBuffer<Subscription>(
    DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
    (publication, to) => this.#send(publication, [to]),
  );
  #handler: RequestHandler | undefined;
  #isClosed = false;

  constructor(filtering: boolean) {
    this.#filtering = filtering;
  }

  async listen(handler: RequestHandler): Promise<BoundPorts> {
    if (this.#isClosed || this.#handler !== undefined) {
      throw new TransportError(
        'ERR_CLOSED',
        'listen() was called twice or after close(); create a new transport',
      );
    }
    this.#handler = handler;
    return PORTS;
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#subscriptions.values());
  }

  #send(
    { envelope, minionIds }: OutgoingPublication,
    subscriptions: Iterable<Subscription>,
  ): PublishOutcome {
    const topics = minionIds === null ? [BROADCAST_TOPIC] : minionIds.map(minionTopic);
    let queued = 0;
    for (const subscription of subscriptions) {
      if (this.#filtering && !subscription.wantsAny(topics)) continue;
      subscription.deliver(envelope);
      queued += 1;
    }
    return { queued, skipped: 0 };
  }

  disconnect(minionId: string): void {
    for (const request of this.#inFlight) {
      if (request.minionIds.has(minionId)) this.#inFlight.delete(request);
    }
  }

  subscribers(): readonly SubscriberInfo[] {
    return Array.from(this.#subscriptions.values(), (subscription) => subscription.describe());
  }

  refusals(): Readonly<Record<string, number>> {
    return {};
  }

  async close(graceMs = 5000): Promise<void> {
    this.#isClosed = true;
    this.#handler = undefined;
    this.#subscriptions.clear();
    const answers = Array.from(this.#inFlight, (request) => request.done);
    await inMilliseconds(Promise.allSettled(answers), graceMs);
    this.#inFlight.clear();
  }

  /**
   * Sends a request and returns the reply. If the connection is ended before the reply, the promise
   * never settles, as over a network.
   * @throws TransportError ERR_CONNECT; ERR_TIMEOUT if the handler rejects the request
   */
  async ask(body: Uint8Array, minionId: string, address: string): Promise<Uint8Array> {
    const handler = this.#handler;
    if (handler === undefined) {
      throw new TransportError('ERR_CONNECT', 'the in-memory master is not listening');
    }
    const minionIds = new Set([minionId]);
    const peer = {
      address,
      transport: this.name,
      publishPort: PORTS.publishPort,
      identify: (id: string) => void minionIds.add(id),
      noteRefusal: () => {},
    };
    const done = nextTick().then(() => handler(new Uint8Array(body), peer, unlimitedSlot));
    const request: InFlight = { minionIds, done };
    this.#inFlight.add(request);
    try {
      const answer = await done.catch(() => {
        // The master does not reveal the reason.
        throw new TransportError('ERR_TIMEOUT', 'the in-memory master sent no reply');
      });
      return this.#inFlight.has(request) ? new Uint8Array(answer) : never();
    } finally {
      this.#inFlight.delete(request);
    }
  }

  subscribe(minion: MemoryMinion, subscription: Subscription): void {
    if (this.#isClosed) return;
    this.#subscriptions.set(minion, subscription);
    this.#held.addSubscriber(subscription);
    this.#held.replay(subscription);
  }

  unsubscribe(minion: MemoryMinion): void {
    this.#subscriptions.delete(minion);
  }
}

interface InFlight {
  readonly minionIds: Set<string>;
  readonly done: Promise<Uint8Array>;
}

class MemoryMinion implements MinionTransport {
  readonly #master: MemoryMaster;
  readonly #minionId: string;
  readonly #address: string;
  /** Callbacks that reject the pending requests when this end is closed. */
  readonly #waiting = new Set<(error: TransportError) => void>();
  /**
   * Resolves when the previous request has ended. Like a REQ socket, this end sends one request at
   * a time.
   */
  #previous: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(master: MemoryMaster, minionId: string, address: string) {
    this.#master = master;
    this.#minionId = minionId;
    this.#address = address;
  }

  request(body: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const previous = this.#previous;
    const answer = this.#beforeDeadline(timeoutMs, async () => {
      await previous;
      if (this.#isClosed) throw closedError();
      return this.#master.ask(body, this.#minionId, this.#address);
    });
    this.#previous = answer.then(ignore, ignore);
    return answer;
  }

  async subscribe(
    _publishPort: number,
    topics: readonly string[] | null,
    onPublication: (envelope: Uint8Array) => void,
  ): Promise<void> {
    if (this.#isClosed) throw closedError();
    const subscription = new Subscription(this.#address, topics ?? [''], (envelope) => {
      if (!this.#isClosed) onPublication(envelope);
    });
    this.#master.subscribe(this, subscription);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#master.unsubscribe(this);
    for (const end of this.#waiting) end(closedError());
    await this.#previous;
  }

  #beforeDeadline(timeoutMs: number, ask: () => Promise<Uint8Array>): Promise<Uint8Array> {
    let timer: NodeJS.Timeout | undefined;
    let end: (error: TransportError) => void = ignore;
    const ended = new Promise<never>((_resolve, reject) => {
      end = reject;
      timer = setTimeout(() => {
        reject(new TransportError('ERR_TIMEOUT', `no reply within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    this.#waiting.add(end);
    return Promise.race([ask(), ended]).finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(end);
    });
  }
}

/** Publish connection of one minion. */
class Subscription {
  readonly #address: string;
  readonly #connectedAt = Date.now();
  readonly #topics: readonly string[];
  readonly #onPublication: (envelope: Uint8Array) => void;
  #queuedBytes = 0;

  constructor(
    address: string,
    topics: readonly string[],
    onPublication: (envelope: Uint8Array) => void,
  ) {
    this.#address = address;
    this.#topics = topics;
    this.#onPublication = onPublication;
  }

  wantsAny(topics: readonly string[]): boolean {
    return topics.some((topic) => this.#topics.some((prefix) => topic.startsWith(prefix)));
  }

  deliver(envelope: Uint8Array): void {
    this.#queuedBytes += envelope.length;
    setImmediate(() => {
      this.#queuedBytes -= envelope.length;
      this.#onPublication(new Uint8Array(envelope));
    });
  }

  describe(): SubscriberInfo {
    return {
      address: this.#address,
      connectedAt: this.#connectedAt,
      topics: this.#topics,
      minionIds: [],
      queuedBytes: this.#queuedBytes,
    };
  }
}

function closedError(): TransportError {
  return new TransportError('ERR_CLOSED', 'the in-memory transport is closed');
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function never(): Promise<Uint8Array> {
  return new Promise(() => {});
}

function ignore(): void {
  // The caller has the same promise and handles its result.
}
