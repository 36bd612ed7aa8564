/** Streams the updates of a run as lines of JSON. Disconnecting does not cancel the run. */
import type { FastifyReply } from 'fastify';
import { type HttpServerContext, writeMarkedJson } from '#master';
import type { SendQueue } from '#runtime';
import { linkSignals } from '#runtime';
import { BridgeError } from '../errors.ts';
import { httpProblemOf } from '../http-problems.ts';

/** Run of a command or a plan. */
interface UpdateSource {
  updates(): AsyncIterable<object>;
}

/** Number of unsent bytes above which the stream waits for the reader. */
const maxUnreadBytes = 65_536;

/** Streams of one server's routes. */
export class UpdateStreams {
  readonly #doors: HttpServerContext;
  /** Cached lines of updates, shared by all readers of a run. A run outlives its readers. */
  readonly #lines = new WeakMap<object, WeakRef<Buffer>>();

  constructor(doors: HttpServerContext) {
    this.#doors = doors;
  }

  /**
   * Sends a run's updates. Reserves a stream before the run starts.
   * @param token - token whose stream quota is used
   * @param begin - starts or finds the run
   * @param first - returns the first line of the run
   * @throws BridgeError ERR_COMMAND_BUSY, and errors of `begin`
   */
  async send<Handle extends UpdateSource>(
    reply: FastifyReply,
    token: string,
    begin: () => Promise<Handle>,
    first: (handle: Handle) => object,
  ): Promise<FastifyReply> {
    const leave = this.#enter(token);
    try {
      const handle = await begin();
      await this.#write(reply, first(handle), handle);
    } finally {
      leave();
    }
    return reply;
  }

  #enter(token: string): () => void {
    const leave = this.#doors.streams.tryEnter(token);
    if (leave !== undefined) return leave;
    throw new BridgeError(
      'ERR_COMMAND_BUSY',
      'too many followed runs (streams_per_token); retry later',
    );
  }

  async #write(reply: FastifyReply, first: object, followed: UpdateSource): Promise<void> {
    reply.hijack();
    const { raw } = reply;
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) raw.setHeader(name, value);
    }
    raw.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
    const gone = new AbortController();
    raw.once('close', () => gone.abort());
    const { closing, sendPool } = this.#doors;
    const end = linkSignals(gone.signal, closing).signal;
    const queue = sendPool.open(raw);
    try {
      queue.push(this.#lineOf(first));
      await this.#follow(followed.updates(), queue, end);
    } catch (error) {
      const { code, message } = httpProblemOf(error);
      queue.push(this.#lineOf({ type: 'error', code, message }));
    }
    queue.end();
  }

  async #follow(updates: AsyncIterable<object>, queue: SendQueue, end: AbortSignal): Promise<void> {
    for await (const update of updates) {
      if (end.aborted || !queue.push(this.#lineOf(update))) return;
      if (queue.waitingBytes > maxUnreadBytes) await queue.flushed();
    }
  }

  #lineOf(item: object): Buffer {
    const known = this.#lines.get(item)?.deref();
    if (known !== undefined) return known;
    const line = Buffer.from(`${writeMarkedJson(item)}\n`);
    this.#lines.set(item, new WeakRef(line));
    return line;
  }
}
