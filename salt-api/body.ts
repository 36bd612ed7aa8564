/**
 * Parses request bodies: JSON, JSON that is labelled as text, forms and YAML [THREATS ].
 */
import { type ParsedUrlQuery, parse } from 'node:querystring';
import { ArgumentReader, type FunctionArguments, isReaderBusy, maxPlainDepth } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  JsonError,
  type JsonOf,
  type ReadingStep,
  readJsonInSteps,
  StepScheduler,
  textInSteps,
} from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import type { Float } from '#template/python/values.ts';
import { SaltApiError } from './errors.ts';

/** Received bytes of a body, in pieces. No piece is empty. */
export type BodyBytes = readonly Buffer[];

/** Parsed body of a request. */
export interface Body {
  /** Parsed value, or `undefined` if the request had no body. */
  readonly value: WireValue | undefined;
  readonly text: string;
}

/** Form fields whose values are parsed like arguments on a command line. */
const typedFields: ReadonlySet<string> = new Set(['arg', 'kwarg']);

/** Parses bodies and the arguments in them without blocking the event loop. */
export class BodyReader {
  readonly #maxValues: number;
  readonly #scheduler = new StepScheduler();
  readonly #arguments: ArgumentReader;

  /** @param maxValues - maximum number of values in a body */
  constructor(maxValues: number) {
    this.#maxValues = maxValues;
    this.#arguments = new ArgumentReader(maxValues, this.#scheduler);
  }

  /**
   * Parses a body.
   * @param owner - user or address that sent the body. The number of worker threads is limited for
   * each owner
   * @param isCommand - whether the form fields `arg` and `kwarg` contain arguments of a function
   * @throws SaltApiError ERR_HTTP_FORMAT, ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  async read(
    owner: string,
    contentType: string | undefined,
    bytes: BodyBytes,
    isCommand: boolean,
  ): Promise<Body> {
    if (bytes.length === 0) return { value: undefined, text: '' };
    const read = this.#readerFor(owner, contentType, isCommand);
    const text = await this.#decode(bytes);
    return { value: await read(text), text };
  }

  /**
   * Parses a body that must be JSON. A number that is written as a float but has no fraction, such
   * as `1.0`, becomes a `Float`, so that it is not taken for an integer.
   * @throws SaltApiError ERR_HTTP_BODY
   */
  async readJson(bytes: BodyBytes): Promise<JsonOf<Float>> {
    return this.#json(await this.#decode(bytes));
  }

  /**
   * Parses arguments as typed on a command line.
   * @param owner - user or address that sent the texts. The number of worker threads is limited for
   * each owner
   * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY
   */
  readWords(owner: string, words: readonly string[]): Promise<FunctionArguments> {
    return this.#asCallers('arguments', () => this.#arguments.readWords(owner, words));
  }

  /** Runs a generator step by step, so that other requests are served between its steps. */
  run<T>(steps: Generator<ReadingStep, T, void>): Promise<T> {
    return this.#scheduler.run(steps);
  }

  /** Ends the worker threads that parse long texts. */
  close(): Promise<void> {
    return this.#arguments.close();
  }

  async #decode(bytes: BodyBytes): Promise<string> {
    const text = await this.#scheduler.run(textInSteps(bytes));
    if (text === undefined) throw new SaltApiError('ERR_HTTP_BODY', 'the body is not valid UTF-8');
    return text.startsWith('\ufeff') ? text.slice(1) : text;
  }

  #readerFor(
    owner: string,
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
        return (text) => this.#form(owner, text, isCommand);
      case 'application/x-yaml':
      case 'text/yaml':
        return (text) => this.#yaml(owner, text);
      default:
        throw new SaltApiError(
          'ERR_HTTP_FORMAT',
          'the body has an unsupported Content-Type; send JSON, YAML or a form',
        );
    }
  }

  #json(text: string): Promise<JsonOf<Float>> {
    return this.#asCallers('JSON', () => this.#jsonOf(text, jsonNumber));
  }

  /**
   * Parses a text as JSON. If it is not JSON, returns it unchanged. Some browsers send JSON with
   * the content type of text.
   */
  #jsonOrText(text: string): Promise<WireValue> {
    return this.#asCallers('JSON', async () => {
      try {
        return await this.#jsonOf(text, jsonNumber);
      } catch (error) {
        if (error instanceof JsonError && error.reason === 'syntax') return text;
        throw error;
      }
    });
  }

  #jsonOf<T = never>(
    text: string,
    readNumber?: (token: string) => number | bigint | T,
  ): Promise<JsonOf<T>> {
    const limits = { maxDepth: maxPlainDepth, maxValues: this.#maxValues, isStrict: true };
    const options = readNumber === undefined ? limits : { ...limits, readNumber };
    return this.#scheduler.run(readJsonInSteps<T>(text, options));
  }

  #form(owner: string, text: string, isCommand: boolean): Promise<WireMap> {
    return this.#asCallers('form', async () => {
      const form: WireMap = Object.create(null);
      for (const [name, value = ''] of Object.entries(parseForm(text, this.#maxValues))) {
        form[name] = isCommand && typedFields.has(name) ? await this.#typed(owner, value) : value;
      }
      return form;
    });
  }

  /** Parses the texts of a form field as arguments, by the rules of Salt's command line. */
  async #typed(owner: string, words: string | string[]): Promise<WireValue> {
    const values = await this.#arguments.readValues(owner, [words].flat());
    return Array.isArray(words) ? [...values] : (values[0] ?? null);
  }

  #yaml(owner: string, text: string): Promise<WireValue> {
    return this.#asCallers('plain YAML', () => this.#arguments.readYaml(owner, text));
  }

  /**
   * Runs a parser and converts its errors to errors of the HTTP API.
   * @param expected - description of a valid text, for the error message
   */
  async #asCallers<T>(expected: string, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      if (cause instanceof SaltApiError) throw cause;
      if (isReaderBusy(cause)) {
        throw new SaltApiError(
          'ERR_HTTP_BUSY',
          'too many long texts are being parsed; retry later',
          { cause },
        );
      }
      const problem = cause instanceof Error ? cause.message : 'it cannot be read';
      throw new SaltApiError('ERR_HTTP_BODY', `invalid ${expected}: ${problem}`, { cause });
    }
  }
}

/** Maximum length of a form in characters, because `node:querystring` parses a form in one step. */
const maxFormLength = 1_048_576;

/** Maximum number of fields of a form. */
const maxFormFields = 10_000;

/** Returns the fields of a form. The value of a repeated field is a list. */
function parseForm(text: string, maxValues: number): ParsedUrlQuery {
  if (text.length > maxFormLength) {
    const message = `the form is too large; the maximum is ${maxFormLength} bytes`;
    throw new SaltApiError('ERR_HTTP_BODY', message, { status: 413 });
  }
  const maxFields = Math.min(maxValues, maxFormFields);
  const { length } = text.split('&', maxFields + 1);
  if (length > maxFields)
    throw new RangeError(`the form in the request body has more than ${maxFields} fields`);
  // Replace all `+` before parsing: this takes less than 1 ms for 1 MiB. The decoder of
  // `node:querystring` needs 60 ms.
  return parse(text.replaceAll('+', ' '), '&', '=', { maxKeys: maxFields });
}
