import type { IncomingMessage } from 'node:http';
import { ByteAssembly } from './byte-assembly.ts';
import { httpLimits } from './http-limits.ts';

const maxParts = httpLimits.smallParts.perOwner ?? 0;
const bytesOfPart = 16;

/** Error for a body that arrives in too many small parts. */
export class SmallPartsError extends Error {
  readonly code = 'EMSGSIZE';

  constructor() {
    super(
      `the body arrives in too many small parts: ${maxParts} more than one for each ${bytesOfPart} bytes`,
    );
  }
}

/** Size below which a part is joined with the following parts, in bytes. */
const smallBytes = 1_024;
/**
 * Size of the joined parts at which reading pauses until the next turn of the event loop, in bytes.
 * In one turn, the parser may read many times from one connection.
 */
const bytesOfTurn = 16_384;
/** Maximum size of the joined parts, in bytes. The parser reads as much at once. */
const maxJoined = 65_536;

/**
 * Limits the number of parts, such as chunks, in which the body of a message arrives, and joins
 * small parts. A body in chunks of one byte costs a thousand times the work of the same body in one
 * part. Call this function before the parser reads the body.
 * @param refuse - is called once, when the limit is exceeded; ends the connection
 * @param onPart - is called for each part
 */
export function limitSmallParts(
  message: IncomingMessage,
  refuse: (error: SmallPartsError) => void,
  onPart: () => void = () => {},
): void {
  const body = new BodyParts(message, refuse);
  // The parser calls `push` for each part. If it returns `false`, the parser stops reading.
  message.push = (part: Buffer | null) => {
    if (part !== null) onPart();
    return body.take(part);
  };
  // Node.js calls `_dump` if the response ends before the body. Its own function would make the
  // parser discard all following parts without a limit.
  Reflect.defineProperty(message, '_dump', {
    value: () => {
      message.removeAllListeners('data');
      message.resume();
    },
  });
}

class BodyParts {
  readonly #message: IncomingMessage;
  readonly #push: IncomingMessage['push'];
  readonly #refuse: (error: SmallPartsError) => void;
  #parts = 0;
  #bytes = 0;
  #isRefused = false;
  /** Small parts that the parser has delivered in this turn. */
  #small: ByteAssembly | undefined;

  constructor(message: IncomingMessage, refuse: (error: SmallPartsError) => void) {
    this.#message = message;
    this.#push = message.push;
    this.#refuse = refuse;
  }

  /** @param part - `null`: the end of the body */
  take(part: Buffer | null): boolean {
    if (part !== null) this.#count(part);
    // The parser continues to the end of what it has read, although the connection has ended.
    if (this.#isRefused) return false;
    if (part !== null && part.length < smallBytes) this.#join(part);
    else {
      this.#flush();
      this.#push.call(this.#message, part);
    }
    return (this.#small?.length ?? 0) < bytesOfTurn && this.#hasRoom();
  }

  /** Whether the buffer of the message has room for further bytes. */
  #hasRoom(): boolean {
    return this.#message.readableLength < this.#message.readableHighWaterMark;
  }

  #count(part: Buffer): void {
    this.#parts += 1;
    this.#bytes += part.length;
    if (this.#isRefused || this.#parts <= maxParts + this.#bytes / bytesOfPart) return;
    this.#isRefused = true;
    this.#refuse(new SmallPartsError());
  }

  #join(part: Buffer): void {
    if ((this.#small?.length ?? 0) + part.length > maxJoined) this.#flush();
    if (this.#small === undefined) {
      this.#small = new ByteAssembly();
      // An immediate, because for requests the ticks and microtasks run after each part.
      setImmediate(() => this.#endTurn());
    }
    this.#small.take(part);
  }

  #endTurn(): void {
    if (this.#small === undefined) return;
    this.#flush();
    // A message without a reader does not resume its connection. The parser must nevertheless
    // fill the buffer, and notice the end of the connection. A destroyed message has no socket.
    if (!this.#message.destroyed && this.#hasRoom()) this.#message.socket.resume();
  }

  #flush(): void {
    if (this.#small === undefined) return;
    const { buffer, byteOffset, byteLength } = this.#small.join();
    this.#small = undefined;
    this.#push.call(this.#message, Buffer.from(buffer, byteOffset, byteLength));
  }
}
