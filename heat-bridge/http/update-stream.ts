/** Streams the updates of a run as lines of JSON. The run continues if the reader disconnects. */
import type { FastifyReply } from 'fastify';
import type { HttpServerContext } from '#master';
import type { SendQueue } from '#runtime';
import { linkSignals } from '#runtime';
import { BridgeError } from '../errors.ts';
import { httpProblemOf } from '../http-problems.ts';
import type { HttpCaller } from './http-caller.ts';
import type { MarkedLines } from './marked-lines.ts';

/** Run of a command or plan, as the source of updates. */
interface UpdateSource {
  updates(): AsyncIterable<object>;
}

/** Number of unsent bytes above which a stream waits for its reader. */
const maxUnreadBytes = 65_536;

/** Update streams of the HTTP routes of one server. */
export class UpdateStreams {
  readonly #doors: HttpServerContext;
  readonly #lines: MarkedLines;

  /**
   * Creates the streams of one server.
   * @param lines - converts updates to lines of JSON
   */
  constructor(doors: HttpServerContext, lines: MarkedLines) {
    this.#doors = doors;
    this.#lines = lines;
  }

  /**
   * Starts or finds a run, and sends its updates. The limit of streams is checked before the run
   * starts.
   * @param caller - the caller. Each token and each user has a maximum number of open streams
   * @param begin - starts or finds the run
   * @param first - returns the first line of the stream
   * @throws BridgeError ERR_COMMAND_BUSY, and errors of `begin`
   */
  async send<Handle extends UpdateSource>(
    reply: FastifyReply,
    caller: Pick<HttpCaller, 'owner' | 'token'>,
    begin: () => Promise<Handle>,
    first: (handle: Handle) => object,
  ): Promise<FastifyReply> {
    const leave = this.#enter(caller);
    try {
      const handle = await begin();
      await this.#write(reply, first(handle), handle);
    } finally {
      leave();
    }
    return reply;
  }

  #enter({ token, owner: user }: Pick<HttpCaller, 'owner' | 'token'>): () => void {
    const leave = this.#doors.streams.tryEnter({ token, user });
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
      queue.push(await this.#lines.lineOf(first));
      await this.#follow(followed.updates(), queue, end);
    } catch (error) {
      const { code, message } = httpProblemOf(error);
      queue.push(await this.#lines.lineOf({ type: 'error', code, message }));
    }
    queue.end();
  }

  async #follow(updates: AsyncIterable<object>, queue: SendQueue, end: AbortSignal): Promise<void> {
    for await (const update of updates) {
      if (end.aborted || !queue.push(await this.#lines.lineOf(update))) return;
      if (queue.waitingBytes > maxUnreadBytes) await queue.flushed();
    }
  }
}
