/** Standard input, from which several readers can read one after the other without losing data. */

import { StringDecoder } from 'node:string_decoder';
import { CommandError } from './errors.ts';

/** Stream of bytes, such as `process.stdin`. */
export type InputStream = Pick<
  NodeJS.ReadableStream,
  'off' | 'once' | 'pause' | 'removeListener' | 'resume'
> & { readonly readableEnded: boolean };

/** Maximum length of a line, in characters. */
const maxLineLength = 65_536;
const maxBytes = 67_108_864;

/** Reads standard input. Only one read may be pending at a time. */
export class StandardInput {
  readonly #open: () => InputStream;
  readonly #decoder = new StringDecoder('utf8');
  /** Text that has been received but not yet read. */
  #received = '';

  /**
   * @param open - returns the stream; it is called at the first read, because an open stream keeps
   * the process alive
   */
  constructor(open: () => InputStream) {
    this.#open = open;
  }

  /**
   * Returns the next line without its end, or `undefined` at the end of input.
   * @throws CommandError ERR_ARGS
   */
  async readLine(): Promise<string | undefined> {
    for (;;) {
      const end = this.#received.indexOf('\n');
      if (end !== -1) {
        const line = this.#received.slice(0, end);
        this.#received = this.#received.slice(end + 1);
        return line.replace(/\r$/, '');
      }
      if (this.#received.length > maxLineLength)
        throw unreadableInput('standard input: a line is too long');
      const chunk = await this.#next();
      if (chunk === undefined) {
        const line = this.#received;
        this.#received = '';
        return line === '' ? undefined : line;
      }
      this.#received += chunk;
    }
  }

  /**
   * Returns all remaining text.
   * @throws CommandError ERR_ARGS
   */
  async readAll(): Promise<string> {
    const chunks = [this.#received];
    this.#received = '';
    let length = 0;
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) {
      length += chunk.length;
      if (length > maxBytes) throw unreadableInput(`the input has more than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    return chunks.join('');
  }

  /**
   * Returns the next part of the text, or `undefined` at the end. The stream is paused between two
   * reads, so that the process can end.
   */
  #next(): Promise<string | undefined> {
    const stream = this.#open();
    if (stream.readableEnded) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        stream.off('data', onData).off('end', onEnd).off('error', onError);
        stream.pause();
      };
      const onData = (chunk: Buffer): void => {
        stop();
        resolve(this.#decoder.write(chunk));
      };
      const onEnd = (): void => {
        stop();
        const rest = this.#decoder.end();
        resolve(rest === '' ? undefined : rest);
      };
      const onError = (cause: Error): void => {
        stop();
        reject(unreadableInput('the input cannot be read', cause));
      };
      stream.once('data', onData).once('end', onEnd).once('error', onError);
      stream.resume();
    });
  }
}

function unreadableInput(what: string, cause?: Error): CommandError {
  return new CommandError('ERR_ARGS', `standard input: ${what}`, { cause });
}
