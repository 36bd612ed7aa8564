/** The minion's end over ZeroMQ: REQ and SUB of libzmq, set as real minions set them [WIRE 4.1]. */
import type { Request, Subscriber } from 'zeromq';
import { hostPort, TransportError } from './errors.ts';
import type { MinionTransport } from './transport.ts';

/** Where the master is and how to keep in touch with it. */
export interface ZeromqDialerOptions {
  readonly host: string;
  readonly requestPort: number;
  /** Silence before the first TCP keep-alive probe, milliseconds. Default 300,000. */
  readonly keepAliveIdleMs?: number;
  /** First pause before reconnecting, milliseconds. Default 100. */
  readonly reconnectMs?: number;
  /** Longest such pause, milliseconds. Default 5000. */
  readonly maxReconnectMs?: number;
  /** One message of the master, bytes; more ends the connection. Default 100 MiB. */
  readonly maxMessageBytes?: number;
}

/** Makes the minion's end; connects when first used and reconnects by itself. */
export function dialZeromq(options: ZeromqDialerOptions): MinionTransport {
  return new ZeromqDialer(options);
}

class ZeromqDialer implements MinionTransport {
  readonly #options: ZeromqDialerOptions;
  #requests: Request | undefined;
  #subscriber: Subscriber | undefined;
  /** The end of the request before: REQ takes one at a time. */
  #previous: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: ZeromqDialerOptions) {
    this.#options = options;
  }

  request(body: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const deadline = performance.now() + timeoutMs;
    const answer = this.#previous.then(() => this.#ask(body, deadline, timeoutMs));
    this.#previous = answer.then(ignore, ignore);
    return answer;
  }

  async subscribe(
    publishPort: number,
    topics: readonly string[] | null,
    onPublication: (envelope: Uint8Array) => void,
  ): Promise<void> {
    const { Subscriber } = await loadZeromq();
    this.#refuseIfClosed();
    this.#subscriber?.close();
    const subscriber = new Subscriber(this.#socketOptions());
    this.#subscriber = subscriber;
    if (topics === null) subscriber.subscribe();
    else if (topics.length > 0) subscriber.subscribe(...topics);
    connect(subscriber, this.#options.host, publishPort);
    void receive(subscriber, onPublication);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#requests?.close();
    this.#subscriber?.close();
    await this.#previous;
  }

  async #ask(body: Uint8Array, deadline: number, timeoutMs: number): Promise<Uint8Array> {
    const { Request } = await loadZeromq();
    this.#refuseIfClosed();
    const socket = this.#requestSocket(Request);
    try {
      socket.sendTimeout = remaining(deadline);
      await socket.send(body);
      socket.receiveTimeout = remaining(deadline);
      const [answer] = await socket.receive();
      return answer ?? new Uint8Array(0);
    } catch (cause) {
      // A REQ socket that waits for an answer cannot ask again.
      socket.close();
      this.#requests = undefined;
      this.#refuseIfClosed(cause);
      throw new TransportError('ERR_TIMEOUT', `no answer in ${timeoutMs} ms`, { cause });
    }
  }

  #requestSocket(Socket: typeof Request): Request {
    if (this.#requests === undefined) {
      const socket = new Socket(this.#socketOptions());
      connect(socket, this.#options.host, this.#options.requestPort);
      this.#requests = socket;
    }
    return this.#requests;
  }

  #socketOptions(): ConstructorParameters<typeof Subscriber>[0] {
    const { host, keepAliveIdleMs = 300_000, maxMessageBytes = 100 * 1024 * 1024 } = this.#options;
    return {
      linger: 0,
      ipv6: host.includes(':'),
      tcpKeepalive: 1,
      tcpKeepaliveIdle: Math.ceil(keepAliveIdleMs / 1000),
      reconnectInterval: this.#options.reconnectMs ?? 100,
      reconnectMaxInterval: this.#options.maxReconnectMs ?? 5000,
      maxMessageSize: maxMessageBytes,
    };
  }

  #refuseIfClosed(cause?: unknown): void {
    if (this.#isClosed)
      throw new TransportError('ERR_CLOSED', 'the transport is closed', { cause });
  }
}

/**
 * Loaded by the first minion, not by every program that speaks the protocol: a worker thread that
 * is ended while it loads a native module takes its process with it.
 */
function loadZeromq(): Promise<typeof import('zeromq')> {
  return import('zeromq');
}

/** @throws {@link TransportError} ERR_CONNECT; an unreachable host is no error, only a delay. */
function connect(socket: Request | Subscriber, host: string, port: number): void {
  const address = hostPort(host, port);
  try {
    socket.connect(`tcp://${address}`);
  } catch (cause) {
    socket.close();
    throw new TransportError('ERR_CONNECT', `${address} is no address to connect to`, { cause });
  }
}

/** Ends when the socket is closed. The envelope is the last frame: a topic may precede it. */
async function receive(
  subscriber: Subscriber,
  onPublication: (envelope: Uint8Array) => void,
): Promise<void> {
  for await (const frames of subscriber) {
    const envelope = frames.at(-1);
    if (envelope !== undefined) onPublication(envelope);
  }
}

/** At least 1: 0 would mean not to wait at all, and -1 for ever. */
function remaining(deadline: number): number {
  return Math.max(1, Math.ceil(deadline - performance.now()));
}

function ignore(): void {
  // The caller has the same promise and sees the outcome there.
}
