/**
 * Detects text that Salt would interpret as a call, a reference or an encrypted block, where other
 * programs expect plain text. Such text from untrusted sources must not become a value of a state,
 * pillar, argument or file.
 */

/** Place where a value is used. */
export type ValueDestination =
  /**
   * Argument of a state. Salt reads it unchanged: it is not rendered or joined with other text
   * before.
   */
  | 'argument'
  /** Pillar, a template or a file. Templates can cut, trim, join and convert the value. */
  | 'pillar';

/** The first text in a value that Salt would interpret. */
export interface InterpretedText {
  /** Keys and indexes of the path to the text. */
  readonly path: readonly (string | number)[];
  /** Requirement that the text violates, for error messages. It contains nothing of the value. */
  readonly expected: string;
}

interface Mark {
  readonly form: RegExp;
  readonly expected: string;
}

/**
 * Texts that Salt interprets in arguments of states. Salt's `State.format_slots` searches for this
 * prefix only, in all releases from 3000 to 3008.
 */
const argumentMarks: readonly Mark[] = [
  {
    form: /^__slot__:/,
    expected: 'must not begin with __slot__:, which Salt replaces by the result of a function',
  },
];

/**
 * Texts that Salt interprets in all other values. A template can join, trim or split a text, so a
 * slot is rejected at any position. Anybody can encrypt a slot for a public key, and the renderers
 * `gpg` (salt.renderers.gpg) and `nacl` (salt.renderers.nacl) would decrypt it. `config.get`
 * resolves `sdb://` (salt.utils.sdb) in pillar. Functions that expect a path fetch `salt://`.
 */
const pillarMarks: readonly Mark[] = [
  {
    form: /__slot__:/i,
    expected: 'must not contain __slot__:, which Salt replaces by the result of a function',
  },
  {
    form: /^\P{L}*sdb:\/\//iu,
    expected: 'must not begin with sdb://, which Salt replaces by a value of a database',
  },
  {
    form: /^\P{L}*salt:\/\//iu,
    expected: 'must not begin with salt://, which Salt replaces by a file of the master',
  },
  {
    form: /-----BEGIN PGP MESSAGE-----/i,
    expected: 'must not contain an encrypted PGP message, which a renderer of Salt decrypts',
  },
  {
    form: /NACL\[/i,
    expected: 'must not contain NACL[, which a renderer of Salt decrypts',
  },
];

/**
 * Finds the first text in a value, including the keys of maps, that Salt would interpret.
 * @param value - JSON or a wire value; may contain `Map` objects
 * @returns `undefined` if the value contains no such text
 */
export function findInterpretedText(
  value: unknown,
  destination: ValueDestination = 'pillar',
): InterpretedText | undefined {
  return find(value, destination === 'argument' ? argumentMarks : pillarMarks, []);
}

/** Returns the text, or `otherwise` if Salt would interpret the text. */
export function inertText(text: string, otherwise = ''): string {
  return findInterpretedText(text) === undefined ? text : otherwise;
}

function find(
  value: unknown,
  marks: readonly Mark[],
  path: readonly (string | number)[],
): InterpretedText | undefined {
  if (typeof value === 'string') return findInText(value, marks, path);
  // Salt converts bytes to text before it searches for slots.
  if (value instanceof Uint8Array) {
    return findInText(Buffer.from(value).toString('latin1'), marks, path);
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = find(item, marks, [...path, index]);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, item] of value instanceof Map ? value : Object.entries(value)) {
    const problem = find(key, marks, [...path, '…']);
    if (problem !== undefined) return problem;
    const found = find(item, marks, [...path, String(key)]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function findInText(
  text: string,
  marks: readonly Mark[],
  path: readonly (string | number)[],
): InterpretedText | undefined {
  const mark = marks.find(({ form }) => form.test(text));
  return mark === undefined ? undefined : { path, expected: mark.expected };
}
