/**
 * The minion's end of ZeroMQ: REQ and SUB sockets of libzmq, configured like those of real minions
 * [WIRE 4.1].
 */
import { createRequire } from 'node:module';
import type { Request, Subscriber } from 'zeromq';
import { requireOptionalPackage, Semaphore } from '#runtime';
import { transportLimits } from './limits.ts';
import { formatHostPort, type MinionTransport, TransportError } from './transport.ts';

const require = createRequire(import.meta.url);

/** Address of the master and connection settings. */
export interface ZeromqDialerOptions {
  readonly host: string;
  readonly requestPort: number;
  /** Idle time before the first TCP keep-alive probe, in milliseconds. Default: 300,000. */
  readonly keepAliveIdleMs?: number;
  /** Delay before the first reconnection, in milliseconds. Default: 100. */
  readonly reconnectMs?: number;
  /** Maximum delay before a reconnection, in milliseconds. Default: 5,000. */
  readonly maxReconnectMs?: number;
  /**
   * Maximum size of a message from the master, in bytes. A larger one ends the connection. Default:
   * 100 MiB.
   */
  readonly maxMessageBytes?: number;
}

/** Creates the minion's end. It connects when it is first used and reconnects by itself. */
export function dialZeromq(options: ZeromqDialerOptions): MinionTransport {
  return new ZeromqDialer(options);
}

class ZeromqDialer implements MinionTransport {
  readonly #options: ZeromqDialerOptions;
  /** Sockets without a pending request. */
  readonly #idle: Request[] = [];
  readonly #asking = new Set<Request>();
  readonly #gate = new Semaphore(transportLimits.dialerSockets);
  readonly #underWay = new Set<Promise<unknown>>();
  #subscriber: Subscriber | undefined;
  #isClosed = false;

  constructor(options: ZeromqDialerOptions) {
    this.#options = options;
  }

  async request(body: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const deadline = performance.now() + timeoutMs;
    const answer = this.#gate.run(() => this.#ask(body, deadline, timeoutMs));
    this.#underWay.add(answer);
    try {
      return await answer;
    } finally {
      this.#underWay.delete(answer);
    }
  }

  async subscribe(
    publishPort: number,
    topics: readonly string[] | null,
    onPublication: (envelope: Uint8Array) => void,
  ): Promise<void> {
    const { Subscriber } = loadZeromq();
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
    for (const socket of [...this.#idle, ...this.#asking]) socket.close();
    this.#subscriber?.close();
    await Promise.allSettled(this.#underWay);
  }

  async #ask(body: Uint8Array, deadline: number, timeoutMs: number): Promise<Uint8Array> {
    const { Request } = loadZeromq();
    this.#refuseIfClosed();
    const socket = this.#idle.pop() ?? this.#openSocket(Request);
    this.#asking.add(socket);
    try {
      socket.sendTimeout = remaining(deadline);
      await socket.send(body);
      socket.receiveTimeout = remaining(deadline);
      const [answer] = await socket.receive();
      this.#idle.push(socket);
      return answer ?? new Uint8Array(0);
    } catch (cause) {
      // A REQ socket that waits for a reply cannot send again.
      socket.close();
      this.#refuseIfClosed(cause);
      throw new TransportError('ERR_TIMEOUT', `no reply within ${timeoutMs} ms`, { cause });
    } finally {
      this.#asking.delete(socket);
    }
  }

  #openSocket(Socket: typeof Request): Request {
    const socket = new Socket(this.#socketOptions());
    connect(socket, this.#options.host, this.#options.requestPort);
    return socket;
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
      throw new TransportError('ERR_CLOSED', 'the ZeroMQ connection is closed', { cause });
  }
}

/**
 * Loads the package when the first minion is created, so that programs that only use the protocol
 * do not load it. This matters for their worker threads: if a worker thread is terminated while it
 * loads a native module, the process crashes.
 */
function loadZeromq(): typeof import('zeromq') {
  return requireOptionalPackage('zeromq', 'a ZeroMQ connection of a minion', () =>
    require('zeromq'),
  );
}

/**
 * Connects a socket. An unreachable host only causes a delay.
 * @throws {@link TransportError} ERR_CONNECT for an invalid address
 */
function connect(socket: Request | Subscriber, host: string, port: number): void {
  const address = formatHostPort(host, port);
  try {
    socket.connect(`tcp://${address}`);
  } catch (cause) {
    socket.close();
    throw new TransportError('ERR_CONNECT', `cannot connect to ${address}: invalid address`, {
      cause,
    });
  }
}

/**
 * Passes each publication to `onPublication` until the socket is closed. A message consists of the
 * envelope, and sometimes a topic before it. So the envelope is always the last frame.
 */
async function receive(
  subscriber: Subscriber,
  onPublication: (envelope: Uint8Array) => void,
): Promise<void> {
  for await (const frames of subscriber) {
    const envelope = frames.at(-1);
    if (envelope !== undefined) onPublication(envelope);
  }
}

/**
 * Returns the remaining milliseconds, at least 1. For ZeroMQ, 0 means not to wait and -1 to wait
 * forever.
 */
function remaining(deadline: number): number {
  return Math.max(1, Math.ceil(deadline - performance.now()));
}
