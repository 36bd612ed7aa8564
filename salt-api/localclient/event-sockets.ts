/**
 * The event bus for Salt's own clients: two Unix sockets. Clients read all events from the first
 * and write events to the second. A frame is a MessagePack map `{head: {}, body: bytes}` without a
 * length prefix. The bytes are a packed event [WIRE 14.1].
 */

import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import type { MasterApi, MasterEvent } from '#master';
import {
  encodePublicationFrame,
  isWireMap,
  ProtocolError,
  packEvent,
  TcpFrameDecoder,
  unpackEvent,
  unpackLocal,
} from '#minion-protocol';
import { listenPrivately, SendPool, type SendQueue } from '#runtime';
import { apiLimits } from '../limits.ts';

/**
 * Maximum number of connections to each socket. A `LocalClient` may keep its connection open as
 * long as it exists.
 */
const maxConnections = 512;
/** Maximum number of bytes that wait for one client, in addition to the largest event. */
const extraBytes = 8 * 1024 * 1024;
/**
 * Maximum size of an event that a client writes, in bytes. It exceeds `max_event_size`, because the
 * clients check that limit with an estimate of the size.
 */
const maxFiredBytes = 4 * 1024 * 1024;

export interface EventSocketOptions {
  readonly paths: { readonly events: string; readonly firing: string };
  readonly events: Pick<MasterApi['events'], 'fire' | 'subscribe'>;
  /** `max_event_size`: maximum size of an event, in bytes. */
  readonly maxEventBytes: number;
  readonly log: Logger;
}

/** Encodes an event. Returns `undefined` if its tag cannot be represented in a frame. */
export function encodeEvent({ tag, data }: MasterEvent): Buffer | undefined {
  try {
    return Buffer.concat(encodePublicationFrame(packEvent(tag, data)));
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** The two event sockets of a master. */
export class EventSockets {
  readonly #options: EventSocketOptions;
  readonly #pool: SendPool;
  readonly #queues = new Set<SendQueue>();
  readonly #sockets = new Set<Socket>();
  readonly #end = new AbortController();
  readonly #readers: Server;
  readonly #writers: Server;
  #following: Promise<void> = Promise.resolve();

  constructor(options: EventSocketOptions) {
    this.#options = options;
    const messageBytes = options.maxEventBytes;
    this.#pool = new SendPool(apiLimits.localEventBytes, { messageBytes, extraBytes });
    this.#readers = this.#serve((socket) => this.#addReader(socket));
    this.#writers = this.#serve((socket) => this.#addWriter(socket));
  }

  /** Number of clients that read events. */
  get readers(): number {
    return this.#queues.size;
  }

  /**
   * Opens the sockets.
   * @throws the system's errors
   */
  async open(): Promise<void> {
    const { paths } = this.#options;
    this.#following = this.#follow(await this.#subscribe());
    await listenPrivately(this.#readers, paths.events);
    await listenPrivately(this.#writers, paths.firing);
  }

  async close(): Promise<void> {
    const { paths } = this.#options;
    this.#end.abort();
    await Promise.all([paths.events, paths.firing].map((file) => rm(file, { force: true })));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([this.#readers, this.#writers].map(closeServer));
    await this.#following;
  }

  #serve(add: (socket: Socket) => void): Server {
    const { log } = this.#options;
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      // A reset by the client is not an error. The event 'close' follows.
      socket.on('error', () => {});
      socket.once('close', () => this.#sockets.delete(socket));
      add(socket);
    });
    server.maxConnections = maxConnections;
    server.on('drop', () => {
      log.warn(
        { connections: maxConnections },
        'rejected a connection of a LocalClient: too many connections are open',
      );
    });
    return server;
  }

  #addReader(socket: Socket): void {
    // Clients do not send anything on this socket. Received data is discarded.
    socket.resume();
    const queue = this.#pool.open(socket, () => {
      this.#options.log.warn('disconnected a LocalClient: it read events too slowly');
      return [];
    });
    this.#queues.add(queue);
    socket.once('close', () => this.#queues.delete(queue));
  }

  #addWriter(socket: Socket): void {
    const decoder = new TcpFrameDecoder(maxFiredBytes);
    socket.on('data', (chunk) => {
      for (const frame of decoder.push(chunk)) {
        if (frame.type === 'breach') {
          this.#options.log.warn({ reason: frame.reason }, 'LocalClient sent an invalid event');
          socket.destroy();
          return;
        }
        this.#fire(frame.body);
      }
    });
  }

  #fire(body: Uint8Array): void {
    const { events, log } = this.#options;
    try {
      const packed = unpackLocal(body);
      const { tag, data } = unpackEvent(packed instanceof Uint8Array ? packed : Buffer.alloc(0));
      if (!isWireMap(data)) throw new ProtocolError('ERR_BAD_EVENT', 'the event data is not a map');
      events
        .fire(tag, data)
        .catch((error: unknown) =>
          log.error({ err: error }, 'cannot publish an event of a LocalClient'),
        );
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      log.warn({ err: error }, 'ignored an invalid event of a LocalClient');
    }
  }

  #subscribe(): Promise<AsyncIterable<MasterEvent>> {
    return this.#options.events.subscribe({}, this.#end.signal);
  }

  /**
   * Sends events to the connected readers. If events were missed, the readers are disconnected, so
   * that they notice the gap.
   */
  async #follow(first: AsyncIterable<MasterEvent>): Promise<void> {
    for (let events = first; ; events = await this.#subscribe()) {
      try {
        for await (const event of events) this.#send(event);
        return;
      } catch (error) {
        this.#options.log.error(
          { err: error },
          'events for LocalClients were lost; disconnected all LocalClients, so that they notice the gap',
        );
        for (const queue of this.#queues) queue.destroy();
      }
    }
  }

  #send(event: MasterEvent): void {
    if (this.#queues.size === 0) return;
    const frame = encodeEvent(event);
    if (frame === undefined) return;
    for (const queue of this.#queues) queue.push(frame);
  }
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}
