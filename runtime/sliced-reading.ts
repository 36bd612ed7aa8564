import type { Socket } from 'node:net';
import type { MessageTurns, TurnTaker } from './message-turns.ts';

/**
 * Number of bytes that the HTTP parser gets at once. The parser processes all of them, even if a
 * request among them has ended the connection.
 */
const sliceBytes = 16_384;

/** Turns in which a connection is read, and what its slices cost. */
export interface SliceTurns {
  readonly turns: MessageTurns;
  readonly owner: string;
  /** Returns the total cost of all slices so far, in the unit of `turns`. */
  readonly spent: () => number;
}

/**
 * Makes a socket of an HTTP server deliver its bytes in slices, in turns with other connections.
 * Call this function after the server has received the socket. After an upgrade, the socket must be
 * read with the event `data` or a pipe.
 */
export function readInTurns(socket: Socket, turns: SliceTurns): void {
  const reading = new SlicedReading(socket, turns);
  // With a listener, the server reads with the functions of the socket. Without one, its parser
  // reads on its own.
  socket.on('data', () => {});
  socket.push = (bytes: Buffer | null) => reading.take(bytes);
  socket._read = (size) => reading.read(size);
  socket.on('resume', () => {
    // Node.js has paused a connection whose responses are not read. It resumes the connection
    // itself, and its parser ends the process if it gets bytes before.
    if (Reflect.get(socket, '_paused') === true) socket.pause();
    else reading.continue();
  });
}

class SlicedReading implements TurnTaker {
  readonly #socket: Socket;
  readonly #turns: SliceTurns;
  readonly #push: Socket['push'];
  readonly #read: Socket['_read'];
  /** Bytes that the parser has not got yet. `null` is the end. */
  readonly #unread: (Buffer | null)[] = [];
  /** Whether the connection waits for its turn. */
  #isWaiting = false;
  #isTakingTurn = false;
  /** Number of bytes that the stream wants after the unread ones. */
  #wanted: number | undefined;

  constructor(socket: Socket, turns: SliceTurns) {
    this.#socket = socket;
    this.#turns = turns;
    this.#push = socket.push;
    this.#read = socket._read;
  }

  /**
   * Takes bytes that have arrived.
   * @returns whether the socket should continue to read
   */
  take(bytes: Buffer | null): boolean {
    this.#unread.push(bytes);
    this.continue();
    return this.#unread.length === 0 && !this.#socket.isPaused();
  }

  read(size: number): void {
    if (this.#unread.length > 0) this.#wanted = size;
    else this.#read.call(this.#socket, size);
  }

  /** Passes unread bytes to the parser, now or in a later turn. */
  continue(): void {
    if (this.#isWaiting || this.#isTakingTurn || this.#unread.length === 0) return;
    const { turns, owner } = this.#turns;
    if (turns.mustWait(owner)) this.#wait();
    else this.takeTurn();
  }

  takeTurn(): void {
    const { turns, owner, spent } = this.#turns;
    this.#isWaiting = false;
    this.#isTakingTurn = true;
    while (this.#mayPass() && turns.allowance(owner) > 0) {
      const before = spent();
      this.#push.call(this.#socket, this.#nextSlice());
      turns.spend(owner, spent() - before);
    }
    this.#isTakingTurn = false;
    if (this.#socket.destroyed) this.#unread.length = 0;
    else if (this.#mayPass()) this.#wait();
    else if (this.#unread.length === 0) this.#readOn();
  }

  #mayPass(): boolean {
    return this.#unread.length > 0 && !this.#socket.isPaused() && !this.#socket.destroyed;
  }

  #nextSlice(): Buffer | null {
    const [bytes = null] = this.#unread;
    if (bytes !== null && bytes.length > sliceBytes) {
      this.#unread[0] = bytes.subarray(sliceBytes);
      return bytes.subarray(0, sliceBytes);
    }
    this.#unread.shift();
    return bytes;
  }

  #wait(): void {
    this.#isWaiting = true;
    this.#turns.turns.wait(this.#turns.owner, this);
  }

  #readOn(): void {
    const wanted = this.#wanted;
    this.#wanted = undefined;
    if (wanted !== undefined) this.#read.call(this.#socket, wanted);
  }
}
