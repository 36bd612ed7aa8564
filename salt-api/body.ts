/** Bodies of requests: JSON, text that is JSON, forms, YAML [THREATS ]. */
import { type ParsedUrlQuery, parse } from 'node:querystring';
import { ArgumentReader, type FunctionArguments, isReaderBusy, maxPlainDepth } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  JsonError,
  type JsonOf,
  type JsonValue,
  type ReadingStep,
  readJsonInSteps,
  StepScheduler,
  textInSteps,
} from '#runtime';
import { SaltApiError } from './errors.ts';

/** A body as it came: no part of it is empty. */
export type BodyBytes = readonly Buffer[];

/** What a request brought. */
export interface Body {
  /** `undefined`: there was none. */
  readonly value: WireValue | undefined;
  readonly text: string;
}

/** Fields of a form that are read as the command line reads arguments. */
const typedFields: ReadonlySet<string> = new Set(['arg', 'kwarg']);

/** Reads bodies, and what callers write in them, without holding the event loop. */
export class BodyReader {
  readonly #maxValues: number;
  readonly #scheduler = new StepScheduler();
  readonly #arguments: ArgumentReader;

  /** @param maxValues - of one body */
  constructor(maxValues: number) {
    this.#maxValues = maxValues;
    this.#arguments = new ArgumentReader(maxValues, this.#scheduler);
  }

  /**
   * @param isCommand whether `arg` and `kwarg` of a form are arguments of a function
   * @throws SaltApiError ERR_HTTP_FORMAT, ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  async read(contentType: string | undefined, bytes: BodyBytes, isCommand: boolean): Promise<Body> {
    if (bytes.length === 0) return { value: undefined, text: '' };
    const read = this.#readerFor(contentType, isCommand);
    const text = await this.#decode(bytes);
    return { value: await read(text), text };
  }

  /** JSON alone. @throws SaltApiError ERR_HTTP_BODY */
  async readJson(bytes: BodyBytes): Promise<JsonValue> {
    return this.#json(await this.#decode(bytes));
  }

  /** Arguments as they are typed. @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY */
  readWords(words: readonly string[]): Promise<FunctionArguments> {
    return this.#asCallers('arguments as they are typed', () => this.#arguments.readWords(words));
  }

  /** Does work in steps, as all reading is done. */
  run<T>(steps: Generator<ReadingStep, T, void>): Promise<T> {
    return this.#scheduler.run(steps);
  }

  /** Ends the threads that read long texts. */
  close(): Promise<void> {
    return this.#arguments.close();
  }

  async #decode(bytes: BodyBytes): Promise<string> {
    const text = await this.#scheduler.run(textInSteps(bytes));
    if (text === undefined) throw new SaltApiError('ERR_HTTP_BODY', 'expected UTF-8');
    return text.startsWith('\ufeff') ? text.slice(1) : text;
  }

  #readerFor(
    contentType: string | undefined,
    isCommand: boolean,
  ): (text: string) => Promise<WireValue> {
    const [type = ''] = (contentType ?? '').split(';');
    switch (type.trim().toLowerCase()) {
      case 'application/json':
        return (text) => this.#json(text);
      case 'text/plain':
        return (text) => this.#jsonOrText(text);
      case 'application/x-www-form-urlencoded':
        return (text) => this.#form(text, isCommand);
      case 'application/x-yaml':
      case 'text/yaml':
        return (text) => this.#yaml(text);
      default:
        throw new SaltApiError('ERR_HTTP_FORMAT', 'expected a body of JSON, YAML or a form');
    }
  }

  #json(text: string): Promise<JsonOf<never>> {
    return this.#asCallers('JSON', () => this.#jsonOf(text));
  }

  /** Browsers name JSON so that was given as a text. */
  #jsonOrText(text: string): Promise<WireValue> {
    return this.#asCallers('JSON', async () => {
      try {
        return await this.#jsonOf(text);
      } catch (error) {
        if (error instanceof JsonError && error.reason === 'syntax') return text;
        throw error;
      }
    });
  }

  #jsonOf(text: string): Promise<JsonOf<never>> {
    const limits = { maxDepth: maxPlainDepth, maxValues: this.#maxValues, isStrict: true };
    return this.#scheduler.run(readJsonInSteps(text, limits));
  }

  #form(text: string, isCommand: boolean): Promise<WireMap> {
    return this.#asCallers('a form', async () => {
      const form: WireMap = Object.create(null);
      for (const [name, value = ''] of Object.entries(parseForm(text, this.#maxValues))) {
        form[name] = isCommand && typedFields.has(name) ? await this.#typed(value) : value;
      }
      return form;
    });
  }

  /** Reads the arguments of a form as the command line does. */
  async #typed(words: string | string[]): Promise<WireValue> {
    const values = await this.#arguments.readValues([words].flat());
    return Array.isArray(words) ? [...values] : (values[0] ?? null);
  }

  #yaml(text: string): Promise<WireValue> {
    return this.#asCallers('plain YAML', () => this.#arguments.readYaml(text));
  }

  /** @param expected - what the text should be */
  async #asCallers<T>(expected: string, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      if (cause instanceof SaltApiError) throw cause;
      if (isReaderBusy(cause)) {
        throw new SaltApiError('ERR_HTTP_BUSY', 'too many long texts are being read', { cause });
      }
      const problem = cause instanceof Error ? cause.message : 'it cannot be read';
      throw new SaltApiError('ERR_HTTP_BODY', `expected ${expected}: ${problem}`, { cause });
    }
  }
}

/** Maximum size of a form, in characters: `node:querystring` reads it in one step. */
const maxFormLength = 1_048_576;

/** Maximum number of fields of a form. */
const maxFormFields = 10_000;

/** Returns the fields of a form. The value of a repeated field is a list. */
function parseForm(text: string, maxValues: number): ParsedUrlQuery {
  if (text.length > maxFormLength) {
    const message = `expected a form of at most ${maxFormLength} bytes`;
    throw new SaltApiError('ERR_HTTP_BODY', message, { status: 413 });
  }
  const maxFields = Math.min(maxValues, maxFormFields);
  const { length } = text.split('&', maxFields + 1);
  if (length > maxFields) throw new RangeError(`more than ${maxFields} fields`);
  // Its own decoder of `+` needs 60 ms for 1 MiB of them, `replaceAll` less than one.
  return parse(text.replaceAll('+', ' '), '&', '=', { maxKeys: maxFields });
}
