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

/**
 * Number of parts after which reading pauses until the next turn of the event loop. In one turn,
 * the parser may read many times from one connection.
 */
const partsOfTurn = 1_000;
/** Smallest part that is not joined with the following parts, in bytes. */
const largePart = 1_024;
/** Maximum size of the parts that are joined, in bytes. The parser reads as much at once. */
const maxJoined = 65_536;

/**
 * Limits the number of parts, such as chunks, in which the body of a message arrives, and joins
 * small parts. A body in chunks of one byte costs a thousand times the work of the same body in one
 * part. Call this function before the parser reads the body.
 * @param refuse - is called once, when the limit is exceeded; ends the connection
 */
export function limitSmallParts(
  message: IncomingMessage,
  refuse: (error: SmallPartsError) => void,
): void {
  const body = new BodyParts(message, refuse);
  // The parser calls `push` for each part. If it returns `false`, the parser stops reading until
  // `_read` is called.
  message.push = (part: Buffer | null) => body.take(part);
  message._read = (size) => body.read(size);
}

class BodyParts {
  readonly #message: IncomingMessage;
  readonly #push: (part: Buffer | null) => boolean;
  readonly #read: (size: number) => void;
  readonly #refuse: (error: SmallPartsError) => void;
  #parts = 0;
  #bytes = 0;
  #isRefused = false;
  /** Small parts that the parser has delivered in this turn. */
  #small = new ByteAssembly();
  /** Whether the reader of the message has enough bytes for now. */
  #isFull = false;
  #isPaused = false;
  /** Number of bytes that the reader wants after the pause. */
  #wanted: number | undefined;

  constructor(message: IncomingMessage, refuse: (error: SmallPartsError) => void) {
    this.#message = message;
    this.#push = message.push.bind(message);
    this.#read = message._read.bind(message);
    this.#refuse = refuse;
  }

  /** @param part - `null`: the end of the body */
  take(part: Buffer | null): boolean {
    // The parser continues to the end of what it has read, although the connection has ended.
    if (this.#isRefused) return false;
    if (part !== null) this.#count(part);
    if (this.#isRefused) return false;
    if (part !== null && part.length < largePart) this.#join(part);
    else {
      this.#flush();
      this.#isFull = !this.#push(part);
    }
    return !this.#isFull && !this.#isPaused;
  }

  read(size: number): void {
    this.#isFull = false;
    if (this.#isPaused) this.#wanted = size;
    else this.#read(size);
  }

  #count(part: Buffer): void {
    this.#parts += 1;
    this.#bytes += part.length;
    if (this.#parts > maxParts + this.#bytes / bytesOfPart) {
      this.#isRefused = true;
      this.#refuse(new SmallPartsError());
    } else if (this.#parts % partsOfTurn === 0 && !this.#isPaused) this.#pause();
  }

  #join(part: Buffer): void {
    if (this.#small.length + part.length > maxJoined) this.#flush();
    // Ticks and microtasks run after each part.
    if (this.#small.length === 0) setImmediate(() => this.#flush());
    this.#small.take(part);
  }

  #flush(): void {
    if (this.#small.length === 0) return;
    const { buffer, byteOffset, byteLength } = this.#small.join();
    this.#small = new ByteAssembly();
    this.#isFull = !this.#push(Buffer.from(buffer, byteOffset, byteLength));
  }

  #pause(): void {
    this.#isPaused = true;
    setImmediate(() => {
      this.#isPaused = false;
      const wanted = this.#wanted;
      this.#wanted = undefined;
      // After the end of a message, its connection belongs to other messages.
      if (wanted !== undefined && !this.#message.complete && !this.#message.destroyed)
        this.#read(wanted);
    });
  }
}
