import { StringDecoder } from 'node:string_decoder';
import { ByteAssembly } from './byte-assembly.ts';

/** Number of bytes of small parts that are decoded together. */
const bytesOfStep = 65_536;
/** Smallest part that is decoded at once, in bytes. */
const largePart = 16_384;

/**
 * Assembles a text from UTF-8 bytes. The bytes are decoded while they arrive, because decoding a
 * large text takes long. Small parts share memory.
 */
export class TextAssembly {
  readonly #decoder = new StringDecoder('utf8');
  #bytes = new ByteAssembly();
  #text = '';

  take(part: Uint8Array): void {
    if (part.length >= largePart) {
      this.#decode();
      this.#text += this.#decoder.write(part);
      return;
    }
    this.#bytes.take(part);
    if (this.#bytes.length >= bytesOfStep) this.#decode();
  }

  /** Returns the text. No further parts may follow. */
  end(): string {
    this.#decode();
    return this.#text + this.#decoder.end();
  }

  #decode(): void {
    if (this.#bytes.length === 0) return;
    for (const block of this.#bytes.blocks()) this.#text += this.#decoder.write(block);
    this.#bytes = new ByteAssembly();
  }
}
