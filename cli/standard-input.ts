/** Standard input: several readers may read it one after the other, and no byte is lost. */

import { StringDecoder } from 'node:string_decoder';
import { CommandError } from './errors.ts';

/** A stream of bytes, such as `process.stdin`. */
export type InputStream = Pick<
  NodeJS.ReadableStream,
  'off' | 'once' | 'pause' | 'removeListener' | 'resume'
> & { readonly readableEnded: boolean };

/** A line that a person types, or an answer of a script, is much shorter. */
const maxLineLength = 65_536;
const maxBytes = 67_108_864;

/** Reads standard input; one read at a time. */
export class StandardInput {
  readonly #open: () => InputStream;
  readonly #decoder = new StringDecoder('utf8');
  /** What was received, and not asked for yet. */
  #received = '';

  /** @param open - the stream; called when it is read first, because reading keeps a process alive */
  constructor(open: () => InputStream) {
    this.#open = open;
  }

  /** The next line without its end; `undefined` at the end of input. @throws CommandError ERR_ARGS */
  async readLine(): Promise<string | undefined> {
    for (;;) {
      const end = this.#received.indexOf('\n');
      if (end !== -1) {
        const line = this.#received.slice(0, end);
        this.#received = this.#received.slice(end + 1);
        return line.replace(/\r$/, '');
      }
      if (this.#received.length > maxLineLength) throw unreadableInput('a line of it is too long');
      const chunk = await this.#next();
      if (chunk === undefined) {
        const line = this.#received;
        this.#received = '';
        return line === '' ? undefined : line;
      }
      this.#received += chunk;
    }
  }

  /** All that is left, unchanged. @throws CommandError ERR_ARGS */
  async readAll(): Promise<string> {
    const chunks = [this.#received];
    this.#received = '';
    let length = 0;
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) {
      length += chunk.length;
      if (length > maxBytes) throw unreadableInput(`it has more than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    return chunks.join('');
  }

  /** The next part; `undefined` at the end. The stream is paused meanwhile, so a process may end. */
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
        reject(unreadableInput('it cannot be read', cause));
      };
      stream.once('data', onData).once('end', onEnd).once('error', onError);
      stream.resume();
    });
  }
}

function unreadableInput(what: string, cause?: Error): CommandError {
  return new CommandError('ERR_ARGS', `standard input: ${what}`, { cause });
}
